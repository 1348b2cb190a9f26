/**
 * The metrics and their label vocabulary, in one place. Names follow Prometheus' conventions: base
 * units, `_total` for counters, labels whose number is bounded by the configuration; a payer, a path or
 * a transaction is never a label.
 */
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from "prom-client";
import type { ErrorCode } from "../x402/error-code.ts";
import { formatAmount } from "../x402/amount.ts";
import { isNetworkName } from "../x402/network.ts";
import { FlatHistogram, type Distribution } from "./histogram.ts";

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
  "undelivered",
] as const;

export type PaymentOutcome = (typeof PAYMENT_OUTCOMES)[number];

/** Upper bounds in seconds: the paywall's own work is microseconds, a settlement is seconds. */
const REQUEST_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const OVERHEAD_BOUNDS = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5, 15,
];

/** Counts for one route, cheap enough for every request. */
export interface RouteMeter {
  /**
   * @param status HTTP status answered
   * @param seconds from the request's head to the end of the answer
   * @param upstreamSeconds of those, spent waiting for the upstream
   */
  finished(status: number, outcome: PaymentOutcome, seconds: number, upstreamSeconds: number): void;
}

/** An amount of a token, for the sum of what was settled. */
export interface SettledAmount {
  readonly network: string;
  readonly asset: string;
  readonly decimals: number;
  readonly amountAtomic: bigint;
}

type Reading = (counter: Counter) => void;

export class Metrics {
  readonly registry = new Registry();
  readonly #meters = new Map<string, FlatRouteMeter>();
  #readInFlight = (): number => 0;

  readonly #verifications = this.#counter(
    "coinslot_verifications_total",
    "Payments judged, by network, result (valid, invalid, error) and error code",
    ["network", "result", "code"],
  );
  readonly #settlements = this.#counter(
    "coinslot_settlements_total",
    "Settlements, by network, result (settled, failed, unavailable, unknown) and error code",
    ["network", "result", "code"],
  );
  readonly #settledAmount = this.#counter(
    "coinslot_settled_amount_total",
    "Sum settled in whole tokens, by network and asset (a float: for graphs, not for books)",
    ["network", "asset"],
  );
  readonly #rpcCalls = this.#counter(
    "coinslot_rpc_calls_total",
    "Calls to chain nodes, by network, method and result",
    ["network", "method", "result"],
  );
  readonly #verificationSeconds = this.#histogram(
    "coinslot_verification_duration_seconds",
    "Time to judge a payment, by network",
  );
  readonly #settlementSeconds = this.#histogram(
    "coinslot_settlement_duration_seconds",
    "Time from asking for a settlement to its outcome, by network",
  );
  readonly #rpcSeconds = this.#histogram(
    "coinslot_rpc_duration_seconds",
    "Duration of calls to chain nodes, by network",
  );
  readonly #duration = this.#flat(
    "coinslot_http_request_duration_seconds",
    "From the request's head to the end of the answer, by route",
    REQUEST_BOUNDS,
  );
  readonly #overhead = this.#flat(
    "coinslot_http_overhead_seconds",
    "Request duration less the time spent waiting for the upstream, by route",
    OVERHEAD_BOUNDS,
  );
  readonly #upstream = this.#flat(
    "coinslot_upstream_duration_seconds",
    "Time spent waiting for the upstream, by route",
    REQUEST_BOUNDS,
  );
  readonly #unresolved = this.#gauge(
    "coinslot_settlements_unresolved",
    "Settlements signed whose outcome on the chain is not known",
  );

  constructor(version: string) {
    collectDefaultMetrics({ register: this.registry });
    this.#gauge("coinslot_build_info", "1, labelled with the running version", ["version"]).set(
      { version },
      1,
    );
    const inFlight = this.#gauge(
      "coinslot_http_requests_in_flight",
      "Requests being answered now",
      [],
      () => inFlight.set(this.#readInFlight()),
    );
    this.#counter(
      "coinslot_http_requests_total",
      "Requests by route, status code and payment outcome",
      ["route", "code", "outcome"],
      (counter) => this.#meters.forEach((meter) => meter.collect(counter)),
    );
    this.#counter(
      "coinslot_payment_required_total",
      "Answers with status 402, by route and outcome",
      ["route", "outcome"],
      (counter) => this.#meters.forEach((meter) => meter.collectChallenges(counter)),
    );
  }

  route(label: string): RouteMeter {
    const known = this.#meters.get(label);
    if (known !== undefined) return known;
    const meter = new FlatRouteMeter(
      label,
      this.#duration.prepare({ route: label }),
      this.#overhead.prepare({ route: label }),
      this.#upstream.prepare({ route: label }),
    );
    this.#meters.set(label, meter);
    return meter;
  }

  verification(
    network: string,
    result: "valid" | "invalid" | "error",
    code: ErrorCode | "",
    seconds: number,
  ): void {
    const labels = { network: networkLabel(network) };
    this.#verifications.inc({ ...labels, result, code });
    this.#verificationSeconds.observe(labels, seconds);
  }

  settlement(
    network: string,
    result: "settled" | "failed" | "unavailable" | "unknown",
    code: ErrorCode | "",
    seconds: number,
  ): void {
    const labels = { network: networkLabel(network) };
    this.#settlements.inc({ ...labels, result, code });
    this.#settlementSeconds.observe(labels, seconds);
  }

  settledAmount({ network, asset, decimals, amountAtomic }: SettledAmount): void {
    const tokens = Number(formatAmount(amountAtomic, decimals));
    this.#settledAmount.inc({ network, asset }, tokens);
  }

  rpcCall(network: string, method: string, result: string, seconds: number): void {
    this.#rpcCalls.inc({ network, method, result });
    this.#rpcSeconds.observe({ network }, seconds);
  }

  /** Requests in flight are counted by the listener; it is asked at each scrape. */
  observeInFlight(read: () => number): void {
    this.#readInFlight = read;
  }

  unresolved(count: number): void {
    this.#unresolved.set(count);
  }

  /** With `read`, the counter is filled from our own counts at each scrape. */
  #counter(name: string, help: string, labelNames: string[], read?: Reading): Counter {
    const settings = { name, help, labelNames, registers: [this.registry] };
    if (read === undefined) return new Counter(settings);
    const counter = new Counter({
      ...settings,
      collect: () => {
        counter.reset();
        read(counter);
      },
    });
    return counter;
  }

  #gauge(name: string, help: string, labelNames: string[] = [], collect?: () => void): Gauge {
    const settings = { name, help, labelNames, registers: [this.registry] };
    return new Gauge(collect === undefined ? settings : { ...settings, collect });
  }

  #histogram(name: string, help: string): Histogram {
    const registers = [this.registry];
    return new Histogram({
      name,
      help,
      labelNames: ["network"],
      buckets: REQUEST_BOUNDS,
      registers,
    });
  }

  #flat(name: string, help: string, bounds: readonly number[]): FlatHistogram {
    return new FlatHistogram(name, help, bounds, this.registry);
  }
}

/** A caller may name any network; a label may not grow with what callers invent. */
function networkLabel(network: string): string {
  return isNetworkName(network) ? network : "unknown";
}

/** Status and outcome make one number, so that a request costs one map look-up. */
const OUTCOME_BITS = 4;
const outcomeIndex: ReadonlyMap<PaymentOutcome, number> = new Map(
  PAYMENT_OUTCOMES.map((outcome, index) => [outcome, index]),
);

class FlatRouteMeter implements RouteMeter {
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
