/** `mcp`: where agents meet the listed routes as tools of an MCP server. */
import { z } from "zod";
import { err, ok, type Result } from "../x402/result.ts";
import type { Context } from "./reading/context.ts";
import type { Fault } from "./reading/problem.ts";
import { fault } from "./reading/reading.ts";
import { flag, map, matching, optional, text } from "./reading/shapes.ts";
import type { Path } from "./reading/tree.ts";
import { checkPage, isReserved } from "./routes/discovery.ts";
import { readFixedPath } from "./routes/route-key.ts";
import type { RouteSettings } from "./routes/routes.ts";

export interface McpSettings {
  /** Canonical, below the public URL. */
  readonly path: string;
}

/** Where clients look first. */
const USUAL: McpSettings = { path: "/mcp" };
const HINT = "write path: /mcp";

const mcpMap = map({
  path: optional(
    text(readPath, matching(/^\/[^\s?#*]+$/, "a path of its own", USUAL.path)),
    "Where messages are posted: a path of its own, below publicUrl.",
    USUAL.path,
  ),
});

export const mcp = z.union(
  [flag.transform((isOn) => (isOn ? USUAL : null)), mcpMap],
  "must be true, false or a map with a path",
);

export const MCP_USAGE =
  "Agents meet each listed route as a tool of an MCP server (streamable HTTP, revisions 2025-11-25 and 2026-07-28), made of " +
  "what the file says of the route, and pay a call in its `_meta`: { path: /mcp }. It is the same sale as over HTTP.";

function readPath(written: string): Result<string, Fault> {
  const path = readFixedPath(written);
  if (!path.ok) return path;
  if (path.value === "") return err(fault("bad-value", "must be a path of its own", HINT));
  if (isReserved(path.value)) {
    return err(fault("bad-value", "is the path of another document of the gateway's", HINT));
  }
  return ok(path.value);
}

/** @param site whose it is; `path`: where it stands */
export function checkMcp(
  settings: McpSettings | null,
  { routes, page }: { readonly routes: readonly RouteSettings[]; readonly page: string | null },
  path: Path,
  context: Context,
): void {
  const { tree, problems } = context;
  if (settings === null || !tree.has(path)) return;
  if (tree.has(["sidecar"])) {
    const message = "has no effect behind another proxy, where buyers are not answered by us";
    problems.errorAtKey(path, fault("unused-key", message, "remove it, or listen for buyers"));
    return;
  }
  const own = [...path, "path"];
  const place = tree.has(own) ? own : path;
  if (settings.path === page) {
    problems.error(place, fault("page-taken", "is the path of discovery.page", HINT));
  } else checkPage(settings.path, routes, place, context);
}
