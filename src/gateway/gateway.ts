/**
 * A request's way through the gateway, from top to bottom, with every exit in sight:
 *
 *     what an authority looks for -----------------------------> answer 200
 *     decide -> declined: rejected | denied | preflight | listing | ... -> answer
 *            -> status -> limited --------------------------------> answer 429
 *                      -> what became of a payment ----------------> answer 200 | 404
 *            -> session -> limited | crowded ---------------------> answer 429 | 503
 *                       -> a token for who has signed in ----------> answer 200 | 403
 *            -> balance -> limited | crowded ---------------------> answer 429 | 503
 *                       -> what is left, for who has signed in ----> answer 200 | 401 | 403
 *            -> tools -> each call as a request from the top -----> answer 200 | 400 | 403 | 413 | 503
 *            -> free | member -> crowded -------------------------> answer 503
 *                             -> a place -------------------------> forward
 *            -> priced -> limited --------------------------------> answer 429
 *                      -> unpriced -------------------------------> answer 400 | 411 | 413 | 415
 *                      -> challenge -> some of it is free --------> a place -> forward
 *                      -> challenge | malformed ------------------> answer 402 | 400, or 503 without anything to pay
 *                                                                   with; a page where a browser asks; by a body that
 *                                                                   decides the price: crowded | unpriced | challenge
 *                      -> signed-in, with a balance -> a place -> forward, and debit it
 *                      -> signed-in | presented -> crowded -------> answer 503
 *                                   -> a place -> admit -> refused | owed | unavailable | unknown -> answer 402 | 409 | 500
 *                                                       -> barred ------> answer 403 | 429 | 503
 *                                                       -> limited -----> answer 429
 *                                                       -> unfit -------> answer 400
 *                                                       -> led ---------> answer 307
 *                                                       -> unservable --> answer 503 | 413
 *                                                       -> recognized --> forward, or answer 402
 *                                                       -> abandoned
 *                                                       -> replayed ----> the kept answer again
 *                                                       -> admitted ----> deliver, and record that
 *                                                       -> unsold ------> what the backend answered, uncharged
 *
 * Not a middleware chain: the order of the stages is the safety argument. `deliver` has one caller, and `admitted` one
 * source: a payment that is durably settled. Of a route with `settle: before` no upstream sees a request before that; of
 * one with `settle: after` it does (`held-work.ts`), and no client sees a good answer of it before that. Who has it for
 * nothing is a member, or has paid before, and has proven it; or it is free before its price begins (`counted.ts`).
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Admission } from "../payments/sale/admission.ts";
import type { Paywall } from "../payments/sale/paywall.ts";
import { areSpansRecorded, inSpan } from "../telemetry/spans.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { beginAccess } from "./access.ts";
import { corsLines, crowdedAnswer, errorAnswer } from "./answers.ts";
import { ToolCalls } from "./calls/tool-calls.ts";
import { acceptable, nameOf } from "./challenge.ts";
import { withoutUse } from "./counted.ts";
import { knowingHolders } from "./holder-visit.ts";
import { hasHolders } from "./holders.ts";
import { readClient, type Client } from "./client/client.ts";
import { OtherHosts } from "./client/other-hosts.ts";
import { UnnamedProxies } from "./client/unnamed-proxies.ts";
import {
  type Decision,
  type PresentedDecision,
  type PricedDecision,
  type SignedInDecision,
} from "./decision.ts";
import { declinedAnswer } from "./declined.ts";
import { deliver, goodsRequest, replay, type PricedVisit } from "./delivery.ts";
import { deliverHeld } from "./held-delivery.ts";
import { HeldBytes } from "./held-response.ts";
import { HeldWork } from "./held-work.ts";
import { led, limited, unfit, unpriced, unservable } from "./exits.ts";
import { Endings, endingOf, endWith, type RequestEnding } from "./ending.ts";
import type { InboundRequest, InboundResponse } from "./message/inbound.ts";
import { hasRequestBody } from "./message/request-body.ts";
import { decideByMessage, isOfTools, whileAsked, type ToolsDecision } from "./mcp/deciding.ts";
import { readRefusal, type NotTaken } from "./refused.ts";
import { beginEntry, refuseEntry } from "./request-timeline.ts";
import { memberOf, membershipsOf } from "./membership.ts";
import { isAwaited } from "./priced-body.ts";
import { Spending } from "./spending.ts";
import { priceByBody } from "./pricing-visit.ts";
import { Passing } from "./passing.ts";
import { decideInSpan, RequestTrace } from "./request-trace.ts";
import { Tellings, type ClientOf } from "./tellings.ts";
import { readUpgrade } from "./upstream/upgrade-engine.ts";
import { RequestVisitor, UpgradeVisitor, type Visitor } from "./visitor.ts";
import {
  Work,
  type GatewayOptions,
  type GatewaySettings,
  type Generation,
  type ServedSite,
} from "./work.ts";

/** The client left before anything was forwarded. */
const ABANDONED = { kind: "abandoned", status: null, sent: false } as const;

/** What a request to a priced route comes to, by what it brought and by what the paywall said of that. */
type Outcome =
  | { readonly kind: "crowded" }
  | { readonly kind: "limited"; readonly seconds: number }
  | Exclude<PricedDecision, PresentedDecision | SignedInDecision>
  | Admission;

export class Gateway {
  /** What is in flight, by which settings, and in which places. */
  readonly work: Work;
  readonly #paywall: Paywall;
  readonly #telemetry: Telemetry;
  readonly #endings: Endings;
  readonly #tellings: Tellings;
  readonly #passing: Passing;
  readonly #spending: Spending;
  readonly #calls: ToolCalls;
  readonly #unnamed: UnnamedProxies;
  readonly #otherHosts: OtherHosts;
  readonly #challenged: GatewayOptions["challenged"];
  /** Answers that wait to be paid. */
  readonly #held = new HeldBytes();

  constructor(options: GatewayOptions) {
    const { paywall, telemetry } = options;
    this.work = new Work(options);
    this.#challenged = options.challenged;
    this.#paywall = paywall;
    const clientOf: ClientOf = (...asked) => this.#clientOf(...asked);
    this.#tellings = new Tellings(paywall, this.work, clientOf);
    this.#passing = new Passing(telemetry, this.work, clientOf, options.leases);
    this.#spending = new Spending(telemetry, this.work, options.leases);
    this.#calls = new ToolCalls(telemetry, this.work, clientOf, this.handleRequest);
    this.#telemetry = telemetry;
    this.#endings = new Endings(telemetry);
    this.#unnamed = new UnnamedProxies(telemetry.logger);
    this.#otherHosts = new OtherHosts(telemetry.logger);
  }

  readonly handleRequest = (request: InboundRequest, response: InboundResponse): void =>
    this.#receive(request, response, false);

  readonly handleContinue = (request: InboundRequest, response: InboundResponse): void =>
    this.#receive(request, response, true);

  readonly handleUpgrade = (request: IncomingMessage, socket: Socket, head: Buffer): void => {
    const { ground } = this.work.generation.siteOf(request);
    const visitor = new UpgradeVisitor(request, socket, ground);
    const upgrade = readUpgrade(request, head);
    if (upgrade.kind === "refused") {
      visitor.answer(errorAnswer(upgrade.status, upgrade.detail, upgrade.lines));
    } else void this.#visit(visitor);
  };

  /** A request without a body, of which another proxy asks what becomes of it. */
  readonly handleCheck = (visitor: Visitor): void => void this.#visit(visitor);

  #receive(request: InboundRequest, response: InboundResponse, expectsContinue: boolean): void {
    if (this.#challenged?.answers(request, response) === true) return;
    const { ground } = this.work.generation.siteOf(request);
    const visitor = new RequestVisitor(request, response, ground, expectsContinue);
    if (hasRequestBody(visitor.request)) void this.#visitWithBody(visitor);
    else void this.#visit(visitor);
  }

  /** A body is looked after until it is whole, also when nobody wants it. */
  async #visitWithBody(visitor: RequestVisitor): Promise<void> {
    const { bodies } = this.work.generation;
    const body = bodies.begin(visitor);
    await this.#visit(visitor);
    bodies.end(body);
  }

  /** Every request has an error exit: nothing that happens here reaches the process. */
  async #visit(visitor: Visitor): Promise<void> {
    const started = performance.now();
    const generation = this.work.begin();
    try {
      beginAccess(this.#telemetry, visitor, generation.settings.trustedProxies);
      if (areSpansRecorded()) visitor.trace = RequestTrace.of(visitor);
      const served =
        visitor.trace === null
          ? this.#serve(visitor, generation)
          : visitor.trace.run(() => this.#serve(visitor, generation));
      // Most answers are given at once; to wait for them as well would cost as much as to find them.
      const ending = served instanceof Promise ? await served : served;
      this.#endings.record(visitor, ending, started);
    } catch (cause) {
      const { logger } = this.#telemetry;
      logger.error({ err: cause, requestId: visitor.id }, "a request failed unexpectedly");
      const answer = errorAnswer(500, "internal error");
      const ending = endWith(visitor, { answer, outcome: "unavailable", meter: null });
      this.#endings.record(visitor, ending, started);
    } finally {
      this.work.end(generation);
    }
  }

  #serve(visitor: Visitor, generation: Generation): RequestEnding | Promise<RequestEnding> {
    const site = generation.siteOf(visitor.request);
    const decision = decideInSpan(site.snapshot, visitor.request);
    return isOfTools(decision)
      ? whileAsked(visitor, () => this.#serveTools(visitor, decision, generation, site))
      : this.#serveAs(visitor, decision, generation, site);
  }

  /** What a request says decides what it is: in a place, since that is waited for. */
  async #serveTools(
    visitor: Visitor,
    decision: ToolsDecision,
    generation: Generation,
    site: ServedSite,
  ): Promise<RequestEnding> {
    const { address } = this.#clientOf(visitor.request, generation.settings, site);
    const { meter } = decision.plan;
    const decided = await this.work.inPlace(address, visitor, async () =>
      decideByMessage(visitor, decision, site.snapshot),
    );
    return this.#serveAs(visitor, decided ?? { kind: "crowded", meter }, generation, site);
  }

  #serveAs(
    visitor: Visitor,
    decision: Decision,
    generation: Generation,
    site: ServedSite,
  ): RequestEnding | Promise<RequestEnding> {
    switch (decision.kind) {
      case "left":
        return endingOf(ABANDONED, "undelivered", decision.meter);
      case "rejected":
      case "denied":
      case "misread":
      case "crowded":
      case "method-not-allowed":
      case "server-options":
      case "preflight":
      case "listing":
        return endWith(visitor, declinedAnswer(decision, visitor.request, site));
      case "status":
        return this.#tellings.status(visitor, decision.payment, generation, site);
      case "session":
        return this.#tellings.session(visitor, decision, generation, site);
      case "balance":
        return this.#tellings.balance(visitor, decision, generation, site);
      case "tools":
        return this.#calls.serve(visitor, generation, site);
      case "free":
        return this.#passing.free(visitor, decision, generation, site);
      case "member":
        return this.#passing.member(visitor, decision, generation, site);
      case "challenge":
      case "malformed":
      case "signed-in":
      case "presented":
      case "unpriced":
        return this.#sell(visitor, decision, generation, site);
    }
  }

  /** A priced route: a payment is looked at in its turn and its place, and nothing else takes one. */
  #sell(
    visitor: Visitor,
    decision: PricedDecision,
    { settings, challenge }: Generation,
    { snapshot, cors, ground }: ServedSite,
  ): RequestEnding | Promise<RequestEnding> {
    const client = this.#clientOf(visitor.request, settings, { snapshot });
    const lines = corsLines(cors, visitor.request);
    const { help } = ground.told;
    const visit = { visitor, decision, client, lines, help, challenge, snapshot };
    const spent = decision.kind === "signed-in" && this.#spending.first({ ...visit, decision });
    if (spent) return spent.then((ending) => ending ?? this.#sellTo(visit));
    return this.#sellTo(visit);
  }

  #sellTo(visit: PricedVisit): RequestEnding | Promise<RequestEnding> {
    const { visitor, decision, client, challenge } = visit;
    beginEntry(this.#telemetry, visitor, decision, client);
    const seconds = challenge.waitSeconds(decision, client);
    if (seconds > 0) return this.#end(visit, { kind: "limited", seconds });
    const { quota } = decision.plan;
    if (decision.kind === "challenge" && quota?.by === "address") return this.#freeFirst(visit);
    const isAsked = decision.kind === "challenge" || decision.kind === "malformed";
    if (isAsked && decision.readsBody === true) return this.#quote(visit);
    if (decision.kind !== "presented" && decision.kind !== "signed-in") {
      return this.#end(visit, decision);
    }
    // Whatever is done and said for a payment names its request.
    const trace = (visitor.trace ??= RequestTrace.of(visitor));
    return this.work.placePayment(client.address, visitor).then((leave) => {
      if (leave === undefined) return this.#end(visit, { kind: "crowded" });
      return trace
        .run(async () => {
          const ending = await this.#sellAt(visit, decision);
          const { kind, version } = decision;
          if (kind === "presented") this.#telemetry.metrics.presented(version, ending.outcome);
          return ending;
        })
        .finally(leave);
    });
  }

  /** Some requests of an address are free: its price begins behind them. */
  async #freeFirst(visit: PricedVisit): Promise<RequestEnding> {
    const had = await this.#passing.freeFirst(visit);
    if ("status" in had) return had;
    const own = withoutUse(visit, had);
    return own.decision.readsBody === true ? this.#quote(own) : this.#ask(own, own.decision);
  }

  /** What an unpaid request costs whose body says that: in a place, since its body is waited for. */
  #quote(visit: PricedVisit): RequestEnding | Promise<RequestEnding> {
    const { visitor, decision } = visit;
    if (isAwaited(visitor)) return this.#quoteByBody(visit);
    const priced = priceByBody(visitor, decision);
    if (priced instanceof Promise) return priced.then((each) => this.#priced(visit, each));
    return this.#priced(visit, priced);
  }

  async #quoteByBody(visit: PricedVisit): Promise<RequestEnding> {
    const { visitor, decision, client } = visit;
    const ending = await this.work.inPlace(client.address, visitor, async () => {
      return this.#priced(visit, await priceByBody(visitor, decision));
    });
    return ending ?? this.#end(visit, { kind: "crowded" });
  }

  /** A payment, or who has paid before, by the price of this very request. */
  async #sellAt(
    visit: PricedVisit,
    decision: PresentedDecision | SignedInDecision,
  ): Promise<RequestEnding> {
    const own = hasHolders(decision.plan) ? await knowingHolders(visit, decision) : visit;
    if (decision.readsBody !== true) return this.#charge(own, decision);
    return this.#priced(own, await priceByBody(visit.visitor, decision));
  }

  #priced(
    visit: PricedVisit,
    decision: PricedDecision | { readonly kind: "abandoned" },
  ): RequestEnding | Promise<RequestEnding> {
    if (decision.kind === "abandoned") return this.#end(visit, decision);
    const own = { ...visit, decision };
    if (decision.kind !== "presented" && decision.kind !== "signed-in") {
      return this.#end(own, decision);
    }
    return this.#charge(own, decision);
  }

  async #charge(
    visit: PricedVisit,
    decision: PresentedDecision | SignedInDecision,
  ): Promise<RequestEnding> {
    const work = HeldWork.of(visit, this.#held, this.#telemetry);
    try {
      return await this.#end(visit, await this.#admit(visit, decision, work), work);
    } finally {
      work?.free();
    }
  }

  /**
   * What the paywall says of a payment, or of who has paid before: where it is `admitted`, that is durably settled, and
   * this attempt stored.
   */
  #admit(
    { visitor, client, challenge }: PricedVisit,
    decision: PresentedDecision | SignedInDecision,
    work: HeldWork | null,
  ): Promise<Admission> {
    const asked = goodsRequest({ visitor, decision, client }, work);
    if (decision.kind === "signed-in") {
      const { signIn, plan } = decision;
      if (!signIn.ok) return Promise.resolve({ kind: "refused", refusal: signIn.error });
      const memberships = membershipsOf(plan.members, signIn.value);
      const { grants, quota } = plan;
      const terms = { memberships, grants, hasQuota: quota !== null };
      return this.#paywall.admitSignedIn(signIn.value, asked, terms);
    }
    const { payment, accepted } = decision;
    const { isSettledAfter } = decision.plan;
    const accepts = acceptable(decision);
    const name = nameOf(decision);
    const route = decision.plan.label;
    const named = name.ok ? { identifier: name.value } : { misnamed: name.error };
    return challenge.lookInto(client, (doubt) =>
      this.#paywall.admit({
        ...asked,
        payment,
        accepted,
        accepts,
        isSettledAfter,
        route,
        ...named,
        doubt,
      }),
    );
  }

  /** Every exit of a priced route. */
  #end(
    visit: PricedVisit,
    outcome: Outcome,
    work: HeldWork | null = null,
  ): RequestEnding | Promise<RequestEnding> {
    const { visitor, decision, lines } = visit;
    const { meter } = decision.plan;
    switch (outcome.kind) {
      case "crowded":
        return endWith(visitor, { answer: crowdedAnswer(lines), outcome: "rejected", meter });
      case "limited":
        return limited(visit, outcome.seconds);
      case "challenge":
        return this.#ask(visit, decision);
      case "malformed":
      case "refused":
      case "owed":
      case "unavailable":
      case "unknown":
      case "barred":
        return this.#refuse(visit, readRefusal(outcome, lines, visit.help, decision));
      case "led":
        return led(visit, outcome);
      case "unpriced":
        return unpriced(visit, outcome);
      case "unfit":
        return unfit(visit, outcome);
      case "unservable":
        return unservable(visit, outcome.refusal, this.#telemetry);
      case "recognized":
        return this.#endRecognized(visit, outcome);
      case "abandoned":
        return endingOf(ABANDONED, "undelivered", meter);
      case "replayed":
        return replay(visit, outcome, this.#telemetry);
      case "unsold":
        return work?.end() ?? endingOf(ABANDONED, "unsold", meter);
      case "admitted": {
        const { paid } = outcome;
        const hand = () =>
          paid.answer === undefined
            ? deliver(visit, paid, this.#telemetry)
            : deliverHeld(visit, paid, work, this.#telemetry);
        return inSpan("delivery", {}, hand);
      }
    }
  }

  /** It is proven who asks: he has it for nothing, has prepaid it, or is asked what it costs him. */
  async #endRecognized(
    visit: PricedVisit,
    recognized: Extract<Admission, { kind: "recognized" }>,
  ): Promise<RequestEnding> {
    const { decision, client, challenge } = visit;
    const had = await this.#passing.recognized(visit, recognized);
    if ("status" in had) return had;
    // Who has paid is not asked to pay again since nobody could be asked what is left.
    if (had.kind === "unavailable") return this.#end(visit, { kind: "crowded" });
    if (decision.kind === "signed-in") {
      const spent = await this.#spending.recognized({ ...visit, decision });
      if (spent !== null) return spent;
    }
    challenge.known(client);
    const asked = withoutUse(visit, had);
    const member = memberOf(decision.plan.members, recognized.account);
    if (member?.offers == null) return this.#ask(asked, asked.decision);
    const { offers, page } = member;
    return this.#ask(asked, { ...asked.decision, offers, page });
  }

  #ask(
    { visitor, client, lines, challenge }: PricedVisit,
    decision: PricedDecision,
  ): RequestEnding | Promise<RequestEnding> {
    const asked = challenge.challenge(visitor.request, decision, client, lines);
    if (asked instanceof Promise) return asked.then((own) => endWith(visitor, own));
    return endWith(visitor, asked);
  }

  /** The payment is not taken: says so, and what is asked for. */
  #refuse({ visitor, decision, client, challenge }: PricedVisit, refused: NotTaken): RequestEnding {
    const { logger, metrics } = this.#telemetry;
    const { label: route } = decision.plan;
    const { outcome, error, replay: reason } = refused;
    if (reason !== null) metrics.replayRefused(route, reason);
    if (decision.kind === "presented" || decision.kind === "signed-in") {
      const { kind, version } = decision;
      const facts = { requestId: visitor.id, route, version, outcome, error };
      logger.info(facts, kind === "presented" ? "payment not taken" : "sign-in not taken");
    }
    const own = challenge.ask(decision, client, refused);
    refuseEntry(this.#telemetry, visitor, refused);
    return endWith(visitor, own);
  }

  #clientOf(
    request: InboundRequest,
    { trustedProxies }: GatewaySettings,
    { snapshot }: Pick<ServedSite, "snapshot">,
  ): Client {
    this.#unnamed.see(request, trustedProxies);
    this.#otherHosts.see(request, snapshot.hosts);
    return readClient(request, trustedProxies);
  }
}
