/**
 * What is handed on that nobody pays for: free routes, and priced ones for who has them for nothing. An answer that there
 * is not is owed to nobody.
 */
import type { PaymentOutcome } from "../telemetry/metrics.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { noteShadow } from "./access.ts";
import { corsLines, crowdedAnswer, upstreamAnswer, type OwnAnswer } from "./answers.ts";
import type { Client } from "./client/client.ts";
import type { FreeDecision, MemberDecision, PricedPlan } from "./decision.ts";
import { memberPassage, unserved, UNSOLD } from "./delivery.ts";
import { endingOf, endWith, type RequestEnding } from "./ending.ts";
import { forward } from "./request-trace.ts";
import type { ClientOf } from "./tellings.ts";
import type { Passage } from "./upstream/passage.ts";
import type { Delivery } from "./upstream/upstream.ts";
import type { Visitor } from "./visitor.ts";
import type { Generation, ServedSite, Work } from "./work.ts";

interface Passed {
  readonly plan: Pick<PricedPlan, "engine" | "meter">;
  readonly outcome: PaymentOutcome;
  readonly passage: Omit<Passage, "client">;
}

export class Passing {
  readonly #telemetry: Telemetry;
  readonly #work: Pick<Work, "place">;
  readonly #clientOf: ClientOf;

  constructor(telemetry: Telemetry, work: Pick<Work, "place">, clientOf: ClientOf) {
    this.#telemetry = telemetry;
    this.#work = work;
    this.#clientOf = clientOf;
  }

  /** Nothing is asked for but a place, which is taken without a promise where one is left. */
  free(
    visitor: Visitor,
    { plan, target }: FreeDecision,
    generation: Generation,
    site: ServedSite,
  ): Promise<RequestEnding> {
    const outcome = plan.shadow === undefined ? "free" : noteShadow(visitor, plan.shadow, target);
    return this.#pass(visitor, { plan, outcome, passage: { target, ...UNSOLD } }, generation, site);
  }

  /** A priced route is free for who is known to be a member, by the same way. */
  member(
    visitor: Visitor,
    decision: MemberDecision,
    generation: Generation,
    site: ServedSite,
  ): Promise<RequestEnding> {
    const { plan } = decision;
    const passage = memberPassage(decision, corsLines(site.cors, visitor.request));
    return this.#pass(visitor, { plan, outcome: "member", passage }, generation, site);
  }

  /** The same where a place is taken already. */
  async recognized(
    visitor: Visitor,
    decision: MemberDecision,
    { client, lines }: { readonly client: Client; readonly lines: readonly string[] },
  ): Promise<RequestEnding> {
    const { plan } = decision;
    const passage = memberPassage(decision, lines);
    const delivery = await forward(visitor, plan.engine, { ...passage, client });
    return this.#passed(visitor, delivery, { plan, outcome: "member" });
  }

  async #pass(
    visitor: Visitor,
    passed: Passed,
    { settings }: Generation,
    site: ServedSite,
  ): Promise<RequestEnding> {
    const { plan, passage } = passed;
    const client = this.#clientOf(visitor.request, settings, site);
    const placed = this.#work.place(client.address, visitor);
    const leave = placed instanceof Promise ? await placed : placed;
    if (leave === undefined) {
      const { meter } = plan;
      return endWith(visitor, { answer: crowdedAnswer([]), outcome: "rejected", meter });
    }
    try {
      const delivery = await forward(visitor, plan.engine, { ...passage, client });
      return this.#passed(visitor, delivery, passed);
    } finally {
      leave();
    }
  }

  #passed(
    visitor: Visitor,
    delivery: Delivery,
    { plan: { meter }, outcome }: Pick<Passed, "plan" | "outcome">,
  ): RequestEnding {
    if (delivery.kind !== "unanswered") return endingOf(delivery, outcome, meter);
    const own: OwnAnswer = { answer: upstreamAnswer(delivery), outcome, meter };
    return unserved(visitor, delivery, own, this.#telemetry);
  }
}
