/** The admin listener of a process with 500 routes on which everything has happened; or of one with such workers. */
import { createServer } from "node:http";
import { deserialize, serialize } from "node:v8";
import { createAdminHandler } from "../../../src/admin/admin.ts";
import { aggregateMetrics, EndedMetrics } from "../../../src/telemetry/aggregate-metrics.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import type { MetricsSnapshot } from "../../../src/telemetry/metric-registry.ts";
import { MetricsPacker, MetricsUnpacker } from "../../../src/telemetry/packed-metrics.ts";
import { serve } from "../process.ts";

const ROUTES = 500;
/** Seconds: one in each bucket, and with digits that take their time to be written. */
const TIMES = [
  0.0007, 0.0021, 0.0041, 0.0083, 0.017, 0.031, 0.071, 0.13, 0.31, 0.71, 1.3, 3.1, 7, 17,
];

function filled(): Metrics {
  const metrics = new Metrics("bench");
  for (let number = 0; number < ROUTES; number += 1) {
    const meter = metrics.route(`GET /v1/products/:id/variants/${number}`);
    for (const seconds of TIMES) {
      const exemplar = `trace_id="0af7651916cd43dd8448eb211c80319c",payment_id="${number}"`;
      meter.finished(200, "paid", seconds + number / 7e6, seconds / 3, exemplar);
      meter.finished(402, "challenged", seconds / 1000, 0);
      meter.finished(402, "refused", seconds / 100, 0);
      meter.finished(502, "undelivered", seconds, seconds / 2);
    }
  }
  return metrics;
}

const workers = Number(process.argv[2] ?? "0");
const metrics = filled();
const logger = createLogger({ level: "silent", format: "json" });
const ended = new EndedMetrics();
const packer = new MetricsPacker();
const unpackers = Array.from({ length: workers }, () => new MetricsUnpacker());
const shapes = packer.pack(await metrics.registry.snapshot(), 0);
for (const unpacker of unpackers) unpacker.unpack(shapes);
const message = serialize(packer.pack(await metrics.registry.snapshot(), shapes.revision));

/** As the process with the money reads its own and those that its workers send. */
async function all(): Promise<MetricsSnapshot> {
  const own = await new Metrics("bench").registry.snapshot();
  const told = unpackers.map((unpacker, index) => ({
    worker: String(index + 1),
    metrics: unpacker.unpack(deserialize(message)) ?? [],
    isLeaving: false,
  }));
  return aggregateMetrics([{ worker: "0", metrics: own, isLeaving: false }, ...told], ended);
}

const readiness = async () => ({ isReady: true, said: [] });
const read = workers === 0 ? {} : { metrics: all };
serve(createServer(createAdminHandler({ telemetry: { logger, metrics }, readiness, ...read })));
