/** Lines of the books, as a database driver returns them: columns bear the names of what they hold. */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import { isTransferBack } from "./accounts.ts";
import {
  SOLD_STATES,
  type GasEvidence,
  type PaidEvidence,
  type PaymentDetail,
  type PaymentEvent,
  type PaymentSummary,
  type SaleRecord,
} from "./books.ts";
import { waitingOf } from "./payment-judgement.ts";
import { readPaymentRow, requestIn, stateOf } from "./payment-row.ts";
import { refundSummary } from "./refunds.ts";
import type { SubmissionRow } from "./submission-row.ts";

type Columns = Readonly<Record<string, unknown>>;

/** Reads a paid payment as a database driver returns it, whose columns bear the names of {@link PaidEvidence}. */
export function readPaidEvidence(columns: Readonly<Record<string, unknown>>): PaidEvidence {
  const { key, network, asset, amount, payTo, transaction, request } = columns;
  return {
    kind: "payment",
    key: String(key) as PaymentKey,
    network: String(network),
    asset: String(asset),
    amount: String(amount),
    payTo: String(payTo),
    transaction: String(transaction),
    request: readableRequest(String(request)),
  };
}

function readableRequest(text: string): FacilitatorRequest | null {
  try {
    return requestIn(text);
  } catch {
    return null;
  }
}

export function gasEvidence({ network, variants, cost }: SubmissionRow): readonly GasEvidence[] {
  if (cost === null) return [];
  const transactions = variants.map(({ transaction }) => transaction);
  const { feeAtomic, isPart = false } = cost;
  return [{ kind: "gas", network, transactions, feeAtomic, isPart }];
}

/** Needs no readable request, so that an operator sees the payments that have none. */
export function readSummary(columns: Columns): PaymentSummary {
  const row = readPaymentRow(columns);
  return {
    key: String(columns.key) as PaymentKey,
    state: row.state,
    network: row.network,
    asset: String(columns.asset),
    amount: String(columns.amount),
    payer: row.payer,
    payTo: String(columns.payTo),
    binding: row.binding,
    target: row.target,
    facilitator: row.facilitator,
    transaction: row.settledTransaction,
    heldTransaction: row.heldTransaction,
    refund: refundSummary(row),
    isTransferBack: isTransferBack(row),
    attempts: row.attempts,
    ...waitingOf(row),
    failureCode: row.failureCode,
    failureDetail: row.failureDetail,
    claimedMs: Number(columns.claimedMs),
    updatedMs: Number(columns.updatedMs),
  };
}

export function readEvent({ atMs, state, note, by }: Columns): PaymentEvent {
  return { atMs: Number(atMs), state: stateOf(state), note: String(note), by: String(by) };
}

export function readSale(columns: Columns, deliveredMs: number | null): SaleRecord {
  const { key, binding, payer, state, claimedMs } = columns;
  return {
    key: String(key) as PaymentKey,
    binding: String(binding),
    payer: String(payer),
    state: SOLD_STATES.find((each) => each === state) ?? "SETTLED",
    claimedMs: Number(claimedMs),
    deliveredMs,
  };
}

/** A submission as a payment's page shows it. */
export function shownSubmission({
  id,
  state,
  variants,
}: SubmissionRow): PaymentDetail["submission"] {
  const [first] = variants;
  if (first === undefined) return null;
  const { account, accountNonce } = first;
  return {
    id,
    state,
    account,
    accountNonce,
    transactions: variants.map((each) => each.transaction),
  };
}
