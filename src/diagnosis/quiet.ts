import type { Surroundings } from "../app/chains.ts";
import { createLogger } from "../telemetry/logger.ts";
import { Metrics } from "../telemetry/metrics.ts";
import { systemTime } from "../time/time.ts";

/** For what looks at chains and tells what it finds by itself. */
export function quietly(): Surroundings {
  const logger = createLogger({ level: "silent", format: "json" });
  return { telemetry: { logger, metrics: new Metrics("none") }, time: systemTime };
}
