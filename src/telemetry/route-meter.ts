/**
 * What is counted for one route: how its requests ended, and how long they took. A request costs a
 * few comparisons; the counts are read when somebody scrapes.
 */
import { labelText, type Family, type SampleRow } from "./exposition.ts";
import { FlatHistogram, type Distribution } from "./histogram.ts";
import type { MetricRegistry } from "./metric-registry.ts";

/** Upper bounds in seconds: the paywall's own work is microseconds, a settlement is seconds. */
const REQUEST_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const OVERHEAD_BOUNDS = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5, 15,
];

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
  /** The route's key. */
  readonly label: string;
  /**
   * @param status HTTP status answered
   * @param seconds from the request's head to the end of the answer
   * @param upstreamSeconds of those, spent waiting for the upstream
   * @param exemplar rendered labels of the request's trace or payment
   */
  finished(
    status: number,
    outcome: PaymentOutcome,
    seconds: number,
    upstreamSeconds: number,
    exemplar?: string,
  ): void;
}

/** Requests that ended alike. */
interface Tally {
  readonly status: number;
  readonly outcome: PaymentOutcome;
  /** Rendered, for the two counters. */
  readonly labels: string;
  readonly challengeLabels: string;
  count: number;
}

/** All routes, and the metrics that they make up. */
export class RouteMeters {
  readonly #meters = new Map<string, FlatRouteMeter>();
  readonly #duration: FlatHistogram;
  readonly #overhead: FlatHistogram;
  readonly #upstream: FlatHistogram;

  constructor(registry: MetricRegistry) {
    this.#duration = new FlatHistogram(
      "coinslot_http_request_duration_seconds",
      "From the request's head to the end of the answer, by route",
      REQUEST_BOUNDS,
      registry,
    );
    this.#overhead = new FlatHistogram(
      "coinslot_http_overhead_seconds",
      "Request duration less the time spent waiting for the upstream, by route",
      OVERHEAD_BOUNDS,
      registry,
    );
    this.#upstream = new FlatHistogram(
      "coinslot_upstream_duration_seconds",
      "Time spent waiting for the upstream, by route",
      REQUEST_BOUNDS,
      registry,
    );
    registry.add({ read: () => this.#requests() });
    registry.add({ read: () => this.#challenges() });
    registry.add({ read: () => this.#unserved() });
  }

  /** Once for each route. */
  prepare(label: string): RouteMeter {
    const known = this.#meters.get(label);
    if (known !== undefined) return known;
    const labels = { route: label };
    const meter = new FlatRouteMeter(label, {
      duration: this.#duration.prepare(labels),
      overhead: this.#overhead.prepare(labels),
      upstream: this.#upstream.prepare(labels),
    });
    this.#meters.set(label, meter);
    return meter;
  }

  #requests(): Family {
    return {
      name: "coinslot_http_requests_total",
      help: "Requests by route, status code and payment outcome",
      type: "counter",
      merge: "sum",
      rows: [...this.#meters.values()].flatMap((meter) => meter.rows()),
    };
  }

  #challenges(): Family {
    return {
      name: "coinslot_payment_required_total",
      help: "Answers with status 402, by route and outcome",
      type: "counter",
      merge: "sum",
      rows: [...this.#meters.values()].flatMap((meter) => meter.challengeRows()),
    };
  }

  /** There from the beginning, at 0: the first one that is missed is what somebody is called for. */
  #unserved(): Family {
    return {
      name: "coinslot_paid_unserved_total",
      help: "Requests that were paid for and ended without what was bought, by route",
      type: "counter",
      merge: "sum",
      rows: Array.from(this.#meters.values(), (meter) => meter.unservedRow()),
    };
  }
}

interface Distributions {
  readonly duration: Distribution;
  readonly overhead: Distribution;
  readonly upstream: Distribution;
}

class FlatRouteMeter implements RouteMeter {
  readonly label: string;
  /** The few ways in which requests of one route end, in the order of their first one. */
  readonly #tallies: Tally[] = [];
  readonly #labels: string;
  readonly #distributions: Distributions;

  constructor(label: string, distributions: Distributions) {
    this.label = label;
    this.#labels = labelText({ route: label });
    this.#distributions = distributions;
  }

  finished(
    ...[status, outcome, seconds, upstreamSeconds, exemplar]: Parameters<RouteMeter["finished"]>
  ): void {
    this.#count(status, outcome);
    const { duration, overhead, upstream } = this.#distributions;
    duration.observe(seconds, exemplar);
    overhead.observe(Math.max(0, seconds - upstreamSeconds));
    if (upstreamSeconds > 0) upstream.observe(upstreamSeconds);
  }

  #count(status: number, outcome: PaymentOutcome): void {
    for (const tally of this.#tallies) {
      if (tally.status !== status || tally.outcome !== outcome) continue;
      tally.count += 1;
      return;
    }
    const route = this.label;
    const labels = labelText({ route, code: status, outcome });
    const challengeLabels = labelText({ route, outcome });
    this.#tallies.push({ status, outcome, labels, challengeLabels, count: 1 });
  }

  rows(): readonly SampleRow[] {
    return this.#tallies.map(({ labels, count }) => ({ labels, values: [count] }));
  }

  unservedRow(): SampleRow {
    let count = 0;
    for (const tally of this.#tallies) if (tally.outcome === "undelivered") count += tally.count;
    return { labels: this.#labels, values: [count] };
  }

  challengeRows(): readonly SampleRow[] {
    const challenges = this.#tallies.filter(({ status }) => status === 402);
    return challenges.map(({ challengeLabels: labels, count }) => ({ labels, values: [count] }));
  }
}
