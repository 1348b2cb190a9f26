/**
 * A request's way through the gateway, as one explicit function with every exit in sight:
 *
 *     decide -> rejected | denied | preflight | listing -> answer
 *            -> free ---------------------------------------> forward
 *            -> challenge | malformed ----------> answer 402 | 400
 *            -> presented -> admit -> refused | unavailable | unknown -> answer 402 | 500
 *                                  -> admitted -> forward -> record the delivery
 *
 * Not a middleware chain: the order of the stages is the safety argument. No upstream sees a request for
 * a priced route before its payment is durably settled.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { PaymentOutcome, RouteMeter } from "../telemetry/metrics.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import {
  corsLines,
  errorAnswer,
  errorText,
  preflightAnswer,
  retryAnswer,
  settlementLines,
  upstreamAnswer,
  type Answer,
  type CrossOrigin,
} from "./answers.ts";
import { decide, type Decision, type PricedDecision, type Snapshot } from "./decision.ts";
import type { Admission, Attempt, Paid, Paywall } from "./paywall.ts";
import { readUpgrade } from "./upgrade-engine.ts";
import type { Delivery } from "./upstream.ts";
import { RequestVisitor, UpgradeVisitor, type Passage, type Visitor } from "./visitor.ts";

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

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#unrouted = options.telemetry.metrics.route("(none)");
  }

  get inFlight(): number {
    return this.#inFlight;
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
        const passage = { target, requestHeaders: [], responseSet: [], responseVary: null };
        const delivery = await visitor.forward(plan.engine, passage);
        if (delivery.kind === "unanswered") this.#notServed(visitor, delivery, null);
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
    const quote = (status: number, error: string, lines: readonly string[] = []): Answer => ({
      status,
      lines: [...cors, ...lines],
      body: plan.offers.body(error, resource),
    });
    if (decision.kind === "challenge") {
      const answer = quote(402, "X-PAYMENT header is required");
      return this.#end(visitor, answer, "challenged", plan.meter);
    }
    if (decision.kind === "malformed") {
      const answer = quote(400, errorText(decision.refusal));
      return this.#end(visitor, answer, "malformed", plan.meter);
    }
    const busy = visitor.refusal(plan.engine);
    if (busy !== null) {
      this.#notServed(visitor, busy, null);
      return ended(busy, "unavailable", plan.meter);
    }
    const admission = await this.#options.paywall.admit({
      payment: decision.payment,
      accepts: plan.offers.requirements(resource),
      binding: `${visitor.request.method} ${decision.path}`,
      target: decision.target,
      isGone: () => visitor.isGone(),
    });
    if (admission.kind === "admitted") {
      return this.#serveDelivery(visitor, decision, admission.paid, cors);
    }
    if (admission.kind === "abandoned") {
      return ended({ kind: "abandoned", status: null }, "undelivered", plan.meter);
    }
    const { status, outcome, error, lines } = readRefusal(admission);
    const body = plan.offers.body(error, resource);
    const answer = status === 500 ? retryAnswer(500, body, cors) : quote(status, error, lines);
    const facts = { requestId: visitor.id, route: plan.label, outcome, error };
    this.#options.telemetry.logger.info(facts, "payment not taken");
    return this.#end(visitor, answer, outcome, plan.meter);
  }

  async #serveDelivery(
    visitor: Visitor,
    { plan, target }: PricedDecision,
    paid: Paid,
    cors: readonly string[],
  ): Promise<Ending> {
    const { settlement } = paid;
    const receipt = [...cors, ...settlementLines({ success: true, ...settlement })];
    const passage: Passage = {
      target,
      requestHeaders: [
        ["X-402-Payer", settlement.payer],
        ["X-402-Transaction", settlement.transaction],
        ["X-402-Network", settlement.network],
      ].flat(),
      responseSet: [...receipt, "Cache-Control", "private, no-store"],
      responseVary: "X-PAYMENT",
    };
    let delivery: Delivery = { kind: "abandoned", status: null };
    let attempt: Attempt | null = { sent: true, served: null };
    try {
      delivery = await visitor.forward(plan.engine, passage);
      attempt = attemptOf(delivery, target, hasBody(visitor.request));
      if (delivery.kind === "unanswered") this.#notServed(visitor, delivery, receipt);
    } finally {
      await (attempt === null ? paid.delivered() : paid.undelivered(attempt));
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

  #notServed(
    visitor: Visitor,
    delivery: Extract<Delivery, { kind: "unanswered" }>,
    receipt: readonly string[] | null,
  ): void {
    const { status, reason, detail } = delivery;
    const facts = { requestId: visitor.id, status, reason, detail };
    this.#options.telemetry.logger.warn(facts, "the upstream did not answer");
    visitor.answer(upstreamAnswer(delivery, receipt));
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

/**
 * What a delivery leaves of the payment: null, it is sold; else the same payment may try again. An
 * upstream that refuses (4xx) has sold nothing yet, and the buyer may correct query or body. Once a good
 * answer has begun, only that same request may be tried again, or one payment would buy several things;
 * and since a body cannot be compared, a buyer who leaves in the middle of its answer has bought it.
 */
function attemptOf(delivery: Delivery, target: string, withBody: boolean): Attempt | null {
  if (delivery.kind === "unanswered") return { sent: delivery.sent, served: null };
  const begun = delivery.status !== null && delivery.status < 400;
  if (!begun) return { sent: true, served: null };
  if (delivery.kind === "delivered") return null;
  if (delivery.kind === "abandoned" && withBody) return null;
  return { sent: true, served: target };
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
}

/** The one table from a payment's refusal to a status. */
function readRefusal(admission: Exclude<Admission, { kind: "admitted" | "abandoned" }>): {
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
        lines: [],
      };
    case "unknown": {
      const error = errorText({ code: "unexpected_settle_error", detail: admission.detail });
      return { status: 500, outcome: "unknown", error, lines: [] };
    }
  }
}
