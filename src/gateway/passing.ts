/**
 * What is handed on that nobody pays for: free routes, and priced ones for who has them for nothing. An answer that there
 * is not is owed to nobody.
 */
import type { Admission } from "../payments/sale/admission.ts";
import type { PaymentOutcome } from "../telemetry/metrics.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { PaymentRequirements } from "../x402/x402.ts";
import { noteShadow } from "./access.ts";
import { corsLines, crowdedAnswer, upstreamAnswer, type OwnAnswer } from "./answers.ts";
import { CountedUses, type CountedUse, type NoUse } from "./counted.ts";
import {
  shownIn,
  versionOf,
  type FreeDecision,
  type MemberDecision,
  type PricedPlan,
} from "./decision.ts";
import { memberPassage, unserved, UNSOLD, type PricedVisit } from "./delivery.ts";
import { endingOf, endWith, type RequestEnding } from "./ending.ts";
import { memberOf } from "./membership.ts";
import { forward } from "./request-trace.ts";
import { NOWHERE, readRedirect } from "./redirects.ts";
import { isMeant } from "./signed-in.ts";
import type { ClientOf } from "./tellings.ts";
import type { Passage } from "./upstream/passage.ts";
import type { Delivery, SaleVerdict } from "./upstream/upstream.ts";
import type { Visitor } from "./visitor.ts";
import type { GatewayOptions, Generation, ServedSite, Work } from "./work.ts";

/** Nobody has worked for it. */
const UNSENT: Delivery = { kind: "abandoned", status: null, sent: false };

const NOTHING: NoUse = { kind: "none", lines: [] };
/** A page of another site, or a browser ahead of its user, has asked. */
const NOT_MEANT: NoUse = {
  ...NOTHING,
  said: "the uses of what was paid before are not used up by links of other sites, nor ahead of time: ask for it from this site itself",
};

interface Passed {
  readonly plan: Pick<PricedPlan, "engine" | "meter">;
  readonly outcome: PaymentOutcome;
  readonly passage: Omit<Passage, "client">;
}

export class Passing {
  readonly #telemetry: Telemetry;
  readonly #work: Pick<Work, "place" | "inPlace">;
  readonly #clientOf: ClientOf;
  readonly #counted: CountedUses;

  constructor(
    telemetry: Telemetry,
    work: Pick<Work, "place" | "inPlace">,
    clientOf: ClientOf,
    leases: GatewayOptions["leases"],
  ) {
    this.#counted = new CountedUses(leases);
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

  /**
   * What is had for nothing by whoever has proven who he is, in his place: as a member, by a purchase, or since some of it
   * is free before its price begins. Else why there is none.
   */
  async recognized(
    visit: PricedVisit,
    { account, granted }: Extract<Admission, { kind: "recognized" }>,
  ): Promise<RequestEnding | NoUse> {
    const { decision } = visit;
    const { plan, target, path } = decision;
    const member = memberOf(plan.members, account);
    const isFree = granted.length === 0 && member?.offers === null;
    const group = isFree ? member.group : null;
    const known = { kind: "member", plan, account, group, shownIn: shownIn(decision) } as const;
    const own = { ...known, target, path };
    if (isFree) return this.#known(visit, own, "member");
    if (granted.some(({ times }) => times === null)) return this.#known(visit, own, "pass");
    const isOwn = isMeant(own.shownIn, visit.visitor.request);
    // Of an address something is used up whatever its browser shows.
    if (!isOwn && plan.quota?.by !== "address") return granted.length > 0 ? NOT_MEANT : NOTHING;
    // What is free is used before what was paid for.
    const free = await this.#counted.ofQuota(visit, account);
    if (!("kind" in free)) return this.#known(visit, own, "quota", free);
    if (!isOwn) return granted.length > 0 ? NOT_MEANT : free;
    const bought = await this.#counted.ofPurchase(granted, visit);
    if (!("kind" in bought)) return this.#known(visit, own, "pass", bought);
    return granted.length > 0 ? bought : free;
  }

  /** `use`: it is counted. */
  async #known(
    visit: PricedVisit,
    decision: MemberDecision,
    outcome: PaymentOutcome,
    use?: CountedUse,
  ): Promise<RequestEnding> {
    const { visitor, client, lines } = visit;
    const { plan } = decision;
    const passage = memberPassage(decision, [...lines, ...(use?.lines ?? [])]);
    const answered = use === undefined ? undefined : new CountedAnswer(visit);
    let delivery: Delivery = UNSENT;
    try {
      delivery = await forward(visitor, plan.engine, {
        ...passage,
        client,
        ...(answered !== undefined && { judge: answered.judge }),
      });
    } finally {
      use?.ended(delivery, answered?.isNothing(outcome));
    }
    return this.#passed(visitor, delivery, { plan, outcome });
  }

  /** One of the requests of an address that are free before a price begins; else why it is none. */
  async freeFirst(visit: PricedVisit): Promise<RequestEnding | NoUse> {
    const { visitor, decision, client, lines } = visit;
    const { plan, target } = decision;
    const use = await this.#counted.ofQuota(visit, null);
    if ("kind" in use) return use;
    const responseSet = [...lines, ...use.lines, "Cache-Control", plan.cacheControl];
    const answered = new CountedAnswer(visit);
    const passage = { ...UNSOLD, target, responseSet, client, judge: answered.judge };
    let delivery: Delivery | undefined;
    try {
      delivery = await this.#work.inPlace(client.address, visitor, () => {
        return forward(visitor, plan.engine, passage);
      });
    } finally {
      use.ended(delivery ?? UNSENT, answered.isNothing("quota"));
    }
    if (delivery !== undefined) return this.#passed(visitor, delivery, { plan, outcome: "quota" });
    const { meter } = plan;
    return endWith(visitor, { answer: crowdedAnswer(lines), outcome: "rejected", meter });
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

/** What is answered to a request that is counted: none of its use where that is no goods. Nothing is followed. */
class CountedAnswer {
  readonly #visit: PricedVisit;
  #isLed = false;

  constructor(visit: PricedVisit) {
    this.#visit = visit;
  }

  /**
   * Whether a good status has given nothing: it leads on to what is sold here for no more, or to where nobody gets, or a call of a tool has failed. What
   * is free is used up by what its caller has spoilt or cancelled, as by leaving.
   */
  isNothing(outcome: PaymentOutcome): boolean {
    if (this.#isLed) return true;
    const left = this.#visit.decision.conversation?.left(true);
    return left !== undefined && (outcome !== "quota" || left.isBackends !== false);
  }

  /** As of a passage. */
  readonly judge = (status: number, lines: readonly string[]): SaleVerdict => {
    const { visitor, decision, snapshot } = this.#visit;
    const ground = { request: visitor.request, decision, snapshot, terms: () => this.#terms };
    const led = readRedirect(status, lines, decision.target, ground);
    this.#isLed = led === NOWHERE || led?.sold != null;
    return this.#isLed ? "nothing" : "goods";
  };

  /** As if it had been paid for as anybody pays. */
  get #terms(): PaymentRequirements {
    const { plan, resource } = this.#visit.decision;
    const [first] = plan.offers.requirements(resource, versionOf(this.#visit.decision));
    if (first === undefined) throw new Error("a price without a way to pay it");
    return first;
  }
}
