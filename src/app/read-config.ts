/**
 * A configuration that is read in a thread of its own: to read thousands of routes takes seconds, in which the thread that
 * serves would do nothing else. The routes come over a few at a time, whenever there is room for more.
 */
import { Worker, parentPort } from "node:worker_threads";
import { once } from "node:events";
import { loadConfig, type ParseResult } from "../config/config.ts";
import { inTurns, type Steps } from "../time/breath.ts";
import { pack, unpack } from "./start-order.ts";

/** Routes that come over at once: a few milliseconds of work at each end. */
const ROUTES_AT_ONCE = 64;

/** @param script the program's main file, which has the command `read-config` */
export async function loadInThread(script: string, file: string): Promise<ParseResult> {
  const thread = new Worker(script, { argv: ["read-config", file], stdout: false });
  // Its faults are its answer's: one that comes without is a fault of ours.
  const failed = once(thread, "exit").then(() => {
    throw new Error("the thread that reads the configuration has ended");
  });
  failed.catch(() => undefined);
  try {
    const next = async (asked: number): Promise<unknown> => {
      const answer = once(thread, "message");
      thread.postMessage(asked, []);
      const [message] = await Promise.race([answer, failed]);
      return unpack(message);
    };
    const { count, ...head } = Object(await next(0)) as ParseResult & { readonly count: number };
    if (!head.ok) return head;
    const routes: (typeof head.config.routes)[number][] = [];
    while (routes.length < count) {
      routes.push(...((await next(routes.length)) as typeof routes));
    }
    const config = { ...head.config, routes };
    await inTurns(frozen(config));
    return { ...head, config };
  } finally {
    await thread.terminate();
  }
}

/** The main function of that thread: answers until it is ended. */
export async function readConfig(file: string): Promise<number> {
  const port = parentPort;
  if (port === null) {
    process.stderr.write("coinslot read-config: this is a thread of `coinslot serve`\n");
    return 1;
  }
  const read = await loadConfig(file);
  const routes = read.ok ? read.config.routes : [];
  const head = read.ok ? { ...read, config: { ...read.config, routes: [] } } : read;
  let isBegun = false;
  port.on("message", (from: number) => {
    const some = routes.slice(from, from + ROUTES_AT_ONCE);
    port.postMessage(pack(isBegun ? some : { ...head, count: routes.length }), []);
    isBegun = true;
  });
  return new Promise(() => undefined);
}

function* frozen(value: unknown): Steps<void> {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const each of Object.values(value)) yield* frozen(each);
  yield;
}
