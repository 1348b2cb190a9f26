/**
 * What is left of a payment that was delivered, or settled for somebody else, long ago: that its key is used,
 * and by which transaction. It is as good a refusal as the row was. Keys are stored as digests: whoever finds
 * two with one digest has only spoiled a payment of his own.
 */
import { hash } from "node:crypto";
import { checksumAddress, isEvmAddress } from "../x402/address.ts";
import { payerOf, type PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import {
  LedgerUnavailable,
  type BeginOutcome,
  type ClaimHolder,
  type ClaimOutcome,
  type SettledPayment,
} from "./ledger.ts";

export interface Tombstone {
  readonly transaction: string;
  /** {@link digestOf} the idempotency key of a caller whose delivery is its own affair; null: nobody's. */
  readonly caller: Buffer | null;
}

/** Of each SHA-256, bytes. */
const DIGEST_BYTES = 16;

/** What a stored transaction begins with: a hash in 32 bytes, or any other text. */
const HASH = 1;
const TEXT = 0;
const HEX_HASH = /^0x[0-9a-f]{64}$/;

/** What a key, of a payment or of a caller, is stored as. */
export function digestOf(key: string): Buffer {
  return hash("sha256", key, "buffer").subarray(0, DIGEST_BYTES);
}

/** The bytes that {@link readTombstone} reads again. */
export function packTransaction(transaction: string): Buffer {
  return HEX_HASH.test(transaction)
    ? Buffer.concat([Buffer.of(HASH), Buffer.from(transaction.slice(2), "hex")])
    : Buffer.concat([Buffer.of(TEXT), Buffer.from(transaction)]);
}

/** Throws {@link LedgerUnavailable} for columns that are not those of a tombstone. */
export function readTombstone({
  transaction,
  caller,
}: Readonly<Record<string, unknown>>): Tombstone {
  if (!(transaction instanceof Uint8Array)) throw unreadable();
  if (caller !== null && !(caller instanceof Uint8Array)) throw unreadable();
  const [kind, ...bytes] = transaction;
  const packed = Buffer.from(bytes);
  const text = kind === HASH ? `0x${packed.toString("hex")}` : packed.toString();
  return { transaction: text, caller: caller === null ? null : Buffer.from(caller) };
}

/** As of a row that was delivered. */
export function claimBuried({ transaction }: Tombstone): ClaimOutcome {
  return { kind: "spent", delivered: true, transaction };
}

/** As of a row that was settled: the same answer for the same caller, and nothing for any other. */
export function beginBuried(
  { transaction, caller }: Tombstone,
  { paymentPayload }: FacilitatorRequest,
  asking: string | ClaimHolder | undefined,
): BeginOutcome {
  const isSame = typeof asking === "string" && caller?.equals(digestOf(asking)) === true;
  if (!isSame) return { kind: "taken" };
  const { network } = paymentPayload;
  return { kind: "settled", settlement: { transaction, network, payer: payerOf(paymentPayload) } };
}

/** What a key tells of the settlement; on Solana it does not tell the payer, who is `""`. */
export function buriedSettlement(key: PaymentKey, { transaction }: Tombstone): SettledPayment {
  const [network = "", , from = ""] = key.split("/");
  return { transaction, network, payer: isEvmAddress(from) ? checksumAddress(from) : "" };
}

function unreadable(): LedgerUnavailable {
  return new LedgerUnavailable("a tombstone in the ledger cannot be read");
}
