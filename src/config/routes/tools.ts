/** `tools` of a route: what calls of a server of MCP cost. Each tool is a route of its own, so that books and metrics tell it. */
import { err, ok, type Result } from "../../x402/result.ts";
import type { Context } from "../reading/context.ts";
import type { Fault } from "../reading/problem.ts";
import { fault } from "../reading/reading.ts";
import type { Path } from "../reading/tree.ts";
import type { UnpaidForm } from "./route-block.ts";
import type { RouteKey } from "./route-key.ts";

export interface ToolTerms {
  /** How a call is told that it is not paid. */
  readonly unpaid: UnpaidForm;
  /** Whether lists of tools tell what each costs. */
  readonly telling: boolean;
}

const NAME = /^(?:[^\s*\p{C}]{1,256}|[^\s*\p{C}]{0,255}\*)$/u;
const ALL = "*";

/** It is written for all tools whose names begin so. */
export function isBeginning(name: string): boolean {
  return name.endsWith(ALL);
}

/** Keys that say something of the server itself. */
const OF_SERVER: ReadonlySet<string> = new Set(["tools", "unpaid", "telling", "upstream", "mode"]);

/**
 * The key of a tool's route: `POST /mcp#get_weather`. Its pattern is in the router what no request asks for: names of
 * tools are written in hex, so that none is another one in other letters.
 */
export function toolKey(
  { pattern, segments }: RouteKey,
  name: string,
): Result<RouteKey & { readonly key: string }, Fault> {
  if (!NAME.test(name) || name.normalize("NFKC") !== name) {
    const message = "a tool is its name, or a beginning of names with * behind it: search_*";
    return err(fault("bad-key", message));
  }
  const isPrefix = isBeginning(name);
  const written = Buffer.from(isPrefix ? name.slice(0, -1) : name).toString("hex");
  const key = `POST ${pattern}#${name}`;
  const mark = `%23${isPrefix ? "from" : "tool"}.${written}`;
  const last = segments.at(-1);
  const text = (last?.kind === "static" ? last.text : "") + mark;
  const own = [...segments.slice(0, -1), { kind: "static", text } as const];
  return ok({ key, methods: ["POST"], pattern: pattern + mark, segments: own });
}

export function refuseBesideTools(
  path: Path,
  read: RouteKey | null,
  { tree, problems }: Context,
): void {
  for (const key of tree.keys(path)) {
    if (OF_SERVER.has(key)) continue;
    const message = "has no meaning beside tools, each of which has its own";
    problems.errorAtKey([...path, key], fault("unused-key", message, "write it at the tools"));
  }
  if (read !== null && read.segments.some(({ kind }) => kind !== "static")) {
    const message = "has tools, and is not one path: no :name and no *";
    problems.errorAtKey(path, fault("bad-route", message));
  }
  if (read?.methods != null && !read.methods.includes("POST")) {
    const message = "has tools, which are called by POST, and does not list that";
    const hint = "leave the methods out";
    problems.errorAtKey(path, fault("bad-route", message, hint));
  }
  if (tree.has(["sidecar"])) {
    const message = "reads the body, which your own proxy does not show beside a sidecar";
    problems.errorAtKey([...path, "tools"], fault("bad-value", message));
  }
}

export function refuseWithoutTools(path: Path, { tree, problems }: Context): void {
  for (const key of ["unpaid", "telling"]) {
    if (!tree.stands([...path, key])) continue;
    problems.errorAtKey([...path, key], fault("unused-key", "has no meaning without tools"));
  }
}
