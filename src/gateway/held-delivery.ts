/** Hands over what was paid for after the work: the answer that was held meanwhile, or stored. */
import type { Paid } from "../payments/sale/admission.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { noteSale } from "./access.ts";
import { errorAnswer, settlementLines, statusLines } from "./answers.ts";
import { shownIn, versionOf } from "./decision.ts";
import { concluded, type PricedVisit } from "./delivery.ts";
import { endWith, type RequestEnding } from "./ending.ts";
import type { HeldWork } from "./held-work.ts";
import { unmeteredUse } from "./metered-sale.ts";
import type { Delivery } from "./upstream/upstream.ts";

/** Of an answer that is a part of what was asked for. */
const PARTIAL = 206;

/** @param work of this request; null: it has asked for none */
export async function deliverHeld(
  visit: PricedVisit,
  paid: Paid,
  work: HeldWork | null,
  telemetry: Telemetry,
): Promise<RequestEnding> {
  const { visitor, decision, lines: cors, snapshot } = visit;
  const { settlement, answer } = paid;
  const { plan } = decision;
  noteSale(visitor, plan, settlement, paid.terms);
  const status = snapshot.statuses?.of(paid.key);
  const version = versionOf(decision);
  const settled = { success: true, ...settlement } as const;
  const told = settlementLines(settled, version, status);
  decision.conversation?.sold({ settlement: settled, version, refuse: () => Promise.resolve() });
  const step = telemetry.timeline?.beginStep("delivery");
  const goods = work?.goods ?? null;
  const response = typeof answer === "object" ? answer : goods?.response;
  let isSent = false;
  try {
    if (response !== undefined) {
      const to = { cors, receipt: [...told, ...statusLines(status)], vary: shownIn(decision) };
      isSent = (await visitor.replaying?.replay(response, to)) === true;
    }
  } finally {
    await record(visit, paid, goods, isSent);
  }
  if (response === undefined) {
    const lost = errorAnswer(500, "the answer is lost; send the same payment again", cors);
    return endWith(visitor, { answer: lost, outcome: "undelivered", meter: plan.meter });
  }
  const upstreamMs = goods?.upstreamMs ?? 0;
  const delivery: Delivery = isSent
    ? { kind: "delivered", status: response.status, upstreamMs }
    : { kind: "abandoned", status: response.status, sent: true };
  const isKept = typeof answer === "object" || goods?.sold !== undefined;
  step?.end(isSent, isSent ? "the answer that was held" : "the buyer left before the end");
  return concluded(visit, paid, { delivery, isSold: isSent || isKept }, telemetry);
}

/** What is kept is sold, whoever got how much of it: it is owed until he has all. Of anything else only what was sent. */
async function record(
  { decision }: PricedVisit,
  paid: Paid,
  goods: HeldWork["goods"],
  isSent: boolean,
): Promise<void> {
  const { answer } = paid;
  const forMs = decision.plan.repeat?.forMs;
  const used = unmeteredUse(decision, paid);
  if (typeof answer === "object") {
    const { bodyHash = "" } = answer;
    const againMs = answer.status === PARTIAL ? forMs : undefined;
    return paid.delivered({ bodyHash, response: answer, isUncollected: !isSent }, againMs, used);
  }
  const { answered, sold, response } = goods ?? {};
  if (answered === undefined || response === undefined) {
    return paid.undelivered({ sent: false, served: null });
  }
  if (!isSent && sold === undefined) return paid.undelivered(answered.left(response.status, true));
  const againMs = answered.isRepeatable(sold !== undefined) ? forMs : undefined;
  return paid.delivered(sold && { ...sold, isUncollected: !isSent }, againMs, used);
}
