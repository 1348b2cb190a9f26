/** `routes`: each key and each value (a word, a price, or a block), and the conflicts between them. */
import { z } from "zod";
import { IDENTIFIER_USES, type IdentifierUse } from "../../x402/payment-identifier.ts";
import { networkOf } from "../../x402/network.ts";
import { acceptEntry, payees } from "./accepted.ts";
import { grants, repeat, type GrantSettings, type RepeatSettings } from "./after-sale.ts";
import { input, type RouteInput } from "./route-input.ts";
import { computedOffers } from "./computed.ts";
import type { PriceTerms } from "../../pricing/computed-price.ts";
import { meter, meteredDescription, resolveMeter } from "./meter.ts";
import type { MeterTerms } from "../../metering/meter.ts";
import type { Context } from "../reading/context.ts";
import { memberPrices, resolveMemberPrices, type MemberPrice } from "./member-prices.ts";
import { barePrice, DOLLARS_FORM, price, readAction, type ComputedPriceText } from "./price.ts";
import type { OwnGoods } from "./own-goods.ts";
import type { OfferSettings, Pricing, Wanted } from "./pricing.ts";
import { quota, QUOTA_USAGE, refuseQuota, type QuotaSettings } from "./quota.ts";
import { fault } from "../reading/reading.ts";
import { Conflicts } from "./route-conflicts.ts";
import { readRouteKey, type RouteKey } from "./route-key.ts";
import {
  flag,
  jsonObject,
  listOf,
  map,
  matching,
  named,
  optional,
  plainText,
  text,
  textLike,
  whole,
  word,
} from "../reading/shapes.ts";
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
  readonly action: RouteAction;
}

export type RouteAction =
  | { readonly kind: "deny" }
  /** `shadow`: what it would be sold for, were it not for `mode: shadow`. */
  | { readonly kind: "free"; readonly upstream: string; readonly shadow?: PricedAction }
  | PricedAction;

/** `shadow`: nothing is charged, and told what would have been. */
export const MODES = ["sell", "shadow"] as const;

export type Mode = (typeof MODES)[number];

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

/** `after`: the backend works first, and is paid for what it has answered. */
const SETTLE_TIMES = ["before", "after"] as const;
export type SettleTime = (typeof SETTLE_TIMES)[number];

const REDIRECT_USES = ["pass", "follow"] as const;
type RedirectUse = (typeof REDIRECT_USES)[number];

type JsonObject = Readonly<Record<string, unknown>>;

const MAX_TIMEOUT_REASON =
  ": a facilitator refuses authorizations that expire within 6 seconds, and nothing waits for a day";

const DIRECTIVE =
  "(?:private|no-store|no-cache|no-transform|must-revalidate|immutable|(?:max-age|stale-while-revalidate|stale-if-error)=[0-9]{1,9})";
const CACHING = new RegExp(`^(?=.*\\b(?:private|no-store)\\b)${DIRECTIVE}(?:, *${DIRECTIVE})*$`);

const priceBlock = map({
  mode: optional(
    word(MODES),
    "`shadow`: every request passes and nothing is charged; the access log, the metrics and `coinslot forecast` tell what " +
      "would have been asked. Default: the global `mode`.",
  ),
  price: optional(
    price,
    "What one request costs: dollars, exactly, never rounded; `free`; or atomic units of a token.",
  ),
  meter: optional(
    meter,
    "What its answers are charged by, in place of `price`: what each has used, known when it is there. " +
      '`{ of: json("usage.total_tokens"), each: $0.000002, max: $0.50 }`.',
  ),
  prices: memberPrices,
  accept: optional(
    listOf(acceptEntry),
    "Networks and tokens in which this route is paid, in place of the global `accept`.",
  ),
  payTo: optional(payees, "Who is paid for this route, in place of the global `payTo`."),
  upstream: optional(
    plainText,
    "Name of the upstream it leads to. Without it: the one named default, or the only one.",
  ),
  description: optional(
    plainText,
    "What is sold, for buyers and catalogues, in at most 500 characters.",
  ),
  mimeType: optional(
    textLike(
      /^[\w.+-]+\/[\w.+*-]+(?: *;[\x20-\x7e]*)?$/,
      "must be a media type such as application/json",
      "application/json",
    ),
    "Media type of the answer.",
  ),
  maxTimeoutSeconds: optional(
    whole(10, 86_400, MAX_TIMEOUT_REASON),
    "How long a payment may take, in seconds.",
    60,
  ),
  outputSchema: optional(
    jsonObject,
    "JSON Schema of the answer, for the discovery listing; its example, or those of its members, is shown as a sample.",
  ),
  metadata: optional(
    jsonObject,
    "Shown in the discovery listing: { category: weather, provider: Example Inc. }.",
  ),
  input: optional(
    input,
    "What a buyer has to send, for the discovery listing, and to be checked (see `checkInput`). A field is a JSON Schema, " +
      "the name of a type or a sentence; `required: true` says that it has to be there.",
  ),
  discoverable: optional(flag, "Whether the discovery listing shows the route.", true),
  memo: optional(
    // Official clients write no longer one.
    textLike(/^[\x20-\x7e]{1,256}$/, "must be 1 to 256 printable characters of ASCII", "weather"),
    "What has to stand as memo in payments on Solana, for your books: of buyers of version 2, since those of version 1 write none.",
  ),
  cacheControl: optional(
    textLike(
      CACHING,
      "must be directives of Cache-Control with private or no-store among them, such as private, max-age=3600: " +
        "a shared cache gives what it keeps to those who have not paid",
      "private, max-age=3600",
    ),
    "Cache-Control of what is sold, in place of the backend's: how long a buyer's own cache may keep it.",
    "private, no-store",
  ),
  paymentIdentifier: optional(
    word(IDENTIFIER_USES),
    "Whether buyers name their purchases, in place of the global `paymentIdentifier`.",
  ),
  repeat: optional(repeat, "In place of the global `repeat`."),
  grants: optional(
    grants,
    "For how long who has paid for the route, and has had that, has everything that it serves, without paying again: signed in " +
      "with the account that has paid. With { for, times } he has it so often.",
  ),
  free: optional(quota, QUOTA_USAGE),
  redirects: optional(
    word(REDIRECT_USES),
    "What is done with a redirect of the backend. pass: the buyer gets it, and his payment is for its target, too, where " +
      "that is at this host and costs no more. follow: a GET or HEAD is asked for again at its target, where that is at " +
      "this host, of the same upstream and costs no more, at most five times.",
    "pass",
  ),
  goods: optional(
    listOf(whole(400, 599)),
    "Answers of 400 and above that are what is sold, as a 404 may be that says that a name is free. Any other leaves the " +
      "payment good for the same method and path.",
  ),
  checkInput: optional(
    flag,
    "Whether `input` is checked when a payment is shown, before it is taken: 400 says what is missing or wrong. Of a body " +
      "up to 1 MiB whose length is told.",
    true,
  ),
  settle: optional(
    word(SETTLE_TIMES),
    "When the payment is settled. before: then the backend sees the request. after: the payment is verified, the backend " +
      "answers, and only what is goods is settled and given to the buyer. Such an answer is held until then: it is no " +
      "stream, and no larger than 1 MiB. A payer who cannot pay any more by then has had the work for nothing: 16 " +
      "times, and once more each minute.",
    "before",
  ),
  credits: optional(
    flag,
    "Whether a session may pay it from what its account has prepaid (`credits`): no payment, no settlement, and nothing is " +
      "debited for what is no goods, or breaks off.",
    false,
  ),
});

const route = z.union(
  [text(readAction, { anyOf: [{ enum: ["free", "deny"] }, DOLLARS_FORM] }), barePrice, priceBlock],
  "must be free, deny, a price such as $0.01, or a map with a price",
);

/** By key. */
export const routes = named(
  route,
  matching(
    /^(?:[A-Z-]+(?:,[A-Z-]+)* )?\/(?:[^\s/?#]+\/)*[^\s/?#]*$/,
    "a route is a path that begins with /, after methods where needed: GET,POST /reports/:id",
  ),
);

type WrittenRoutes = z.output<typeof routes>;
type PriceBlock = z.output<typeof priceBlock>;

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
  if (!("kind" in value)) return resolveBlock(value, path, parts);
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
