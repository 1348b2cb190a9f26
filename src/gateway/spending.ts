/**
 * A request that is paid from what its buyer has prepaid: reserved before its backend is asked, and debited by what the
 * backend has answered. What fails, breaks off or is no goods costs nothing; who leaves in the middle of an answer has
 * bought it. Who asks has shown a session of ours: by a cookie only where its own site, or he himself, has asked.
 */
import type { CreditDraw } from "../payments/credits/credit-price.ts";
import { PotShare, type NotReserved, type PotLeases } from "../payments/credits/pot-leases.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { networkOf } from "../x402/network.ts";
import type { ProvenAccount } from "../x402/session.ts";
import { noteCredits } from "./access.ts";
import {
  CHARGED_HEADER,
  crowdedAnswer,
  errorAnswer,
  unfitAnswer,
  upstreamAnswer,
  type OwnAnswer,
} from "./answers.ts";
import type { PricedPlan, SignedInDecision, Snapshot } from "./decision.ts";
import { AnsweredSale, isHarmless, unserved, type PricedVisit } from "./delivery.ts";
import { endingOf, endWith, type RequestEnding } from "./ending.ts";
import { isUnasked } from "./holders.ts";
import { memberOf } from "./membership.ts";
import { MeteredAnswer, type MostCharged } from "./metered-answer.ts";
import { noteUse } from "./metered-sale.ts";
import { isMeant } from "./signed-in.ts";
import type { InboundRequest } from "./message/inbound.ts";
import { forward } from "./request-trace.ts";
import { unfitOf } from "./unfit.ts";
import { wantsPage } from "./offers/offer-page.ts";
import type { Passage } from "./upstream/passage.ts";
import type { Delivery } from "./upstream/upstream.ts";
import type { Work } from "./work.ts";

/** After which balances that could not be asked for are asked for again, seconds. */
const ASK_AGAIN_SECONDS = "1";

/** Its place is its caller's affair. */
const IN_PLACE = (): void => {};

/** What a balance is asked for, and whose it is. */
interface Spendable {
  readonly account: ProvenAccount;
  /** Of one pot after another, until one has enough. */
  readonly draws: readonly CreditDraw[];
}

interface ReservedCredits extends Pick<Spendable, "account"> {
  readonly share: PotShare;
  readonly draw: CreditDraw;
}

/** Null: who asks has not shown that he may spend anything, or nothing is sold from balances here. */
function spendableOf(
  { plan, page, signIn, shownIn, soldMethod }: SignedInDecision,
  request: InboundRequest,
): Spendable | null {
  if (!signIn.ok || !("kind" in signIn.value)) return null;
  const account = signIn.value;
  const member = memberOf(plan.members, account);
  const price = member === undefined ? plan.credits : (member.credits ?? null);
  if (price === null) return null;
  // A head alone uses nothing up.
  if (request.method === "HEAD" && soldMethod === "GET") return null;
  if (!isMeant(shownIn, request)) return null;
  // Who opens it is told the price first, by a page that asks then itself: Back and Reload cost nothing.
  if (shownIn === "Cookie" && page !== null && wantsPage(request)) return null;
  const draws = price.drawsOf(account);
  return draws.length === 0 ? null : { account, draws };
}

/** Whether a balance is the first thing to be asked: nothing else is to be looked up of who asks. */
function isSpentFirst(
  { plan, readsBody, signIn: shown }: SignedInDecision,
  { signIn }: Pick<Snapshot, "signIn">,
): boolean {
  if (shown.ok && isUnasked(plan.members, shown.value)) return false;
  const isAll = plan.grants.length === 0 && plan.quota === null;
  return isAll && readsBody !== true && signIn?.areScreened === false;
}

/** A request of somebody who has shown who he is, and nothing else. */
type SignedInVisit = PricedVisit & { readonly decision: SignedInDecision };

export class Spending {
  readonly #telemetry: Telemetry;
  readonly #work: Pick<Work, "place">;
  readonly #leases: Pick<PotLeases, "reserve"> | undefined;

  /** @param leases undefined: nobody has prepaid anything */
  constructor(
    telemetry: Telemetry,
    work: Pick<Work, "place">,
    leases: Pick<PotLeases, "reserve"> | undefined,
  ) {
    this.#telemetry = telemetry;
    this.#work = work;
    this.#leases = leases;
  }

  /**
   * Before anything else is looked up of who asks, where a balance is all that there may be. Null, or resolving with it:
   * nothing is to be had from one, and nothing was done.
   */
  first(visit: SignedInVisit): Promise<RequestEnding | null> | null {
    const { decision, snapshot, visitor, client, challenge } = visit;
    if (!isSpentFirst(decision, snapshot)) return null;
    const spendable = spendableOf(decision, visitor.request);
    if (spendable === null || challenge.waitSeconds(decision, client) > 0) return null;
    return this.#spend(visit, spendable, this.#work.place(client.address, visitor));
  }

  /** The same in a place, where it is proven by now who asks, and that he has nothing for nothing. */
  async recognized(visit: SignedInVisit): Promise<RequestEnding | null> {
    const spendable = spendableOf(visit.decision, visit.visitor.request);
    return spendable === null ? null : this.#spend(visit, spendable, IN_PLACE);
  }

  /**
   * One promise for all of it, and nothing is waited for that is there: it is to cost hardly more than what is free.
   * @param place what leaves it; undefined: there is none
   */
  async #spend(
    visit: SignedInVisit,
    spendable: Spendable,
    place: ReturnType<Work["place"]>,
  ): Promise<RequestEnding | null> {
    const { visitor, decision, lines } = visit;
    const { meter, engine, label: route } = decision.plan;
    const leave = place instanceof Promise ? await place : place;
    if (leave === undefined) {
      return endWith(visitor, { answer: crowdedAnswer(lines), outcome: "rejected", meter });
    }
    let share: PotShare | undefined;
    let used = 0n;
    try {
      const looked = unfitOf(visitor, decision);
      const unfit = looked instanceof Promise ? await looked : looked;
      if (unfit !== null) {
        return endWith(visitor, { answer: unfitAnswer(unfit, lines), outcome: "refused", meter });
      }
      const asked = this.#reserve(spendable);
      const reserved = asked instanceof Promise ? await asked : asked;
      if (reserved === "short") return null;
      if (reserved === "unknown") return this.#notNow(visit);
      ({ share } = reserved);
      const { draw } = reserved;
      const answered = new AnsweredSale(visit, () => termsOf(decision, draw));
      const answer = { answered, metered: meteredDraw(decision.plan, draw) };
      let delivery: Delivery;
      do delivery = await forward(visitor, engine, passageOf(visit, reserved, answer));
      while (delivery.kind === "redirected");
      const { metered } = answer;
      const isBought = this.#isBought(visit, delivery, answered) && metered?.isBroken !== true;
      if (isBought) used = metered === null ? draw.amount : metered.sale.charged;
      const outcome = isBought ? "credits" : "unsold";
      if (delivery.kind === "unanswered") {
        const own: OwnAnswer = { answer: upstreamAnswer(delivery), outcome, meter };
        return unserved(visitor, delivery, own, this.#telemetry);
      }
      if (isBought) this.#note(visit, reserved, metered);
      return endingOf(delivery, outcome, meter);
    } finally {
      share?.settle(used, route);
      leave();
    }
  }

  /**
   * Of the first that has enough. `unknown`: it is not known what there is.
   * @param from the place of the draw to begin with
   */
  #reserve(
    spendable: Spendable,
    from = 0,
  ): ReservedCredits | "short" | "unknown" | Promise<ReservedCredits | "short" | "unknown"> {
    const { account, draws } = spendable;
    const draw = draws[from];
    if (draw === undefined || this.#leases === undefined) return "short";
    const taken = (share: PotShare | NotReserved) => {
      if (share instanceof PotShare) return { account, share, draw };
      return share === "short" ? this.#reserve(spendable, from + 1) : "unknown";
    };
    const asked = this.#leases.reserve(draw.pot, { max: draw.amount });
    return asked instanceof Promise ? asked.then(taken) : taken(asked);
  }

  /** Whoever is asked to pay instead would pay twice. */
  #notNow({ visitor, decision, lines }: PricedVisit): RequestEnding {
    const said = "your balance could not be asked for now; nothing was charged";
    const answer = errorAnswer(503, said, [...lines, "Retry-After", ASK_AGAIN_SECONDS]);
    return endWith(visitor, { answer, outcome: "unavailable", meter: decision.plan.meter });
  }

  #note(
    { visitor, decision: { plan } }: PricedVisit,
    { account, draw }: Omit<ReservedCredits, "share">,
    metered: MeteredAnswer | null,
  ): void {
    if (metered === null) return noteCredits(visitor, account, draw);
    const { sale } = metered;
    noteCredits(visitor, account, { ...draw, amount: sale.charged });
    const most = { ...mostDrawn(draw), network: draw.network };
    noteUse({ visitor, plan }, most, sale, this.#telemetry);
  }

  #isBought({ decision }: PricedVisit, delivery: Delivery, answered: AnsweredSale): boolean {
    const { kind, status } = delivery;
    if (kind !== "delivered" && kind !== "abandoned") return false;
    if (status !== null) return answered.isGoods(status) && !answered.leadsOn(status);
    // Nobody knows whether what he has sent was carried out; asking for something is free until there is an answer.
    return kind === "abandoned" && delivery.sent && !isHarmless(decision.soldMethod);
  }
}

function passageOf(
  { client, lines, decision, help }: PricedVisit & { readonly decision: SignedInDecision },
  { account, draw }: Omit<ReservedCredits, "share">,
  {
    answered,
    metered,
  }: { readonly answered: AnsweredSale; readonly metered: MeteredAnswer | null },
): Passage {
  const { metering } = decision.plan;
  const { followed: target } = answered;
  const told = [...lines, "Cache-Control", decision.plan.cacheControl];
  if (target !== decision.target) told.push("Content-Location", target);
  let isTold = false;
  return {
    client,
    target,
    requestHeaders: [
      "X-402-Payer",
      account.address,
      "X-402-Network",
      account.network,
      ...(metering?.requestHeaders ?? []),
    ],
    // Read when the head was judged, which says whether anything is charged for it.
    responseSet: told,
    responseAdded: ["Vary", decision.shownIn, ...help.lines],
    sale: null,
    tap: metered ?? undefined,
    judge: (status, raw) => {
      const verdict = answered.judge(status, raw);
      // Of a call it is known when its answer is read.
      const isKnown = metered === null && decision.conversation === undefined;
      if (verdict === "goods" && !isTold && isKnown) {
        told.push(CHARGED_HEADER, draw.told);
        isTold = true;
      }
      return verdict;
    },
  };
}

/** As it would be paid for on chain: for where a redirect leads. */
function termsOf(
  { offers, resource, version }: SignedInDecision,
  { network }: CreditDraw,
): ReturnType<SignedInDecision["offers"]["requirements"]>[number] {
  const all = offers.requirements(resource, version);
  const own = all.find((each) => each.network === network) ?? all[0];
  if (own === undefined) throw new Error("a price without a way to pay it");
  return own;
}

/** Null: it costs all that is reserved for it. */
function meteredDraw({ metering }: PricedPlan, draw: CreditDraw): MeteredAnswer | null {
  return metering === undefined ? null : new MeteredAnswer(metering, mostDrawn(draw));
}

function mostDrawn({ network, amount }: CreditDraw): MostCharged {
  const { symbol, decimals } = networkOf(network).asset;
  return { symbol, decimals, amount };
}
