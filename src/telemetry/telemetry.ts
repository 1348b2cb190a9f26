/** What a process says about itself: its log, its metrics, and the newest requests step by step. */
import type { AccessLog } from "./access-log.ts";
import type { Logger } from "./logger.ts";
import type { Metrics } from "./metrics.ts";
import type { Timeline } from "./timeline.ts";

export interface Telemetry {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Absent where no such log is kept. */
  readonly access?: AccessLog | undefined;
  /** Absent where nobody can look at it. */
  readonly timeline?: Timeline | undefined;
}
