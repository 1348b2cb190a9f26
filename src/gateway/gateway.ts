/**
 * A request's way through the gateway, as one explicit function with every exit in sight:
 *
 *     decide -> rejected | denied | preflight | listing -> answer
 *            -> free ---------------------------------------> forward
 *            -> over the limit of unpaid requests --> answer 429
 *            -> challenge | malformed ----------> answer 402 | 400, or 503 without anything to pay with;
 *                                                 a page where a browser asks
 *            -> presented -> admit -> refused | unavailable | unknown -> answer 402 | 500 | 503
 *                                  -> unservable ------------------> answer 503 | 413
 *                                  -> replayed --------------------> the kept answer again
 *                                  -> admitted -> forward -> record the delivery
 *
 * Not a middleware chain: the order of the stages is the safety argument. No upstream sees a request for
 * a priced route before its payment is durably settled.
 */
import type { Unanswered } from "../http/unanswered.ts";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";

import type { BrokenDelivery } from "../ledger/ledger.ts";
import type { PaymentOutcome, PlacesReading, RouteMeter } from "../telemetry/metrics.ts";
import { areSpansRecorded, inSpan } from "../telemetry/spans.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { systemTime, waitWithin } from "../time/time.ts";
import type { Admission, Paid, Presented } from "../payments/sale/admission.ts";
import { ended, logAnswered, statusOf, type RequestEnding } from "./access-log.ts";
import {
  corsLines,
  errorAnswer,
  errorText,
  LATE_ANSWER,
  lateAnswer,
  limitedAnswer,
  settlementLines,
  undeliveredAnswer,
  unservableAnswer,
  upstreamAnswer,
  type Answer,
  type CrossOrigin,
} from "./answers.ts";
import { acceptable, Challenge, type Challenged } from "./challenge.ts";
import { AnswerWatch, type AnswerLimits } from "./message/answer-watch.ts";
import { BodyWatch, type BodyLimits } from "./message/body-watch.ts";
import { readClient, type Client } from "./client/client.ts";
import type { Decision, PricedDecision, RoutePlan, Snapshot } from "./decision.ts";
import { declinedAnswer, type OtherDecision, type Publisher } from "./declined.ts";
import { attemptOf, deliveryNote, paidPassage, soldBy, UNSOLD } from "./delivery.ts";
import type { InboundRequest, InboundResponse, InboundSocket } from "./message/inbound.ts";
import { InFlight } from "./in-flight.ts";
import { PaymentEntrance } from "./payment-entrance.ts";
import { Room } from "./room.ts";
import type { Drafts } from "./offers/drafts.ts";
import { RECORDED_WITHIN_MS, type Paywall } from "../payments/sale/paywall.ts";
import { areSameRates, type UnpaidRates } from "./client/rate-limit.ts";
import { readRefusal, type Refused } from "./refused.ts";
import { hasRequestBody } from "./message/request-body.ts";
import { decideInSpan, forward, RequestTrace } from "./request-trace.ts";
import { OtherHosts } from "./client/other-hosts.ts";
import type { TrustedProxies } from "./client/trusted-proxies.ts";
import { UnnamedProxies } from "./client/unnamed-proxies.ts";
import { beginEntry, endEntry, refuseEntry } from "./request-timeline.ts";
import { readUpgrade } from "./upstream/upgrade-engine.ts";
import type { Delivery, Sale } from "./upstream/upstream.ts";
import { RequestVisitor, UpgradeVisitor, type Visitor } from "./visitor.ts";

/** What a new configuration may change while requests are served. */
export interface GatewaySettings {
  readonly snapshot: Snapshot;
  readonly publish: Publisher;
  readonly cors: CrossOrigin;
  /** Requests that are forwarded or pay at the same time; of them an address has as many as are free, else 503. */
  readonly maxInFlight: number;
  /** Peers that say who their clients are. */
  readonly trustedProxies: TrustedProxies;
  /** Unpaid requests of one address to priced routes. */
  readonly unpaidRates: UnpaidRates;
  readonly bodyLimits: BodyLimits;
  readonly answerLimits: AnswerLimits;
}

export interface GatewayOptions extends GatewaySettings {
  readonly paywall: Paywall;
  /** Default: none. */
  readonly drafts?: Drafts;
  readonly telemetry: Telemetry;
}

const MALFORMED = { status: 400, outcome: "malformed" } as const;

type FreeDecision = Extract<Decision, { kind: "free" }>;
type PresentedDecision = Extract<PricedDecision, { kind: "presented" }>;

export class Gateway {
  #options: GatewayOptions;
  /** For requests that belong to no route. */
  readonly #unrouted: RouteMeter;
  #challenge: Challenge;
  readonly #unnamed: UnnamedProxies;
  readonly #otherHosts: OtherHosts;
  #bodies: BodyWatch;
  #answers: AnswerWatch;
  readonly #inFlight = new InFlight();
  readonly #room = new Room();
  readonly #entrance = new PaymentEntrance(this.#room);
  /** Those that began with the present settings. */
  #begun = new InFlight();

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#unrouted = options.telemetry.metrics.route("(none)");
    this.#challenge = new Challenge(options);
    this.#unnamed = new UnnamedProxies(options.telemetry.logger);
    this.#otherHosts = new OtherHosts(options.telemetry.logger);
    this.#bodies = new BodyWatch(options.bodyLimits);
    this.#answers = new AnswerWatch(options.answerLimits);
  }

  get inFlight(): number {
    return this.#inFlight.count;
  }

  /** Places of what is forwarded or pays, and who had to make room. */
  get places(): PlacesReading {
    const { taken, evicted } = this.#room;
    const waiting = this.#entrance.waiting;
    return { taken, waiting, evicted, total: this.#options.maxInFlight };
  }

  /** Of the requests that have one. */
  get placedSockets(): readonly InboundSocket[] {
    return this.#room.sockets;
  }

  /** Nearly all of them are taken: whoever comes gets fewer streams. */
  get isPressed(): boolean {
    return this.#room.isPressed(this.#options.maxInFlight);
  }

  /**
   * Requests from here on go by these settings; resolves when none goes by those before. What is counted of
   * unpaid requests is forgotten where their limits change.
   */
  configure(settings: GatewaySettings): Promise<void> {
    const before = this.#options;
    this.#options = { ...before, ...settings };
    if (!areSameRates(before.unpaidRates, settings.unpaidRates)) {
      this.#challenge = new Challenge(this.#options);
    }
    this.#bodies = new BodyWatch(settings.bodyLimits);
    this.#answers = new AnswerWatch(settings.answerLimits);
    const ended = this.#begun.ended();
    this.#begun = new InFlight();
    return ended;
  }

  /**
   * Resolves when nothing is in flight, or when the signal ends. Settlements and deliveries go on after
   * their clients have left, so a listener without connections says nothing about them.
   */
  async drain(signal: AbortSignal): Promise<void> {
    if (this.#inFlight.count > 0) await waitWithin(this.#inFlight.ended(), signal, undefined);
  }

  readonly handleRequest = (request: InboundRequest, response: InboundResponse): void => {
    const answers = this.#answers;
    this.#receive(new RequestVisitor(request, response, { expectsContinue: false, answers }));
  };

  readonly handleContinue = (request: InboundRequest, response: InboundResponse): void => {
    const answers = this.#answers;
    this.#receive(new RequestVisitor(request, response, { expectsContinue: true, answers }));
  };

  readonly handleUpgrade = (request: IncomingMessage, socket: Socket, head: Buffer): void => {
    const visitor = new UpgradeVisitor(request, socket);
    const upgrade = readUpgrade(request, head);
    if (upgrade.kind === "refused") {
      visitor.answer(errorAnswer(upgrade.status, upgrade.detail, upgrade.lines));
    } else void this.#visit(visitor);
  };

  /** A request without a body, of which another proxy asks what becomes of it. */
  readonly handleCheck = (visitor: Visitor): void => void this.#visit(visitor);

  #receive(visitor: RequestVisitor): void {
    if (hasRequestBody(visitor.request)) void this.#visitWithBody(visitor);
    else void this.#visit(visitor);
  }

  /** A body is looked after until it is whole, also when nobody wants it. */
  async #visitWithBody(visitor: RequestVisitor): Promise<void> {
    const bodies = this.#bodies;
    const body = bodies.begin(visitor);
    await this.#visit(visitor);
    bodies.end(body);
  }

  /** Every request has an error exit: nothing that happens here reaches the process. */
  async #visit(visitor: Visitor): Promise<void> {
    const started = performance.now();
    const begun = this.#begun;
    this.#inFlight.enter();
    begun.enter();
    try {
      const served = areSpansRecorded() ? this.#serveTraced(visitor) : this.#serve(visitor);
      // Most answers are given at once; to wait for them as well would cost as much as to find them.
      const ending = served instanceof Promise ? await served : served;
      this.#record(visitor, ending, started);
    } catch (cause) {
      const { logger } = this.#options.telemetry;
      logger.error({ err: cause, requestId: visitor.id }, "a request failed unexpectedly");
      const answer = errorAnswer(500, "internal error");
      this.#record(visitor, this.#end(visitor, answer, "unavailable", null), started);
    } finally {
      begun.leave();
      this.#inFlight.leave();
    }
  }

  #record(visitor: Visitor, ending: RequestEnding, started: number): void {
    const { outcome, upstreamMs } = ending;
    const status = visitor.isLate ? LATE_ANSWER.status : ending.status;
    const ms = performance.now() - started;
    const meter = ending.meter ?? this.#unrouted;
    const { trace } = visitor;
    meter.finished(status, outcome, ms / 1000, upstreamMs / 1000, trace?.exemplar);
    trace?.end(meter.label, status, outcome);
    endEntry(this.#options.telemetry, visitor, { status, outcome, ms });
    logAnswered(this.#options.telemetry.logger, visitor, { status, outcome, ms });
  }

  #serveTraced(visitor: Visitor): RequestEnding | Promise<RequestEnding> {
    visitor.trace = RequestTrace.of(visitor);
    return visitor.trace.run(() => this.#serve(visitor));
  }

  #serve(visitor: Visitor): RequestEnding | Promise<RequestEnding> {
    const { snapshot } = this.#options;
    const decision = decideInSpan(snapshot, visitor.request);
    switch (decision.kind) {
      case "free":
        return this.#give(visitor, decision);
      case "challenge":
      case "malformed":
      case "presented":
        return this.#sell(visitor, decision);
      default:
        return this.#decline(visitor, decision);
    }
  }

  async #give(visitor: Visitor, { target, plan }: FreeDecision): Promise<RequestEnding> {
    const client = this.#client(visitor);
    const { maxInFlight } = this.#options;
    const leave =
      this.#room.enter(client.address, maxInFlight, "free", visitor) ??
      (await this.#room.wait(client.address, maxInFlight, "free", visitor));
    if (leave === undefined) return this.#turnAway(visitor, plan, []);
    try {
      const delivery = await forward(visitor, plan.engine, { target, client, ...UNSOLD });
      if (delivery.kind === "unanswered") {
        this.#notServed(visitor, delivery, upstreamAnswer(delivery));
      }
      return ended(delivery, "free", plan.meter);
    } finally {
      leave();
    }
  }

  #turnAway(
    visitor: Visitor,
    { meter }: Pick<RoutePlan, "meter">,
    lines: readonly string[],
  ): RequestEnding {
    const said = "too many requests at once";
    const answer = errorAnswer(503, said, [...lines, "Retry-After", "1"]);
    return this.#end(visitor, answer, "rejected", meter);
  }

  /** A priced route: quote, refuse or serve. */
  #sell(visitor: Visitor, decision: PricedDecision): RequestEnding | Promise<RequestEnding> {
    const { plan } = decision;
    const client = this.#client(visitor);
    beginEntry(this.#options.telemetry, visitor, decision, client);
    const lines = this.#cors(visitor.request);
    const seconds = this.#challenge.waitSeconds(decision, client);
    if (seconds > 0) {
      const answer = limitedAnswer(seconds, decision.kind === "presented", lines);
      return this.#end(visitor, answer, "limited", plan.meter);
    }
    if (decision.kind === "challenge") {
      const asked = this.#challenge.challenge(visitor.request, decision, client, lines);
      const end = ({ answer, outcome }: Challenged) =>
        this.#end(visitor, answer, outcome, plan.meter);
      return asked instanceof Promise ? asked.then(end) : end(asked);
    }
    if (decision.kind === "malformed") {
      const error = errorText(decision.refusal);
      return this.#ask(visitor, decision, client, { ...MALFORMED, error, lines });
    }
    // Whatever is done and said for a payment names its request.
    const trace = (visitor.trace ??= RequestTrace.of(visitor));
    const entered = this.#entrance.enter(client.address, this.#options.maxInFlight, visitor);
    return entered.then((leave) => {
      if (leave === undefined) return this.#turnAway(visitor, plan, lines);
      return trace.run(() => this.#charge(visitor, decision, client, lines)).finally(leave);
    });
  }

  async #charge(
    visitor: Visitor,
    decision: PresentedDecision,
    client: Client,
    lines: readonly string[],
  ): Promise<RequestEnding> {
    const { plan } = decision;
    const { telemetry } = this.#options;
    const doubt = this.#challenge.doubtOf(client);
    const presented: Presented = {
      payment: decision.payment,
      accepts: acceptable(decision),
      binding: `${visitor.request.method} ${decision.path}`,
      target: decision.target,
      client: client.address,
      isGone: () => visitor.isGone(),
      onGone: (listener) => visitor.onGone(listener),
      onReset: (listener) => visitor.onReset(listener),
      refusal: () => visitor.refusal(plan.engine, client.address),
      readBodyHash: async (isKept) => (await visitor.replaying?.readBodyHash(isKept)) ?? null,
      doubt: () => doubt.enter(),
    };
    let isRefused = false;
    const admission = await this.#options.paywall
      .admit(presented)
      .then((decided) => {
        isRefused = decided.kind === "refused";
        return decided;
      })
      .finally(() => doubt.leave(isRefused));
    switch (admission.kind) {
      case "admitted": {
        const bought = { paid: admission.paid, cors: lines };
        return inSpan("delivery", {}, () => {
          return this.#serveDelivery(visitor, decision, client, bought);
        });
      }
      case "replayed":
        return this.#replay(visitor, decision, admission, lines);
      case "limited": {
        const answer = limitedAnswer(admission.seconds, true, lines);
        return this.#end(visitor, answer, "limited", plan.meter);
      }
      case "abandoned":
        return ended({ kind: "abandoned", status: null, sent: false }, "undelivered", plan.meter);
      case "unservable": {
        const { refusal } = admission;
        this.#notServed(visitor, refusal, unservableAnswer(refusal, lines));
        return ended(refusal, "unavailable", plan.meter);
      }
      default: {
        const refused = readRefusal(admission);
        if (refused.replay !== null) telemetry.metrics.replayRefused(plan.label, refused.replay);
        const { outcome, error } = refused;
        const facts = { requestId: visitor.id, route: plan.label, outcome, error };
        telemetry.logger.info(facts, "payment not taken");
        const all = [...lines, ...refused.lines];
        return this.#ask(visitor, decision, client, { ...refused, lines: all });
      }
    }
  }

  #ask(
    visitor: Visitor,
    decision: PricedDecision,
    client: Client,
    refused: Refused,
  ): RequestEnding {
    const { answer, outcome } = this.#challenge.ask(decision, client, refused);
    refuseEntry(this.#options.telemetry, visitor, refused);
    return this.#end(visitor, answer, outcome, decision.plan.meter);
  }

  #client({ request }: Visitor): Client {
    this.#unnamed.see(request, this.#options.trustedProxies);
    this.#otherHosts.see(request, this.#options.snapshot.hosts);
    return readClient(request, this.#options.trustedProxies);
  }

  async #serveDelivery(
    visitor: Visitor,
    { plan, target }: PricedDecision,
    client: Client,
    { paid, cors }: { readonly paid: Paid; readonly cors: readonly string[] },
  ): Promise<RequestEnding> {
    const { settlement } = paid;
    const receipt = [...cors, ...settlementLines({ success: true, ...settlement })];
    const step = this.#options.telemetry.timeline?.beginStep("delivery");
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
      const asked = { target, client, cacheControl: plan.cacheControl };
      const passage = paidPassage(asked, paid, receipt, refused);
      const late = (): Answer => lateAnswer(receipt, !paid.isLast);
      delivery = await forward(visitor, plan.engine, passage, late);
      attempt = attemptOf(delivery, target, hasRequestBody(visitor.request));
      if (delivery.kind === "unanswered") {
        const again = !paid.isLast || !delivery.sent;
        await refuse({ sent: delivery.sent, served: null });
        this.#notServed(visitor, delivery, undeliveredAnswer(delivery, receipt, again));
      }
    } finally {
      const record = () =>
        attempt === null ? paid.delivered(soldBy(delivery)) : paid.undelivered(attempt);
      await (refusal ?? record());
    }
    const sold = attempt === null;
    step?.end(sold, deliveryNote(delivery));
    const { transaction, network, payer } = settlement;
    const { logger } = this.#options.telemetry;
    const { id: requestId } = visitor;
    const sale = { requestId, route: plan.label, network, transaction, payer };
    const facts = { ...sale, delivery: delivery.kind };
    if (sold) logger.info(facts, "payment served");
    else logger.warn({ ...facts, status: statusOf(delivery) }, "paid and not served");
    return ended(delivery, sold ? "paid" : "undelivered", plan.meter);
  }

  async #replay(
    visitor: Visitor,
    { plan }: PricedDecision,
    { response, settlement, collected }: Extract<Admission, { kind: "replayed" }>,
    cors: readonly string[],
  ): Promise<RequestEnding> {
    const { logger, metrics } = this.#options.telemetry;
    const isSent = await visitor.replaying?.replay(response, cors);
    if (isSent === true) await collected();
    metrics.replayed(plan.label);
    const { transaction, network, payer } = settlement;
    const sale = { requestId: visitor.id, route: plan.label, network, transaction, payer };
    logger.info(sale, "a kept answer was given again");
    return { status: response.status, outcome: "replayed", meter: plan.meter, upstreamMs: 0 };
  }

  /** The exits that have nothing to do with money. */
  #decline(visitor: Visitor, decision: OtherDecision): RequestEnding {
    const { publish } = this.#options;
    const { request } = visitor;
    const { answer, outcome, meter } = declinedAnswer(decision, {
      publish,
      ifNoneMatch: request.headers["if-none-match"],
      cors: () => this.#cors(request),
    });
    return this.#end(visitor, answer, outcome, meter);
  }

  #notServed(visitor: Visitor, { status, reason, detail }: Unanswered, answer: Answer): void {
    const facts = { requestId: visitor.id, status, reason, detail };
    this.#options.telemetry.logger.warn(facts, "the upstream did not answer");
    visitor.answer(answer);
  }

  #cors(request: InboundRequest): readonly string[] {
    const { cors } = this.#options;
    return corsLines(cors, typeof cors === "string" ? undefined : request.headers.origin);
  }

  #end(
    visitor: Visitor,
    answer: Answer,
    outcome: PaymentOutcome,
    meter: RouteMeter | null,
  ): RequestEnding {
    visitor.answer(answer);
    return { status: answer.status, outcome, meter, upstreamMs: 0 };
  }
}
