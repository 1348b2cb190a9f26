/**
 * The front of the gateway with 500 routes and nothing behind it that takes money: with its metrics and its log
 * (`on`), without them (`off`), or with a line in the log for each request (`debug`).
 */
import { pino } from "pino";
import { PublicSide } from "../../../src/app/public-side.ts";
import { Publications } from "../../../src/publishing/publishing.ts";
import { parseConfig } from "../../../src/config/config.ts";
import { ALL_OPEN, NO_FEE_PAYERS } from "../../../src/payments/sale/offers.ts";
import { createLogger, type LogLevel } from "../../../src/telemetry/logger.ts";
import { MetricRegistry } from "../../../src/telemetry/metric-registry.ts";
import { Metrics, type RouteMeter } from "../../../src/telemetry/metrics.ts";
import { TargetMeters, type TargetMeter } from "../../../src/telemetry/target-meter.ts";
import { RemotePots } from "../../../src/workers/remote-pots.ts";
import { RemotePaymentService } from "../../../src/workers/remote-payment-service.ts";
import { ready } from "../process.ts";
import { NETWORK, PAY_TO } from "./wares.ts";

const PRICED = 498;
const SETTLEMENT_MS = 1_000;

const [backend = "", mode = "on"] = process.argv.slice(2);
const LEVELS: Readonly<Record<string, LogLevel>> = { on: "info", off: "silent", debug: "debug" };

function nothing(): void {
  // Where nothing is counted.
}

class MuteTargets extends TargetMeters {
  override target(): TargetMeter {
    return { count: nothing, checked: nothing, left: nothing, retire: nothing };
  }
}

class MuteMetrics extends Metrics {
  override readonly targets = new MuteTargets(new MetricRegistry());

  override route(label: string): RouteMeter {
    return { label, finished: nothing };
  }
}

const text = `
listen: 127.0.0.1:0
publicUrl: http://localhost:8402
upstream: ${backend}
payTo: "${PAY_TO}"
accept: [${NETWORK}]
facilitator: http://127.0.0.1:9
unmatched: deny
routes:
  GET /files/*: free
  POST /files/*: free
${Array.from({ length: PRICED }, (_, index) => `  GET /products/item-${index}: $0.01`).join("\n")}
`;
const parsed = parseConfig(text, {
  file: "bench.yaml",
  env: {},
  readFile: () => {
    throw new Error("the configuration names no files");
  },
});
if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
const { config } = parsed;
const destination = pino.destination({ dest: "/dev/null", sync: false });
const logger = createLogger({ level: LEVELS[mode] ?? "info", format: "json", destination });
const front = new PublicSide({
  config,
  telemetry: {
    logger,
    metrics: mode === "off" ? new MuteMetrics("bench", false) : new Metrics("bench"),
  },
  payments: new RemotePaymentService(
    { call: () => Promise.reject(new Error("no till")) },
    SETTLEMENT_MS,
  ),
  pots: new RemotePots({ call: () => Promise.reject(new Error("no till")) }),
  feePayers: NO_FEE_PAYERS,
  networks: ALL_OPEN,
  publish: new Publications(config, { changes: new Map(), feePayers: NO_FEE_PAYERS }).publish,
  fronts: 1,
});
const [address] = await front.open();
ready(`http://127.0.0.1:${address?.port}`);
