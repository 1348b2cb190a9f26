/**
 * How what was paid is paid back, as transitions of the payment that it is for: a payment has one refund, which stands
 * in its own row. The transfer is a payment of ours to the payer, with a row of its own, that goes the way of every
 * other one; what is here says which transfer is under way, so that no second one is ever signed beside it.
 *
 *     ASKED --- sending(1) --- SENDING --- refunded --- REFUNDED
 *       |                       |  ^ \ sending(n + 1): the transfer before it can never be moved any more
 *       +------- failed --------+  told: why the chain does not take it now
 *                 \-- FAILED: nothing is under way; the operator asks again, or says that he has paid
 *
 * What a payment has put into its payer's balance is paid back out of that, as far as it is free there: taken in the step
 * that asks, and put back in the one that fails, after which there is no refund. It is sent once; the rest of a payment of which a
 * part was paid back goes by other means, and is added to that.
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
import { readMetered } from "./metered.ts";
import type { PaymentStatus } from "./transition.ts";

const FRESH: RefundFacts = {
  attempt: 0,
  isAutomatic: false,
  transfer: null,
  transaction: null,
  detail: null,
  refusal: null,
  creditsAtomic: null,
};

/**
 * Of what may be paid back on one day, as much is paid back by itself to one payer; his first refund of that day is in
 * any case. Whoever can make a backend fail is not to use up what others would have, nor our gas.
 */
const PAYER_SHARE = 10n;

const DAY_MS = 86_400_000;

/** The first millisecond of a day of UTC: what is paid back is counted from there. */
export function dayStart(nowMs: number): number {
  return nowMs - (nowMs % DAY_MS);
}

/** What refunds of one network and token count on one day, but for that of one payment; atomic units. */
export interface CountedRefunds {
  readonly all: bigint;
  /** Of them, those to its payer. */
  readonly payers: bigint;
}

/** Columns of a row whose refund is asked for, anew where it had failed. */
export function askedRefund(
  row: PaymentRow,
  asked: Partial<Pick<RefundFacts, "isAutomatic" | "creditsAtomic">> = {},
): Pick<PaymentRow, "refundState" | "refund"> {
  const { attempt } = factsOf(row);
  return { refundState: "ASKED", refund: storedFacts({ ...FRESH, ...asked, attempt }) };
}

/**
 * The same of what the operator has paid by other means, out of its payer's balance; where a part was paid back before, both
 * are its refund together.
 */
export function refundByHand(
  row: PaymentRow,
  amount: bigint,
): Pick<PaymentRow, "refundState" | "refund"> {
  const creditsAtomic = refundedPart(row) + amount;
  const facts = { ...factsOf(row), creditsAtomic, detail: "paid back by other means" };
  return { refundState: "REFUNDED", refund: storedFacts(facts) };
}

/** What of its payer's balance is under way to him, or was sent; null: nothing. */
export function refundedCredits(row: PaymentRow): bigint | null {
  return isRefunding(row) ? factsOf(row).creditsAtomic : null;
}

/** What of it was paid back out of its payer's balance, and is with him, atomic units. */
export function refundedPart(row: PaymentRow): bigint {
  return row.refundState === "REFUNDED" ? (factsOf(row).creditsAtomic ?? 0n) : 0n;
}

/** What its refund moves, atomic units: the payment, or what of it comes out of its payer's balance. */
export function refundAmount(row: PaymentRow): bigint {
  return factsOf(row).creditsAtomic ?? BigInt(amountOf(requestOf(row)));
}

/** Whether it is under way, or done: the payment is paid back once. */
export function isRefunding({ refundState }: PaymentRow): boolean {
  return refundState !== null && refundState !== "FAILED";
}

/** @param counted what else counts as paid back on this day; read with the row */
export function refund(
  row: Row,
  to: RefundStep,
  { nowMs }: Moment,
  counted: CountedRefunds | undefined,
): Step<RefundOutcome> {
  if (row === undefined) return GONE;
  const facts = factsOf(row);
  const { refundState } = row;
  const isOpen = refundState === "ASKED" || refundState === "SENDING";
  const before = to.kind === "sending" ? to.attempt - 1 : to.attempt;
  if (!isOpen || facts.attempt !== before) return GONE;
  switch (to.kind) {
    case "sending": {
      const amountAtomic = refundAmount(row);
      if (counted === undefined) throw new TypeError("what counts already was not read");
      const { attempt, transfer, maxAtomic } = to;
      if (counted.all + amountAtomic > maxAtomic) return { outcome: "over" };
      const share = maxAtomic / PAYER_SHARE;
      const isMore = counted.payers > 0n && counted.payers + amountAtomic > share;
      if (facts.isAutomatic && isMore) return { outcome: "over share" };
      const next = { ...facts, attempt, transfer, detail: null, refusal: null };
      const columns = { refundState: "SENDING", refundCountedMs: nowMs } as const;
      return moved(row, next, columns, `the refund is sent as ${transfer.key}`);
    }
    case "told": {
      const { detail, isRefusal } = to;
      const refusal = isRefusal ? detail : facts.refusal;
      const isKnown = facts.detail === detail && facts.refusal === refusal;
      if (refundState !== "SENDING" || isKnown) return { outcome: "done" };
      return moved(row, { ...facts, detail, refusal }, {}, `the refund waits: ${detail}`);
    }
    case "refunded": {
      if (refundState !== "SENDING") return GONE;
      const { transaction } = to;
      const next = { ...facts, transaction, detail: null };
      return moved(row, next, { refundState: "REFUNDED" }, `refunded in ${transaction}`);
    }
    case "failed": {
      const { detail } = to;
      if (facts.creditsAtomic !== null) return backInBalance(row, facts, detail);
      const over = { refundState: "FAILED", refundCountedMs: null } as const;
      return moved(row, { ...facts, detail }, over, `the refund has failed: ${detail}`);
    }
  }
}

/** Nothing of it can be moved, and nobody is to decide: what was taken is his again, to be spent. */
function backInBalance(row: PaymentRow, facts: RefundFacts, detail: string): Step<RefundOutcome> {
  const { creditsAtomic, ...kept } = facts;
  const columns = { refundState: null, refundCountedMs: null } as const;
  const note = `the refund has failed: ${detail}; ${creditsAtomic} are in its payer's balance again`;
  const step = moved(row, { ...kept, creditsAtomic: null, detail }, columns, note);
  return { ...step, pours: { amount: creditsAtomic ?? 0n, way: "back" } };
}

function moved(
  row: PaymentRow,
  facts: RefundFacts,
  columns: Partial<Pick<PaymentRow, "refundState" | "refundCountedMs">>,
  note: string,
): Step<RefundOutcome> {
  const next = { ...after(row), ...columns, refund: storedFacts(facts) };
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
    amountAtomic: refundAmount(row),
    sale: request,
    paidIn: row.settledTransaction ?? row.heldTransaction,
    to: row.payer,
    route: row.route ?? row.binding ?? "",
    resource: request.paymentRequirements.resource,
  };
}

/** Null where nobody has asked for one. */
export function refundSummary(row: PaymentRow): RefundSummary | null {
  if (row.refundState === null) return null;
  const { transaction, detail, transfer, creditsAtomic } = factsOf(row);
  const state = stateOfRefund(row.refundState);
  return {
    state,
    transaction,
    detail,
    transfer: transfer?.key ?? null,
    creditsAtomic: creditsAtomic === null ? null : String(creditsAtomic),
  };
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
    metered: readMetered(row.metered),
  };
}

function stateOfRefund(text: string | null): RefundState {
  const state = REFUND_STATES.find((known) => known === text);
  if (state === undefined) throw unreadable("state");
  return state;
}

function factsOf({ refund: text }: PaymentRow): RefundFacts {
  if (text === null) return FRESH;
  const stored = Object(JSON.parse(text));
  const { ofCredits = stored } = stored;
  const { attempt, isAutomatic, transfer, transaction, detail, refusal } = Object(ofCredits);
  if (!Number.isSafeInteger(attempt)) throw unreadable("attempt");
  return {
    attempt,
    isAutomatic: isAutomatic === true,
    transfer: transfer === null ? null : readTransfer(transfer),
    transaction: typeof transaction === "string" ? transaction : null,
    detail: typeof detail === "string" ? detail : null,
    refusal: typeof refusal === "string" ? refusal : null,
    creditsAtomic: readCredits(Object(ofCredits)),
  };
}

function readCredits({ creditsAtomic = null }: Record<string, unknown>): bigint | null {
  if (creditsAtomic === null) return null;
  if (typeof creditsAtomic !== "string" || !/^[1-9][0-9]*$/.test(creditsAtomic))
    throw unreadable("amount");
  return BigInt(creditsAtomic);
}

/**
 * Of credits under a name of its own: a replica of an older program would pay back the whole payment, and so cannot read
 * it. The sum of a day reads the amount from there.
 */
function storedFacts({ creditsAtomic, ...facts }: RefundFacts): string {
  if (creditsAtomic === null) return JSON.stringify(facts);
  return JSON.stringify({ ofCredits: { ...facts, creditsAtomic: String(creditsAtomic) } });
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
