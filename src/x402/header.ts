/**
 * `X-PAYMENT` and `X-PAYMENT-RESPONSE`, in version 2 `PAYMENT-SIGNATURE` and `PAYMENT-RESPONSE`: base64 of JSON in one
 * header line (protocol sections 2.2, 2.3). Decoding never throws: whatever a client sends is either a value or a refusal.
 */
import { isUtf8 } from "node:buffer";
import { ok, refuse, type Refusal, type Result } from "./result.ts";
import { parsePaymentPayload, type Envelope } from "./schema.ts";
import { PAYMENT_STATUS } from "./payment-status.ts";
import { inVersion1, settlementV2 } from "./version-2.ts";
import {
  X402_VERSION,
  X402_VERSION_2,
  type PaymentPayload,
  type SettleResponse,
  type X402Version,
} from "./x402.ts";

/** The header that carries a payment to us, by version. */
export const PAYMENT_HEADERS = {
  [X402_VERSION]: "X-PAYMENT",
  [X402_VERSION_2]: "PAYMENT-SIGNATURE",
} as const;
/** The same in lower case. */
export const PAYMENT_NAMES: Readonly<Record<X402Version, string>> = {
  [X402_VERSION]: PAYMENT_HEADERS[X402_VERSION].toLowerCase(),
  [X402_VERSION_2]: PAYMENT_HEADERS[X402_VERSION_2].toLowerCase(),
};
/** The header that tells what became of it. */
export const RECEIPT_HEADERS = {
  [X402_VERSION]: "X-PAYMENT-RESPONSE",
  [X402_VERSION_2]: "PAYMENT-RESPONSE",
} as const;
/** Version 2: the header that asks for one. */
export const PAYMENT_REQUIRED_HEADER = "PAYMENT-REQUIRED";
/** Version 2: the header in which a facilitator says what it made of extensions. */
export const EXTENSION_RESPONSES_HEADER = "EXTENSION-RESPONSES";

/** The largest decoded payment, bytes: a payment takes about 500, a smart wallet's about 3000. */
export const MAX_PAYMENT_HEADER_BYTES = 16 * 1024;

/** Checked before anything is decoded: the longest text that can hold so many bytes. */
const MAX_PAYMENT_HEADER_CHARACTERS = 4 * Math.ceil(MAX_PAYMENT_HEADER_BYTES / 3);

/** Standard or URL-safe alphabet, padded or not: both are in the field (RFC 4648 sections 4, 5). */
const BASE64 = /^(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}$/;
const utf8 = new TextDecoder("utf-8", { fatal: true });
const latin1 = (bytes: Buffer): string => bytes.toString("latin1");

/**
 * Reads the value of a payment's header. Refusals: `invalid_payload`, `invalid_x402_version`. In version 2 a payment repeats
 * what the seller said of itself, and clients that write it with `btoa` alone write that in Latin-1.
 */
export function decodeEnvelope(value: string, version: X402Version): Result<Envelope, Refusal> {
  const otherwise = version === X402_VERSION_2 ? latin1 : undefined;
  const json = decodeBase64Json(value, PAYMENT_HEADERS[version], otherwise);
  return json.ok ? parsePaymentPayload(json.value, version) : json;
}

/** Reads an `X-PAYMENT` value, as {@link decodeEnvelope}. */
export function decodePaymentHeader(value: string): Result<PaymentPayload, Refusal> {
  const envelope = decodeEnvelope(value, X402_VERSION);
  return envelope.ok ? ok(envelope.value.payment) : envelope;
}

/** Writes an `X-PAYMENT` value, as a client does. */
export function encodePaymentHeader(payment: PaymentPayload): string {
  return Buffer.from(JSON.stringify(payment), "utf8").toString("base64");
}

/** Writes the value of a receipt's header, in the words of that version. */
export function encodeSettlementHeader(
  response: SettleResponse,
  version: X402Version = X402_VERSION,
  status?: string,
): string {
  if (version === X402_VERSION) return encodeHeaderJson(inVersion1(response));
  const told = settlementV2(response);
  if (status === undefined) return encodeHeaderJson(told);
  return encodeHeaderJson({ ...told, extensions: { [PAYMENT_STATUS]: { info: { url: status } } } });
}

/**
 * Base64 in the standard alphabet of ASCII-only JSON. Version 1 clients read it with `atob`, which breaks on the
 * URL-safe alphabet and garbles UTF-8; version 2 clients take no URL-safe one either.
 */
export function encodeHeaderJson(value: object): string {
  return encodeAscii(asciiJson(value));
}

export function encodeAscii(text: string): string {
  return Buffer.from(text, "latin1").toString("base64");
}

/** JSON in which whatever is not ASCII is escaped. */
export function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** @param otherwise reads what is not UTF-8; default: that is refused */
export function decodeBase64Json(
  value: string,
  header: string,
  otherwise?: (bytes: Buffer) => string,
): Result<unknown, Refusal> {
  const text = value.trim();
  const refused = (fault: string): Result<never, Refusal> => {
    return refuse("invalid_payload", `${header} ${fault}`);
  };
  if (text === "") return refused("is empty");
  const tooLarge = `exceeds ${MAX_PAYMENT_HEADER_BYTES} bytes decoded`;
  if (text.length > MAX_PAYMENT_HEADER_CHARACTERS) return refused(tooLarge);
  if (!BASE64.test(text)) return refused("is not base64");
  const bytes = Buffer.from(text, "base64");
  if (bytes.length > MAX_PAYMENT_HEADER_BYTES) return refused(tooLarge);
  try {
    const isOther = otherwise !== undefined && !isUtf8(bytes);
    return ok(JSON.parse(isOther ? otherwise(bytes) : utf8.decode(bytes)));
  } catch {
    return refused("is not base64 of JSON in UTF-8");
  }
}
