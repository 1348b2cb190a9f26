/** How requests end, and a line for each that was answered, where the log is that detailed. */
import type { Logger } from "../telemetry/logger.ts";
import type { PaymentOutcome, RouteMeter } from "../telemetry/metrics.ts";
import type { Delivery } from "./upstream/upstream.ts";
import type { Visitor } from "./visitor.ts";

export interface Answered {
  readonly status: number;
  readonly outcome: PaymentOutcome;
  /** From the request's head to the end of its answer. */
  readonly ms: number;
}

/** How a request ended, for the meter. */
export interface RequestEnding {
  readonly status: number;
  readonly outcome: PaymentOutcome;
  /** Null: no route of the configuration. */
  readonly meter: RouteMeter | null;
  readonly upstreamMs: number;
}

export function ended(
  delivery: Delivery,
  outcome: PaymentOutcome,
  meter: RouteMeter,
): RequestEnding {
  const upstreamMs = delivery.kind === "delivered" ? delivery.upstreamMs : 0;
  return { status: statusOf(delivery), outcome, meter, upstreamMs };
}

export function logAnswered(logger: Logger, visitor: Visitor, answered: Answered): void {
  if (!logger.isLevelEnabled("debug")) return;
  const { method, url = "" } = visitor.request;
  const path = url.split("?", 1)[0];
  const say = (): void => {
    logger.debug({ requestId: visitor.id, method, path, ...answered }, "request answered");
  };
  if (visitor.trace === null) say();
  else visitor.trace.run(say);
}

/** 499 stands for a client that left before there was a status, as access logs write it. */
export function statusOf({ status }: Delivery): number {
  return status ?? 499;
}
