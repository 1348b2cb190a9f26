/**
 * What is counted for one route: how its requests ended, and how long they took. A request costs one map
 * look-up; prom-client reads the counts when somebody scrapes.
 */
import type { Counter } from "prom-client";
import type { Distribution } from "./histogram.ts";

/** How a request ended as far as money goes: one value for each exit of the request path. */
export const PAYMENT_OUTCOMES = [
  "free",
  "denied",
  "rejected",
  "challenged",
  "malformed",
  "refused",
  "unavailable",
  "unknown",
  "paid",
  "replayed",
  "undelivered",
] as const;

export type PaymentOutcome = (typeof PAYMENT_OUTCOMES)[number];

/** Counts for one route, cheap enough for every request. */
export interface RouteMeter {
  /**
   * @param status HTTP status answered
   * @param seconds from the request's head to the end of the answer
   * @param upstreamSeconds of those, spent waiting for the upstream
   */
  finished(status: number, outcome: PaymentOutcome, seconds: number, upstreamSeconds: number): void;
}

/** Status and outcome make one number, so that a request costs one map look-up. */
const OUTCOME_BITS = 4;
const outcomeIndex: ReadonlyMap<PaymentOutcome, number> = new Map(
  PAYMENT_OUTCOMES.map((outcome, index) => [outcome, index]),
);

export class FlatRouteMeter implements RouteMeter {
  readonly #label: string;
  readonly #counts = new Map<number, number>();
  readonly #duration: Distribution;
  readonly #overhead: Distribution;
  readonly #upstream: Distribution;

  constructor(
    label: string,
    duration: Distribution,
    overhead: Distribution,
    upstream: Distribution,
  ) {
    this.#label = label;
    this.#duration = duration;
    this.#overhead = overhead;
    this.#upstream = upstream;
  }

  finished(
    status: number,
    outcome: PaymentOutcome,
    seconds: number,
    upstreamSeconds: number,
  ): void {
    const slot = (status << OUTCOME_BITS) | (outcomeIndex.get(outcome) ?? 0);
    this.#counts.set(slot, (this.#counts.get(slot) ?? 0) + 1);
    this.#duration.observe(seconds);
    this.#overhead.observe(Math.max(0, seconds - upstreamSeconds));
    if (upstreamSeconds > 0) this.#upstream.observe(upstreamSeconds);
  }

  collect(counter: Counter): void {
    for (const [slot, count] of this.#counts) {
      const labels = { route: this.#label, code: slot >> OUTCOME_BITS, outcome: outcomeOf(slot) };
      counter.inc(labels, count);
    }
  }

  collectChallenges(counter: Counter): void {
    for (const [slot, count] of this.#counts) {
      if (slot >> OUTCOME_BITS !== 402) continue;
      counter.inc({ route: this.#label, outcome: outcomeOf(slot) }, count);
    }
  }
}

function outcomeOf(slot: number): PaymentOutcome {
  return PAYMENT_OUTCOMES[slot & ((1 << OUTCOME_BITS) - 1)] ?? "rejected";
}
