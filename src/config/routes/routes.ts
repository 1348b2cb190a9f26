/** `routes`: each key and each value (a word, a price, or a block), and the conflicts between them. */
import type { z } from "zod";
import type { IdentifierUse } from "../../x402/payment-identifier.ts";
import { networkOf } from "../../x402/network.ts";
import type { GrantSettings, RepeatSettings } from "./after-sale.ts";
import type { RouteInput } from "./route-input.ts";
import { computedOffers } from "./computed.ts";
import type { PriceTerms } from "../../pricing/computed-price.ts";
import { meteredDescription, resolveMeter } from "./meter.ts";
import type { MeterTerms } from "../../metering/meter.ts";
import type { Context } from "../reading/context.ts";
import { resolveMemberPrices, type MemberPrice } from "./member-prices.ts";
import type { ComputedPriceText } from "./price.ts";
import type { OwnGoods } from "./own-goods.ts";
import type { OfferSettings, Pricing, Wanted } from "./pricing.ts";
import { refuseQuota, type QuotaSettings } from "./quota.ts";
import { fault } from "../reading/reading.ts";
import { Conflicts } from "./route-conflicts.ts";
import {
  priceBlock,
  route,
  type Mode,
  type PriceBlock,
  type RedirectUse,
  type SettleTime,
} from "./route-block.ts";
import { readRouteKey, type RouteKey } from "./route-key.ts";
import {
  isBeginning,
  refuseBesideTools,
  refuseWithoutTools,
  toolKey,
  type ToolTerms,
} from "./tools.ts";
import { matching, named } from "../reading/shapes.ts";
import type { Path } from "../reading/tree.ts";
import type { Upstreams } from "../upstream/upstreams.ts";

export interface RouteSettings extends RouteKey {
  /** The key as written: `GET,HEAD /health`; behind the name of its host where it has one. */
  readonly key: string;
  /** For requests to this one of `hosts` alone; undefined: to the file's own site. */
  readonly host?: string;
  /** The file, as messages name it, and the 1-based line of the key. */
  readonly file: string;
  readonly line: number;
  /** Of one that the gateway makes itself (`own.ts`): what of the file it is made of. */
  readonly place?: Path;
  /** Of a tool (`tools`). */
  readonly tool?: SoldTool;
  readonly action: RouteAction;
}

export interface SoldTool {
  /** Its name, or a beginning of names with `*` behind it. */
  readonly name: string;
  /** Key of its server's route, and where messages are posted to it: the path. */
  readonly of: string;
  readonly path: string;
  /** Whether listings tell of it: of those that are meant by a beginning nobody here knows the names. */
  readonly isListed: boolean;
}

export type RouteAction =
  | { readonly kind: "deny" }
  /** `shadow`: what it would be sold for, were it not for `mode: shadow`. */
  | {
      readonly kind: "free";
      readonly upstream: string;
      readonly shadow?: PricedAction;
      /** It leads to a server of tools, each of which is a route of its own. */
      readonly tools?: ToolTerms;
    }
  | PricedAction;

export interface PricedAction {
  readonly kind: "priced";
  /** Name of one of the upstreams, or `OWN_UPSTREAM`. */
  readonly upstream: string;
  /** What the gateway answers itself; undefined: a backend does. */
  readonly own?: OwnGoods;
  /** At least one; EVM before Solana, else as configured: the order that buyers see. */
  readonly offers: readonly OfferSettings[];
  /** What it costs members, in the order written: the first group that somebody is in counts. */
  readonly prices: readonly MemberPrice[];
  /** By what the price of each request is computed; {@link offers} are the most then. Null: all cost the same. */
  readonly computed: PriceTerms | null;
  /** By what its answers are charged; {@link offers} are the most that one costs then. Null: all cost the same. */
  readonly metered: MeterTerms | null;
  /** "" when not given. */
  readonly description: string;
  /** "" when not given. */
  readonly mimeType: string;
  readonly maxTimeoutSeconds: number;
  /** JSON Schema of the response; null when not given. */
  readonly outputSchema: JsonObject | null;
  readonly input: RouteInput;
  /** Shown in the discovery listing; {} when not given. */
  readonly metadata: JsonObject;
  /** Whether the discovery listing shows the route. */
  readonly discoverable: boolean;
  /** What buyers of version 2 who pay on Solana write into their transactions; null: what they like. */
  readonly memo: string | null;
  /** `Cache-Control` of what is sold; `private` or `no-store` is always in it. */
  readonly cacheControl: string;
  /** Whether buyers who speak version 2 may say what they call a purchase. */
  readonly paymentIdentifier: IdentifierUse;
  /** Of its `GET`. */
  readonly repeat: RepeatSettings;
  /** How long, and how often, who has paid has all that the route serves; null: one request is all. */
  readonly grants: GrantSettings | null;
  /** What everybody has of it before its price begins; null: nothing. */
  readonly quota: QuotaSettings | null;
  readonly redirects: RedirectUse;
  readonly settle: SettleTime;
  /** Whether it may be paid from what its buyer has prepaid. */
  readonly credits: boolean;
  /** Statuses of 400 and above that are what is sold, too. */
  readonly goods: readonly number[];
  /** Whether {@link input} is checked before a payment is taken. */
  readonly checkInput: boolean;
}

type JsonObject = Readonly<Record<string, unknown>>;

/** By key. */
export const routes = named(
  route,
  matching(
    /^(?:[A-Z-]+(?:,[A-Z-]+)* )?\/(?:[^\s/?#]+\/)*[^\s/?#]*$/,
    "a route is a path that begins with /, after methods where needed: GET,POST /reports/:id",
  ),
);

type WrittenRoutes = z.output<typeof routes>;

/** Where a route says nothing of them. */
export interface UsualTerms {
  readonly paymentIdentifier: IdentifierUse;
  readonly repeat: RepeatSettings;
  readonly mode: Mode;
}

interface Parts extends UsualTerms {
  readonly routes: WrittenRoutes;
  readonly context: Context;
  readonly pricing: Pricing;
  readonly upstreams: Upstreams;
  /** Of which host they are; default: of none. */
  readonly host?: string;
  /** Where those lead that do not say; default: as the file's upstreams say. */
  readonly upstream?: string | undefined;
}

export function resolveRoutes(parts: Parts): readonly RouteSettings[] {
  const { problems, tree } = parts.context;
  const { host } = parts;
  const place = host === undefined ? ["routes"] : ["hosts", host, "routes"];
  const conflicts = new Conflicts(place, parts.context);
  const resolved: RouteSettings[] = [];
  for (const key of tree.keys(place)) {
    const path = [...place, key];
    const read = readRouteKey(key);
    if (read.ok) conflicts.check(key, read.value);
    else problems.errorAtKey(path, read.error);
    // Absent where the value was refused; the key is looked at all the same.
    const value = parts.routes[key];
    const named = { ...parts, read: read.ok ? read.value : null };
    const action = value === undefined ? undefined : resolveAction(value, path, named);
    if (read.ok && action !== undefined) {
      const called = host === undefined ? { key } : { key: `${host} ${key}`, host };
      resolved.push({ ...called, ...problems.place(path), ...read.value, action });
      if (value !== undefined && !("kind" in value) && value.tools !== undefined) {
        const at = { ...called, path, read: read.value };
        const { mode = parts.mode } = value;
        const usual = { ...named, mode, upstream: upstreamOf(action) };
        resolved.push(...resolveTools(value.tools, at, usual));
      }
    }
  }
  return resolved;
}

/** `read`: the route's key; null where it is refused. */
type OfRoute = Parts & { readonly read: RouteKey | null };

function resolveAction(
  value: WrittenRoutes[string],
  path: Path,
  parts: OfRoute,
): RouteAction | undefined {
  const { pricing, upstreams } = parts;
  if (!("kind" in value)) {
    const isServer = parts.context.tree.has([...path, "tools"]);
    if (isServer) return resolveServer(value, path, parts);
    refuseWithoutTools(path, parts.context);
    return resolveBlock(value, path, parts);
  }
  if (value.kind === "deny") return { kind: "deny" };
  const upstream = parts.upstream ?? upstreams.resolve(path, undefined);
  if (value.kind === "free") return { kind: "free", upstream };
  const wanted = { price: value, pricePath: path, accept: undefined, payTo: undefined };
  const sold = { offers: pricing.offers(path, wanted), prices: [] };
  return inMode(parts.mode, priced(UNSAID, upstream, sold, parts));
}

function inMode(mode: Mode, action: PricedAction): RouteAction {
  const { upstream } = action;
  return mode === "sell" ? action : { kind: "free", upstream, shadow: action };
}

/** Each tool is a route of its own, which nobody reaches but by a call. */
function resolveTools(
  tools: NonNullable<PriceBlock["tools"]>,
  { path, read, ...server }: Pick<RouteSettings, "key" | "host"> & { path: Path; read: RouteKey },
  parts: OfRoute,
): readonly RouteSettings[] {
  const { problems, tree } = parts.context;
  const place = [...path, "tools"];
  return tree.keys(place).flatMap((name) => {
    const at = [...place, name];
    const found = toolKey(read, name);
    if (!found.ok) {
      problems.errorAtKey(at, found.error);
      return [];
    }
    const written = tools[name];
    const value = written === undefined || "kind" in written ? written : { ...UNSAID, ...written };
    const action = value && resolveAction(value, at, { ...parts, read: found.value });
    if (action === undefined) return [];
    const hidden =
      action.kind === "priced" ? { ...action, discoverable: false, checkInput: false } : action;
    const { host } = server;
    const { key } = found.value;
    const called = host === undefined ? { key } : { key: `${host} ${key}`, host };
    const told = { ...found.value, ...called, ...problems.place(at) };
    const isListed = action.kind === "priced" && action.discoverable && !isBeginning(name);
    return [
      { ...told, tool: { name, of: server.key, path: read.pattern, isListed }, action: hidden },
    ];
  });
}

/** What it leads to is free, but for calls of its tools. */
function resolveServer(
  { upstream: written, unpaid = "auto", telling = true }: Partial<PriceBlock>,
  path: Path,
  { context, upstreams, read, upstream: usual }: OfRoute,
): RouteAction {
  refuseBesideTools(path, read, context);
  const own = written === undefined ? usual : undefined;
  const upstream = own ?? upstreams.resolve(path, written);
  return { kind: "free", upstream, tools: { unpaid, telling } };
}

function upstreamOf(action: RouteAction): string | undefined {
  return action.kind === "deny" ? undefined : action.upstream;
}

function resolveBlock(block: PriceBlock, path: Path, parts: OfRoute): RouteAction | undefined {
  const { context, pricing, upstreams } = parts;
  const { price, accept, payTo } = block;
  const usual = block.upstream === undefined ? parts.upstream : undefined;
  const upstream = usual ?? upstreams.resolve(path, block.upstream);
  if (price !== undefined && "kind" in price && price.kind === "free") {
    refuseBesideFree(block, path, context);
    return { kind: "free", upstream };
  }
  const { tree, problems } = context;
  if (block.meter !== undefined || tree.has([...path, "meter"])) {
    return resolveMetered(block, upstream, path, parts);
  }
  if (price === undefined && accept === undefined) {
    if (tree.has([...path, "price"]) || tree.has([...path, "accept"])) return undefined;
    const hint = "write price: $0.01, or price: free";
    problems.errorAtKey(path, fault("no-price", "needs a price or its own accept", hint));
    return undefined;
  }
  const asked = { context, pricing, path, key: parts.read };
  const terms = { accept, payTo };
  const computed = computedOf(price);
  const offers =
    computed === undefined
      ? pricing.offers(path, { price: fixedOf(price), pricePath: [...path, "price"], ...terms })
      : computedOffers(computed, terms, asked);
  const isOnSolana = offers.some(({ network }) => networkOf(network).kind === "solana");
  if (block.memo !== undefined && offers.length > 0 && !isOnSolana) {
    const message = "has no meaning on a route that is not paid on Solana";
    problems.errorAtKey([...path, "memo"], fault("unused-key", message));
  }
  if (block.credits && !tree.has(["credits"])) {
    const message = "has no effect: nothing says what buyers can prepay";
    const hint = "add credits: { packs: [$1, $5] } to the file";
    problems.error([...path, "credits"], fault("missing-key", message, hint));
  }
  if (block.settle === "after") refuseUnheld(block, [...path, "settle"], context);
  refuseQuota(block.free, [...path, "free"], context);
  const place = { path, wanted: terms };
  const prices = offers.length === 0 ? [] : resolveMemberPrices(block.prices, place, parts);
  const action = priced(block, upstream, { offers, prices }, parts);
  if (computed === undefined) return inMode(block.mode ?? parts.mode, action);
  const { by, from, to } = computed;
  return inMode(block.mode ?? parts.mode, { ...action, computed: { by, from, to } });
}

function refuseBesideFree(block: PriceBlock, path: Path, { tree, problems }: Context): void {
  for (const key of Object.keys(block)) {
    if (key === "price" || key === "upstream" || !tree.stands([...path, key])) continue;
    const message = "has no meaning on a free route";
    const hint = "remove it, or give the route a price";
    problems.errorAtKey([...path, key], fault("unused-key", message, hint));
  }
}

function resolveMetered(
  block: PriceBlock,
  upstream: string,
  path: Path,
  parts: OfRoute,
): RouteAction | undefined {
  const { accept, payTo, settle, mode, description = "" } = block;
  if (settle === "after") {
    const message =
      "cannot be `after` beside meter: what is left of a payment is known when all of its answer was given";
    parts.context.problems.error([...path, "settle"], fault("bad-value", message));
  }
  const resolved = block.meter && resolveMeter(block.meter, { accept, payTo }, { ...parts, path });
  if (!resolved) return undefined;
  const { offers, terms } = resolved;
  const action = priced(block, upstream, { offers, prices: [] }, parts);
  const told = meteredDescription(description, terms);
  return inMode(mode ?? parts.mode, { ...action, metered: terms, repeat: null, description: told });
}

/** What is paid after the work is held until then. */
function refuseUnheld({ mimeType }: PriceBlock, path: Path, { tree, problems }: Context): void {
  const hint = "leave the key out: then it is paid before";
  if (tree.has(["sidecar"])) {
    const message =
      "cannot be `after` beside sidecar: your own proxy has the answer, and nobody holds it";
    problems.error(path, fault("bad-value", message, hint));
  }
  if (mimeType !== undefined && /^text\/event-stream\b/i.test(mimeType)) {
    const message =
      "cannot be `after` where the answer is a stream of events: it is not held until it is paid";
    problems.error(path, fault("bad-value", message, hint));
  }
}

function computedOf(price: PriceBlock["price"]): ComputedPriceText | undefined {
  return price !== undefined && "kind" in price && price.kind === "computed" ? price : undefined;
}

function fixedOf(price: PriceBlock["price"]): Wanted["price"] {
  if (price === undefined || !("kind" in price)) return price;
  return price.kind === "dollars" ? price : undefined;
}

/** What a block says that says nothing. */
const UNSAID = priceBlock.parse({});

function priced(
  block: PriceBlock,
  upstream: string,
  sold: Pick<PricedAction, "offers" | "prices">,
  usual: Pick<UsualTerms, "paymentIdentifier" | "repeat">,
): PricedAction {
  return {
    kind: "priced",
    upstream,
    ...sold,
    computed: null,
    metered: null,
    description: block.description ?? "",
    mimeType: block.mimeType ?? "",
    maxTimeoutSeconds: block.maxTimeoutSeconds,
    outputSchema: block.outputSchema ?? null,
    input: block.input ?? {},
    metadata: block.metadata ?? {},
    discoverable: block.discoverable,
    memo: block.memo ?? null,
    cacheControl: block.cacheControl,
    paymentIdentifier: block.paymentIdentifier ?? usual.paymentIdentifier,
    repeat: block.repeat === undefined ? usual.repeat : block.repeat,
    grants: block.grants ?? null,
    quota: block.free ?? null,
    redirects: block.redirects,
    goods: block.goods ?? [],
    checkInput: block.checkInput,
    settle: block.settle,
    credits: block.credits,
  };
}

/** What can be said of a route that the gateway makes itself. */
export type OwnTerms = Pick<
  z.input<typeof priceBlock>,
  "description" | "outputSchema" | "metadata" | "discoverable"
>;

/** A route that the gateway answers itself: JSON, settled before, and never fetched again but as it was kept. */
export function ownAction(
  terms: OwnTerms,
  sold: Required<Pick<PricedAction, "own" | "offers" | "upstream">>,
  { paymentIdentifier }: Pick<UsualTerms, "paymentIdentifier">,
): PricedAction {
  const block = priceBlock.parse({ ...terms, mimeType: "application/json" });
  const { own, offers, upstream } = sold;
  const usual = { paymentIdentifier, repeat: null };
  return { ...priced(block, upstream, { offers, prices: [] }, usual), own };
}
