/**
 * How what was paid is paid back, as transitions of the payment that it is for: a payment has one refund, which stands
 * in its own row. The transfer is a payment of ours to the payer, with a row of its own, that goes the way of every
 * other one; what is here says which transfer is under way, so that no second one is ever signed beside it.
 *
 *     ASKED --- sending(1) --- SENDING --- refunded --- REFUNDED
 *       |                       |  ^ \ sending(n + 1): the transfer before it can never be moved any more
 *       +------- failed --------+  told: why the chain does not take it now
 *                 \-- FAILED: nothing is under way; the operator asks again, or says that he has paid
 */
import type { PaymentKey } from "../x402/payment-key.ts";
import { parseStoredRequest } from "../x402/schema.ts";
import { LedgerUnavailable } from "./ledger-fault.ts";
import { after, type Moment, type Row, type Step } from "./machine-step.ts";
import { isHeld, isRefunded } from "./payment-judgement.ts";
import { amountOf, requestOf, type PaymentRow } from "./payment-row.ts";
import {
  REFUND_STATES,
  type OpenRefund,
  type RefundFacts,
  type RefundOutcome,
  type RefundState,
  type RefundStep,
  type RefundSummary,
  type RefundTransfer,
} from "./refund-steps.ts";
import type { PaymentStatus } from "./transition.ts";

const FRESH: RefundFacts = { attempt: 0, transfer: null, transaction: null, detail: null };

const DAY_MS = 86_400_000;

/** The first millisecond of a day of UTC: what is paid back is counted from there. */
export function dayStart(nowMs: number): number {
  return nowMs - (nowMs % DAY_MS);
}

/** Columns of a row whose refund is asked for, anew where it had failed. */
export function askedRefund(row: PaymentRow): Pick<PaymentRow, "refundState" | "refund"> {
  const { attempt } = factsOf(row);
  return { refundState: "ASKED", refund: JSON.stringify({ ...FRESH, attempt }) };
}

/** Whether it is under way, or done: the payment is paid back once. */
export function isRefunding({ refundState }: PaymentRow): boolean {
  return refundState !== null && refundState !== "FAILED";
}

/** @param countedAtomic what else of its network and token counts as paid back on this day; read with the row */
export function refund(
  row: Row,
  to: RefundStep,
  { nowMs }: Moment,
  countedAtomic: bigint | undefined,
): Step<RefundOutcome> {
  if (row === undefined) return GONE;
  const facts = factsOf(row);
  const { refundState } = row;
  const isOpen = refundState === "ASKED" || refundState === "SENDING";
  const before = to.kind === "sending" ? to.attempt - 1 : to.attempt;
  if (!isOpen || facts.attempt !== before) return GONE;
  switch (to.kind) {
    case "sending": {
      const amountAtomic = BigInt(amountOf(requestOf(row)));
      if (countedAtomic === undefined) throw new TypeError("what counts already was not read");
      if (countedAtomic + amountAtomic > to.maxAtomic) return { outcome: "over" };
      const { attempt, transfer } = to;
      const next = { ...FRESH, attempt, transfer };
      const counted = { refundState: "SENDING", refundCountedMs: nowMs } as const;
      return moved(row, next, counted, `the refund is sent as ${transfer.key}`);
    }
    case "told": {
      if (refundState !== "SENDING" || facts.detail === to.detail) return { outcome: "done" };
      return moved(row, { ...facts, detail: to.detail }, {}, `the refund waits: ${to.detail}`);
    }
    case "refunded": {
      if (refundState !== "SENDING") return GONE;
      const { transaction } = to;
      const next = { ...facts, transaction, detail: null };
      return moved(row, next, { refundState: "REFUNDED" }, `refunded in ${transaction}`);
    }
    case "failed": {
      const { detail } = to;
      const over = { refundState: "FAILED", refundCountedMs: null } as const;
      return moved(row, { ...facts, detail }, over, `the refund has failed: ${detail}`);
    }
  }
}

function moved(
  row: PaymentRow,
  facts: RefundFacts,
  columns: Partial<Pick<PaymentRow, "refundState" | "refundCountedMs">>,
  note: string,
): Step<RefundOutcome> {
  const next = { ...after(row), ...columns, refund: JSON.stringify(facts) };
  return { outcome: "done", next, note };
}

/** Of a row whose refund was asked for. */
export function openRefundOf(row: PaymentRow, key: PaymentKey): OpenRefund {
  const request = requestOf(row);
  return {
    ...factsOf(row),
    key,
    state: stateOfRefund(row.refundState),
    network: row.network,
    asset: request.paymentRequirements.asset,
    amountAtomic: BigInt(amountOf(request)),
    to: row.payer,
    route: row.route ?? row.binding ?? "",
    resource: request.paymentRequirements.resource,
  };
}

/** Null where nobody has asked for one. */
export function refundSummary(row: PaymentRow): RefundSummary | null {
  if (row.refundState === null) return null;
  const { transaction, detail, transfer } = factsOf(row);
  const state = stateOfRefund(row.refundState);
  return { state, transaction, detail, transfer: transfer?.key ?? null };
}

/** For its buyer. */
export function statusOf(row: PaymentRow): PaymentStatus {
  const request = requestOf(row);
  const { state, network, settledTransaction, heldTransaction, refundState } = row;
  return {
    state,
    isHeld: isHeld(row),
    network,
    asset: request.paymentRequirements.asset,
    amount: amountOf(request),
    transaction: settledTransaction ?? heldTransaction,
    isPaidBack: isRefunded(row) && refundState === null,
    refund: refundSummary(row),
  };
}

function stateOfRefund(text: string | null): RefundState {
  const state = REFUND_STATES.find((known) => known === text);
  if (state === undefined) throw unreadable("state");
  return state;
}

function factsOf({ refund: text }: PaymentRow): RefundFacts {
  if (text === null) return FRESH;
  const { attempt, transfer, transaction, detail } = Object(JSON.parse(text));
  if (!Number.isSafeInteger(attempt)) throw unreadable("attempt");
  return {
    attempt,
    transfer: transfer === null ? null : readTransfer(transfer),
    transaction: typeof transaction === "string" ? transaction : null,
    detail: typeof detail === "string" ? detail : null,
  };
}

function readTransfer(value: unknown): RefundTransfer {
  const { key, request, idempotencyKey, signedMs } = Object(value);
  const parsed = parseStoredRequest(request);
  if (
    !parsed.ok ||
    typeof key !== "string" ||
    typeof idempotencyKey !== "string" ||
    typeof signedMs !== "number"
  ) {
    throw unreadable("transfer");
  }
  // Stored as it was made.
  return { key: key as PaymentKey, request: parsed.value, idempotencyKey, signedMs };
}

function unreadable(name: string): LedgerUnavailable {
  return new LedgerUnavailable(`a stored refund has no readable ${name}`);
}

const GONE: Step<RefundOutcome> = { outcome: "gone" };
