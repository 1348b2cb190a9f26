/**
 * What is counted for one route: how its requests ended, how long they took, and what it has earned. A request costs a
 * few comparisons; the counts are read when somebody scrapes. What is told of a route begins with its first request,
 * and ends when a configuration without it is in force; a count begins at 0 where the first one matters, since what
 * appears at 1 looks to `increase()` like what has always been there.
 */
import { labelText, type Family, type SampleRow } from "./exposition.ts";
import { FlatHistogram, type Distribution } from "./histogram.ts";
import type { FlatMetric, MetricRegistry } from "./metric-registry.ts";

/** Upper bounds in seconds: the paywall's own work is microseconds, a settlement is seconds, a stream is minutes. */
const REQUEST_BOUNDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
];
const OVERHEAD_BOUNDS = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 600,
];
/**
 * A shop with no more ways to pay than this, of all its routes together, tells its sales from the start: then a sale
 * within one scrape of the first request for it counts, too. A larger one would tell of hundreds of routes that nobody
 * asks for.
 */
const MAX_EARLY_PRICES = 200;
/** What is sold answers so, most of the time. */
const USUAL_STATUS = 200;
/** For requests that belong to no route of the configuration, and for those that `unmatched: free` lets through. */
export const UNROUTED = "(none)";
export const UNMATCHED = "(unmatched)";
/** For money that comes when its route is gone. */
const REMOVED = "(removed)";

/** How a request ended as far as money goes: one value for each exit of the request path. */
export const PAYMENT_OUTCOMES = [
  "free",
  "shadow",
  "shadow-paid",
  "denied",
  "rejected",
  "challenged",
  "limited",
  "malformed",
  "refused",
  "unavailable",
  "unknown",
  "paid",
  "credits",
  "member",
  "pass",
  "quota",
  "replayed",
  "undelivered",
  "unsold",
] as const;

export type PaymentOutcome = (typeof PAYMENT_OUTCOMES)[number];

/** Sold already, to a request for something else, or by somebody else under the same name. */
export type ReplayReason = "used" | "elsewhere" | "imitated";

/** One way to pay for a route. */
export interface Priced {
  readonly network: string;
  /** Symbol of the token. */
  readonly asset: string;
}

/** Money that has moved. */
export interface Earned extends Priced {
  /** Key of the route that has sold for it; null: it was settled for somebody else, or nobody knows. */
  readonly route: string | null;
  /** Whole tokens. */
  readonly tokens: number;
}

/** What the configuration in force says of all routes. */
export interface RouteMeterSettings {
  /** Keys of the routes that there are. */
  readonly routes: readonly string[];
  /** False: durations are told of all routes together. */
  readonly isByRoute: boolean;
}

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
  /** What was earned, by its rendered labels, and by which route. */
  readonly #earned = new Map<string, { readonly route: string | null; tokens: number }>();
  readonly #duration: FlatHistogram;
  readonly #overhead: FlatHistogram;
  readonly #upstream: FlatHistogram;
  /** Null: whichever are asked for. */
  #routes: ReadonlySet<string> | null = null;
  #isByRoute = true;

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
    registry.add(
      this.#counter(
        "coinslot_http_requests_total",
        "Requests by route, status code and payment outcome",
        (meter, isEarly) => meter.requestRows(isEarly),
      ),
    );
    registry.add(
      this.#counter(
        "coinslot_payment_required_total",
        "Answers with status 402, by route and outcome",
        (meter, isEarly) => meter.challengeRows(isEarly),
      ),
    );
    registry.add(
      this.#counter(
        "coinslot_paid_unserved_total",
        "Requests that were paid for and ended without what was bought, by route",
        (meter) => meter.unservedRows(),
      ),
    );
    registry.add(
      this.#counter(
        "coinslot_replays_total",
        "Kept answers given again to who paid for them, by route",
        (meter) => meter.replayRows(),
      ),
    );
    registry.add(
      this.#counter(
        "coinslot_replays_refused_total",
        "Payments refused because they were used before, by route and reason (used, elsewhere, imitated)",
        (meter) => meter.refusedReplayRows(),
      ),
    );
    registry.add({ read: () => this.#settledAmount() });
  }

  /** Once for each route; `prices`: how it can be paid for. */
  prepare(label: string, prices: readonly Priced[] = []): FlatRouteMeter {
    const known = this.#meters.get(label);
    if (known !== undefined) {
      known.prices = prices;
      return known;
    }
    const meter = new FlatRouteMeter(label, prices, this.#distributionsOf(label));
    this.#meters.set(label, meter);
    return meter;
  }

  /** Undefined where the configuration in force has no such route. */
  find(label: string): FlatRouteMeter | undefined {
    return this.#meters.get(label);
  }

  /** Routes that are gone are told of no more; what they have earned since is told of all of them together. */
  configure({ routes, isByRoute }: RouteMeterSettings): void {
    this.#routes = new Set([...routes, UNROUTED, UNMATCHED]);
    const isSame = this.#isByRoute === isByRoute;
    this.#isByRoute = isByRoute;
    if (!isSame && isByRoute) for (const each of this.#histograms) each.drop({});
    for (const [label, meter] of this.#meters) {
      const isThere = this.#routes.has(label);
      if (!isThere) this.#meters.delete(label);
      if (isThere && isSame) continue;
      for (const each of this.#histograms) each.drop({ route: label });
      if (isThere) meter.distributions = this.#distributionsOf(label);
    }
    for (const [labels, { route }] of this.#earned) {
      if (route !== null && !this.#isThere(route)) this.#earned.delete(labels);
    }
  }

  earn({ route, tokens, network, asset }: Earned): void {
    const label = route === null || this.#isThere(route) ? route : REMOVED;
    const labels = labelText({ route: label ?? undefined, network, asset });
    const sum = this.#earned.get(labels);
    if (sum === undefined) this.#earned.set(labels, { route: label, tokens });
    else sum.tokens += tokens;
  }

  get #histograms(): readonly FlatHistogram[] {
    return [this.#duration, this.#overhead, this.#upstream];
  }

  #isThere(route: string): boolean {
    return route === REMOVED || this.#routes === null || this.#routes.has(route);
  }

  #distributionsOf(route: string): Distributions {
    const labels = this.#isByRoute ? { route } : {};
    return {
      duration: this.#duration.prepare(labels),
      overhead: this.#overhead.prepare(labels),
      upstream: this.#upstream.prepare(labels),
    };
  }

  #counter(
    name: string,
    help: string,
    rowsOf: (meter: FlatRouteMeter, isEarly: boolean) => readonly SampleRow[],
  ): FlatMetric {
    return {
      read: (): Family => {
        const isEarly = this.#areEarly();
        const rows = [...this.#meters.values()].flatMap((meter) => rowsOf(meter, isEarly));
        return { name, help, type: "counter", merge: "sum", rows };
      },
    };
  }

  #settledAmount(): Family {
    const isEarly = this.#areEarly();
    const rows = new Map<string, SampleRow>();
    for (const { label: route, prices, isAsked } of this.#meters.values()) {
      for (const price of isAsked || isEarly ? prices : []) {
        const labels = labelText({ route, network: price.network, asset: price.asset });
        rows.set(labels, { labels, values: [0] });
      }
    }
    for (const [labels, { tokens }] of this.#earned) rows.set(labels, { labels, values: [tokens] });
    return {
      name: "coinslot_settled_amount_total",
      help: "Sum settled in whole tokens, by route, network and asset; without a route what was settled for others (a float: for graphs, not for books)",
      type: "counter",
      merge: "sum",
      rows: [...rows.values()],
    };
  }

  #areEarly(): boolean {
    let count = 0;
    for (const { prices } of this.#meters.values()) count += prices.length;
    return count <= MAX_EARLY_PRICES;
  }
}

/** Tells what was counted for what there is by these settings, in whichever process. */
export function toldBy({ routes, isByRoute }: RouteMeterSettings) {
  const known = new Set(
    [...routes, UNROUTED, UNMATCHED, REMOVED].map((route) => labelText({ route })),
  );
  return ({ type }: Pick<Family, "type">, { labels }: Pick<SampleRow, "labels">): boolean => {
    const [route] = /^route="(?:[^"\\]|\\.)*"/.exec(labels) ?? [];
    return route === undefined || (known.has(route) && (isByRoute || type !== "histogram"));
  };
}

interface Distributions {
  readonly duration: Distribution;
  readonly overhead: Distribution;
  readonly upstream: Distribution;
}

class FlatRouteMeter implements RouteMeter {
  readonly label: string;
  prices: readonly Priced[];
  distributions: Distributions;
  /** The few ways in which requests of one route end, in the order of their first one. */
  readonly #tallies: Tally[] = [];
  readonly #labels: string;
  #replays = 0;
  readonly #refusedReplays = new Map<ReplayReason, number>();

  constructor(label: string, prices: readonly Priced[], distributions: Distributions) {
    this.label = label;
    this.prices = prices;
    this.#labels = labelText({ route: label });
    this.distributions = distributions;
  }

  get isAsked(): boolean {
    return this.#tallies.length > 0;
  }

  finished(
    ...[status, outcome, seconds, upstreamSeconds, exemplar]: Parameters<RouteMeter["finished"]>
  ): void {
    this.#count(status, outcome);
    const { duration, overhead, upstream } = this.distributions;
    duration.observe(seconds, exemplar);
    overhead.observe(Math.max(0, seconds - upstreamSeconds));
    if (upstreamSeconds > 0) upstream.observe(upstreamSeconds);
  }

  /** A kept answer was given again. */
  replayed(): void {
    this.#replays += 1;
  }

  /** A payment was refused because it had been presented before. */
  replayRefused(reason: ReplayReason): void {
    this.#refusedReplays.set(reason, (this.#refusedReplays.get(reason) ?? 0) + 1);
  }

  #count(status: number, outcome: PaymentOutcome): void {
    for (const tally of this.#tallies) {
      if (tally.status !== status || tally.outcome !== outcome) continue;
      tally.count += 1;
      return;
    }
    this.#tallies.push(this.#tally(status, outcome, 1));
  }

  #tally(status: number, outcome: PaymentOutcome, count: number): Tally {
    const route = this.label;
    const labels = labelText({ route, code: status, outcome });
    return { status, outcome, labels, challengeLabels: labelText({ route, outcome }), count };
  }

  /** With what it may yet come to, at 0. */
  #tallied(isEarly: boolean, status: number, outcome: PaymentOutcome): readonly Tally[] {
    const isKnown = this.#tallies.some(
      (each) => each.status === status && each.outcome === outcome,
    );
    const isBorn = this.prices.length > 0 && (isEarly || this.isAsked);
    return isBorn && !isKnown ? [...this.#tallies, this.#tally(status, outcome, 0)] : this.#tallies;
  }

  requestRows(isEarly: boolean): readonly SampleRow[] {
    const tallied = this.#tallied(isEarly, USUAL_STATUS, "paid");
    return tallied.map(({ labels, count }) => ({ labels, values: [count] }));
  }

  challengeRows(isEarly: boolean): readonly SampleRow[] {
    const tallied = this.#tallied(isEarly, 402, "challenged");
    const challenges = tallied.filter(({ status }) => status === 402);
    return challenges.map(({ challengeLabels: labels, count }) => ({ labels, values: [count] }));
  }

  /** There from the beginning, at 0: the first one that is missed is what somebody is called for. */
  unservedRows(): readonly SampleRow[] {
    let count = 0;
    for (const tally of this.#tallies) if (tally.outcome === "undelivered") count += tally.count;
    const isTold = this.prices.length > 0 || count > 0;
    return isTold ? [{ labels: this.#labels, values: [count] }] : [];
  }

  replayRows(): readonly SampleRow[] {
    const isTold = (this.prices.length > 0 && this.isAsked) || this.#replays > 0;
    return isTold ? [{ labels: this.#labels, values: [this.#replays] }] : [];
  }

  refusedReplayRows(): readonly SampleRow[] {
    return Array.from(this.#refusedReplays, ([reason, count]) => {
      return { labels: labelText({ route: this.label, reason }), values: [count] };
    });
  }
}
