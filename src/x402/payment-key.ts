/**
 * What makes a payment one payment. Two spellings of the same authorization (letter case, base64
 * form, key order, another signature encoding) have the same key; so claims are taken on it.
 */
import { checksumAddress, isEvmAddress } from "./address.ts";
import { parseUint256 } from "./amount.ts";
import { findNetwork } from "./network.ts";
import { ok, refuse, type Refusal, type Result } from "./result.ts";
import { messageHash, transactionOf, type SolanaTransaction } from "./solana-transaction.ts";
import {
  EXACT_SCHEME,
  type EvmPayload,
  type FacilitatorRequest,
  type PaymentPayload,
  type SolanaPayload,
} from "./x402.ts";

declare const key: unique symbol;

/**
 * EVM: `network/asset/from/nonce`, lower case: what the token contract itself keeps the nonce under. Solana:
 * `network/sha256 of the message` in hex: the base64 text and the fee payer's signature can be varied by
 * anyone, the message by nobody but its signers.
 */
export type PaymentKey = string & { readonly [key]: true };

/** The network of a payment. */
export function networkOfKey(key: PaymentKey): string {
  return key.slice(0, key.indexOf("/"));
}

/** Tells the payload kinds of parsed payments apart; an opaque payload may imitate either. */
export function isEvmPayload(payload: PaymentPayload["payload"]): payload is EvmPayload {
  return "authorization" in payload && "signature" in payload;
}

function isSolanaPayload(payload: PaymentPayload["payload"]): payload is SolanaPayload {
  return "transaction" in payload && typeof payload.transaction === "string";
}

/**
 * The key of a payment that has been parsed. Refuses payload kinds without a key rule, and those of an
 * unknown scheme or network: they are opaque, and hold whatever the client wrote. A Solana transaction that
 * cannot be read has no key either: `invalid_payload`.
 */
export function paymentKey(request: FacilitatorRequest): Result<PaymentKey, Refusal> {
  const { paymentPayload, paymentRequirements } = request;
  const { scheme, network, payload } = paymentPayload;
  if (scheme !== EXACT_SCHEME) {
    return refuse("unsupported_scheme", `only the scheme "${EXACT_SCHEME}" is served here`);
  }
  const kind = findNetwork(network)?.kind;
  if (kind === "evm" && isEvmPayload(payload)) {
    const { from, nonce } = payload.authorization;
    const parts = [network, paymentRequirements.asset, from, nonce];
    return ok(parts.join("/").toLowerCase() as PaymentKey);
  }
  if (kind === "solana") {
    const transaction = solanaTransactionOf(paymentPayload);
    if (!transaction.ok) return transaction;
    return ok(`${paymentPayload.network}/${messageHash(transaction.value)}` as PaymentKey);
  }
  return refuse("invalid_network", `payments on ${network} are not served here`);
}

/**
 * Whether two payments that have been parsed are one authorization with one signature, whatever the
 * letter case. The key alone does not say so: payer and nonce may be known before the payment is on chain,
 * and whoever knows them could otherwise speak for the payer. Once it is there, its signature is public, too.
 * On Solana: the same message with the same signature of the payer; the fee payer's is ours to write.
 * Payload kinds without a key are never the same.
 */
export function samePayment(left: PaymentPayload, right: PaymentPayload): boolean {
  if (left.network !== right.network) return false;
  if (left.scheme !== EXACT_SCHEME || right.scheme !== EXACT_SCHEME) return false;
  switch (findNetwork(left.network)?.kind) {
    case "evm":
      return sameEvmPayload(left.payload, right.payload);
    case "solana":
      return sameSolanaPayload(left, right);
    default:
      return false;
  }
}

type Payload = PaymentPayload["payload"];

function sameEvmPayload(one: Payload, other: Payload): boolean {
  if (!isEvmPayload(one) || !isEvmPayload(other)) return false;
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

/** Signatures 0 (the fee payer) and 1 (the payer), where there are exactly two. */
const PAYER_SLOT = 1;

function sameSolanaPayload(left: PaymentPayload, right: PaymentPayload): boolean {
  const [one, other] = [solanaTransactionOf(left), solanaTransactionOf(right)];
  if (!one.ok || !other.ok || one.value.payer === undefined) return false;
  const [mine, theirs] = [one.value.signatures[PAYER_SLOT], other.value.signatures[PAYER_SLOT]];
  if (mine === undefined || theirs === undefined) return false;
  return (
    Buffer.compare(mine, theirs) === 0 &&
    Buffer.compare(one.value.message, other.value.message) === 0
  );
}

/**
 * The transaction of a payment on a Solana network, read once for each payload object. The payload may be
 * opaque as yet. Refusal: `invalid_payload`.
 */
export function solanaTransactionOf({
  payload,
}: PaymentPayload): Result<SolanaTransaction, Refusal> {
  if (isSolanaPayload(payload)) return transactionOf(payload);
  return refuse("invalid_payload", "the payload must hold a transaction");
}

/**
 * The payer that a payload names, or `""` where it names none (protocol section 2.4): on Solana the second
 * of two signers, base58; elsewhere the authorization's `from`, EIP-55 checksummed. The payload may be unread
 * as yet: whatever is not an address is not repeated.
 */
export function payerOf(payment: PaymentPayload): string {
  const { network, payload } = payment;
  if (findNetwork(network)?.kind === "solana") {
    const transaction = solanaTransactionOf(payment);
    return transaction.ok ? (transaction.value.payer ?? "") : "";
  }
  const authorization: unknown = "authorization" in payload ? payload.authorization : undefined;
  if (typeof authorization !== "object" || authorization === null) return "";
  const from = "from" in authorization ? authorization.from : "";
  return typeof from === "string" && isEvmAddress(from) ? checksumAddress(from) : "";
}
