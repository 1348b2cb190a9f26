/** Where a route stands in the file. */
import type { Path } from "../reading/tree.ts";
import type { RouteSettings } from "./routes.ts";

/** The place in the file of a site: of the file's own, which has no name, or of a host. */
export function sitePath(site: string): Path {
  return site === "" ? [] : ["hosts", site];
}

/** The place in the file of a route, or of what it is made of. */
export function routePath({
  key,
  host = "",
  place,
  tool,
}: Pick<RouteSettings, "key" | "host" | "place" | "tool">): Path {
  if (place !== undefined) return place;
  const named = tool?.of ?? key;
  const written = host === "" ? named : named.slice(host.length + 1);
  const route = [...sitePath(host), "routes", written];
  return tool === undefined ? route : [...route, "tools", tool.name];
}
