/**
 * Payments that a person decides about, as transitions of the state machine.
 *
 *     SIGNED or FAILED -- paid in a transaction that is not ours ------------ SIGNED, held
 *     held ------------- deliver -- SETTLED: paid in that transaction, to be delivered like any other
 *       |        \------ refund --- FAILED: the seller has paid it back, nothing is owed
 *     SETTLED -- refund -- FAILED
 *       |------- deliver, where the attempts are used up -- SETTLED with new ones
 *       \------- goods, where it was tried -- DELIVERED: what the backend answered is what was sold
 *     DELIVERED - refund, sent by us -- DELIVERED
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
import { findNetwork } from "../x402/network.ts";
import { isSameToken } from "../x402/token.ts";
import { amountOf, requestOf, type PaymentRow } from "./payment-row.ts";
import { PAID_BACK } from "./refund-steps.ts";
import { isCredits, readFill, type PotRow } from "./pots.ts";
import {
  askedRefund,
  isRefunding,
  refundByHand,
  refundedCredits,
  refundedPart,
} from "./refunds.ts";

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

/** `pot`: of a payment that has filled one, as it is now. */
export function resolve(
  row: Row,
  { verb, note, isSent, creditsAtomic }: Resolution,
  pot?: Pick<PotRow, "free" | "leased">,
): Step<Resolved> {
  if (row === undefined) return refused("there is no such payment");
  switch (verb) {
    case "deliver":
      return deliver(row, note);
    case "goods":
      return takeForGoods(row, note);
    case "refund":
      if (creditsAtomic !== undefined) {
        return refundCredits(
          row,
          { amount: BigInt(creditsAtomic), isSent: isSent === true },
          { note, pot },
        );
      }
      return isSent === true ? askForRefund(row, note) : refund(row, note);
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

/** An answer that its route does not call goods: a 404 that says all there is to say. */
function takeForGoods(row: PaymentRow, note: string): Step<Resolved> {
  if (row.state !== "SETTLED") return refused(`it is ${describe(row)}`);
  if (row.binding === null) return refused("another resource server sold it");
  if (row.attempts === 0) return refused("its backend was not asked for it");
  const servedTarget = row.servedTarget ?? row.target;
  const goods = { state: "DELIVERED", servedTarget, isLeft: false, repeats: 0 } as const;
  return done({ ...after(row), ...goods }, told("its answer was the goods", note));
}

/** By other means; also where it was to be sent by us, and no transfer of ours can be moved, yet or any more. */
function refund(row: PaymentRow, note: string): Step<Resolved> {
  const credits = refundedCredits(row);
  if (row.refundState === "ASKED" && credits !== null) {
    const paid = { ...after(row), ...refundByHand(row, credits) };
    return {
      ...done(paid, told("paid back", note)),
      pours: { amount: credits, way: "none", isByHand: true },
    };
  }
  if (row.refundState === "FAILED" || row.refundState === "ASKED") {
    const transaction = row.heldTransaction ?? row.settledTransaction;
    const byHand = { refundState: null, refund: null, settledTransaction: null };
    const paid = { ...after(row), ...byHand, heldTransaction: transaction };
    return done({ ...paid, ...REFUNDED, ...NOT_KEPT }, told("paid back", note));
  }
  if (isRefunding(row)) return refused(`it is ${describe(row)}`);
  if (hasFilled(row)) return refused(IN_A_POT);
  const transaction = isHeld(row) ? row.heldTransaction : row.settledTransaction;
  if (!isHeld(row) && row.state !== "SETTLED") return refused(`it is ${describe(row)}`);
  return done(paidBack(row, transaction), told("paid back", note));
}

/** Nothing is delivered for it from here on, nor given again; what was delivered stays so. */
function askForRefund(row: PaymentRow, note: string): Step<Resolved> {
  if (row.binding === null) return refused("another resource server sold it");
  if (isRefunding(row)) return refused(`it is ${describe(row)}`);
  if (hasFilled(row)) return refused(IN_A_POT);
  const said = told("to be refunded", note);
  if (row.refundState === "FAILED" || row.state === "DELIVERED") {
    return done({ ...after(row), ...askedRefund(row), ...NOT_KEPT }, said);
  }
  const transaction = isHeld(row) ? row.heldTransaction : row.settledTransaction;
  if (!isHeld(row) && row.state !== "SETTLED") return refused(`it is ${describe(row)}`);
  return done({ ...paidBack(row, transaction), ...askedRefund(row) }, said);
}

/** Out of its payer's balance: never more than is free there, nor than this payment has put into it. */
function refundCredits(
  row: PaymentRow,
  { amount, isSent }: { readonly amount: bigint; readonly isSent: boolean },
  {
    note,
    pot,
  }: { readonly note: string; readonly pot: Pick<PotRow, "free" | "leased"> | undefined },
): Step<Resolved> {
  if (!hasFilled(row) || row.fills === null) return refused("nothing of it is in a balance");
  const before = refundedPart(row);
  if (isRefunding(row) && (isSent || before === 0n))
    return refused(`it is ${describe(row)}: ${before === 0n ? ONCE : REST_BY_HAND}`);
  if (row.state !== "DELIVERED") return refused(`it is ${describe(row)}`);
  const fill = readFill(row.fills);
  if (!isCredits(fill.pot)) return refused("what it has filled is no balance");
  if (amount <= 0n) return refused("nothing is no amount to pay back");
  if (!isInItsToken(row))
    return refused("it was not paid in the token that balances are counted in");
  const paid = BigInt(amountOf(requestOf(row)));
  const most = paid < fill.amount ? paid : fill.amount;
  const rest = most - before;
  if (amount > rest) {
    const gone = before === 0n ? "" : `, of which ${before} are paid back already`;
    return refused(`it has put no more than ${most} into the balance${gone}`);
  }
  const { free = 0n, leased = 0n } = pot ?? {};
  if (amount > free) {
    const inUse =
      leased === 0n ? "" : `, and ${leased} are in use now: try again when no request has them`;
    return refused(`${free} are free in the balance${inUse}`);
  }
  const said = told(
    isSent ? `${amount} of the balance to be refunded` : `${amount} of the balance paid back`,
    note,
  );
  const asked = isSent ? askedRefund(row, { creditsAtomic: amount }) : refundByHand(row, amount);
  const step = done({ ...after(row), ...asked }, said);
  return { ...step, pours: { amount, way: "out", isByHand: !isSent } };
}

/** Balances are counted in the token of their network: another one is of another worth. */
function isInItsToken(row: PaymentRow): boolean {
  const token = findNetwork(row.network)?.asset.address;
  const { asset } = requestOf(row).paymentRequirements;
  return token !== undefined && isSameToken(row.network, token, asset);
}

/** Paid back, it would be there twice. One that is held has not filled it yet. */
function hasFilled({ fills, settledTransaction }: PaymentRow): boolean {
  return fills !== null && settledTransaction !== null;
}

const ONCE = "a payment is paid back once";
const REST_BY_HAND =
  "a payment is sent back once, and what is left of it is paid back by other means (--by-hand)";

const IN_A_POT =
  "what it has paid, or what is left of it, is in its buyer's balance: that is paid back out of it (--refund-credits)";

/** Nothing is delivered for it any more. */
export function paidBack(row: PaymentRow, transaction: string | null): PaymentRow {
  const over = { settledTransaction: null, heldTransaction: transaction, isLeft: false };
  return { ...after(row), ...over, ...REFUNDED };
}

/** A refunded payment has none of what a delivered one has. */
const NOT_KEPT = {
  isLeft: false,
  bodyHash: null,
  replays: 0,
  replayUntilMs: null,
  repeats: 0,
  repeatUntilMs: null,
} as const;

/** What the buyer is told. */
const REFUNDED = {
  state: "FAILED",
  failureCode: PAID_BACK.code,
  failureDetail: PAID_BACK.detail,
  identifier: null,
} as const;

function describe(row: PaymentRow): string {
  if (row.refundState === "ASKED" || row.refundState === "SENDING") return "being refunded";
  if (row.refundState === "FAILED") return "to be refunded, which has failed";
  if (row.refundState === "REFUNDED" || isRefunded(row)) return "paid back already";
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
