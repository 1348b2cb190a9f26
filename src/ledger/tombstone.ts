/**
 * What is left of a payment that was delivered, settled for somebody else, or paid back, long ago: that its key is used,
 * and by which transaction. It is as good a refusal as the row was. Keys are stored as digests: whoever finds
 * two with one digest has only spoiled a payment of his own.
 */
import { hash } from "node:crypto";
import { checksumAddress, isEvmAddress } from "../x402/address.ts";
import { payerOf, type PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import {
  LedgerUnavailable,
  PAID_BACK,
  type BeginOutcome,
  type ClaimHolder,
  type ClaimOutcome,
  type SettlementOutcome,
} from "./ledger.ts";
import { isRefunded } from "./payment-judgement.ts";
import { present, type PaymentRow } from "./payment-row.ts";

export interface Tombstone {
  readonly transaction: string;
  /**
   * {@link digestOf} the idempotency key of a caller whose delivery is its own affair; null: nobody's. Of one that was paid
   * back, which nobody settles again, it is empty.
   */
  readonly caller: Buffer | null;
}

const PAID_BACK_CALLER = Buffer.alloc(0);

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

/** Of a payment that has moved something. Throws {@link LedgerUnavailable} for any other. */
export function tombstoneOf(
  row: Pick<
    PaymentRow,
    "state" | "binding" | "idempotencyKey" | "settledTransaction" | "heldTransaction"
  >,
): Tombstone {
  if (isRefunded(row)) {
    return {
      transaction: present(row.heldTransaction, "heldTransaction"),
      caller: PAID_BACK_CALLER,
    };
  }
  const { binding, idempotencyKey, settledTransaction } = row;
  return {
    transaction: present(settledTransaction, "settledTransaction"),
    caller: binding === null && idempotencyKey !== null ? digestOf(idempotencyKey) : null,
  };
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

/** As of a row that was delivered, or paid back. */
export function claimBuried(tombstone: Tombstone): ClaimOutcome {
  if (isPaidBack(tombstone)) return { kind: "failed", failure: PAID_BACK };
  return { kind: "spent", delivered: true, transaction: tombstone.transaction };
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
export function buriedOutcome(key: PaymentKey, tombstone: Tombstone): SettlementOutcome {
  if (isPaidBack(tombstone)) return { kind: "failed", failure: PAID_BACK };
  const { transaction } = tombstone;
  const [network = "", , from = ""] = key.split("/");
  const payer = isEvmAddress(from) ? checksumAddress(from) : "";
  return { kind: "settled", settlement: { transaction, network, payer } };
}

function isPaidBack({ caller }: Tombstone): boolean {
  return caller?.length === 0;
}

function unreadable(): LedgerUnavailable {
  return new LedgerUnavailable("a tombstone in the ledger cannot be read");
}
