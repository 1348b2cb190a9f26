/**
 * What is counted for the targets of the upstreams. Labels are names of the configuration: an upstream, and
 * a target's host and port. An exchange costs one addition; prom-client reads the counts when somebody
 * scrapes.
 */
import { Counter, Gauge } from "prom-client";
import type { MetricRegistry } from "./metric-registry.ts";

/** How an exchange with a target ended. */
export const TARGET_RESULTS = [
  /** With an answer that says nothing against the target. */
  "answered",
  /** With 502, 503 or 504. */
  "gateway-error",
  /** Without a connection. */
  "connect",
  /** Without an answer in time. */
  "timeout",
  /** With a connection that died. */
  "broken",
  /** With what is not HTTP. */
  "malformed",
  /** The client left. */
  "abandoned",
  /** The client took nothing of its answer for too long. */
  "unread",
  /** Nothing was asked: too many connections, or too large a body. */
  "refused",
] as const;

export type TargetResult = (typeof TARGET_RESULTS)[number];

export interface TargetMeter {
  count(result: TargetResult): void;
  /** An active check has ended. */
  checked(isGood: boolean): void;
  /** The target gets no more requests. */
  left(state: "ejected" | "down"): void;
  /** Nobody reads the target any more, unless somebody has begun to meanwhile. */
  retire(): void;
}

/** Asked at each scrape. */
export interface TargetReading {
  readonly isUp: boolean;
  /** Exchanges that run. */
  readonly active: number;
}

interface Row {
  readonly labels: { readonly upstream: string; readonly target: string };
  readonly results: Map<TargetResult, number>;
  read: () => TargetReading;
}

export class TargetMeters {
  readonly #rows = new Map<string, Row>();
  readonly #checks: Counter;
  readonly #departures: Counter;
  readonly #retries: Counter;

  constructor(registry: MetricRegistry) {
    const registers = [registry];
    const labelNames = ["upstream", "target"];
    const up = new Gauge({
      name: "coinslot_upstream_target_up",
      help: "1 where the target gets its share of requests, 0 where it is ejected or down",
      labelNames,
      registers,
      // Of several workers one that knows better is enough.
      aggregator: "min",
      collect: () => {
        up.reset();
        this.#each(({ labels, read }) => up.set(labels, Number(read().isUp)));
      },
    });
    const active = new Gauge({
      name: "coinslot_upstream_target_requests_in_flight",
      help: "Exchanges that run with the target, switched connections included",
      labelNames,
      registers,
      collect: () => {
        active.reset();
        this.#each(({ labels, read }) => active.set(labels, read().active));
      },
    });
    const requests = new Counter({
      name: "coinslot_upstream_target_requests_total",
      help: "Exchanges with the target, by how they ended; one that was tried again counts each time",
      labelNames: [...labelNames, "result"],
      registers,
      collect: () => {
        requests.reset();
        this.#each(({ labels, results }) => {
          for (const [result, count] of results) requests.inc({ ...labels, result }, count);
        });
      },
    });
    this.#checks = new Counter({
      name: "coinslot_upstream_target_checks_total",
      help: "Active health checks of the target, by result (good, bad)",
      labelNames: [...labelNames, "result"],
      registers,
    });
    this.#departures = new Counter({
      name: "coinslot_upstream_target_departures_total",
      help: "How often the target was taken out, by what it was then (ejected, down)",
      labelNames: [...labelNames, "state"],
      registers,
    });
    this.#retries = new Counter({
      name: "coinslot_upstream_retries_total",
      help: "Requests that were tried again, by upstream and reason, and those that were not for lack of budget",
      labelNames: ["upstream", "reason"],
      registers,
    });
  }

  /** Prepared once for each target; asked again, the later reader counts. */
  target(upstream: string, target: string, read: () => TargetReading): TargetMeter {
    const key = `${upstream} ${target}`;
    const labels = { upstream, target };
    const known = this.#rows.get(key);
    const row = known ?? { labels, results: new Map(), read };
    row.read = read;
    this.#rows.set(key, row);
    const { results } = row;
    return {
      count: (result) => void results.set(result, (results.get(result) ?? 0) + 1),
      checked: (isGood) => this.#checks.inc({ ...labels, result: isGood ? "good" : "bad" }),
      left: (state) => this.#departures.inc({ ...labels, state }),
      retire: () => {
        if (row.read === read) this.#rows.delete(key);
      },
    };
  }

  /** `reason` is one of the few of `RetryReason`, or `no-budget`. */
  retried(upstream: string, reason: string): void {
    this.#retries.inc({ upstream, reason });
  }

  #each(visit: (row: Row) => void): void {
    for (const row of this.#rows.values()) visit(row);
  }
}
