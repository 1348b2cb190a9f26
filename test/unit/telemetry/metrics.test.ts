import { describe, expect, test } from "vitest";
import { Metrics, PAYMENT_OUTCOMES, type PaymentOutcome } from "../../../src/telemetry/metrics.ts";
import { readScrape, type Sample } from "./scrape.ts";

/** Every label there is, and what bounds its number. */
const VOCABULARY: ReadonlySet<string> = new Set([
  "asset", // the configuration
  "code", // fifteen error codes, or HTTP statuses
  "le", // the buckets
  "method", // the JSON-RPC methods that the mechanisms call
  "network", // twelve networks
  "outcome", // PAYMENT_OUTCOMES
  "result", // a handful of words
  "route", // the configuration
  "version", // one
]);

async function scrape(metrics: Metrics) {
  return readScrape(await metrics.registry.metrics());
}

/** Values of one metric by its labels, written `a=1 b=2` in the order of the names. */
async function valuesOf(metrics: Metrics, name: string): Promise<Record<string, number>> {
  const { samples } = await scrape(metrics);
  const ours = samples.filter((sample) => sample.name === name);
  return Object.fromEntries(ours.map((sample) => [labelled(sample), sample.value]));
}

function labelled({ labels }: Sample): string {
  const names = Object.keys(labels).sort();
  return names.map((name) => `${name}=${labels[name]}`).join(" ");
}

/** One of everything. */
function used(): Metrics {
  const metrics = new Metrics("1.2.3");
  metrics.route("GET /a").finished(200, "paid", 0.2, 0.1);
  metrics.route("GET /a").finished(402, "challenged", 0.001, 0);
  metrics.verification("base", "valid", "", 0.1);
  metrics.settlement("base", "failed", "insufficient_funds", 1);
  metrics.settledAmount({ network: "base", asset: "USDC", decimals: 6, amountAtomic: 10_000n });
  metrics.rpcCall("base", "eth_call", "ok", 0.01);
  metrics.unresolved(2);
  return metrics;
}

describe("the request counters", () => {
  test("count by route, status and outcome", async () => {
    const metrics = new Metrics("test");
    const [a, b] = [metrics.route("GET /a"), metrics.route("GET /b")];
    a.finished(200, "paid", 0.1, 0.05);
    a.finished(200, "paid", 0.1, 0.05);
    a.finished(502, "undelivered", 0.1, 0.05);
    b.finished(200, "free", 0.1, 0.05);
    metrics.route("GET /a").finished(402, "challenged", 0.1, 0);
    expect(await valuesOf(metrics, "coinslot_http_requests_total")).toEqual({
      "code=200 outcome=paid route=GET /a": 2,
      "code=502 outcome=undelivered route=GET /a": 1,
      "code=402 outcome=challenged route=GET /a": 1,
      "code=200 outcome=free route=GET /b": 1,
    });
  });

  test("tell every status from every outcome", async () => {
    const metrics = new Metrics("test");
    const expected: Record<string, number> = {};
    let times = 0;
    for (const status of [100, 200, 204, 301, 400, 402, 404, 499, 500, 502, 504, 599, 999]) {
      for (const outcome of PAYMENT_OUTCOMES) {
        times = (times % 7) + 1;
        for (let count = 0; count < times; count += 1) {
          metrics.route("/").finished(status, outcome, 0, 0);
        }
        expected[`code=${status} outcome=${outcome} route=/`] = times;
      }
    }
    expect(await valuesOf(metrics, "coinslot_http_requests_total")).toEqual(expected);
  });

  test("are the same at each scrape: nothing is counted twice", async () => {
    const metrics = used();
    const name = "coinslot_http_requests_total";
    const first = await valuesOf(metrics, name);
    expect(await valuesOf(metrics, name)).toEqual(first);
    metrics.route("GET /a").finished(200, "paid", 0.2, 0.1);
    expect(await valuesOf(metrics, name)).toEqual({
      ...first,
      "code=200 outcome=paid route=GET /a": 2,
    });
  });

  test("count the answers 402 by outcome", async () => {
    const metrics = new Metrics("test");
    const route = metrics.route("/");
    const outcomes: readonly PaymentOutcome[] = ["challenged", "refused", "challenged"];
    for (const outcome of outcomes) route.finished(402, outcome, 0, 0);
    route.finished(200, "paid", 0, 0);
    route.finished(400, "malformed", 0, 0);
    expect(await valuesOf(metrics, "coinslot_payment_required_total")).toEqual({
      "outcome=challenged route=/": 2,
      "outcome=refused route=/": 1,
    });
  });
});

async function sumsOf(metrics: Metrics) {
  return {
    duration: await valuesOf(metrics, "coinslot_http_request_duration_seconds_sum"),
    overhead: await valuesOf(metrics, "coinslot_http_overhead_seconds_sum"),
    upstream: await valuesOf(metrics, "coinslot_upstream_duration_seconds_sum"),
    upstreamCount: await valuesOf(metrics, "coinslot_upstream_duration_seconds_count"),
  };
}

describe("the durations of a request", () => {
  test("are its own, the upstream's, and the difference", async () => {
    const metrics = new Metrics("test");
    metrics.route("/").finished(200, "paid", 0.75, 0.5);
    expect(await sumsOf(metrics)).toEqual({
      duration: { "route=/": 0.75 },
      overhead: { "route=/": 0.25 },
      upstream: { "route=/": 0.5 },
      upstreamCount: { "route=/": 1 },
    });
  });

  test("are never negative, and no upstream's where none was asked", async () => {
    const metrics = new Metrics("test");
    metrics.route("/").finished(402, "challenged", 0.25, 0);
    metrics.route("/").finished(200, "free", 0.5, 0.75);
    expect(await sumsOf(metrics)).toEqual({
      duration: { "route=/": 0.75 },
      overhead: { "route=/": 0.25 },
      upstream: { "route=/": 0.75 },
      upstreamCount: { "route=/": 1 },
    });
  });
});

describe("the money", () => {
  test("is summed by network and asset in whole tokens", async () => {
    const metrics = new Metrics("test");
    for (const amountAtomic of [10_000n, 1n, 250_000n]) {
      metrics.settledAmount({ network: "base", asset: "USDC", decimals: 6, amountAtomic });
    }
    metrics.settledAmount({ network: "base", asset: "EURC", decimals: 6, amountAtomic: 5n });
    expect(await valuesOf(metrics, "coinslot_settled_amount_total")).toEqual({
      "asset=USDC network=base": 0.260001,
      "asset=EURC network=base": 0.000005,
    });
  });

  test("may be more than a float can hold without ending the process", async () => {
    const metrics = new Metrics("test");
    const amountAtomic = 2n ** 256n - 1n;
    metrics.settledAmount({ network: "base", asset: "USDC", decimals: 0, amountAtomic });
    const [value] = Object.values(await valuesOf(metrics, "coinslot_settled_amount_total"));
    expect(value).toBeCloseTo(1.157920892373162e77, -65);
  });
});

describe("the gauges", () => {
  test("show what is unresolved and the version", async () => {
    const metrics = used();
    expect(await valuesOf(metrics, "coinslot_settlements_unresolved")).toEqual({ "": 2 });
    metrics.unresolved(0);
    expect(await valuesOf(metrics, "coinslot_settlements_unresolved")).toEqual({ "": 0 });
    expect(await valuesOf(metrics, "coinslot_build_info")).toEqual({ "version=1.2.3": 1 });
  });

  test("ask for the requests in flight at each scrape", async () => {
    const metrics = new Metrics("test");
    const name = "coinslot_http_requests_in_flight";
    expect(await valuesOf(metrics, name)).toEqual({ "": 0 });
    let inFlight = 7;
    metrics.observeInFlight(() => inFlight);
    expect(await valuesOf(metrics, name)).toEqual({ "": 7 });
    inFlight = 3;
    expect(await valuesOf(metrics, name)).toEqual({ "": 3 });
  });
});

describe("the vocabulary", () => {
  test("has no label whose number a client decides", async () => {
    const { samples } = await scrape(used());
    const ours = samples.filter(({ name }) => name.startsWith("coinslot_"));
    const labels = new Set(ours.flatMap((sample) => Object.keys(sample.labels)));
    expect([...labels].filter((label) => !VOCABULARY.has(label))).toEqual([]);
    expect(labels).toEqual(VOCABULARY);
  });

  test("does not grow with the networks that callers invent", async () => {
    const metrics = new Metrics("test");
    for (let number = 0; number < 50; number += 1) {
      metrics.verification(`net-${number}`, "invalid", "invalid_network", 0);
      metrics.settlement(`net-${number}`, "failed", "invalid_network", 0);
    }
    for (const what of ["verification", "settlement"]) {
      expect(await valuesOf(metrics, `coinslot_${what}_duration_seconds_count`)).toEqual({
        "network=unknown": 50,
      });
    }
  });

  test("names every metric as Prometheus wants it", async () => {
    const { types } = await scrape(used());
    for (const [name, type] of types) {
      if (!name.startsWith("coinslot_")) continue;
      expect(name).toMatch(/^coinslot_[a-z]+(?:_[a-z]+)*$/);
      expect(name.endsWith("_total"), name).toBe(type === "counter");
      if (type === "histogram") expect(name).toMatch(/_seconds$/);
    }
    const own = [...types.keys()].filter((name) => name.startsWith("coinslot_"));
    expect(own.length).toBeGreaterThan(10);
    // The runtime's own are there as well.
    expect(types.has("process_cpu_seconds_total")).toBe(true);
  });

  test("is the process's own: two of them do not share a registry", async () => {
    const [one, other] = [used(), new Metrics("test")];
    expect(await valuesOf(other, "coinslot_http_requests_total")).toEqual({});
    expect(one.registry).not.toBe(other.registry);
  });
});
