import { expect, test } from "vitest";
import {
  aggregateMetrics,
  EndedMetrics,
  type ProcessMetrics,
} from "../../../src/telemetry/aggregate-metrics.ts";
import { expose } from "../../../src/telemetry/exposition.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";

async function snapshot(
  worker: string,
  fill: (metrics: Metrics) => void,
  isLeaving = false,
): Promise<ProcessMetrics> {
  const metrics = new Metrics("1.2.3");
  fill(metrics);
  // As it crosses from one process to another.
  const sent = structuredClone(await metrics.registry.snapshot());
  return { worker, metrics: sent, isLeaving };
}

function serve(times: number): (metrics: Metrics) => void {
  return (metrics) => {
    const meter = metrics.route("GET /weather");
    for (let count = 0; count < times; count += 1) meter.finished(200, "paid", 0.002, 0.001);
    metrics.observeInFlight(() => times);
    metrics.verification("base-sepolia", "valid", "", 0.02);
  };
}

test("what processes counted that are gone is told as long as its route is there", async () => {
  const ended = new EndedMetrics();
  const fill = (metrics: Metrics): void => {
    for (const route of ["GET /weather", "GET /n\\ews"]) {
      metrics.route(route).finished(200, "paid", 0.002, 0.001);
    }
    metrics.verification("base-sepolia", "valid", "", 0.02);
  };
  const add = async (): Promise<void> => {
    const each = await snapshot("1", fill);
    ended.add(each, each.metrics);
  };
  const told = () => expose(ended.counted);
  await add();
  expect(told()).toContain('route="GET /weather"');
  ended.configureRoutes({ routes: ["GET /n\\ews"], isByRoute: true });
  await add();
  expect(told()).not.toContain("GET /weather");
  const news = 'route="GET /n\\\\ews"';
  expect(linesOf(told(), "coinslot_http_requests_total")).toEqual([
    `coinslot_http_requests_total{${news},code="200",outcome="paid"} 2`,
  ]);
  const durations = "coinslot_http_request_duration_seconds_count";
  expect(linesOf(told(), durations)).toEqual([`${durations}{${news}} 2`]);
  ended.configureRoutes({ routes: ["GET /n\\ews"], isByRoute: false });
  expect(linesOf(told(), durations)).toEqual([]);
  expect(linesOf(told(), "coinslot_verification_duration_seconds_count")).toHaveLength(1);
});

/** The lines of one metric, without those of help and type. */
function linesOf(text: string, name: string): string[] {
  return text.split("\n").filter((line) => line.startsWith(name));
}

test("counters, histograms and gauges are summed up, the version is one for all", async () => {
  const families = aggregateMetrics(
    [
      await snapshot("0", () => undefined),
      await snapshot("1", serve(2)),
      await snapshot("2", serve(3)),
    ],
    new EndedMetrics(),
  );
  const text = expose(families);
  const labels = 'route="GET /weather"';
  expect(linesOf(text, "coinslot_http_requests_total")).toEqual([
    `coinslot_http_requests_total{${labels},code="200",outcome="paid"} 5`,
  ]);
  expect(linesOf(text, "coinslot_http_request_duration_seconds_count")).toEqual([
    `coinslot_http_request_duration_seconds_count{${labels}} 5`,
  ]);
  expect(
    linesOf(text, `coinslot_http_request_duration_seconds_bucket{${labels},le="0.0025"`),
  ).toEqual([`coinslot_http_request_duration_seconds_bucket{${labels},le="0.0025"} 5`]);
  expect(linesOf(text, "coinslot_verification_duration_seconds_count")).toEqual([
    'coinslot_verification_duration_seconds_count{network="base-sepolia"} 2',
  ]);
  expect(linesOf(text, "coinslot_http_requests_in_flight")).toEqual([
    "coinslot_http_requests_in_flight 5",
  ]);
  expect(linesOf(text, "coinslot_build_info")).toEqual(['coinslot_build_info{version="1.2.3"} 1']);
});

test("what describes a process is told of each, but of one that is leaving", async () => {
  const families = aggregateMetrics(
    [
      await snapshot("0", () => undefined),
      await snapshot("1", () => undefined),
      await snapshot("1", () => undefined, true),
    ],
    new EndedMetrics(),
  );
  const text = expose(families);
  const memory = linesOf(text, "process_resident_memory_bytes");
  expect(memory.map((line) => line.split(" ", 1)[0])).toEqual([
    'process_resident_memory_bytes{worker="0"}',
    'process_resident_memory_bytes{worker="1"}',
  ]);
  const bytes = memory.map((line) => Number(line.split(" ")[1]));
  // Of one process each, not of both together.
  for (const each of bytes) expect(each).toBeLessThan(process.memoryUsage.rss() * 1.5);
  expect(linesOf(text, "process_start_time_seconds")).toHaveLength(2);
  expect(linesOf(text, "nodejs_eventloop_lag_p99_seconds")).toHaveLength(2);
});

test("what processes counted that are gone stays in the sum, their gauges do not", async () => {
  const ended = new EndedMetrics();
  for (const worker of ["1", "1", "2"]) {
    const each = await snapshot(worker, serve(4));
    ended.add(each, each.metrics);
    expect(ended.has(each)).toBe(true);
  }
  const own = await snapshot("0", () => undefined);
  const text = expose(aggregateMetrics([own, await snapshot("1", serve(1))], ended));
  const sold = linesOf(text, "coinslot_http_requests_total");
  expect(sold).toEqual([
    'coinslot_http_requests_total{route="GET /weather",code="200",outcome="paid"} 13',
  ]);
  expect(linesOf(text, "coinslot_http_request_duration_seconds_count")).toEqual([
    'coinslot_http_request_duration_seconds_count{route="GET /weather"} 13',
  ]);
  expect(linesOf(text, "coinslot_http_requests_in_flight")).toEqual([
    "coinslot_http_requests_in_flight 1",
  ]);
});
