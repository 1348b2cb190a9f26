import { request } from "node:http";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { parseTraceParent } from "../../../src/telemetry/request-context.ts";
import { present, richBuyer, sign } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount } from "../../support/payer.ts";
import { Site, type Served } from "../../support/serve.ts";
import { startCollector, type Collector, type ReceivedSpan } from "./collector.ts";
import {
  CLIENT_SPAN_ID,
  configOf,
  startBackend,
  startRpc,
  TRACE_ID,
  TRACE_PARENT,
  type Noted,
} from "./stage.ts";

// Each of them starts and ends several processes.
vi.setConfig({ testTimeout: 120_000 });

const TRACE_STATE = "vendor=opaque";

let chain: Chain;
let backend: Noted;
let rpc: Noted;
const signer = freshAccount();
const payee = freshAccount().address;
const env = { SIGNER: signer.privateKey };

beforeAll(async () => {
  chain = await startChain();
  await chain.fund(signer.address, 0n, 10n ** 18n);
  [backend, rpc] = [await startBackend(), await startRpc(chain)];
});

afterAll(async () => {
  await backend[Symbol.asyncDispose]();
  await rpc[Symbol.asyncDispose]();
  await chain.stop();
});

type Line = Readonly<Record<string, unknown>>;

function linesOf(served: Served): readonly Line[] {
  const lines = served.output().stdout.split("\n").slice(0, -1);
  return lines.map((line): Line => JSON.parse(line));
}

/** Sends header lines as they are given, and returns what the backend saw of them. */
async function free(served: Served, lines: readonly string[]) {
  const before = backend.asked.length;
  const headers = ["Host", "localhost", ...lines];
  const sent = request(`${served.url}/health`, { headers, agent: false }).end();
  const [answer] = await once(sent, "response");
  answer.resume();
  await once(answer, "end");
  const { traceparent, tracestate } = backend.asked[before] ?? {};
  return { traceparent, tracestate };
}

async function buy(served: Served, headers: Readonly<Record<string, string>>) {
  const buyer = await richBuyer(chain);
  const url = `${served.url}/weather`;
  const header = await sign(buyer, url);
  const answer = await present(url, header, { headers });
  expect([answer.status, answer.error]).toEqual([200, ""]);
  return { header, transaction: String(answer.receipt?.["transaction"]) };
}

describe("a client's trace", () => {
  test("is continued at the backend as it came, and an invalid one is replaced", async () => {
    await using site = await Site.create();
    const served = await site.serve(configOf({ backend, rpc, payee }), env);
    await served.untilReady();
    const given = { traceparent: TRACE_PARENT, tracestate: TRACE_STATE };
    expect(await free(served, Object.entries(given).flat())).toEqual(given);
    // Whoever has no trace is given none: the backend begins one as it likes.
    expect(await free(served, [])).toEqual({});
    for (const lines of [
      ["traceparent", "00-nonsense", "tracestate", TRACE_STATE],
      ["traceparent", TRACE_PARENT, "Traceparent", TRACE_PARENT, "tracestate", TRACE_STATE],
    ]) {
      const seen = await free(served, lines);
      expect(seen.tracestate).toBeUndefined();
      const trace = parseTraceParent(String(seen.traceparent));
      expect(trace).not.toBeNull();
      expect(trace?.traceId).not.toBe(TRACE_ID);
    }
  });

  test.each([1, 2])(
    "and one payment's whole life are found by one search, with %i worker(s)",
    async (workers) => {
      await using site = await Site.create();
      const served = await site.serve(configOf({ backend, rpc, payee, workers }), env);
      await served.untilReady();
      const asked = rpc.asked.length;
      const { transaction } = await buy(served, {
        traceparent: TRACE_PARENT,
        tracestate: TRACE_STATE,
      });
      await buy(served, {});
      const told = () => linesOf(served).filter(({ msg }) => msg === "payment served");
      await expect.poll(told).toHaveLength(2);
      const [first, second] = told();
      const { payment, key, requestId } = first ?? {};
      expect(String(payment)).toMatch(/^[0-9a-f]{16}$/);
      expect(first?.["traceId"]).toBe(TRACE_ID);
      expect(second?.["payment"]).not.toBe(payment);
      expect(second?.["traceId"]).toBeUndefined();
      // From the signature to the delivery, in both processes.
      const life = linesOf(served).filter((line) => line["payment"] === payment);
      const messages = life.map(({ msg }) => msg);
      for (const message of ["payment signed", "payment settled", "payment served"]) {
        expect(messages).toContain(message);
      }
      for (const line of life) {
        expect(line).toMatchObject({ requestId, key, traceId: TRACE_ID });
      }
      const whole = life.filter((line) => JSON.stringify(line).includes(transaction));
      expect(whole.length).toBeGreaterThanOrEqual(3);
      // The chain's nodes hear of the trace, and of nothing else.
      const traced = rpc.asked.slice(asked).filter(({ traceparent }) => traceparent !== undefined);
      expect(traced.length).toBeGreaterThan(0);
      for (const headers of traced) {
        expect(headers["traceparent"]).toContain(TRACE_ID);
        expect(headers["tracestate"]).toBeUndefined();
      }
    },
  );
});

function named(collector: Collector, name: string, traceId = TRACE_ID): readonly ReceivedSpan[] {
  return collector.spans.filter((span) => span.name === name && span.traceId === traceId);
}

describe("OpenTelemetry", () => {
  test.each([1, 2])(
    "hears of every step of a purchase at the latest when the gateway ends, with %i worker(s)",
    async (workers) => {
      await using collector = await startCollector();
      await using site = await Site.create();
      const served = await site.serve(configOf({ backend, rpc, payee, workers }), {
        ...env,
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_EXPORTER_OTLP_HEADERS: "x-collector-token=secret",
        OTEL_SERVICE_NAME: "shop",
        OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test",
      });
      await served.untilReady();
      const asked = backend.asked.length;
      const { header, transaction } = await buy(served, { traceparent: TRACE_PARENT });
      const heard = backend.asked.at(asked)?.["traceparent"];
      await served.end("SIGTERM");

      expectPurchase(collector, { transaction, heard });
      const processes = new Set(
        collector.spans
          .filter(({ traceId }) => traceId === TRACE_ID)
          .map(({ resource }) => resource["process.pid"]),
      );
      expect(processes.size).toBe(workers === 1 ? 1 : 2);
      expect(collector.requests.every(({ url }) => url === "/v1/traces")).toBe(true);
      expect(collector.requests[0]?.headers["x-collector-token"]).toBe("secret");
      expectNoSecret(collector, header);
    },
  );

  test("hears of nothing that a parent did not sample, nor of anything where it is disabled", async () => {
    await using collector = await startCollector();
    for (const [extra, spans] of [
      [{}, 0],
      [{ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" }, 0],
      [{ OTEL_TRACES_SAMPLER: "always_on" }, 3],
      [{ OTEL_TRACES_SAMPLER: "always_on", OTEL_SDK_DISABLED: "true" }, 0],
    ] as const) {
      await using site = await Site.create();
      const otel = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/v1/traces`, ...extra };
      const served = await site.serve(configOf({ backend, rpc, payee }), { ...env, ...otel });
      await served.untilReady();
      const before = collector.spans.length;
      const unsampled = `00-${TRACE_ID}-${CLIENT_SPAN_ID}-00`;
      await free(served, ["traceparent", unsampled]);
      await served.end("SIGTERM");
      expect(collector.spans.length - before).toBe(spans);
    }
  });

  test("costs spans and nothing else when its collector refuses them", async () => {
    await using collector = await startCollector(400);
    await using site = await Site.create();
    const served = await site.serve(configOf({ backend, rpc, payee }), {
      ...env,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_BSP_SCHEDULE_DELAY: "10",
    });
    await served.untilReady();
    await buy(served, {});
    const failed = async () => {
      const metrics = await (await fetch(`${served.adminUrl}/metrics`)).text();
      return Number(/coinslot_trace_spans_total\{result="failed"\} (\d+)/.exec(metrics)?.[1]);
    };
    await expect.poll(failed, { timeout: 10_000 }).toBeGreaterThan(0);
    expect(await served.end("SIGTERM")).toBe(0);
  });
});

/** Neither the payment as it was presented, nor what is in it, nor our own key. */
function expectNoSecret({ bodies }: Collector, header: string): void {
  const { payload } = JSON.parse(Buffer.from(header, "base64").toString());
  for (const secret of [
    header,
    payload.signature,
    payload.authorization.nonce,
    signer.privateKey,
  ]) {
    expect(String(secret).length).toBeGreaterThan(20);
    expect(bodies.some((body) => body.includes(String(secret)))).toBe(false);
  }
}

/** The spans of one purchase under the client's trace, each under the one that directs it. */
function expectPurchase(
  collector: Collector,
  { transaction, heard }: { readonly transaction: string; readonly heard: unknown },
): void {
  const server = named(collector, "GET").find(({ kind }) => kind === 2);
  expect(server).toMatchObject({
    parentSpanId: CLIENT_SPAN_ID,
    attributes: {
      "http.request.method": "GET",
      "http.route": "GET /weather",
      "http.response.status_code": 200,
      "url.path": "/weather",
      "coinslot.outcome": "paid",
    },
    resource: { "service.name": "shop", "deployment.environment.name": "test" },
  });
  for (const name of ["decision", "verify", "settle", "delivery"]) {
    expect(named(collector, name).map(({ parentSpanId }) => parentSpanId)).toEqual([
      server?.spanId,
    ]);
  }
  const [settle] = named(collector, "settle");
  expect(settle?.attributes["coinslot.transaction"]).toBe(transaction);
  const [submit] = named(collector, "submit");
  expect(submit?.parentSpanId).toBe(settle?.spanId);
  const [upstream] = named(collector, "upstream");
  expect(upstream?.parentSpanId).toBe(named(collector, "delivery")[0]?.spanId);
  expect(heard).toBe(`00-${TRACE_ID}-${upstream?.spanId}-01`);
  const [verify] = named(collector, "verify");
  const calls = collector.spans.filter(({ attributes }) => "rpc.method" in attributes);
  expect(calls.map(({ parentSpanId }) => parentSpanId)).toContain(verify?.spanId);
  // The node was asked under the very span that waits for it.
  const parents = rpc.asked.map(({ traceparent }) => String(traceparent).split("-")[2]);
  for (const { spanId } of calls) expect(parents).toContain(spanId);
}
