/** What a process says about itself: its log and its metrics. */
import type { Logger } from "./logger.ts";
import type { Metrics } from "./metrics.ts";

export interface Telemetry {
  readonly logger: Logger;
  readonly metrics: Metrics;
}
