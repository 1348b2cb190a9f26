/** Telemetry that only a trace hears: metrics go nowhere, log lines into the trace. */
import { createLogger, type Logger } from "../../src/telemetry/logger.ts";
import { Metrics } from "../../src/telemetry/metrics.ts";
import type { Telemetry } from "../../src/telemetry/telemetry.ts";

const LEVELS: ReadonlySet<unknown> = new Set(["trace", "debug", "info", "warn", "error", "fatal"]);

const nothing = (): void => undefined;
/** One for all worlds: each logger stays in memory until the process ends. */
const silent = createLogger({ level: "silent", format: "json" });
const metrics = new Proxy(new Metrics("simulation"), { get: () => nothing });

/** `trace` undefined: nothing is told at all. */
export function silentTelemetry(trace: ((line: string) => void) | undefined): Telemetry {
  const logger: Logger = new Proxy(silent, {
    get(_, member) {
      if (member === "child") return () => logger;
      if (member === "isLevelEnabled") return () => trace !== undefined;
      if (trace === undefined || !LEVELS.has(member)) return nothing;
      return (facts: unknown, said?: string): void => {
        trace(`log ${String(member)}: ${tell(facts, said)}`);
      };
    },
  });
  return { metrics, logger };
}

function tell(facts: unknown, said = ""): string {
  if (typeof facts === "string") return facts;
  const text = JSON.stringify(facts, (_, value: unknown) =>
    value instanceof Error ? `${value.name}: ${value.message}` : value,
  );
  return `${said} ${text}`;
}
