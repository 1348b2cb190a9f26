/** What is allowed about upstreams and most likely a mistake. */
import type { Context } from "../reading/context.ts";
import { fault } from "../reading/reading.ts";
import type { HostSettings } from "../hosts.ts";
import type { RouteSettings } from "../routes/routes.ts";
import type { Upstream } from "./upstream.ts";
import { didYouMean } from "../reading/suggestion.ts";

/** RFC 9110 section 9.2.2: sent twice, these do what they do once. */
const IDEMPOTENT: ReadonlySet<string> = new Set([
  "GET",
  "HEAD",
  "OPTIONS",
  "TRACE",
  "PUT",
  "DELETE",
]);

/** The backends of a file, and what leads to them. */
interface Served {
  readonly upstreams: readonly Upstream[];
  readonly routes: readonly RouteSettings[];
  readonly hosts: readonly string[] | null;
  readonly publicUrl: string | null;
  readonly defaultUpstream: string | null;
  readonly sites: readonly HostSettings[];
}

/** `isComplete`: nothing of the file was refused, so that what leads to an upstream is all known. */
export function reviewUpstreams(config: Served, isComplete: boolean, context: Context): void {
  if (isComplete) reviewUse(config, context);
  for (const upstream of config.upstreams) {
    reviewRetry(upstream, context);
    reviewHost(upstream, config, context);
  }
  reviewSharedTargets(config, context);
}

function reviewUse(
  { upstreams, routes, sites, publicUrl, defaultUpstream }: Served,
  context: Context,
): void {
  const { problems, tree } = context;
  const used = new Set(
    routes.map(({ action }) => (action.kind === "deny" ? null : action.upstream)),
  );
  for (const each of [{ defaultUpstream }, ...sites]) used.add(each.defaultUpstream);
  const urls = [...(publicUrl === null ? [] : [publicUrl]), ...sites.map((site) => site.publicUrl)];
  const origins = new Set(urls.map((url) => new URL(url).origin));
  for (const { name, targets } of upstreams) {
    const isOnly = !tree.has(["upstreams", name]);
    if (!used.has(name)) {
      const message = "is not used: no route leads there";
      const hint = isOnly ? "remove it" : `remove it, or add upstream: ${name} to a route`;
      const path = isOnly ? ["upstream"] : ["upstreams", name];
      problems.add("warning", path, fault("unused-upstream", message, hint), "key");
    }
    for (const [index, { url }] of targets.entries()) {
      if (!origins.has(url)) continue;
      const message = "is publicUrl, which leads here: each request would ask for another";
      const hint = "write the address of the backend itself";
      const list = ["upstreams", name, "targets"];
      const path = isOnly ? ["upstream"] : context.placeOfUrl([...list, index]);
      problems.add("warning", path, fault("own-listener", message, hint));
    }
  }
}

function reviewRetry({ name, retry }: Upstream, { problems }: Context): void {
  const sendsTwice = retry.attempts > 1 && retry.on.some((reason) => reason !== "connect-failure");
  const index = retry.methods.findIndex((method) => !IDEMPOTENT.has(method));
  if (!sendsTwice || index === -1) return;
  const message = `${retry.methods[index]} may do its work twice when it is tried again`;
  problems.add(
    "warning",
    ["upstreams", name, "retry", "methods", index],
    fault("unsafe-retry", message, "leave it out, or retry on connect-failure alone"),
  );
}

function reviewHost({ name, host }: Upstream, config: Served, { problems }: Context): void {
  const path = ["upstreams", name, "host"];
  if (host.kind === "name" && !/[.:]/.test(host.name)) {
    const hint = didYouMean(host.name, ["upstream", "preserve"]);
    if (hint !== undefined) {
      const message = "is sent as a name, as it is";
      problems.add("warning", path, fault("odd-host", message, hint));
    }
  }
  const sells = config.routes.some(
    ({ action }) => action.kind === "priced" && action.upstream === name,
  );
  if (host.kind !== "preserve" || !sells || config.hosts !== null) return;
  const message =
    "is each buyer's to choose, and prices are those of a path on every site of the backend";
  const hint = "list the names that are served: hosts: [api.example.com]";
  problems.add("note", path, fault("open-host", message, hint));
}

/** One target under two names, with other paths: what one sells the other may give away. */
function reviewSharedTargets({ upstreams }: Served, { problems, tree }: Context): void {
  for (const [index, { name, targets, path }] of upstreams.entries()) {
    if (!tree.intact(["upstreams"])) return;
    const urls = new Set(targets.map(({ url }) => url));
    const rival = upstreams
      .slice(0, index)
      .find(
        (each) =>
          (each.path.strip !== path.strip || each.path.prefix !== path.prefix) &&
          each.targets.some(({ url }) => urls.has(url)),
      );
    if (rival === undefined) continue;
    const message =
      `has a target of ${rival.name}, and reaches it by other paths: ` +
      "what one of them sells, the other may give away";
    problems.add("warning", ["upstreams", name], fault("shared-target", message), "key");
  }
}
