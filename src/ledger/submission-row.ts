/**
 * A stored submission as a value, and which changes it takes: what `machine.ts` is for payments. Pure;
 * whoever stores it writes what these functions return in the transaction in which it read the row.
 */
import { isEvmAddress } from "../x402/address.ts";
import type { PaymentKey } from "../x402/payment-key.ts";
import { isTransferBack } from "./accounts.ts";
import {
  LedgerConflict,
  LedgerUnavailable,
  type Lease,
  type StoredSubmission,
  type StoredTransaction,
  type SubmissionCost,
  type SubmissionState,
  type SubmittedPayment,
} from "./ledger.ts";
import { isHeld } from "./payment-judgement.ts";
import { requestOf, type PaymentRow } from "./payment-row.ts";

export const SUBMISSION_STATES = [
  "OPEN",
  "INCLUDED",
  "CLOSED",
] as const satisfies readonly SubmissionState[];

export interface SubmissionRow extends Omit<StoredSubmission, "payments"> {
  /** Null while it is in no block, and where its node did not say. */
  readonly cost: SubmissionCost | null;
}

/** The row that the first signature for an account nonce makes. */
export function firstSubmission(
  network: string,
  variant: StoredTransaction,
  nowMs: number,
): SubmissionRow {
  const id = variant.transaction;
  return { id, network, state: "OPEN", variants: [variant], signedMs: nowMs, cost: null };
}

/** One of the payments that a submission carries. */
export function submittedOf(row: PaymentRow, key: PaymentKey): SubmittedPayment {
  const { state, route, settledTransaction } = row;
  return {
    key,
    request: requestOf(row),
    route,
    isTransferBack: isTransferBack(row),
    state,
    settledTransaction,
    heldTransaction: isHeld(row) ? row.heldTransaction : null,
  };
}

/** Undefined where the variant is stored already. Throws {@link LedgerConflict} where it does not fit. */
export function withVariant(
  row: SubmissionRow | undefined,
  { network, address }: Lease,
  variant: StoredTransaction,
  nowMs: number,
): SubmissionRow | undefined {
  const first = row?.variants[0];
  if (row === undefined || first === undefined || row.state === "CLOSED") {
    throw new LedgerConflict(`a submission cannot take another variant: ${row?.state ?? "(none)"}`);
  }
  const accounts = [first.account, variant.account, address].map(accountName);
  const fits =
    row.network === network &&
    new Set(accounts).size === 1 &&
    first.accountNonce === variant.accountNonce;
  if (!fits) throw new LedgerConflict("a variant is for another account nonce than its submission");
  if (row.variants.some(({ transaction }) => transaction === variant.transaction)) return undefined;
  return { ...row, variants: [...row.variants, variant], signedMs: nowMs };
}

/** Undefined where it stands there already. */
export function concluded(
  row: SubmissionRow | undefined,
  state: SubmissionState,
  cost: SubmissionCost | undefined,
): SubmissionRow | undefined {
  if (row?.state === state) return undefined;
  if (row === undefined || row.state === "CLOSED") {
    throw new LedgerConflict(`a submission cannot go from ${row?.state ?? "(none)"} to ${state}`);
  }
  return { ...row, state, cost: cost ?? (state === "OPEN" ? null : row.cost) };
}

/** Bytes for another account or nonce would leave a gap that blocks every later payment. */
export function requireSignedFor(
  { account, accountNonce }: StoredTransaction,
  address: string,
  nonce: number,
): void {
  if (accountName(account) === accountName(address) && accountNonce === nonce) return;
  throw new Error(`signed for ${account} nonce ${accountNonce} instead of ${address} ${nonce}`);
}

/** EVM addresses count nonces together whatever their letter case; other networks' are case-sensitive. */
export function accountName(address: string): string {
  return isEvmAddress(address) ? address.toLowerCase() : address;
}

/** Reads a row as a database driver returns it; `variants` is JSON. */
export function readSubmissionRow(columns: Readonly<Record<string, unknown>>): SubmissionRow {
  const { id, network, signedMs } = columns;
  const state = submissionStateOf(columns.state);
  if (typeof id !== "string" || typeof network !== "string") throw unreadable("id");
  if (typeof signedMs !== "number") throw unreadable("state");
  const cost = typeof columns.cost === "string" ? readCost(columns.cost) : null;
  return { id, network, state, signedMs, variants: readVariants(columns.variants), cost };
}

/** As a store keeps it: JSON. */
function readCost(json: string): SubmissionCost {
  const { feeAtomic, priorityAtomic, moved, priceAttodollars, isPart } = Object(JSON.parse(json));
  const isPrice = priceAttodollars === null || isAmount(priceAttodollars);
  if (!isAmount(feeAtomic) || !isAmount(priorityAtomic) || typeof moved !== "number" || !isPrice) {
    throw unreadable("cost");
  }
  const cost = { feeAtomic, priorityAtomic, moved, priceAttodollars };
  return isPart === true ? { ...cost, isPart } : cost;
}

function isAmount(value: unknown): value is string {
  return typeof value === "string" && /^\d+$/.test(value);
}

/** A state as it is stored. Throws {@link LedgerUnavailable} for another text. */
export function submissionStateOf(value: unknown): SubmissionState {
  const state = SUBMISSION_STATES.find((known) => known === value);
  if (state === undefined) throw unreadable("state");
  return state;
}

function readVariants(json: unknown): readonly StoredTransaction[] {
  const list: unknown = typeof json === "string" ? JSON.parse(json) : json;
  if (!Array.isArray(list) || list.length === 0) throw unreadable("variants");
  return list.map(readVariant);
}

function readVariant(value: unknown): StoredTransaction {
  if (typeof value !== "object" || value === null) throw unreadable("variants");
  const fields = new Map<string, unknown>(Object.entries(value));
  const [transaction, raw, account, accountNonce] = VARIANT.map((name) => fields.get(name));
  if (typeof transaction !== "string" || typeof raw !== "string") throw unreadable("variants");
  if (typeof account !== "string" || typeof accountNonce !== "number") throw unreadable("variants");
  return { transaction, raw, account, accountNonce };
}

const VARIANT = ["transaction", "raw", "account", "accountNonce"] as const;

function unreadable(name: string): LedgerUnavailable {
  return new LedgerUnavailable(`a stored submission has no readable ${name}`);
}
