/**
 * A configuration that is read in a thread of its own: to read thousands of routes takes seconds, in which the thread that
 * serves would do nothing else. The routes come over a few at a time, whenever there is room for more.
 */
import { loadConfig, type Config, type ParseResult } from "../config/config.ts";
import { inTurns, type Steps } from "../time/breath.ts";
import { answerHere, OwnThread } from "./own-thread.ts";

const COMMAND = "read-config";
/** Routes that come over at once: a few milliseconds of work at each end. */
const ROUTES_AT_ONCE = 64;

/** All but the routes, and how many there are. */
type Head = ParseResult & { readonly count: number };

/** @param script the program's main file, which has the command `read-config` */
export async function loadInThread(script: string, file: string): Promise<ParseResult> {
  using thread = new OwnThread({ script, command: COMMAND, isAwaited: true });
  const { count, ...head } = (await thread.ask({ file })) as Head;
  if (!head.ok) return head;
  const routes: Config["routes"][number][] = [];
  while (routes.length < count) {
    routes.push(...((await thread.ask({ from: routes.length })) as Config["routes"]));
  }
  const config = { ...head.config, routes };
  await inTurns(frozen(config));
  return { ...head, config };
}

/** The main function of that thread. */
export function readConfig(): Promise<number> {
  let routes: Config["routes"] = [];
  return answerHere(COMMAND, async (question) => {
    const { file, from } = Object(question) as { readonly file?: string; readonly from?: number };
    if (file === undefined) return routes.slice(from, Number(from) + ROUTES_AT_ONCE);
    const read = await loadConfig(file);
    if (!read.ok) return { ...read, count: 0 };
    ({ routes } = read.config);
    return { ...read, config: { ...read.config, routes: [] }, count: routes.length };
  });
}

function* frozen(value: unknown): Steps<void> {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const each of Object.values(value)) yield* frozen(each);
  yield;
}
