/**
 * What a request's path becomes on its way, as far as the configuration decides it: every path that can
 * reach an upstream begins with what that upstream strips, so that two paths never become one, and no
 * request is paid for that could not be sent.
 */
import type { Context } from "../reading/context.ts";
import { termPath } from "../hosts.ts";
import { routePath } from "../routes/route-path.ts";
import { fault } from "../reading/reading.ts";
import type { PathSegmentSetting } from "../routes/route-key.ts";
import type { RouteSettings } from "../routes/routes.ts";
import type { Upstream } from "./upstream.ts";

interface Leading {
  /** See `sitesOf`. */
  readonly site: string;
  readonly upstreams: readonly Upstream[];
  readonly routes: readonly RouteSettings[];
  /** Where `unmatched: free` leads; null when it is `deny`. */
  readonly defaultUpstream: string | null;
}

export function checkStripping(
  { site, upstreams, routes, defaultUpstream }: Leading,
  context: Context,
): void {
  const { problems } = context;
  for (const { name, path } of upstreams) {
    if (path.strip === "") continue;
    for (const route of routes) {
      if (route.action.kind === "deny" || route.action.upstream !== name) continue;
      const message = outside(route.segments, path);
      if (message === undefined) continue;
      const hint = "name another upstream for it, or change path.strip";
      problems.errorAtKey(routePath(route), fault("outside-strip", message, hint));
    }
    if (defaultUpstream !== name) continue;
    const message = `is free, and paths that do not begin with ${path.strip} could not be sent`;
    const hint = `write unmatched: deny, and a route "${path.strip}/*": free`;
    problems.error(termPath(site, "unmatched", context), fault("outside-strip", message, hint));
  }
}

/** Why a route's paths cannot all be sent; undefined where they can. */
function outside(
  segments: readonly PathSegmentSetting[],
  path: Upstream["path"],
): string | undefined {
  const stripped = path.strip.slice(1).split("/");
  const begins = stripped.every((text, index) => {
    const segment = segments[index];
    return segment?.kind === "static" && segment.text === text;
  });
  if (!begins) return `has paths that do not begin with ${path.strip}, which its upstream strips`;
  if (segments.length > stripped.length || path.prefix !== "") return undefined;
  return `leaves nothing of the path when ${path.strip} is stripped`;
}
