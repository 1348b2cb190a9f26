/** The access log of this process, where one is kept. */
import type { Config } from "../config/config.ts";
import { openAccessLog, type AccessLog } from "../telemetry/access-log.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { systemTime } from "../time/time.ts";

/** Throws where its file cannot be opened. */
export function openAccess(
  { logging: { access } }: Pick<Config, "logging">,
  { logger, metrics }: Pick<Telemetry, "logger" | "metrics">,
): AccessLog | undefined {
  if (access === null) return undefined;
  let isTold = false;
  const onLost = (err?: Error): void => {
    metrics.accessLost();
    // Once: each line would be another one.
    if (err !== undefined && !isTold) logger.error({ err }, "the access log cannot be written");
    isTold ||= err !== undefined;
  };
  return openAccessLog(access, onLost, () => systemTime.now());
}
