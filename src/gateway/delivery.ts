/**
 * What is handed over for a payment: the upstream's answer, or a kept one once more. No payment is judged here: who comes
 * here with one has settled it, and its attempt is stored.
 */
import { MAX_STORED_BODY_BYTES, type BrokenDelivery } from "../ledger/ledger.ts";
import type { Admission, Paid } from "../payments/sale/admission.ts";
import { RECORDED_WITHIN_MS } from "../payments/sale/paywall.ts";
import type { Unanswered } from "../http/unanswered.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { BUYER_LEFT } from "../telemetry/timeline.ts";
import { systemTime, waitWithin } from "../time/time.ts";
import { PAYMENT_HEADERS } from "../x402/header.ts";
import {
  lateAnswer,
  RETRY_AFTER,
  settlementLines,
  undeliveredAnswer,
  type OwnAnswer,
  type Receipt,
} from "./answers.ts";
import type { Challenge } from "./challenge.ts";
import type { Client } from "./client/client.ts";
import { versionOf, type PricedDecision, type PricedPlan } from "./decision.ts";
import { endingOf, endWith, statusOf, type RequestEnding } from "./ending.ts";
import { hasRequestBody } from "./message/request-body.ts";
import { forward } from "./request-trace.ts";
import type { Passage } from "./upstream/passage.ts";
import type { Delivery, Sale } from "./upstream/upstream.ts";
import type { Visitor } from "./visitor.ts";

/** Longest that a small answer is read on after its buyer has left, milliseconds. */
const READ_ON_MS = 30_000;

/** What goes along with a free request: nothing. */
export const UNSOLD = { requestHeaders: [], responseSet: [], responseVary: null, sale: null };

/** A request to a priced route, and by what it is judged. */
export interface PricedVisit {
  readonly visitor: Visitor;
  readonly decision: PricedDecision;
  readonly client: Client;
  /** Raw header lines that every answer to it has (CORS). */
  readonly lines: readonly string[];
  readonly challenge: Challenge;
}

/** In place of an upstream's answer, which there is not, and will not be: ours, and the operator is told why. */
export function unserved(
  visitor: Visitor,
  { status, reason, detail }: Unanswered,
  own: OwnAnswer,
  { logger }: Telemetry,
): RequestEnding {
  logger.warn({ requestId: visitor.id, status, reason, detail }, "the upstream did not answer");
  return endWith(visitor, own);
}

/** Hands over what was paid for, and records what came of that, also where it fails. */
export async function deliver(
  { visitor, decision, client, lines: cors }: PricedVisit,
  paid: Paid,
  telemetry: Telemetry,
): Promise<RequestEnding> {
  const { settlement } = paid;
  const { plan, target } = decision;
  const version = versionOf(decision);
  const told = settlementLines({ success: true, ...settlement }, version);
  const receipt: Receipt = { version, lines: [...cors, ...told] };
  const step = telemetry.timeline?.beginStep("delivery");
  let delivery: Delivery = { kind: "abandoned", status: null, sent: true };
  let attempt: BrokenDelivery | null = { sent: true, served: null };
  let refusal: Promise<void> | undefined;
  const refuse = (broken: BrokenDelivery): Promise<void> => {
    refusal ??= paid.undelivered(broken);
    return waitWithin(refusal, systemTime.timeout(RECORDED_WITHIN_MS), undefined);
  };
  try {
    const refused: Sale["refused"] = (isBegun) =>
      refuse({ sent: true, served: isBegun ? target : null });
    const passage = paidPassage({ target, client, plan }, paid, receipt, refused);
    delivery = await forward(visitor, plan.engine, passage, () =>
      lateAnswer(receipt, !paid.isLast),
    );
    attempt = attemptOf(delivery, target, hasRequestBody(visitor.request));
    if (delivery.kind === "unanswered") {
      const again = !paid.isLast || !delivery.sent;
      await refuse({ sent: delivery.sent, served: null });
      const answer = undeliveredAnswer(delivery, receipt, again);
      const own: OwnAnswer = { answer, outcome: "undelivered", meter: plan.meter };
      unserved(visitor, delivery, own, telemetry);
    }
  } finally {
    if (refusal !== undefined) await refusal;
    else if (attempt !== null) await paid.undelivered(attempt);
    else {
      // The whole answer, if it is kept; its buyer may have left before it came.
      const kept = "kept" in delivery ? delivery.kept : undefined;
      const isUncollected = delivery.kind === "abandoned";
      await paid.delivered(kept && { ...kept, isUncollected });
    }
  }
  const isSold = attempt === null;
  step?.end(isSold, deliveryNote(delivery));
  const { transaction, network, payer } = settlement;
  const sale = { requestId: visitor.id, route: plan.label, version, network, transaction, payer };
  const facts = { ...sale, delivery: delivery.kind };
  if (isSold) telemetry.logger.info(facts, "payment served");
  else telemetry.logger.warn({ ...facts, status: statusOf(delivery) }, "paid and not served");
  return endingOf(delivery, isSold ? "paid" : "undelivered", plan.meter);
}

/** Hands over the answer that was kept for the same request, paid for before. */
export async function replay(
  { visitor, decision, lines: cors }: PricedVisit,
  { response, settlement, collected }: Extract<Admission, { kind: "replayed" }>,
  { logger, metrics }: Telemetry,
): Promise<RequestEnding> {
  const { plan } = decision;
  const version = versionOf(decision);
  const receipt = settlementLines({ success: true, ...settlement }, version);
  const vary = PAYMENT_HEADERS[version];
  const isSent = await visitor.replaying?.replay(response, { cors, receipt, vary });
  if (isSent === true) await collected();
  metrics.replayed(plan.label);
  const { transaction, network, payer } = settlement;
  const sale = { requestId: visitor.id, route: plan.label, version, network, transaction, payer };
  logger.info(sale, "a kept answer was given again");
  return { status: response.status, outcome: "replayed", meter: plan.meter, upstreamMs: 0 };
}

/** What goes along with a paid request: who paid, and what the client is to be told of it. */
function paidPassage(
  { plan, ...asked }: Pick<Passage, "target" | "client"> & { readonly plan: PricedPlan },
  paid: Paid,
  { lines, version }: Receipt,
  refused: Sale["refused"],
): Passage {
  const { payer, transaction, network } = paid.settlement;
  return {
    ...asked,
    requestHeaders: [
      "X-402-Payer",
      payer,
      "X-402-Transaction",
      transaction,
      "X-402-Network",
      network,
    ],
    responseSet: [...lines, "Cache-Control", plan.cacheControl],
    responseVary: PAYMENT_HEADERS[version],
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
function attemptOf(delivery: Delivery, target: string, withBody: boolean): BrokenDelivery | null {
  if (delivery.kind === "unanswered") return { sent: delivery.sent, served: null };
  if ("kept" in delivery && delivery.kept !== undefined) return null;
  const sent = delivery.kind !== "abandoned" || delivery.sent;
  const begun = delivery.status !== null && delivery.status < 400;
  if (!begun) return { sent, served: null };
  if (delivery.kind === "delivered") return null;
  if (delivery.kind === "abandoned" && withBody) return null;
  return { sent, served: target };
}

/** How a delivery ended, for people. */
function deliveryNote(delivery: Delivery): string {
  switch (delivery.kind) {
    case "delivered":
      return `the backend answered ${delivery.status}`;
    case "unanswered":
      return `no answer of the backend: ${delivery.reason}`;
    case "abandoned":
      return delivery.sent ? BUYER_LEFT : "the buyer left before the beginning";
    default:
      return "the answer broke off";
  }
}
