/**
 * Free holes: requests that are free although the paths around them cost money. Each is legal and may be
 * meant, but a hole nobody meant gives away what the file was written to sell.
 */
import { termPath } from "../hosts.ts";
import { routePath } from "./route-path.ts";
import type { Context } from "../reading/context.ts";
import { aliasesOf } from "./path-aliases.ts";
import { fault } from "../reading/reading.ts";
import type { PathSegmentSetting } from "./route-key.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { methodsOverlap } from "./route-conflicts.ts";
import type { RouteSettings } from "./routes.ts";
import type { Path } from "../reading/tree.ts";

/** What decides whether a request is free. */
interface Priced {
  /** See `sitesOf`. */
  readonly site: string;
  readonly routes: readonly RouteSettings[];
  readonly unmatched: "deny" | "free";
  readonly sidecar: object | null;
}

/** Examples named in one message. */
const MAX_EXAMPLES = 3;

export function warnOfFreeHoles(config: Priced, context: Context): void {
  const { problems } = context;
  const rests = new Patterns(config.routes);
  for (const route of config.routes) {
    if (route.action.kind !== "free") continue;
    const around = rests.around(route).find((each) => each.action.kind === "priced");
    if (around === undefined) continue;
    const message = `is free although ${around.key} (${problems.where(routePath(around))}) is priced around it`;
    const path = routePath(route);
    const hint = "give it a price, or put what is free where nothing is sold";
    problems.add("warning", path, fault("free-hole", message, hint), "key");
  }
  for (const [path, below] of freeBelow(config, rests, context)) {
    const examples = below.slice(0, MAX_EXAMPLES).map((route) => `${route.pattern}/…`);
    const more = below.length > MAX_EXAMPLES ? ` and ${below.length - MAX_EXAMPLES} more` : "";
    const message = `leaves what lies below priced paths free: ${examples.join(", ")}${more}`;
    const hint = `close it with a route such as "${below[0]?.pattern ?? ""}/*": deny`;
    problems.add("warning", path, fault("free-hole", message, hint), "key");
  }
}

/** Paths that are free and may be the priced ones' by another name: only the backend knows which it has. */
export function warnOfFreeAliases(
  { site, routes, unmatched, sidecar }: Priced,
  context: Context,
): void {
  const priced = routes.filter(({ action }) => action.kind === "priced");
  const isCaught = routes.some(({ pattern, methods }) => pattern === "/*" && methods === null);
  const sold = priced.find(({ segments }) => segments.at(-1)?.kind !== "rest");
  if (unmatched !== "free" || isCaught || sold === undefined) return;
  const { pattern } = sold;
  const examples = aliasesOf(pattern)
    .filter((each) => /[.]json$|^[/]index[.]php/.test(each))
    .join(" or ");
  const message = `leaves free what the backend may serve under another path than ${pattern}: ${examples}`;
  const asks = sidecar === null ? "; coinslot doctor asks the backend" : "";
  const hint = `write unmatched: deny and list what is free${asks}`;
  const path = termPath(site, "unmatched", context);
  context.problems.add("warning", path, fault("free-aliases", message, hint), "key");
}

/** What of a site leads to backends. */
interface Shop extends Priced {
  readonly defaultUpstream: string | null;
  readonly upstreams: readonly Upstream[];
}

/** What one site sells and another gives away, since both ask the same backend for the same path. */
export function warnOfSharedBackends(sites: readonly Shop[], context: Context): void {
  const sales = sites.length > 1 ? alikeSales(sites) : [];
  for (const shop of sites.length > 1 ? sites : []) {
    if (shop.sidecar !== null) return;
    if (!givesAway(shop)) continue;
    const patterns = new Patterns(shop.routes);
    for (const alike of sales) {
      const sold = alike.find(({ host = "" }) => host !== shop.site);
      const action = sold?.action;
      if (sold === undefined || action?.kind !== "priced") continue;
      const isShared = (leads: string | null): boolean =>
        isSameBackend(shop.upstreams, leads, action.upstream);
      const { routes, isDecided } = patterns.meeting(sold);
      const free = routes.find(
        (each) => each.action.kind === "free" && isShared(each.action.upstream),
      );
      const isLeft = !isDecided && shop.unmatched === "free" && isShared(shop.defaultUpstream);
      if (free === undefined && !isLeft) continue;
      const message = `leaves free what ${sold.key} sells (${context.problems.where(routePath(sold))}): both ask the same backend`;
      const hint = "close it here as well, or name an upstream that serves this host alone";
      const path = free ? routePath(free) : termPath(shop.site, "unmatched", context);
      context.problems.add("warning", path, fault("free-hole", message, hint), "key");
      break;
    }
  }
}

/**
 * Priced routes, those together that have pattern, methods and upstream in common: of each site at most one. A thousand
 * hosts are mostly alike, and to hold each against the routes of all others took longer than all else of their file.
 */
function alikeSales(sites: readonly Shop[]): readonly (readonly RouteSettings[])[] {
  const all = sites.flatMap(({ routes }) => routes);
  const alike = Map.groupBy(all, ({ action, pattern, methods }) => {
    return action.kind === "priced" ? JSON.stringify([pattern, methods, action.upstream]) : "";
  });
  alike.delete("");
  return [...alike.values()];
}

function givesAway({ routes, unmatched }: Shop): boolean {
  return unmatched === "free" || routes.some(({ action }) => action.kind === "free");
}

/** Whether two upstreams have a target in common; one that is told the host may tell sites apart by it. */
function isSameBackend(upstreams: readonly Upstream[], one: string | null, other: string): boolean {
  const urlsOf = (name: string | null): readonly string[] => {
    const upstream = upstreams.find((each) => each.name === name);
    if (upstream === undefined || upstream.host.kind === "preserve") return [];
    return upstream.targets.map(({ url }) => url);
  };
  const urls = new Set(urlsOf(one));
  return urlsOf(other).some((url) => urls.has(url));
}

/** Priced paths below which everything is free, by what makes it so: a route or `unmatched`. */
function freeBelow(
  config: Priced,
  rests: Patterns,
  context: Context,
): ReadonlyMap<Path, readonly RouteSettings[]> {
  const unmatched = termPath(config.site, "unmatched", context);
  const found = new Map<RouteSettings | null, RouteSettings[]>();
  for (const route of config.routes) {
    if (route.action.kind !== "priced" || route.segments.at(-1)?.kind === "rest") continue;
    const deciding = rests.below(route);
    const free = deciding.find(
      (each) => each.action.kind === "free" && methodsOverlap(each, route),
    );
    if (free === undefined && (deciding.length > 0 || config.unmatched !== "free")) continue;
    const cause = free ?? null;
    found.set(cause, [...(found.get(cause) ?? []), route]);
  }
  return new Map([...found].map(([cause, below]) => [cause ? routePath(cause) : unmatched, below]));
}

interface Node {
  readonly statics: Map<string, Node>;
  param: Node | undefined;
  /** Routes whose pattern ends here. */
  readonly ends: RouteSettings[];
  /** Routes whose pattern ends here with `*`. */
  readonly rests: RouteSettings[];
}

/** Patterns by their segments. */
class Patterns {
  readonly #root: Node = emptyNode();

  constructor(routes: readonly RouteSettings[]) {
    for (const route of routes) {
      const isRest = route.segments.at(-1)?.kind === "rest";
      let node = this.#root;
      for (const segment of isRest ? route.segments.slice(0, -1) : route.segments) {
        node = descend(node, segment);
      }
      (isRest ? node.rests : node.ends).push(route);
    }
  }

  /**
   * The routes that decide about something that the route matches as well, by one of its methods; whether all of it is
   * decided by patterns. As the router does it, the most specific pattern decides alone, whatever its methods.
   */
  meeting(route: RouteSettings): {
    readonly routes: readonly RouteSettings[];
    readonly isDecided: boolean;
  } {
    const found: RouteSettings[] = [];
    const isAnyOf = (routes: readonly RouteSettings[]): boolean => {
      found.push(...routes);
      return routes.length > 0;
    };
    const takeAll = (node: Node): void => {
      found.push(...node.ends, ...node.rests);
      for (const each of childrenOf(node)) takeAll(each);
    };
    /** Whether patterns of the node decide about all that matches the segments from that one on. */
    const isDecidedBy = (node: Node, index: number): boolean => {
      const segment = route.segments[index];
      if (segment === undefined) return isAnyOf(node.ends);
      const { statics, param, rests } = node;
      if (segment.kind === "rest") {
        for (const each of childrenOf(node)) takeAll(each);
        return isAnyOf(rests);
      }
      const text = segment.kind === "static" ? segment.text : undefined;
      const fixed = text === undefined ? undefined : statics.get(text);
      if (fixed !== undefined && isDecidedBy(fixed, index + 1)) return true;
      // Each of them decides about a part of what a parameter stands for.
      if (text === undefined) for (const each of statics.values()) isDecidedBy(each, index + 1);
      // A parameter is never empty.
      const isParam = param !== undefined && text !== "" && isDecidedBy(param, index + 1);
      return isParam || isAnyOf(rests);
    };
    const isDecided = isDecidedBy(this.#root, 0);
    return { routes: found.filter((each) => methodsOverlap(each, route)), isDecided };
  }

  /** Patterns that would match what the route matches, were it not for the route. */
  around(route: RouteSettings): readonly RouteSettings[] {
    const found: RouteSettings[] = [];
    const isRest = route.segments.at(-1)?.kind === "rest";
    const depth = isRest ? route.segments.length : route.segments.length - 1;
    let level = [this.#root];
    for (let index = 0; index < depth && level.length > 0; index += 1) {
      found.push(...level.flatMap((node) => node.rests));
      const segment = route.segments[index];
      level = segment === undefined ? [] : level.flatMap((node) => within(node, segment));
    }
    return found.filter((each) => each !== route && methodsOverlap(each, route));
  }

  /**
   * The routes of the most specific pattern for paths below the route's own: that pattern alone decides
   * there, whatever its methods. Empty: no pattern does.
   */
  below(route: RouteSettings): readonly RouteSettings[] {
    const best = (node: Node | undefined, index: number): readonly RouteSettings[] => {
      if (node === undefined) return [];
      const segment = route.segments[index];
      if (segment === undefined) return node.rests;
      const fixed = segment.kind === "static" ? node.statics.get(segment.text) : undefined;
      const found = [best(fixed, index + 1), best(node.param, index + 1), node.rests];
      return found.find((routes) => routes.length > 0) ?? [];
    };
    return best(this.#root, 0);
  }
}

function childrenOf({ statics, param }: Node): readonly Node[] {
  return param === undefined ? [...statics.values()] : [...statics.values(), param];
}

function emptyNode(): Node {
  return { statics: new Map(), param: undefined, ends: [], rests: [] };
}

function descend(node: Node, segment: PathSegmentSetting): Node {
  if (segment.kind !== "static") return (node.param ??= emptyNode());
  const next = node.statics.get(segment.text) ?? emptyNode();
  node.statics.set(segment.text, next);
  return next;
}

/** The nodes whose patterns are no more specific than the segment. */
function within(node: Node, segment: PathSegmentSetting): readonly Node[] {
  const fixed = segment.kind === "static" ? node.statics.get(segment.text) : undefined;
  return [fixed, node.param].filter((each) => each !== undefined);
}
