/**
 * What makes a payment one payment. Two spellings of the same authorization (letter case, base64
 * form, key order, another signature encoding) have the same key; so claims are taken on it.
 */
import { checksumAddress, isEvmAddress } from "./address.ts";
import { parseUint256 } from "./amount.ts";
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
  const { scheme, network } = paymentPayload;
  if (scheme !== EXACT_SCHEME) {
    return refuse("unsupported_scheme", `only the scheme "${EXACT_SCHEME}" is served here`);
  }
  const payload = evmPayloadOf(paymentPayload);
  if (payload === undefined) {
    return refuse("invalid_network", `payments on ${network} are not served here`);
  }
  const { from, nonce } = payload.authorization;
  const parts = [network, paymentRequirements.asset, from, nonce];
  return ok(parts.join("/").toLowerCase() as PaymentKey);
}

/**
 * Whether two payments that have been parsed are one authorization with one signature, whatever the
 * letter case. The key alone does not say so: payer and nonce may be known before the payment is on chain,
 * and whoever knows them could otherwise speak for the payer. Once it is there, its signature is public, too. Payload kinds without a key are never the same.
 */
export function samePayment(left: PaymentPayload, right: PaymentPayload): boolean {
  const [one, other] = [evmPayloadOf(left), evmPayloadOf(right)];
  if (one === undefined || other === undefined || left.network !== right.network) return false;
  const [mine, theirs] = [one.authorization, other.authorization];
  return (
    one.signature.toLowerCase() === other.signature.toLowerCase() &&
    SAME_TEXT.every((name) => mine[name].toLowerCase() === theirs[name].toLowerCase()) &&
    SAME_NUMBER.every((name) => isSameNumber(mine[name], theirs[name]))
  );
}

const SAME_TEXT = ["from", "to", "nonce"] as const;
const SAME_NUMBER = ["value", "validAfter", "validBefore"] as const;

function isSameNumber(left: string, right: string): boolean {
  const number = parseUint256(left);
  return number !== undefined && number === parseUint256(right);
}

/** Undefined for the schemes and networks whose payloads nobody has read. */
function evmPayloadOf({ scheme, network, payload }: PaymentPayload): EvmPayload | undefined {
  if (scheme !== EXACT_SCHEME || findNetwork(network)?.kind !== "evm") return undefined;
  return isEvmPayload(payload) ? payload : undefined;
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
