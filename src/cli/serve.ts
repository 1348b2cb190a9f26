/** `coinslot serve FILE`: runs until it is told to stop, then drains. */
import { once } from "node:events";
import { start, type Running } from "../app.ts";
import { formatProblems, loadConfig } from "../config/config.ts";
import { startTable } from "./start-table.ts";

/** Resolves with the exit code once everything is closed. A second signal ends the process at once. */
export async function serve(file: string, version: string): Promise<number> {
  const loaded = await loadConfig(file);
  const color = process.stderr.isTTY && !process.env["NO_COLOR"];
  if (!loaded.ok) {
    process.stderr.write(formatProblems(loaded.problems, loaded.text, { color }));
    process.stderr.write(`${file}: refused; nothing was started\n`);
    return 1;
  }
  let running: Running;
  try {
    running = await start(loaded.config, version);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    process.stderr.write(`coinslot could not start: ${reason}\n`);
    return 1;
  }
  process.stderr.write(startTable(loaded.config, running, loaded.problems));
  const { logger } = running.telemetry;
  logger.info({ file, version }, "coinslot is serving");

  const stop = new AbortController();
  const signals = ["SIGTERM", "SIGINT"] as const;
  const first = signals.map((name) =>
    once(process, name, { signal: stop.signal }).then(() => name),
  );
  for (const signal of first) signal.catch(() => undefined);
  const name = await Promise.race(first);
  stop.abort();
  for (const again of signals) process.once(again, () => process.exit(1));
  logger.info({ signal: name, withinMs: loaded.config.shutdownMs }, "draining");
  await running.close();
  logger.info("stopped");
  return 0;
}
