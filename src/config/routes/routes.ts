/** `routes`: each key and each value, and the conflicts between them. */
import type { Context } from "../reading/context.ts";
import type { Action, PriceBlock } from "../reading/document.ts";
import type { Pricing } from "./pricing.ts";
import { fault } from "../reading/reading.ts";
import { readRouteKey, type RouteKey } from "./route-key.ts";
import type { PricedAction, RouteSettings, RouteAction } from "../settings.ts";
import type { Path } from "../reading/tree.ts";
import type { Upstreams } from "../upstream/upstreams.ts";

const MAX_TIMEOUT_SECONDS = 60;
const UNCACHED = "private, no-store";

interface Parts {
  readonly context: Context;
  readonly pricing: Pricing;
  readonly upstreams: Upstreams;
}

export function resolveRoutes(parts: Parts): readonly RouteSettings[] {
  const { problems, tree, document } = parts.context;
  const written = tree.find(["routes"]);
  const keys = written?.kind === "mapping" ? [...written.entries.keys()] : [];
  const conflicts = new Conflicts(parts.context);
  const routes: RouteSettings[] = [];
  for (const key of keys) {
    const path = ["routes", key];
    const read = readRouteKey(key);
    if (read.ok) conflicts.check(key, read.value);
    else problems.errorAtKey(path, read.error);
    // Absent where the value was refused; the key is looked at all the same.
    const value = document.routes?.[key];
    const action = value === undefined ? undefined : resolveAction(value, path, parts);
    if (read.ok && action !== undefined) {
      routes.push({ key, line: problems.line(path, "key"), ...read.value, action });
    }
  }
  return routes;
}

function resolveAction(value: Action, path: Path, parts: Parts): RouteAction | undefined {
  const { pricing, upstreams } = parts;
  if (!("kind" in value)) return resolveBlock(value, path, parts);
  if (value.kind === "deny") return { kind: "deny" };
  const upstream = upstreams.resolve(path, undefined);
  if (value.kind === "free") return { kind: "free", upstream };
  const wanted = { price: value, pricePath: path, accept: undefined, payTo: undefined };
  return priced({}, upstream, pricing.offers(path, wanted));
}

function resolveBlock(block: PriceBlock, path: Path, parts: Parts): RouteAction | undefined {
  const { context, pricing, upstreams } = parts;
  const { price, accept, payTo } = block;
  const upstream = upstreams.resolve(path, block.upstream);
  if (price !== undefined && "kind" in price && price.kind === "free") {
    for (const key of Object.keys(block).filter(
      (each) => each !== "price" && each !== "upstream",
    )) {
      const message = "has no meaning on a free route";
      context.problems.errorAtKey([...path, key], fault("unused-key", message));
    }
    return { kind: "free", upstream };
  }
  const { tree, problems } = context;
  if (price === undefined && accept === undefined) {
    if (tree.has([...path, "price"]) || tree.has([...path, "accept"])) return undefined;
    const hint = "write price: $0.01, or price: free";
    problems.errorAtKey(path, fault("no-price", "needs a price or its own accept", hint));
    return undefined;
  }
  const wanted = { price, pricePath: [...path, "price"], accept, payTo };
  return priced(block, upstream, pricing.offers(path, wanted));
}

function priced(block: PriceBlock, upstream: string, offers: PricedAction["offers"]): PricedAction {
  return {
    kind: "priced",
    upstream,
    offers,
    description: block.description ?? "",
    mimeType: block.mimeType ?? "",
    maxTimeoutSeconds: block.maxTimeoutSeconds ?? MAX_TIMEOUT_SECONDS,
    outputSchema: block.outputSchema ?? null,
    input: block.input ?? {},
    metadata: block.metadata ?? {},
    discoverable: block.discoverable ?? true,
    cacheControl: block.cacheControl ?? UNCACHED,
  };
}

/** Finds keys that match the same requests: the order of a map must not decide between them. */
class Conflicts {
  readonly #context: Context;
  readonly #byShape = new Map<string, { readonly key: string; readonly route: RouteKey }[]>();

  constructor(context: Context) {
    this.#context = context;
  }

  check(key: string, route: RouteKey): void {
    const shape = shapeOf(route);
    const earlier = this.#byShape.get(shape) ?? [];
    this.#byShape.set(shape, [...earlier, { key, route }]);
    const rival = earlier.find((each) => methodsOverlap(each.route, route));
    if (rival === undefined) return;
    const line = this.#context.problems.line(["routes", rival.key], "key");
    const message = `matches the same requests as ${JSON.stringify(rival.key)} on line ${line}`;
    const hint = "remove one of them, or give them different methods";
    this.#context.problems.errorAtKey(["routes", key], fault("duplicate-route", message, hint));
  }
}

/** The names of parameters do not matter for what a pattern matches. */
export function shapeOf({ segments }: RouteKey): string {
  return segments
    .map((segment) => (segment.kind === "static" ? segment.text : `:${segment.kind}`))
    .join("/");
}

/** Whether one method is served by both; `GET` covers `HEAD`. */
export function methodsOverlap(left: RouteKey, right: RouteKey): boolean {
  if (left.methods === null || right.methods === null) return true;
  const served = new Set(left.methods.flatMap(covered));
  return right.methods.flatMap(covered).some((method) => served.has(method));
}

function covered(method: string): readonly string[] {
  return method === "GET" ? ["GET", "HEAD"] : [method];
}
