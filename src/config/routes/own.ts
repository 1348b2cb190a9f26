/**
 * Routes of the gateway's own: it makes them of the configuration, sells there as anywhere, and answers itself. They are
 * priced routes in every respect, so that 402, listing, documents, commands and books know them without a word of their own.
 */
import { methodsOverlap, shapeOf } from "./route-conflicts.ts";
import type { Context } from "../reading/context.ts";
import { fault } from "../reading/reading.ts";
import type { Path } from "../reading/tree.ts";
import { OWN_PATHS, OWN_UPSTREAM, type OwnGoods } from "./own-goods.ts";
import type { OfferSettings } from "./pricing.ts";
import { readRouteKey } from "./route-key.ts";
import { sitePath } from "./route-path.ts";
import { ownAction, type OwnTerms, type RouteSettings, type UsualTerms } from "./routes.ts";

/** One that is to be made. */
export interface OwnRoute extends OwnTerms {
  /** `GET,POST /.x402/…`, canonical. */
  readonly key: string;
  readonly offers: readonly OfferSettings[];
  readonly own: OwnGoods;
  /** What of the file it is made of. */
  readonly place: Path;
}

/** Of which site it is: `host` "" is the file's own. */
interface OfSite {
  readonly host: string;
  readonly usual: Pick<UsualTerms, "paymentIdentifier">;
  readonly context: Context;
}

/** Without those that cannot be paid: what is wrong was said. */
export function makeOwnRoutes(
  wanted: readonly OwnRoute[],
  { host, usual, context }: OfSite,
): readonly RouteSettings[] {
  return wanted.flatMap(({ key, place, own, offers, ...terms }) => {
    const read = readRouteKey(key);
    if (!read.ok) throw new Error(`an own route is none: ${key}`);
    if (offers.length === 0) return [];
    const called = host === "" ? { key } : { key: `${host} ${key}`, host };
    const action = ownAction(terms, { own, offers, upstream: OWN_UPSTREAM }, usual);
    return [{ ...called, ...context.problems.place(place), ...read.value, place, action }];
  });
}

/** Whether the gateway has made it. */
export function isOwn({ place }: Pick<RouteSettings, "place">): boolean {
  return place !== undefined;
}

/** The file's own route at such a place would never be asked for, or take what is the gateway's. */
export function refuseOwnPaths(
  routes: readonly RouteSettings[],
  keys: readonly string[],
  { host, context }: Pick<OfSite, "host" | "context">,
): void {
  const taken = keys.flatMap((key) => {
    const read = readRouteKey(key);
    return read.ok ? [read.value] : [];
  });
  for (const route of routes) {
    const isTaken = taken.some((own) => {
      return shapeOf(own) === shapeOf(route) && methodsOverlap(own, route);
    });
    if (!isTaken || isOwn(route)) continue;
    const message = "is at a path of the gateway's own, which answers there itself";
    const hint = `choose a path that does not begin with ${OWN_PATHS}`;
    const written = host === "" ? route.key : route.key.slice(host.length + 1);
    const path = [...sitePath(host), "routes", written];
    context.problems.errorAtKey(path, fault("duplicate-route", message, hint));
  }
}
