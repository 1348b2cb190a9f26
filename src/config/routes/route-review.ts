/** What is allowed about routes and most likely a mistake: alike paths at other prices, and payments that end too soon. */
import type { Context } from "../reading/context.ts";
import { fault } from "../reading/reading.ts";
import type { GrantSettings } from "./after-sale.ts";
import { methodsOverlap, shapeOf } from "./route-conflicts.ts";
import type { RouteSettings } from "./routes.ts";
import { routePath } from "./route-path.ts";
import type { Upstream } from "../upstream/upstream.ts";

export function reviewRoutes(
  routes: readonly RouteSettings[],
  { settlementWaitMs, upstreams }: Waits,
  context: Context,
): void {
  reviewAlikes(routes, context);
  reviewTimeouts(routes, settlementWaitMs, context);
  reviewWork(routes, { settlementWaitMs, upstreams }, context);
  reviewGrants(routes, context);
  for (const route of routes) {
    const last = route.segments.at(-1);
    if (last?.kind !== "static" || !/[\w.]\$$/.test(last.text)) continue;
    const message = "has a dollar sign at its end, which is a part of the path like any other";
    const hint = "leave it out: a route is a path, and no regular expression";
    context.problems.add("warning", routePath(route), fault("odd-route", message, hint), "key");
  }
}

/** How long buyers are held, milliseconds. */
interface Waits {
  readonly settlementWaitMs: number;
  readonly upstreams: readonly Pick<Upstream, "name" | "responseTimeoutMs">[];
}

/** Many backends serve a path with a slash at its end, and in other letters, as they serve it without. */
function reviewAlikes(routes: readonly RouteSettings[], { problems }: Context): void {
  const alike = Map.groupBy(routes, (route) => {
    return shapeOf(route).toLowerCase().replace(/\/+$/, "");
  });
  for (const [first, ...others] of alike.values()) {
    for (const other of others) {
      if (first === undefined || !methodsOverlap(first, other)) continue;
      if (shapeOf(first) === shapeOf(other)) continue;
      const terms = [first, other].map(termsOf);
      if (terms.includes("deny") || terms[0] === terms[1]) continue;
      const message =
        `has another price than ${JSON.stringify(first.key)} on ${problems.where(routePath(first))}, and many backends serve both ` +
        "alike: buyers take what is cheaper";
      const hint = "give both one price, or deny one of them";
      const path = routePath(other);
      problems.add("warning", path, fault("alike-routes", message, hint), "key");
    }
  }
}

function termsOf({ action }: RouteSettings): string {
  if (action.kind !== "priced") return action.kind;
  const by = action.computed === null ? "" : `${action.computed.by} `;
  const offers = action.offers
    .map(({ network, asset, amountAtomic }) => `${network} ${asset.address} ${amountAtomic}`)
    .toSorted();
  return by + offers.join();
}

/** A payment that is not valid for as long as it is waited for can fail while its buyer still waits. */
function reviewTimeouts(
  routes: readonly RouteSettings[],
  settlementWaitMs: number,
  { problems, tree }: Context,
): void {
  const waited = `limits.settlementWait is ${settlementWaitMs / 1_000}s`;
  let isSaid = false;
  for (const route of routes) {
    const { key, action } = route;
    if (action.kind !== "priced" || action.maxTimeoutSeconds * 1_000 >= settlementWaitMs) continue;
    const own = [...routePath(route), "maxTimeoutSeconds"];
    const seconds = `${action.maxTimeoutSeconds} seconds`;
    if (tree.has(own)) {
      const message = `is shorter than payments are waited for: ${waited}`;
      const hint = "raise it, or shorten limits.settlementWait";
      problems.add("warning", own, fault("short-timeout", message, hint));
    } else if (!isSaid) {
      const message = `is longer than payments of ${key} are valid: ${seconds}`;
      const hint = "shorten it, or raise maxTimeoutSeconds of the route";
      const path = ["limits", "settlementWait"];
      problems.add("warning", path, fault("short-timeout", message, hint));
      isSaid = true;
    }
  }
}

/** Where the work comes first, it takes of the time of the payment: the seller works for one that ends meanwhile. */
function reviewWork(
  routes: readonly RouteSettings[],
  { settlementWaitMs, upstreams }: Waits,
  { problems }: Context,
): void {
  for (const route of routes) {
    const { action } = route;
    if (action.kind !== "priced" || action.settle !== "after") continue;
    const backend = upstreams.find(({ name }) => name === action.upstream);
    const workMs = backend?.responseTimeoutMs ?? 0;
    if (action.maxTimeoutSeconds * 1_000 >= workMs + settlementWaitMs) continue;
    const message =
      `\`after\` makes the backend work, ${workMs / 1_000}s at most, for payments of ${action.maxTimeoutSeconds} ` +
      `seconds, which are waited for ${settlementWaitMs / 1_000}s then`;
    const hint =
      "raise maxTimeoutSeconds of the route, or shorten timeouts.response of its upstream";
    problems.add("warning", [...routePath(route), "settle"], fault("short-timeout", message, hint));
  }
}

/** A purchase is one whatever it has cost, and grants all that the route serves. */
function reviewGrants(routes: readonly RouteSettings[], { problems }: Context): void {
  for (const route of routes) {
    const { action } = route;
    if (action.kind !== "priced" || action.grants === null || action.computed === null) continue;
    const { from, to } = action.computed;
    if (from === to) continue;
    const message = `gives who has paid ${from} once what costs ${to}, ${oftenText(action.grants)}`;
    const hint = "leave it out, or sell at one price what grants all";
    const path = [...routePath(route), "grants"];
    problems.add("warning", path, fault("odd-expression", message, hint));
  }
}

function oftenText({ times }: GrantSettings): string {
  return times === null ? "as often as he likes" : `${times} times`;
}
