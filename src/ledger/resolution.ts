/**
 * Payments that a person decides about, as transitions of the state machine.
 *
 *     SIGNED or FAILED -- paid in a transaction that is not ours ------------ SIGNED, held
 *     held ------------- deliver -- SETTLED: paid in that transaction, to be delivered like any other
 *       |        \------ refund --- FAILED: the seller has paid it back, nothing is owed
 *     SETTLED -- refund -- FAILED
 *       \------- deliver, where the attempts are used up -- SETTLED with new ones
 *
 * Each is judged on the row as it is when it is written: a delivery that has begun is neither paid back nor
 * begun anew.
 */
import {
  MAX_DELIVERY_ATTEMPTS,
  type PaymentState,
  type Resolution,
  type Resolved,
} from "./transition.ts";
import { after, conflict, type Step } from "./machine-step.ts";
import { isHeld, isOpen, isRefunded } from "./payment-judgement.ts";
import type { PaymentRow } from "./payment-row.ts";

type Row = PaymentRow | undefined;

/** The transition `held`. */
export function hold(row: Row, transaction: string): Step<void> {
  if (row !== undefined && (isHeld(row) || isRefunded(row))) return { outcome: undefined };
  const submission = row?.submission ?? row?.leftBy ?? null;
  const isSent = row !== undefined && (submission !== null || row.facilitator !== null);
  if (!isSent || (!isOpen(row) && row.state !== "FAILED")) throw conflict(row, "held");
  // Of one that was taken for failed no request is left.
  const isLeft = row.binding !== null && (row.isLeft || row.state === "FAILED");
  const failure = { failureCode: null, failureDetail: null, lookAgainMs: null };
  const facts = { ...failure, submission, offered: false, heldTransaction: transaction, isLeft };
  const next = { ...after(row), ...facts, state: "SIGNED" } as const;
  return { outcome: undefined, next, note: `held: paid in ${transaction}, which is not ours` };
}

export function resolve(row: Row, { verb, note }: Resolution): Step<Resolved> {
  if (row === undefined) return refused("there is no such payment");
  switch (verb) {
    case "deliver":
      return deliver(row, note);
    case "refund":
      return refund(row, note);
    case "note":
      return done(after(row), note);
  }
}

function deliver(row: PaymentRow, note: string): Step<Resolved> {
  if (isHeld(row)) {
    const { heldTransaction } = row;
    const paid = { settledTransaction: heldTransaction, heldTransaction: null, attempts: 0 };
    const isLeft = row.binding !== null;
    return done(
      { ...after(row), ...paid, isLeft, state: "SETTLED" },
      told("to be delivered", note),
    );
  }
  if (row.state !== "SETTLED") return refused(`it is ${describe(row)}`);
  if (row.binding === null) return refused("another resource server sold it");
  if (row.attempts < MAX_DELIVERY_ATTEMPTS) {
    return refused("it can be delivered already: the buyer has to send the same payment again");
  }
  return done({ ...after(row), attempts: 0 }, told("attempts are given again", note));
}

function refund(row: PaymentRow, note: string): Step<Resolved> {
  const transaction = isHeld(row) ? row.heldTransaction : row.settledTransaction;
  if (!isHeld(row) && row.state !== "SETTLED") return refused(`it is ${describe(row)}`);
  const next: PaymentRow = {
    ...after(row),
    state: "FAILED",
    settledTransaction: null,
    heldTransaction: transaction,
    isLeft: false,
    failureCode: "invalid_transaction_state",
    failureDetail: REFUNDED,
    identifier: null,
  };
  return done(next, told("paid back", note));
}

/** What the buyer is told. */
const REFUNDED = "this payment was refunded by the seller; sign a new one";

function describe(row: PaymentRow): string {
  if (isRefunded(row)) return "paid back already";
  return DESCRIBED[row.state];
}

const DESCRIBED: Readonly<Record<PaymentState, string>> = {
  CLAIMED: "not signed yet: it is not paid",
  SIGNED: "not known yet whether it is paid",
  SETTLED: "paid and not delivered",
  DELIVERING: "being delivered now",
  DELIVERED: "delivered",
  FAILED: "failed: it was not paid",
};

function told(what: string, note: string): string {
  return note === "" ? `the operator: ${what}` : `the operator: ${what}: ${note}`;
}

function done(next: PaymentRow, note: string): Step<Resolved> {
  return { outcome: { kind: "done", state: next.state }, next, note };
}

function refused(reason: string): Step<Resolved> {
  return { outcome: { kind: "refused", reason } };
}
