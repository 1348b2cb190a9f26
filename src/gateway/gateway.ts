/**
 * A request's way through the gateway, as one explicit function with every exit in sight:
 *
 *     decide -> rejected | denied | preflight | listing -> answer
 *            -> free ---------------------------------------> forward
 *            -> challenge | malformed ----------> answer 402 | 400, or 503 without anything to pay with
 *            -> presented -> admit -> refused | unavailable | unknown -> answer 402 | 500 | 503
 *                                  -> unservable ------------------> answer 503 | 413
 *                                  -> replayed --------------------> the kept answer again
 *                                  -> admitted -> forward -> record the delivery
 *
 * Not a middleware chain: the order of the stages is the safety argument. No upstream sees a request for
 * a priced route before its payment is durably settled.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { waitWithin } from "../facilitator/facilitator.ts";
import type { BrokenDelivery } from "../ledger/ledger.ts";
import type { PaymentOutcome, RouteMeter } from "../telemetry/metrics.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Admission, Paid } from "./admission.ts";
import {
  corsLines,
  errorAnswer,
  errorText,
  preflightAnswer,
  RETRY_AFTER,
  settlementLines,
  undeliveredAnswer,
  unpayableAnswer,
  unservableAnswer,
  upstreamAnswer,
  type Answer,
  type CrossOrigin,
} from "./answers.ts";
import { decide, type Decision, type PricedDecision, type Snapshot } from "./decision.ts";
import { attemptOf, keptOf, paidPassage, UNSOLD } from "./delivery.ts";
import type { Paywall } from "./paywall.ts";
import { hasRequestBody } from "./request-body.ts";
import { readUpgrade } from "./upgrade-engine.ts";
import type { Delivery, Unanswered } from "./upstream.ts";
import { RequestVisitor, UpgradeVisitor, type Visitor } from "./visitor.ts";

export interface GatewayOptions {
  readonly snapshot: Snapshot;
  readonly paywall: Paywall;
  /** Answers the discovery listing for a raw query string. */
  readonly list: (query: string) => { readonly status: 200 | 400; readonly body: string };
  readonly cors: CrossOrigin;
  /** Requests worked on at the same time; beyond them 503. */
  readonly maxInFlight: number;
  readonly telemetry: Telemetry;
}

/** Pause before an operator is told again that a route cannot be paid for, milliseconds. */
const UNPAYABLE_PAUSE_MS = 60_000;
const UNPAYABLE =
  "a route answers 503: it is sold on Solana only, and no facilitator says who pays the network fee there; " +
  "one of them has to tell extra.feePayer for that network in GET /supported";

/** How a request ended, for the meter. */
interface Ending {
  readonly status: number;
  readonly outcome: PaymentOutcome;
  /** Null: no route of the configuration. */
  readonly meter: RouteMeter | null;
  readonly upstreamMs: number;
}

export class Gateway {
  readonly #options: GatewayOptions;
  /** For requests that belong to no route. */
  readonly #unrouted: RouteMeter;
  #inFlight = 0;
  #saysUnpayableAt = Number.NEGATIVE_INFINITY;
  #idle: PromiseWithResolvers<void> | null = null;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#unrouted = options.telemetry.metrics.route("(none)");
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /**
   * Resolves when nothing is in flight, or when the signal ends. Settlements and deliveries go on after
   * their clients have left, so a listener without connections says nothing about them.
   */
  async drain(signal: AbortSignal): Promise<void> {
    if (this.#inFlight === 0) return;
    this.#idle ??= Promise.withResolvers();
    await waitWithin(this.#idle.promise, signal, undefined);
  }

  readonly handleRequest = (request: IncomingMessage, response: ServerResponse): void => {
    void this.#visit(new RequestVisitor(request, response, false));
  };

  readonly handleContinue = (request: IncomingMessage, response: ServerResponse): void => {
    void this.#visit(new RequestVisitor(request, response, true));
  };

  readonly handleUpgrade = (request: IncomingMessage, socket: Socket, head: Buffer): void => {
    const visitor = new UpgradeVisitor(request, socket);
    const upgrade = readUpgrade(request, head);
    if (upgrade.kind === "refused") {
      visitor.answer(errorAnswer(upgrade.status, upgrade.detail, upgrade.lines));
    } else void this.#visit(visitor);
  };

  /** Every request has an error exit: nothing that happens here reaches the process. */
  async #visit(visitor: Visitor): Promise<void> {
    const started = performance.now();
    this.#inFlight += 1;
    try {
      this.#record(visitor, await this.#serve(visitor), started);
    } catch (cause) {
      const { logger } = this.#options.telemetry;
      logger.error({ err: cause, requestId: visitor.id }, "a request failed unexpectedly");
      const answer = errorAnswer(500, "internal error");
      this.#record(visitor, this.#end(visitor, answer, "unavailable", null), started);
    } finally {
      this.#inFlight -= 1;
      if (this.#inFlight === 0) {
        this.#idle?.resolve();
        this.#idle = null;
      }
    }
  }

  #record(visitor: Visitor, ending: Ending, started: number): void {
    const { status, outcome, upstreamMs } = ending;
    const ms = performance.now() - started;
    const meter = ending.meter ?? this.#unrouted;
    meter.finished(status, outcome, ms / 1000, upstreamMs / 1000);
    const { logger } = this.#options.telemetry;
    if (!logger.isLevelEnabled("debug")) return;
    const { method, url = "" } = visitor.request;
    const path = url.split("?", 1)[0];
    logger.debug({ requestId: visitor.id, method, path, status, outcome, ms }, "request answered");
  }

  async #serve(visitor: Visitor): Promise<Ending> {
    const { snapshot, maxInFlight } = this.#options;
    if (this.#inFlight > maxInFlight) {
      const answer = errorAnswer(503, "too many requests at once", ["Retry-After", "1"]);
      return this.#end(visitor, answer, "rejected", null);
    }
    const decision = decide(snapshot, visitor.request);
    switch (decision.kind) {
      case "free": {
        const { target, plan } = decision;
        const delivery = await visitor.forward(plan.engine, { target, ...UNSOLD });
        if (delivery.kind === "unanswered") {
          this.#notServed(visitor, delivery, upstreamAnswer(delivery));
        }
        return ended(delivery, "free", plan.meter);
      }
      case "challenge":
      case "malformed":
      case "presented":
        return this.#sell(visitor, decision);
      default:
        return this.#decline(visitor, decision);
    }
  }

  /** A priced route: quote, refuse or serve. */
  async #sell(visitor: Visitor, decision: PricedDecision): Promise<Ending> {
    const { plan, resource } = decision;
    const cors = this.#cors(visitor.request);
    if (decision.kind === "challenge") {
      const answer = this.#quote(decision, 402, "X-PAYMENT header is required", cors);
      const outcome = answer.status === 402 ? "challenged" : "unavailable";
      return this.#end(visitor, answer, outcome, plan.meter);
    }
    if (decision.kind === "malformed") {
      const answer = this.#quote(decision, 400, errorText(decision.refusal), cors);
      return this.#end(visitor, answer, "malformed", plan.meter);
    }
    const admission = await this.#options.paywall.admit({
      payment: decision.payment,
      accepts: plan.offers.requirements(resource),
      binding: `${visitor.request.method} ${decision.path}`,
      target: decision.target,
      client: visitor.request.socket.remoteAddress ?? "",
      isGone: () => visitor.isGone(),
      refusal: () => visitor.refusal(plan.engine),
      readBodyHash: async () => (await visitor.replaying?.readBodyHash()) ?? null,
    });
    switch (admission.kind) {
      case "admitted":
        return this.#serveDelivery(visitor, decision, admission.paid, cors);
      case "replayed":
        return this.#replay(visitor, decision, admission, cors);
      case "abandoned":
        return ended({ kind: "abandoned", status: null, sent: false }, "undelivered", plan.meter);
      case "unservable": {
        const { refusal } = admission;
        this.#notServed(visitor, refusal, unservableAnswer(refusal, cors));
        return ended(refusal, "unavailable", plan.meter);
      }
      default: {
        const { status, outcome, error, lines } = readRefusal(admission);
        const answer = this.#quote(decision, status, error, [...cors, ...lines]);
        const facts = { requestId: visitor.id, route: plan.label, outcome, error };
        this.#options.telemetry.logger.info(facts, "payment not taken");
        return this.#end(visitor, answer, outcome, plan.meter);
      }
    }
  }

  /** What is asked for, with an error; 503 in place of a 402 that would ask for nothing. */
  #quote(
    { plan, resource }: PricedDecision,
    status: 400 | 402 | 500,
    error: string,
    lines: readonly string[],
  ): Answer {
    const { offers } = plan;
    const body = status === 402 ? offers.question(error, resource) : offers.body(error, resource);
    if (body !== undefined) return { status, lines, body };
    const networks = offers.missing;
    const now = performance.now();
    if (now >= this.#saysUnpayableAt) {
      this.#saysUnpayableAt = now + UNPAYABLE_PAUSE_MS;
      this.#options.telemetry.logger.error({ route: plan.label, networks }, UNPAYABLE);
    }
    return unpayableAnswer(error, networks, lines);
  }

  async #serveDelivery(
    visitor: Visitor,
    { plan, target }: PricedDecision,
    paid: Paid,
    cors: readonly string[],
  ): Promise<Ending> {
    const { settlement } = paid;
    const receipt = [...cors, ...settlementLines({ success: true, ...settlement })];
    let delivery: Delivery = { kind: "abandoned", status: null, sent: true };
    let attempt: BrokenDelivery | null = { sent: true, served: null };
    try {
      delivery = await visitor.forward(plan.engine, paidPassage(target, paid, receipt));
      attempt = attemptOf(delivery, target, hasRequestBody(visitor.request));
      if (delivery.kind === "unanswered") {
        const again = !paid.isLast || !delivery.sent;
        this.#notServed(visitor, delivery, undeliveredAnswer(delivery, receipt, again));
      }
    } finally {
      await (attempt === null ? paid.delivered(keptOf(delivery)) : paid.undelivered(attempt));
    }
    const sold = attempt === null;
    const { transaction, network, payer } = settlement;
    const { logger } = this.#options.telemetry;
    const { id: requestId } = visitor;
    const sale = { requestId, route: plan.label, network, transaction, payer };
    const facts = { ...sale, delivery: delivery.kind };
    if (sold) logger.info(facts, "payment served");
    else logger.warn({ ...facts, status: statusOf(delivery) }, "paid and not served");
    return ended(delivery, sold ? "paid" : "undelivered", plan.meter);
  }

  #replay(
    visitor: Visitor,
    { plan }: PricedDecision,
    { response, settlement }: Extract<Admission, { kind: "replayed" }>,
    cors: readonly string[],
  ): Ending {
    const { logger, metrics } = this.#options.telemetry;
    visitor.replaying?.replay(response, cors);
    metrics.replayed(plan.label);
    const { transaction, network, payer } = settlement;
    const sale = { requestId: visitor.id, route: plan.label, network, transaction, payer };
    logger.info(sale, "a kept answer was given again");
    return { status: response.status, outcome: "replayed", meter: plan.meter, upstreamMs: 0 };
  }

  /** The exits that have nothing to do with money. */
  #decline(
    visitor: Visitor,
    decision: Exclude<Decision, PricedDecision | { kind: "free" }>,
  ): Ending {
    switch (decision.kind) {
      case "rejected": {
        const answer = errorAnswer(decision.status, decision.detail, ["Connection", "close"]);
        return this.#end(visitor, answer, "rejected", null);
      }
      case "denied": {
        const said = decision.status === 403 ? "this path is not served" : "not found";
        return this.#end(visitor, errorAnswer(decision.status, said), "denied", decision.meter);
      }
      case "method-not-allowed": {
        const answer = errorAnswer(405, "method not allowed", ["Allow", decision.allow]);
        return this.#end(visitor, answer, "denied", null);
      }
      case "server-options":
        return this.#end(visitor, { status: 204, lines: [], body: null }, "free", null);
      case "preflight": {
        const answer = preflightAnswer(this.#cors(visitor.request), decision);
        return this.#end(visitor, answer, "free", null);
      }
      case "listing": {
        const { status, body } = this.#options.list(decision.query);
        return this.#end(
          visitor,
          { status, lines: this.#cors(visitor.request), body },
          "free",
          null,
        );
      }
    }
  }

  #notServed(visitor: Visitor, { status, reason, detail }: Unanswered, answer: Answer): void {
    const facts = { requestId: visitor.id, status, reason, detail };
    this.#options.telemetry.logger.warn(facts, "the upstream did not answer");
    visitor.answer(answer);
  }

  #cors(request: IncomingMessage): readonly string[] {
    const { cors } = this.#options;
    return corsLines(cors, typeof cors === "string" ? undefined : request.headers.origin);
  }

  #end(
    visitor: Visitor,
    answer: Answer,
    outcome: PaymentOutcome,
    meter: RouteMeter | null,
  ): Ending {
    visitor.answer(answer);
    return { status: answer.status, outcome, meter, upstreamMs: 0 };
  }
}

function ended(delivery: Delivery, outcome: PaymentOutcome, meter: RouteMeter): Ending {
  const upstreamMs = delivery.kind === "delivered" ? delivery.upstreamMs : 0;
  return { status: statusOf(delivery), outcome, meter, upstreamMs };
}

/** 499 stands for a client that left before there was a status, as access logs write it. */
function statusOf(delivery: Delivery): number {
  return delivery.status ?? 499;
}

/** The one table from a payment's refusal to a status. */
function readRefusal(
  admission: Extract<Admission, { kind: "refused" | "unavailable" | "unknown" }>,
): {
  readonly status: 402 | 500;
  readonly outcome: PaymentOutcome;
  readonly error: string;
  readonly lines: readonly string[];
} {
  switch (admission.kind) {
    case "refused": {
      const { refusal, settlement } = admission;
      const lines = settlement === undefined ? [] : settlementLines(settlement);
      return { status: 402, outcome: "refused", error: errorText(refusal), lines };
    }
    case "unavailable":
      return {
        status: 500,
        outcome: "unavailable",
        error: errorText(admission.refusal),
        lines: RETRY_AFTER,
      };
    case "unknown": {
      const error = errorText({ code: "unexpected_settle_error", detail: admission.detail });
      return { status: 500, outcome: "unknown", error, lines: RETRY_AFTER };
    }
  }
}
