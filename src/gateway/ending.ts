/** How requests end: the one place where an answer of the gateway's own is given, and the one where an end is recorded. */
import type { Logger } from "../telemetry/logger.ts";
import { UNROUTED, type PaymentOutcome, type RouteMeter } from "../telemetry/metrics.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { endAccess } from "./access.ts";
import { LATE_ANSWER, type OwnAnswer } from "./answers.ts";
import { endEntry } from "./request-timeline.ts";
import type { Delivery } from "./upstream/upstream.ts";
import type { Visitor } from "./visitor.ts";

/** How a request ended, for the meter. */
export interface RequestEnding extends Omit<OwnAnswer, "answer"> {
  readonly status: number;
  readonly upstreamMs: number;
}

interface Answered {
  readonly status: number;
  readonly outcome: PaymentOutcome;
  /** From the request's head to the end of its answer. */
  readonly ms: number;
}

/** Gives the answer, and the request ends with it. */
export function endWith(visitor: Visitor, { answer, outcome, meter }: OwnAnswer): RequestEnding {
  visitor.answer(answer);
  return { status: answer.status, outcome, meter, upstreamMs: 0 };
}

/** The request ends as its delivery did. */
export function endingOf(
  delivery: Delivery,
  outcome: PaymentOutcome,
  meter: RouteMeter,
): RequestEnding {
  const upstreamMs = delivery.kind === "delivered" ? delivery.upstreamMs : 0;
  return { status: statusOf(delivery), outcome, meter, upstreamMs };
}

/** 499 stands for a client that left before there was a status, as access logs write it. */
export function statusOf({ status }: Delivery): number {
  return status ?? 499;
}

/** Tells the meter, the trace, the operator's page and the log how requests end. */
export class Endings {
  readonly #telemetry: Telemetry;
  /** For requests that belong to no route. */
  readonly #unrouted: RouteMeter;

  constructor(telemetry: Telemetry) {
    this.#telemetry = telemetry;
    this.#unrouted = telemetry.metrics.route(UNROUTED);
  }

  /** @param started `performance.now()` when the request's head was there */
  record(visitor: Visitor, ending: RequestEnding, started: number): void {
    const { outcome, upstreamMs } = ending;
    const status = visitor.isLate ? LATE_ANSWER.status : ending.status;
    const ms = performance.now() - started;
    const meter = ending.meter ?? this.#unrouted;
    const { trace } = visitor;
    meter.finished(status, outcome, ms / 1000, upstreamMs / 1000, trace?.exemplar);
    trace?.end(meter.label, status, outcome);
    endEntry(this.#telemetry, visitor, { status, outcome, ms });
    endAccess(this.#telemetry, visitor, { status, outcome, ms, route: meter.label });
    logAnswered(this.#telemetry.logger, visitor, { status, outcome, ms });
  }
}

/** A line for each request that was answered, where the log is that detailed. */
function logAnswered(logger: Logger, visitor: Visitor, answered: Answered): void {
  if (!logger.isLevelEnabled("debug")) return;
  const { method, url = "" } = visitor.request;
  const path = url.split("?", 1)[0];
  const say = (): void => {
    logger.debug({ requestId: visitor.id, method, path, ...answered }, "request answered");
  };
  if (visitor.trace === null) say();
  else visitor.trace.run(say);
}
