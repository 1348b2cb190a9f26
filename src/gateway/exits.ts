/** Exits of a priced route at which nothing is delivered: what was paid for is elsewhere, or cannot be had now. */
import type { Unanswered } from "../http/unanswered.ts";
import type { Admission, Unfit } from "../payments/sale/admission.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import {
  ledAnswer,
  limitedAnswer,
  unfitAnswer,
  unpricedAnswer,
  settlementLines,
  statusLines,
  unservableAnswer,
  type OwnAnswer,
} from "./answers.ts";
import { versionOf } from "./decision.ts";
import { unserved, type PricedVisit } from "./delivery.ts";
import { endWith, type RequestEnding } from "./ending.ts";

/** It was led to another target, and is sent there. */
export function led(
  { visitor, decision, lines, snapshot }: PricedVisit,
  outcome: Extract<Admission, { kind: "led" }>,
): RequestEnding {
  const settlement = { success: true, ...outcome.settlement } as const;
  const status = snapshot.statuses?.of(outcome.key);
  const receipt = settlementLines(settlement, versionOf(decision), status);
  const at = outcome.target.slice(decision.site.length);
  const answer = ledAnswer(at, [...lines, ...receipt, ...statusLines(status)]);
  return endWith(visitor, { answer, outcome: "replayed", meter: decision.plan.meter });
}

/** Its backend would not be asked now. */
export function unservable(
  { visitor, decision, lines }: PricedVisit,
  refusal: Unanswered,
  telemetry: Telemetry,
): RequestEnding {
  const answer = unservableAnswer(refusal, lines);
  const own: OwnAnswer = { answer, outcome: "unavailable", meter: decision.plan.meter };
  return unserved(visitor, refusal, own, telemetry);
}

/** It has no price. */
export function unpriced(
  { visitor, decision, lines, client, challenge }: PricedVisit,
  why: Parameters<typeof unpricedAnswer>[0],
): RequestEnding {
  challenge.unpriced(client, decision);
  const answer = unpricedAnswer(why, lines);
  return endWith(visitor, { answer, outcome: "rejected", meter: decision.plan.meter });
}

/** It lacks what is declared of it. */
export function unfit(
  { visitor, decision, lines, client, challenge }: PricedVisit,
  why: Unfit,
): RequestEnding {
  const answer = unfitAnswer(why, lines);
  challenge.refused(client);
  return endWith(visitor, { answer, outcome: "refused", meter: decision.plan.meter });
}

/** Its client has asked too often for nothing. */
export function limited({ visitor, decision, lines }: PricedVisit, seconds: number): RequestEnding {
  const presented = decision.kind === "presented" ? decision.version : undefined;
  const answer = limitedAnswer(seconds, presented, lines);
  return endWith(visitor, { answer, outcome: "limited", meter: decision.plan.meter });
}
