/** What a request shows that it is paid with, as it came: in its header lines, or as whoever has read it says. */
import { systemTime } from "../time/time.ts";
import { decodeEnvelope, PAYMENT_HEADERS, PAYMENT_NAMES } from "../x402/header.ts";
import type { Refusal } from "../x402/result.ts";
import type { Envelope } from "../x402/schema.ts";
import {
  X402_VERSION,
  X402_VERSION_2,
  type SpokenVersions,
  type X402Version,
} from "../x402/x402.ts";
import { isNamed } from "./message/field-values.ts";
import type { InboundRequest } from "./message/inbound.ts";
import { payableVersions, type EarlierQuotes } from "./offers/earlier-quotes.ts";

/** A payment, and the envelope in which it came: what becomes of it is told in the same. */
export interface Presentation extends Envelope {
  readonly kind: "presented";
  readonly version: X402Version;
}

/** What a request shows in its header lines, as far as that version is spoken, or was a short while ago. */
export function broughtBy(
  {
    protocol,
    earlier,
  }: { readonly protocol: SpokenVersions; readonly earlier: readonly EarlierQuotes[] },
  request: InboundRequest,
): Brought {
  return readPayment(request, payableVersions(protocol, earlier, systemTime.now()));
}

export type Brought =
  | { readonly kind: "challenge" }
  | { readonly kind: "malformed"; readonly refusal: Refusal }
  | Presentation;

const CHALLENGE: Brought = { kind: "challenge" };

/** A request that has both is of the newer version, and the other header says nothing. */
function readPayment({ rawHeaders }: InboundRequest, { v1, v2 }: SpokenVersions): Brought {
  const newer = v2 ? readHeader(rawHeaders, X402_VERSION_2) : CHALLENGE;
  return newer !== CHALLENGE || !v1 ? newer : readHeader(rawHeaders, X402_VERSION);
}

/** Counted in the raw lines: with several payments nobody could say which one is meant. */
function readHeader(rawHeaders: readonly string[], version: X402Version): Brought {
  const lowerCase = PAYMENT_NAMES[version];
  let value: string | undefined;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    if (!isNamed(name, lowerCase)) continue;
    if (value !== undefined) {
      const detail = `more than one ${PAYMENT_HEADERS[version]} header was sent`;
      return { kind: "malformed", refusal: { code: "invalid_payload", detail } };
    }
    value = rawHeaders[index + 1] ?? "";
  }
  if (value === undefined) return CHALLENGE;
  const decoded = decodeEnvelope(value, version);
  return decoded.ok
    ? { kind: "presented", version, ...decoded.value }
    : { kind: "malformed", refusal: decoded.error };
}
