/**
 * What is handed over for a payment: the upstream's answer, or a kept one once more. No payment is judged here: who comes
 * here with one has settled it, and its attempt is stored.
 */
import { MAX_STORED_BODY_BYTES, type BrokenDelivery } from "../ledger/ledger.ts";
import type { Admission, GoodsRequest, Paid } from "../payments/sale/admission.ts";
import { RECORDED_WITHIN_MS } from "../payments/sale/paywall.ts";
import type { PaymentRequirements } from "../x402/x402.ts";
import type { Unanswered } from "../http/unanswered.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { BUYER_LEFT } from "../telemetry/timeline.ts";
import { systemTime, waitWithin } from "../time/time.ts";
import { noteSale } from "./access.ts";
import {
  lateAnswer,
  RETRY_AFTER,
  settlementLines,
  statusLines,
  undeliveredAnswer,
  type Answer,
  type Help,
  type OwnAnswer,
  type Receipt,
} from "./answers.ts";
import { CallRequest } from "./calls/call-request.ts";
import { acceptable, type Challenge } from "./challenge.ts";
import type { Client } from "./client/client.ts";
import {
  shownIn,
  versionOf,
  type MemberDecision,
  type PresentedDecision,
  type SignedInDecision,
  type PricedDecision,
  soldTarget,
  type PricedPlan,
  type Snapshot,
} from "./decision.ts";
import { endingOf, endWith, statusOf, type RequestEnding } from "./ending.ts";
import { offersOfAccount } from "./membership.ts";
import { hasRequestBody } from "./message/request-body.ts";
import { READ_ON_MS, type MeteredAnswer } from "./metered-answer.ts";
import { meteredNote, meteredOf, usedOf, wasMetered } from "./metered-sale.ts";
import { MAX_FOLLOWED, NOWHERE, readRedirect, type Led } from "./redirects.ts";
import { forward } from "./request-trace.ts";
import { areEvents, isPartOfLittle } from "./upstream/kept-answer.ts";
import type { Passage } from "./upstream/passage.ts";
import type { Delivery, Sale, SaleVerdict } from "./upstream/upstream.ts";
import { unfitOf } from "./unfit.ts";
import type { Visitor } from "./visitor.ts";

/** What goes along with a free request: nothing. */
export const UNSOLD = { requestHeaders: [], responseSet: [], responseAdded: [], sale: null };

/** Of an answer that is a part of what was asked for. */
const PARTIAL = 206;
/** From here on an answer says that its server has failed, and below that it is the request. */
const SERVER_ERROR = 500;
/** Attempts of one payment that do not count, since a head alone was asked for, or the backend led elsewhere. */
const MAX_UNCOUNTED = 10;

/** A request to a priced route, and by what it is judged. */
export interface PricedVisit {
  readonly visitor: Visitor;
  readonly decision: PricedDecision;
  readonly client: Client;
  /** Raw header lines that every answer to it has (CORS). */
  readonly lines: readonly string[];
  readonly help: Help;
  readonly challenge: Challenge;
  readonly snapshot: Snapshot;
}

/** What the paywall is asked for. */
export function goodsRequest(
  {
    visitor,
    decision,
    client,
  }: Pick<PricedVisit, "visitor" | "client"> & {
    readonly decision: PresentedDecision | SignedInDecision;
  },
  work: { readonly work: NonNullable<GoodsRequest["work"]> } | null,
): GoodsRequest {
  const { plan } = decision;
  return {
    binding:
      decision.conversation?.bought?.binding ??
      `${decision.soldMethod} ${decision.site}${decision.path}`,
    target: soldTarget(decision),
    unfit: () => unfitOf(visitor, decision),
    work: work === null ? undefined : (wanted) => work.work(wanted),
    repeats: repeatsOf({ visitor, decision }),
    fills: plan.fills,
    client: client.address,
    isGone: () => visitor.isGone(),
    onGone: (listener) => visitor.onGone(listener),
    onReset: (listener) => visitor.onReset(listener),
    refusal: () => visitor.refusal(decision.plan.engine, client.address),
    isMetered: (paid) => plan.metering !== undefined || wasMetered(decision, paid),
    ...(plan.computed !== undefined && { exactly: exactlyAsked(decision) }),
    readBodyHash: async (...how) => (await visitor.replaying?.readBodyHash(...how)) ?? null,
  };
}

/** What a payment for a computed price may be for, or was for: this request at its price, and no other. */
function exactlyAsked(
  decision: PresentedDecision | SignedInDecision,
): readonly PaymentRequirements[] {
  if (decision.kind === "presented") return acceptable(decision);
  const { plan, offers, signIn, resource, version } = decision;
  // What other groups pay whatever the request would make its price that of all others.
  const own = signIn.ok ? offersOfAccount(plan.members, signIn.value) : [];
  return [offers, ...own].flatMap((each) => each.requirements(resource, version));
}

/** Of a priced route, for who has it for nothing: what is sold is not for shared caches, and whose it is goes along. */
export function memberPassage(
  { plan, target, account, group, shownIn: vary }: MemberDecision,
  lines: readonly string[],
): Omit<Passage, "client"> {
  const known = ["X-402-Payer", account.address, "X-402-Network", account.network];
  return {
    target,
    requestHeaders: group === null ? known : [...known, "X-402-Group", group],
    responseSet: [...lines, "Cache-Control", plan.cacheControl],
    responseAdded: ["Vary", vary],
    sale: null,
  };
}

/** In place of an upstream's answer, which there is not, and will not be: ours, and the operator is told why. */
export function unserved(
  visitor: Visitor,
  {
    status,
    reason,
    detail,
  }: { readonly [Fact in "reason" | "detail"]: string } & { status: number },
  own: OwnAnswer,
  { logger }: Telemetry,
): RequestEnding {
  logger.warn({ requestId: visitor.id, status, reason, detail }, "the upstream did not answer");
  return endWith(visitor, own);
}

/** Hands over what was paid for, and records what came of that, also where it fails. */
export async function deliver(
  visit: PricedVisit,
  paid: Paid,
  telemetry: Telemetry,
): Promise<RequestEnding> {
  const { visitor, decision, client, lines: cors, help } = visit;
  const { settlement } = paid;
  const { plan, target } = decision;
  noteSale(visitor, plan, settlement, paid.isRepeat ? null : paid.terms);
  const version = versionOf(decision);
  const status = visit.snapshot.statuses?.of(paid.key);
  const told = settlementLines({ success: true, ...settlement }, version, status);
  const beside = { ...help, lines: [...help.lines, ...statusLines(status)] };
  const receipt: Receipt = { version, lines: [...cors, ...told], help: beside };
  const vary = shownIn(decision);
  const step = telemetry.timeline?.beginStep("delivery");
  const answered = new AnsweredSale(visit, () => paid.terms);
  const metered = meteredOf(plan, paid);
  let delivery: Delivery = { kind: "abandoned", status: null, sent: true };
  let attempt: BrokenDelivery | null = { sent: true, served: null };
  let refusal: Promise<void> | undefined;
  const refuse = (broken: BrokenDelivery): Promise<void> => {
    refusal ??= paid.undelivered(broken);
    return waitWithin(refusal, systemTime.timeout(RECORDED_WITHIN_MS), undefined);
  };
  decision.conversation?.sold({
    settlement: { success: true, ...settlement },
    version,
    refuse: () => refuse(answered.left(answered.status, true)),
  });
  try {
    const sale: Pick<Sale, "judge" | "refused" | "keepsEvents"> = {
      keepsEvents: decision.conversation !== undefined,
      judge: (status, lines) => answered.judge(status, lines),
      refused: () => refuse(answered.left(answered.status, true)),
    };
    const passage = paidPassage({ target, client, plan, vary }, paid, receipt, { sale, metered });
    const late = (): Answer => lateAnswer(receipt, !paid.isLast);
    delivery = await forward(visitor, plan.engine, passage, late);
    while (delivery.kind === "redirected") {
      const { followed } = answered;
      const responseSet = [...passage.responseSet, "Content-Location", followed];
      const next = { ...passage, target: followed, responseSet };
      delivery = await forward(visitor, plan.engine, next, late);
    }
    if ("kept" in delivery && delivery.kept)
      decision.conversation?.judgeKept(delivery.kept.response);
    attempt = attemptOf(delivery, answered, visitor, metered);
    if (delivery.kind === "unanswered") {
      const again = !paid.isLast || !delivery.sent;
      await refuse(leftUnanswered(delivery, visitor));
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
      const againMs = answered.isRepeatable(kept !== undefined) ? plan.repeat?.forMs : undefined;
      const used = usedOf({ visitor, decision }, paid, metered, telemetry);
      await paid.delivered(kept && { ...kept, isUncollected }, againMs, used);
    }
  }
  const isLed = delivery.kind === "delivered" && answered.leadsOn(delivery.status);
  const isSold = attempt === null || isLed;
  const isUnsent = delivery.kind === "abandoned" && !delivery.sent;
  const left = isUnsent ? "the buyer left before the beginning" : BUYER_LEFT;
  const used = attempt === null && metered ? `; ${meteredNote(metered)}` : "";
  step?.end(isSold, deliveryNote(delivery, left) + used);
  return concluded(visit, paid, { delivery, isSold }, telemetry);
}

/** Says what became of a delivery. */
export function concluded(
  { visitor, decision }: PricedVisit,
  paid: Paid,
  { delivery, isSold }: { readonly delivery: Delivery; readonly isSold: boolean },
  telemetry: Telemetry,
): RequestEnding {
  const { settlement } = paid;
  const { plan } = decision;
  const version = versionOf(decision);
  const { transaction, network, payer } = settlement;
  const sale = { requestId: visitor.id, route: plan.label, version, network, transaction, payer };
  const facts = { ...sale, delivery: delivery.kind };
  if (paid.isRepeat) {
    telemetry.metrics.replayed(plan.label);
    telemetry.logger.info(facts, "what was sold was fetched again");
  } else if (isSold) telemetry.logger.info(facts, "payment served");
  else telemetry.logger.warn({ ...facts, status: statusOf(delivery) }, "paid and not served");
  const outcome = paid.isRepeat ? "replayed" : isSold ? "paid" : "undelivered";
  return endingOf(delivery, outcome, plan.meter);
}

/** Hands over the answer that was kept for the same request, paid for before. */
export async function replay(
  { visitor, decision, lines: cors, snapshot }: PricedVisit,
  { key, response, settlement, collected }: Extract<Admission, { kind: "replayed" }>,
  { logger, metrics }: Telemetry,
): Promise<RequestEnding> {
  const { plan } = decision;
  noteSale(visitor, plan, settlement, null);
  const version = versionOf(decision);
  const status = snapshot.statuses?.of(key);
  const receipt = settlementLines({ success: true, ...settlement }, version, status);
  const told = { success: true, ...settlement } as const;
  decision.conversation?.sold({ settlement: told, version, refuse: () => Promise.resolve() });
  const vary = shownIn(decision);
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
  {
    plan,
    vary,
    ...asked
  }: Pick<Passage, "target" | "client"> & { readonly plan: PricedPlan; readonly vary: string },
  paid: Paid,
  { lines, help }: Receipt,
  {
    sale,
    metered,
  }: {
    readonly sale: Pick<Sale, "judge" | "refused" | "keepsEvents">;
    readonly metered: MeteredAnswer | undefined;
  },
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
      ...(plan.metering?.requestHeaders ?? []),
    ],
    tap: metered,
    responseSet: [...lines, "Cache-Control", plan.cacheControl],
    responseAdded: ["Vary", vary, ...help.lines],
    sale: {
      idempotencyKey: paid.idempotencyKey,
      failureLines: paid.isLast ? [] : RETRY_AFTER,
      keepBytes: MAX_STORED_BODY_BYTES,
      readOnMs: READ_ON_MS,
      paid,
      ...sale,
    },
  };
}

/** It asks for something, and has nothing done: who leaves before there is an answer has had nothing. */
export function isHarmless(method: string): boolean {
  return method === "GET" || method === "HEAD";
}

/** What the backend has answered to a sale. */
export class AnsweredSale {
  readonly #visit: PricedVisit;
  readonly #terms: () => PaymentRequirements;
  /** The payment is for a `GET`, of which the request asks for the head alone. */
  readonly #isLook: boolean;
  /** The head that was judged last, by which it is known again. */
  #lines: readonly string[] | null = null;
  #verdict: SaleVerdict = "nothing";
  #status: number | null = null;
  #isStream = false;
  /** There is more of it to be fetched. */
  #isPart = false;
  /** `METHOD target` to which the backend has led the buyer, and that his payment is for. */
  #ledTo: string | null = null;
  /** The backend has led him to where nobody gets. */
  #isLost = false;
  readonly #followed: string[] = [];

  /** @param terms what was paid with; asked for where a redirect leads within our own host */
  constructor(visit: PricedVisit, terms: () => PaymentRequirements) {
    this.#visit = visit;
    this.#terms = terms;
    const { visitor, decision } = visit;
    this.#isLook = visitor.request.method === "HEAD" && decision.soldMethod === "GET";
  }

  /** The target that was asked for last: that of the request, or of a redirect that is followed. */
  get followed(): string {
    return this.#followed.at(-1) ?? this.#visit.decision.target;
  }

  /** Of the head that was judged last. */
  get status(): number | null {
    return this.#status;
  }

  /** As of {@link Sale.judge}. */
  judge(status: number, lines: readonly string[]): SaleVerdict {
    if (lines !== this.#lines) this.#verdict = this.#judge(status, lines);
    this.#lines = lines;
    return this.#verdict;
  }

  #judge(status: number, lines: readonly string[]): SaleVerdict {
    const { visitor, decision, snapshot } = this.#visit;
    const ground = { request: visitor.request, decision, snapshot, terms: this.#terms };
    const read = readRedirect(status, lines, this.followed, ground);
    this.#isLost = read === NOWHERE;
    const led = read === NOWHERE ? null : read;
    if (led !== null && this.#mayFollow(led)) {
      this.#followed.push(led.target);
      return "followed";
    }
    this.#status = status;
    this.#ledTo = led?.sold ?? null;
    this.#isPart = status === PARTIAL && !isPartOfLittle(lines);
    this.#isStream = areEvents(lines);
    return !this.isGoods(status) || this.leadsOn(status) ? "nothing" : "goods";
  }

  #mayFollow({ method, isSameBackend }: Led): boolean {
    const { visitor, decision } = this.#visit;
    const follows = decision.plan.redirects === "follow" || visitor.request instanceof CallRequest;
    if (!follows || !isPlain(visitor) || !isHarmless(method) || !isSameBackend) return false;
    return method === visitor.request.method && this.#followed.length < MAX_FOLLOWED;
  }

  isGoods(status: number): boolean {
    if (this.hasFailed || this.#isLost) return false;
    return status < 400 || this.#visit.decision.plan.goods.has(status);
  }

  /** Whether a call of a tool has come to nothing that is sold, whatever the status says. */
  get hasFailed(): boolean {
    return this.#visit.decision.conversation?.left(true) !== undefined;
  }

  /** Whether a good answer is what was asked for, and yet uses no payment up. */
  leadsOn(status: number): boolean {
    return this.isGoods(status) && (this.#isLook || this.#ledTo !== null);
  }

  /** Whether the answer may be fetched again: one that ends, and that is not kept whole. */
  isRepeatable(isKept: boolean): boolean {
    if (repeatsOf(this.#visit) === 0 || this.#isStream) return false;
    return this.#status !== null && (!isKept || this.#isPart);
  }

  /**
   * What is left where the buyer has left before any answer: what he has sent may have been carried out, and whoever
   * asks for that alone is not paid back by itself.
   */
  unheard(sent: boolean): BrokenDelivery {
    const { decision } = this.#visit;
    const mayBeDone = sent && !isHarmless(decision.soldMethod);
    return { sent, served: mayBeDone ? soldTarget(decision) : null };
  }

  /** What is left after an answer that sold nothing, or not all. */
  left(status: number | null, sent: boolean): BrokenDelivery {
    const failed = this.#visit.decision.conversation?.left(sent);
    if (failed !== undefined && status !== null && status < 400) return failed;
    if (status === null || !this.isGoods(status)) {
      const isBackends = status !== null && (status >= SERVER_ERROR || this.#isLost);
      return { sent, served: null, isBackends };
    }
    if (this.#ledTo !== null) {
      const led = { from: soldTarget(this.#visit.decision), to: this.#ledTo };
      return { sent, served: null, uncounted: MAX_UNCOUNTED, led };
    }
    if (this.#isLook) return { sent, served: null, uncounted: MAX_UNCOUNTED };
    const uncounted = this.isRepeatable(false) ? repeatsOf(this.#visit) : 0;
    return { sent, served: soldTarget(this.#visit.decision), uncounted };
  }
}

/** How often what a request buys may be fetched again: nobody compares what its body, or a tunnel, asks for. */
function repeatsOf({
  visitor,
  decision: { soldMethod, plan },
}: Pick<PricedVisit, "visitor" | "decision">): number {
  return soldMethod === "GET" && isPlain(visitor) ? (plan.repeat?.times ?? 0) : 0;
}

/** Whether a request is whole in its head, and an answer is all that comes of it. */
function isPlain({ request, replaying }: Visitor): boolean {
  return replaying !== null && !hasRequestBody(request);
}

/**
 * What a delivery leaves of the payment: null, it is sold; else the same payment may try again. An
 * upstream that refuses (4xx) has sold nothing yet, and the buyer may correct query or body; nor has it with a head
 * alone, or a redirect to what the payment is enough for. An answer that
 * is kept is sold, whoever got how much of it. Once another good answer has begun, only that same request
 * may be tried again, or one payment would buy several things; and since its body cannot be compared, a
 * buyer who leaves in the middle of its answer has bought it. So has who leaves one that is charged by use, unless its
 * backend has broken it off since.
 */
function attemptOf(
  delivery: Delivery,
  answered: AnsweredSale,
  visitor: Visitor,
  metered: MeteredAnswer | undefined,
): BrokenDelivery | null {
  const { status } = delivery;
  if (delivery.kind === "unanswered") return leftUnanswered(delivery, visitor);
  const isFailed = answered.hasFailed;
  if (!isFailed && "kept" in delivery && delivery.kept !== undefined) return null;
  const sent = delivery.kind !== "abandoned" || delivery.sent;
  if (delivery.kind === "abandoned" && status === null) return answered.unheard(sent);
  const isBegun = status !== null && answered.isGoods(status);
  if (!isBegun || answered.leadsOn(status)) return answered.left(status, sent);
  const isUsedUp = metered === undefined ? hasRequestBody(visitor.request) : !metered.isBroken;
  const isBought = delivery.kind === "delivered" || (delivery.kind === "abandoned" && isUsedUp);
  return isBought ? null : answered.left(status, sent);
}

/**
 * What is left where no answer came: that is the backend's fault, but for what the buyer has sent too much of, or has not
 * sent whole: he may have held it back until the backend gave up.
 */
export function leftUnanswered({ sent, reason }: Unanswered, { request }: Visitor): BrokenDelivery {
  const isWhole = !hasRequestBody(request) || request.complete;
  return { sent, served: null, isBackends: reason !== "too-large" && isWhole };
}

/** How a delivery ended, for people; `abandoned`: one whose buyer has left. */
export function deliveryNote(delivery: Delivery, abandoned: string): string {
  switch (delivery.kind) {
    case "delivered":
      return `the backend answered ${delivery.status}`;
    case "unanswered":
      return `no answer of the backend: ${delivery.reason}`;
    case "abandoned":
      return abandoned;
    default:
      return "the answer broke off";
  }
}
