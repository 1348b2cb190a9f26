/** Where the catalogue page is, and what of the file it may stand in the way of. */
import { err, ok, type Result } from "../../x402/result.ts";
import type { Context } from "../reading/context.ts";
import type { Fault } from "../reading/problem.ts";
import { fault } from "../reading/reading.ts";
import { readFixedPath, type RouteKey } from "./route-key.ts";
import type { RouteSettings } from "../settings.ts";
import { matching } from "../reading/shapes.ts";

const FORM = "must be a path that begins with /";
const PATH = ["discovery", "page"];

export const PAGE_PATH = matching(/^\//, FORM, "/catalogue");

/** The path as requests have it, without the slash at its end. */
export function readPagePath(text: string): Result<string, Fault> {
  const read = readFixedPath(text);
  if (!read.ok) return read;
  const path = read.value === "" ? "/" : read.value;
  if (!RESERVED.test(path)) return ok(path);
  return err(fault("bad-value", "must not be the path of something else that is published", HINT));
}

/** What is there for programs, whether or not this file turns it on. */
const RESERVED = /^\/(?:discovery\/resources|\.well-known\/.*|openapi\.json|llms\.txt)$/;
const HINT = "write page: /catalogue";

/** A route that the file names there would never be asked for; a pattern around it loses this one path. */
export function checkPage(
  page: string | undefined,
  routes: readonly RouteSettings[],
  context: Context,
): void {
  if (page === undefined) return;
  const segments = page.slice(1).split("/");
  for (const route of routes) {
    if (!covers(route, segments)) continue;
    const place = `${JSON.stringify(route.key)} on line ${route.line}`;
    if (route.pattern === page) {
      const message = `is the path of the route ${place}, which would never be asked for`;
      context.problems.error(
        PATH,
        fault("page-taken", message, "choose another path for the page"),
      );
    } else if (route.action.kind !== "deny") {
      const message = `is one path of the route ${place}, which loses it`;
      context.problems.add("warning", PATH, fault("page-taken", message));
    }
  }
}

function covers({ segments }: Pick<RouteKey, "segments">, path: readonly string[]): boolean {
  const isRest = segments.at(-1)?.kind === "rest";
  if (isRest ? path.length < segments.length : path.length !== segments.length) return false;
  return segments.every((segment, index) => {
    if (segment.kind === "static") return segment.text === path[index];
    return segment.kind === "rest" || path[index] !== "";
  });
}
