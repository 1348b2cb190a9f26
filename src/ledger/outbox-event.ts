/** Which steps of a payment others are told of, and what. */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { EventType } from "../x402/event-type.ts";
import type { OutboxEvent } from "./outbox.ts";
import { isHeld, isRefunded } from "./payment-judgement.ts";
import { amountOf, requestOf, type PaymentRow } from "./payment-row.ts";
import { refundedPart, refundSummary } from "./refunds.ts";

/** What a step of a payment is to others; nothing of what other resource servers sold. */
export function eventOf(
  key: PaymentKey,
  before: PaymentRow | undefined,
  next: PaymentRow,
): OutboxEvent | undefined {
  if (before === undefined || next.binding === null) return undefined;
  if (isHeld(next) && !isHeld(before)) return paymentEvent("payment.held", key, next);
  if (next.settledTransaction !== null && before.settledTransaction === null) {
    return paymentEvent("payment.sold", key, next);
  }
  if (isFailedAttempt(before, next)) {
    const { attempts } = next;
    const isRefunding = next.refundState !== null;
    return paymentEvent("payment.undelivered", key, next, { attempts, isRefunding });
  }
  const isByUs = next.refundState === "REFUNDED" && before.refundState !== "REFUNDED";
  const isByHand = isPaidByHand(next) && !isPaidByHand(before);
  const earlier = refundedPart(before);
  const later = refundedPart(next) - earlier;
  if (earlier > 0n && later > 0n) {
    // By other means: nothing of ours says in which transaction.
    const rest = { refundTransaction: null, creditsAtomic: String(later) };
    return paymentEvent("payment.refunded", key, next, rest);
  }
  if (!isByUs && !isByHand) return undefined;
  const { transaction = null, creditsAtomic = null } = refundSummary(next) ?? {};
  // A part of what was paid: what its payer had not used of his balance.
  const credits = creditsAtomic === null ? {} : { creditsAtomic };
  return paymentEvent("payment.refunded", key, next, {
    refundTransaction: transaction,
    ...credits,
  });
}

/** An attempt that counts. */
function isFailedAttempt(before: PaymentRow, next: PaymentRow): boolean {
  if (before.state !== "DELIVERING") return false;
  return next.state === "FAILED" || (next.state === "SETTLED" && next.attempts === before.attempts);
}

function isPaidByHand(row: PaymentRow): boolean {
  return isRefunded(row) && row.refundState === null;
}

/** Nothing of what was asked for but the route: a query may hold what is nobody's business. */
function paymentEvent(
  type: EventType,
  key: PaymentKey,
  row: PaymentRow,
  more: OutboxEvent["data"] = {},
): OutboxEvent {
  const request = requestOf(row);
  const { asset, payTo } = request.paymentRequirements;
  const { network, payer, route } = row;
  const transaction = row.settledTransaction ?? row.heldTransaction;
  const amountAtomic = amountOf(request);
  const data = { payment: key, network, payer, payTo, asset, amountAtomic, route, transaction };
  return { type, subject: key, data: { ...data, ...more } };
}
