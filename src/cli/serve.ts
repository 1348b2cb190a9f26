/** `coinslot serve FILE`: runs until it is told to stop, then drains. */
import { resolve } from "node:path";
import { start, type Running } from "../app.ts";
import { loadInThread } from "../app/read-config.ts";
import { formatProblems, loadConfig, type Config, type ParseResult } from "../config/config.ts";
import { FileWatch, FileWatches } from "./file-watch.ts";
import { startFault } from "./start-fault.ts";
import { startTable } from "./start-table.ts";
import { wantsColor } from "./terminal.ts";

/** EX_CONFIG of sysexits.h: a supervisor need not try again before the file is another. */
const REFUSED = 78;

/** Resolves with the exit code once everything is closed. A second signal ends the process at once. */
export async function serve(file: string, version: string): Promise<number> {
  let running: Running | undefined;
  let isStale = false;
  const watch = await FileWatch.open(file, () => {
    isStale = true;
    void running?.reload("the file has changed");
  });
  const others = new FileWatches(() => {
    void running?.reload("a file that it names has changed");
  });
  const read = (): Promise<ParseResult> =>
    running === undefined ? loadConfig(file) : loadInThread(process.argv[1] ?? "", file);
  let named: readonly string[] = [];
  const load = async (): Promise<ParseResult> => {
    const first = await read();
    // What is wrong with a file may be mended in one that it has begun to include.
    const begun = first.included.map(({ name }) => resolve(name));
    named = first.ok ? namedIn(first.config) : [...new Set([...named, ...begun])];
    return (await others.see(named)) ? read() : first;
  };
  using _ = {
    [Symbol.dispose]: () => {
      watch.close();
      others.close();
    },
  };
  const loaded = await load();
  const color = wantsColor(process.stderr);
  if (!loaded.ok) {
    process.stderr.write(formatProblems(loaded.problems, loaded.text, { color }));
    process.stderr.write(`${file}: refused; nothing was started\n`);
    return REFUSED;
  }
  // Before anything is started: a signal during the start is obeyed once it is complete.
  const stopped = firstSignal();
  process.on("SIGHUP", () => void running?.reload("SIGHUP"));
  try {
    running = await start(loaded.config, version, { read: loaded, load });
  } catch (cause) {
    const reason = startFault(cause, { file, store: loaded.config.store });
    process.stderr.write(`coinslot could not start: ${reason}`);
    return 1;
  }
  process.stderr.write(startTable(loaded.config, running, loaded.problems));
  const { logger } = running.telemetry;
  logger.info({ file, version }, "coinslot is serving");
  if (isStale) void running.reload("the file has changed");

  const ending = await Promise.race([stopped, running.hopeless.then((reason) => ({ reason }))]);
  if (typeof ending === "object") {
    logger.fatal(ending, "giving up");
    process.stderr.write(`coinslot gives up: ${ending.reason}\n`);
  } else logger.info({ signal: ending, ...loaded.config.shutdown }, "draining");
  // Whoever presses Ctrl-C is no load balancer.
  await running.close({ atOnce: ending !== "SIGTERM" });
  logger.info("stopped");
  return typeof ending === "object" ? 1 : 0;
}

/** Files that are read with it, and again when they change. */
function namedIn({ included, payers, members }: Config): readonly string[] {
  return [...included, ...payers.files, ...members.files];
}

/** Resolves with the first signal to stop; the second one ends the process at once. */
function firstSignal(): Promise<NodeJS.Signals> {
  const first = Promise.withResolvers<NodeJS.Signals>();
  let isStopping = false;
  const obey = (signal: NodeJS.Signals): void => {
    if (isStopping) process.exit(1);
    isStopping = true;
    first.resolve(signal);
  };
  process.on("SIGTERM", obey);
  process.on("SIGINT", obey);
  return first.promise;
}
