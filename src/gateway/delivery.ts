/** What a delivery takes along to the upstream, and what its end makes of the payment. */
import type { Passage } from "./upstream/passage.ts";
import { MAX_STORED_BODY_BYTES, type BrokenDelivery } from "../ledger/ledger.ts";
import type { Paid, Sold } from "../payments/sale/admission.ts";
import { RETRY_AFTER } from "./answers.ts";
import type { PricedPlan } from "./decision.ts";
import type { Delivery, Sale } from "./upstream/upstream.ts";

/** Longest that a small answer is read on after its buyer has left, milliseconds. */
const READ_ON_MS = 30_000;

/** What goes along with a free request: nothing. */
export const UNSOLD = { requestHeaders: [], responseSet: [], responseVary: null, sale: null };

export function paidPassage(
  { cacheControl, ...asked }: Pick<Passage, "target" | "client"> & Pick<PricedPlan, "cacheControl">,
  paid: Paid,
  receipt: readonly string[],
  refused: Sale["refused"],
): Passage {
  const { payer, transaction, network } = paid.settlement;
  return {
    ...asked,
    requestHeaders: [
      ["X-402-Payer", payer],
      ["X-402-Transaction", transaction],
      ["X-402-Network", network],
    ].flat(),
    responseSet: [...receipt, "Cache-Control", cacheControl],
    responseVary: "X-PAYMENT",
    sale: {
      idempotencyKey: paid.idempotencyKey,
      failureLines: paid.isLast ? [] : RETRY_AFTER,
      keepBytes: MAX_STORED_BODY_BYTES,
      readOnMs: READ_ON_MS,
      refused,
    },
  };
}

/**
 * What a delivery leaves of the payment: null, it is sold; else the same payment may try again. An
 * upstream that refuses (4xx) has sold nothing yet, and the buyer may correct query or body. An answer that
 * is kept is sold, whoever got how much of it. Once another good answer has begun, only that same request
 * may be tried again, or one payment would buy several things; and since its body cannot be compared, a
 * buyer who leaves in the middle of its answer has bought it.
 */
export function attemptOf(
  delivery: Delivery,
  target: string,
  withBody: boolean,
): BrokenDelivery | null {
  if (delivery.kind === "unanswered") return { sent: delivery.sent, served: null };
  if (keptOf(delivery) !== undefined) return null;
  const sent = delivery.kind !== "abandoned" || delivery.sent;
  const begun = delivery.status !== null && delivery.status < 400;
  if (!begun) return { sent, served: null };
  if (delivery.kind === "delivered") return null;
  if (delivery.kind === "abandoned" && withBody) return null;
  return { sent, served: target };
}

function keptOf(delivery: Delivery): Sold | undefined {
  return "kept" in delivery ? delivery.kept : undefined;
}

/** The whole answer, if it is kept; its buyer may have left before it came. */
export function soldBy(
  delivery: Delivery,
): (Sold & { readonly isUncollected: boolean }) | undefined {
  const kept = keptOf(delivery);
  return kept && { ...kept, isUncollected: delivery.kind === "abandoned" };
}

/** How a delivery ended, for people. */
export function deliveryNote(delivery: Delivery): string {
  switch (delivery.kind) {
    case "delivered":
      return `the backend answered ${delivery.status}`;
    case "unanswered":
      return `no answer of the backend: ${delivery.reason}`;
    case "abandoned":
      return delivery.sent
        ? "the buyer left before the end"
        : "the buyer left before the beginning";
    default:
      return "the answer broke off";
  }
}
