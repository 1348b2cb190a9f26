/** A question to the backend of a priced route, as the gateway would ask it, and past the gateway: unpaid, and with GET. */
import type { Config, RouteSettings, Upstream } from "../../config/config.ts";
import { rewriteTarget } from "../../gateway/upstream/backend/rewriting.ts";
import type { HttpQuestion } from "./http-probe.ts";
import { tlsOf } from "./upstream-checks.ts";

/** With a whole path and for GET: what may be asked twice without harm. */
export function mayBeAsked({ action, methods, segments }: RouteSettings): boolean {
  const isWhole = segments.every(({ kind }) => kind === "static");
  const isBackends = action.kind === "priced" && action.own === undefined;
  return isBackends && isWhole && (methods === null || methods.includes("GET"));
}

/** To the first target; null: no such path is sent to it. */
export function backendQuestion(
  config: Pick<Config, "upstreams" | "publicUrl">,
  name: string,
  path: string,
): HttpQuestion | null {
  const upstream = config.upstreams.find((each) => each.name === name);
  const [target] = upstream?.targets ?? [];
  if (upstream === undefined || target === undefined) return null;
  const sent = rewriteTarget(path, upstream.path);
  if (sent === null) return null;
  return { url: target.url + sent, headers: linesFor(upstream, config), tls: tlsOf(upstream) };
}

function linesFor(
  { host, headers }: Upstream,
  { publicUrl }: Pick<Config, "publicUrl">,
): Record<string, string> {
  const lines: Record<string, string> = { "user-agent": "coinslot doctor" };
  if (host.kind === "name") lines["host"] = host.name;
  if (host.kind === "preserve" && publicUrl !== null) lines["host"] = new URL(publicUrl).host;
  for (const { name, value } of headers.set) lines[name.toLowerCase()] = value.reveal();
  return lines;
}
