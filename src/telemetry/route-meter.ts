/**
 * What is counted for one route: how its requests ended, and how long they took. A request costs a
 * few comparisons; prom-client reads the counts when somebody scrapes.
 */
import type { Counter } from "prom-client";
import type { Distribution } from "./histogram.ts";

/** How a request ended as far as money goes: one value for each exit of the request path. */
export const PAYMENT_OUTCOMES = [
  "free",
  "denied",
  "rejected",
  "challenged",
  "limited",
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

/** Requests that ended alike. */
interface Tally {
  readonly status: number;
  readonly outcome: PaymentOutcome;
  count: number;
}

export class FlatRouteMeter implements RouteMeter {
  readonly #label: string;
  /** The few ways in which requests of one route end, in the order of their first one. */
  readonly #tallies: Tally[] = [];
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
    this.#count(status, outcome);
    this.#duration.observe(seconds);
    this.#overhead.observe(Math.max(0, seconds - upstreamSeconds));
    if (upstreamSeconds > 0) this.#upstream.observe(upstreamSeconds);
  }

  #count(status: number, outcome: PaymentOutcome): void {
    for (const tally of this.#tallies) {
      if (tally.status !== status || tally.outcome !== outcome) continue;
      tally.count += 1;
      return;
    }
    this.#tallies.push({ status, outcome, count: 1 });
  }

  collect(counter: Counter): void {
    for (const { status, outcome, count } of this.#tallies) {
      counter.inc({ route: this.#label, code: status, outcome }, count);
    }
  }

  collectChallenges(counter: Counter): void {
    for (const { status, outcome, count } of this.#tallies) {
      if (status === 402) counter.inc({ route: this.#label, outcome }, count);
    }
  }
}
