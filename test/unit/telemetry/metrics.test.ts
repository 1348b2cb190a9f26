import { describe, expect, test } from "vitest";
import { Metrics, PAYMENT_OUTCOMES, type PaymentOutcome } from "../../../src/telemetry/metrics.ts";
import { readScrape, valuesIn } from "./scrape.ts";

/** Every label there is, and what bounds its number. */
const VOCABULARY: ReadonlySet<string> = new Set([
  "address", // our own accounts, from the configuration
  "asset", // the configuration
  "code", // fifteen error codes, or HTTP statuses
  "delivered", // true or false
  "facilitator", // the configuration
  "file", // certificates in the configuration
  "kind", // base or priority
  "host", // the RPC endpoints of the configuration
  "le", // the buckets
  "method", // the JSON-RPC methods that the mechanisms call
  "network", // twelve networks
  "outcome", // PAYMENT_OUTCOMES
  "reason", // why a request was tried again, or a payment refused: a handful of words
  "result", // a handful of words
  "route", // the configuration
  "state", // ejected or down
  "target", // host and port of a target, from the configuration
  "upstream", // the configuration
  "version", // one
]);

async function scrape(metrics: Metrics) {
  return readScrape(await metrics.registry.metrics());
}

async function valuesOf(metrics: Metrics, name: string): Promise<Readonly<Record<string, number>>> {
  return valuesIn(await metrics.registry.metrics(), name);
}

const ADDRESS = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const WALLET = {
  address: ADDRESS,
  balanceAtomic: 1_234_567_890_123_456_789n,
  decimals: 18,
  settlementAtomic: 1_000_000_000_000_000n,
};

/** One of everything. */
function used(): Metrics {
  const metrics = new Metrics("1.2.3");
  metrics.route("GET /a").finished(200, "paid", 0.2, 0.1);
  metrics.route("GET /a").finished(402, "challenged", 0.001, 0);
  metrics.verification("base", "valid", "", 0.1);
  metrics.settlement("base", "failed", "insufficient_funds", 1);
  metrics.settledAmount({ network: "base", asset: "USDC", decimals: 6, amountAtomic: 10_000n });
  metrics.rpcCall("base", "eth_call", "ok", 0.01);
  metrics.submission("base", 3);
  metrics.replacement("base");
  metrics.withdrawal("base");
  metrics.reorganization("base", true);
  metrics.observeQueue("base", () => 4);
  metrics.counts({
    held: 0,
    unresolved: 1,
    undelivered: 2,
    offered: 3,
    refunding: 4,
    unrefunded: 5,
  });
  metrics.wallets.feePayer("base", WALLET);
  metrics.rpcHealth("base", "rpc.example.com", true);
  metrics.facilitatorHealth("https://facilitator.example.com", true);
  metrics.replayed("GET /a");
  metrics.replayRefused("GET /a", "used");
  metrics.configuration.certificate("tls.crt", 1_800_000_000_000);
  metrics.networks.head("base", 1_700_000_000);
  metrics.networks.reverted("base", 300_000);
  metrics.networks.paused("base", "batches");
  metrics.networks.observeClosed(
    async () =>
      new Map([
        ["base", null],
        ["polygon", "wallet"],
      ]),
  );
  metrics.gasSpent("base", { fee: 10n ** 15n, priority: 10n ** 14n, price: 10n ** 18n });
  const target = metrics.targets.target("api", "10.0.0.1:80", () => ({ isUp: true, active: 2 }));
  target.count("answered");
  target.checked(true);
  target.left("ejected");
  metrics.targets.retried("api", "connect-failure");
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

const USDC = { network: "base", asset: "USDC" };
/** A sale of a cent at a route. */
const CENT = { ...USDC, decimals: 6, amountAtomic: 10_000n };
const REQUESTS = "coinslot_http_requests_total";
const AMOUNTS = "coinslot_settled_amount_total";

/** Priced routes by number, of a shop of many. */
function shopOf(routes: number, metrics = new Metrics("test")): Metrics {
  for (let number = 0; number < routes; number += 1) metrics.route(`GET /${number}`, [USDC]);
  return metrics;
}

describe("what is sold", () => {
  test("is counted from 0, so that a first sale is a change", async () => {
    const metrics = shopOf(1);
    metrics.route("GET /free");
    const labels = "asset=USDC network=base route=GET /0";
    expect(await valuesOf(metrics, REQUESTS)).toEqual({ "code=200 outcome=paid route=GET /0": 0 });
    expect(await valuesOf(metrics, AMOUNTS)).toEqual({ [labels]: 0 });
    expect(await valuesOf(metrics, "coinslot_paid_unserved_total")).toEqual({ "route=GET /0": 0 });
    metrics.route("GET /0", [USDC]).finished(200, "paid", 1, 0.5);
    metrics.settledAmount({ route: "GET /0", ...CENT });
    expect(await valuesOf(metrics, REQUESTS)).toEqual({ "code=200 outcome=paid route=GET /0": 1 });
    expect(await valuesOf(metrics, AMOUNTS)).toEqual({ [labels]: 0.01 });
  });

  test("is in a shop of many routes counted from the first request for each", async () => {
    const metrics = shopOf(201);
    expect(await valuesOf(metrics, REQUESTS)).toEqual({});
    expect(await valuesOf(metrics, AMOUNTS)).toEqual({});
    expect(Object.keys(await valuesOf(metrics, "coinslot_paid_unserved_total"))).toHaveLength(201);
    metrics.route("GET /7", [USDC]).finished(402, "challenged", 0.001, 0);
    expect(await valuesOf(metrics, REQUESTS)).toEqual({
      "code=200 outcome=paid route=GET /7": 0,
      "code=402 outcome=challenged route=GET /7": 1,
    });
    expect(await valuesOf(metrics, AMOUNTS)).toEqual({ "asset=USDC network=base route=GET /7": 0 });
  });

  test("is told of no route that is gone, and its money is not lost", async () => {
    const metrics = shopOf(3);
    for (const route of ["GET /0", "GET /1"]) {
      metrics.route(route, [USDC]).finished(200, "paid", 1, 0.5);
      metrics.settledAmount({ route, ...CENT });
      metrics.replayRefused(route, "used");
    }
    metrics.configureRoutes({ routes: ["GET /1", "GET /2"], isByRoute: true });
    metrics.settledAmount({ route: "GET /0", ...CENT });
    metrics.settledAmount({ ...CENT, network: "polygon" });
    metrics.replayed("GET /0");
    expect(await metrics.registry.metrics()).not.toContain('"GET /0"');
    expect(await valuesOf(metrics, AMOUNTS)).toEqual({
      "asset=USDC network=base route=GET /1": 0.01,
      "asset=USDC network=base route=GET /2": 0,
      "asset=USDC network=base route=(removed)": 0.01,
      "asset=USDC network=polygon": 0.01,
    });
  });
});

describe("a shop of 500 routes, of which 20 are busy", () => {
  function busy(isByRoute: boolean): Metrics {
    const metrics = shopOf(0, used());
    const routes = Array.from({ length: 500 }, (_, number) => `GET /v1/articles/${number}/summary`);
    for (const [number, route] of routes.entries()) {
      const meter = metrics.route(route, [USDC, { network: "polygon", asset: "USDC" }]);
      if (number >= 20) continue;
      for (const [status, outcome] of [
        [402, "challenged"],
        [200, "paid"],
        [200, "replayed"],
        [402, "refused"],
        [502, "undelivered"],
      ] as const) {
        meter.finished(status, outcome, 0.2, 0.1);
      }
      metrics.settledAmount({ route, ...CENT });
    }
    metrics.configureRoutes({ routes, isByRoute });
    return metrics;
  }

  test("is at most 300 kB of text", async () => {
    const text = await busy(true).registry.metrics();
    expect(text).toContain(
      'coinslot_http_request_duration_seconds_count{route="GET /v1/articles/19',
    );
    expect(text.length).toBeLessThanOrEqual(300_000);
    expect(text.length).toBeGreaterThan(100_000);
  });

  test("tells durations of all routes together where that is asked for", async () => {
    const metrics = busy(false);
    metrics.route("GET /v1/articles/3/summary").finished(200, "paid", 0.2, 0.1);
    const count = "coinslot_http_request_duration_seconds_count";
    // Those from before are of routes, and gone.
    expect(await valuesOf(metrics, count)).toEqual({ "": 1 });
    expect((await metrics.registry.metrics()).length).toBeLessThanOrEqual(150_000);
    const routes = ["GET /v1/articles/3/summary"];
    metrics.configureRoutes({ routes, isByRoute: true });
    metrics.route("GET /v1/articles/3/summary").finished(200, "paid", 0.2, 0.1);
    expect(await valuesOf(metrics, count)).toEqual({ [`route=${routes[0]}`]: 1 });
  });
});

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
  test("show the version", async () => {
    expect(await valuesOf(used(), "coinslot_build_info")).toEqual({ "version=1.2.3": 1 });
  });

  test("ask for the requests in flight at each scrape", async () => {
    const metrics = new Metrics("test");
    const name = "coinslot_http_requests_in_flight";
    expect(await valuesOf(metrics, name)).toEqual({ "": 0 });
    metrics.observePlaces(() => ({ taken: 3, waiting: 2, total: 40, evicted: 5 }));
    expect(await valuesOf(metrics, "coinslot_places_taken")).toEqual({ "": 3 });
    expect(await valuesOf(metrics, "coinslot_payments_waiting")).toEqual({ "": 2 });
    expect(await valuesOf(metrics, "coinslot_places")).toEqual({ "": 40 });
    expect(await valuesOf(metrics, "coinslot_places_evicted_total")).toEqual({ "": 5 });
    let inFlight = 7;
    metrics.observeInFlight(() => inFlight);
    expect(await valuesOf(metrics, name)).toEqual({ "": 7 });
    inFlight = 3;
    expect(await valuesOf(metrics, name)).toEqual({ "": 3 });
  });
});

describe("the settlements", () => {
  test("are counted by transaction, with the payments that each carries", async () => {
    const metrics = new Metrics("test");
    for (const payments of [1, 1, 50, 200]) metrics.submission("base", payments);
    metrics.submission("polygon", 2);
    expect(await valuesOf(metrics, "coinslot_submissions_total")).toEqual({
      "network=base": 4,
      "network=polygon": 1,
    });
    const buckets = await valuesOf(metrics, "coinslot_submission_payments_bucket");
    expect(buckets).toMatchObject({
      "le=1.0 network=base": 2,
      "le=30.0 network=base": 2,
      "le=50.0 network=base": 3,
      "le=+Inf network=base": 4,
      "le=1.0 network=polygon": 0,
      "le=2.0 network=polygon": 1,
    });
    expect(await valuesOf(metrics, "coinslot_submission_payments_sum")).toEqual({
      "network=base": 252,
      "network=polygon": 2,
    });
  });

  test("are told apart by what went wrong with them", async () => {
    const metrics = new Metrics("test");
    metrics.replacement("base");
    metrics.replacement("base");
    metrics.withdrawal("base");
    metrics.reorganization("base", false);
    metrics.reorganization("base", false);
    metrics.reorganization("base", false);
    metrics.reorganization("base", true);
    const of = (what: string) => valuesOf(metrics, `coinslot_settlement_${what}_total`);
    expect(await of("replacements")).toEqual({ "network=base": 2 });
    expect(await of("withdrawals")).toEqual({ "network=base": 1 });
    expect(await of("reorganizations")).toEqual({
      "delivered=false network=base": 3,
      "delivered=true network=base": 1,
    });
  });

  test("that wait are asked for at each scrape, by network", async () => {
    const metrics = new Metrics("test");
    const name = "coinslot_settlement_queue_length";
    expect(await valuesOf(metrics, name)).toEqual({});
    const queues = { base: 3, polygon: 0 };
    metrics.observeQueue("base", () => queues.base);
    metrics.observeQueue("polygon", () => queues.polygon);
    expect(await valuesOf(metrics, name)).toEqual({ "network=base": 3, "network=polygon": 0 });
    queues.base = 0;
    queues.polygon = 9;
    expect(await valuesOf(metrics, name)).toEqual({ "network=base": 0, "network=polygon": 9 });
  });
});

describe("the health of what a process depends on", () => {
  test("counts the payments that wait, each kind in a gauge of its own", async () => {
    const metrics = new Metrics("test");
    metrics.counts({
      held: 0,
      unresolved: 7,
      undelivered: 8,
      offered: 9,
      refunding: 4,
      unrefunded: 5,
    });
    metrics.counts({
      held: 0,
      unresolved: 1,
      undelivered: 2,
      offered: 3,
      refunding: 4,
      unrefunded: 5,
    });
    const of = (what: string) => valuesOf(metrics, `coinslot_payments_${what}`);
    expect(await of("unresolved")).toEqual({ "": 1 });
    expect(await of("undelivered")).toEqual({ "": 2 });
    expect(await of("offered")).toEqual({ "": 3 });
  });

  test("is 1 or 0 for each chain node and each remote facilitator", async () => {
    const metrics = new Metrics("test");
    metrics.rpcHealth("base", "one.example.com", true);
    metrics.rpcHealth("base", "two.example.com", true);
    metrics.rpcHealth("base", "two.example.com", false);
    metrics.facilitatorHealth("https://a.example.com", false);
    metrics.facilitatorHealth("https://a.example.com", true);
    expect(await valuesOf(metrics, "coinslot_rpc_endpoint_healthy")).toEqual({
      "host=one.example.com network=base": 1,
      "host=two.example.com network=base": 0,
    });
    // Who asks it beside another one, as while a reload is judged, takes nothing of that one's away.
    const judged = {};
    metrics.rpcHealth("base", "two.example.com", true, judged);
    metrics.rpcHealth("base", "three.example.com", false, judged);
    for (const host of ["two", "three"]) {
      metrics.rpcHealth("base", `${host}.example.com`, undefined, judged);
    }
    expect(await valuesOf(metrics, "coinslot_rpc_endpoint_healthy")).toEqual({
      "host=one.example.com network=base": 1,
      "host=two.example.com network=base": 0,
    });
    metrics.rpcHealth("base", "one.example.com", undefined);
    expect(await valuesOf(metrics, "coinslot_rpc_endpoint_healthy")).toEqual({
      "host=two.example.com network=base": 0,
    });
    expect(await valuesOf(metrics, "coinslot_facilitator_healthy")).toEqual({
      "facilitator=https://a.example.com": 1,
    });
  });

  test("counts the answers given again, by route", async () => {
    const metrics = new Metrics("test");
    const route = metrics.route("GET /a");
    metrics.replayed("GET /a");
    metrics.replayed("GET /a");
    route.finished(200, "replayed", 0.1, 0);
    expect(await valuesOf(metrics, "coinslot_replays_total")).toEqual({ "route=GET /a": 2 });
    expect(await valuesOf(metrics, "coinslot_http_requests_total")).toEqual({
      "code=200 outcome=replayed route=GET /a": 1,
    });
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
      if (type === "histogram") expect(name).toMatch(/_(?:seconds|payments)$/);
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
