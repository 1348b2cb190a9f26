/**
 * What makes a payment one payment. Two spellings of the same authorization (letter case, base64
 * form, key order, another signature encoding) have the same key; so claims are taken on it.
 */
import { checksumAddress, isEvmAddress } from "./address.ts";
import { findNetwork } from "./network.ts";
import { ok, refuse, type Refusal, type Result } from "./result.ts";
import {
  EXACT_SCHEME,
  type EvmPayload,
  type FacilitatorRequest,
  type PaymentPayload,
} from "./x402.ts";

declare const key: unique symbol;

/** `network/asset/from/nonce`, lower case: what the token contract itself keeps the nonce under. */
export type PaymentKey = string & { readonly [key]: true };

/** Tells the payload kinds of parsed payments apart; an opaque payload may imitate either. */
export function isEvmPayload(payload: PaymentPayload["payload"]): payload is EvmPayload {
  return "authorization" in payload && "signature" in payload;
}

/**
 * The key of a payment that has been parsed. Refuses payload kinds without a key rule, and those of an
 * unknown scheme or network: they are opaque, and hold whatever the client wrote.
 */
export function paymentKey(request: FacilitatorRequest): Result<PaymentKey, Refusal> {
  const { paymentPayload, paymentRequirements } = request;
  const { scheme, network, payload } = paymentPayload;
  if (scheme !== EXACT_SCHEME) {
    return refuse("unsupported_scheme", `only the scheme "${EXACT_SCHEME}" is served here`);
  }
  if (findNetwork(network)?.kind !== "evm" || !isEvmPayload(payload)) {
    return refuse("invalid_network", `payments on ${network} are not served here`);
  }
  const { from, nonce } = payload.authorization;
  const parts = [network, paymentRequirements.asset, from, nonce];
  return ok(parts.join("/").toLowerCase() as PaymentKey);
}

/**
 * The payer that a payload names, EIP-55 checksummed, or `""` where it names none (protocol section 2.4).
 * The payload may be unread as yet: whatever is not an address is not repeated.
 */
export function payerOf({ payload }: PaymentPayload): string {
  const authorization: unknown = "authorization" in payload ? payload.authorization : undefined;
  if (typeof authorization !== "object" || authorization === null) return "";
  const from = "from" in authorization ? authorization.from : "";
  return typeof from === "string" && isEvmAddress(from) ? checksumAddress(from) : "";
}
