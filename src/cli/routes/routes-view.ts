/** Rules and explanations as `routes --json` writes them: plain values, nothing secret. */
import type { Explanation } from "../../diagnosis/explanation.ts";
import {
  PUBLISHED_PATHS,
  holdersText,
  waysText,
  type PassGround,
  toldMeter,
  type Config,
  type OfferSettings,
  type PricedAction,
  type RouteAction,
  type RouteSettings,
  type Site,
} from "../../config/config.ts";
import { inWinningOrder } from "../../diagnosis/rule-order.ts";
import { documentPaths } from "../../publishing/publishing.ts";
import { toolsOf, type ToolSet } from "../../tools/tools.ts";
import { formatAmount } from "../../x402/amount.ts";

export interface PriceView {
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  /** In whole units of the token, exact. */
  readonly amount: string;
  readonly amountAtomic: string;
  /** In whole units of the token: what the cheapest request costs, where each has its own price. */
  readonly least?: string;
  /** As written; null where the amount was given in atomic units. */
  readonly dollars: string | null;
  readonly payTo: string;
}

export interface RuleView {
  readonly key: string;
  /** The file, or one that it includes, and the 1-based line of the key in it. */
  readonly file: string;
  readonly line: number;
  /** Null: every method that no other key of the pattern lists. */
  readonly methods: readonly string[] | null;
  readonly pattern: string;
  readonly action: "priced" | "free" | "deny";
  /** The most that a request costs where that is computed. */
  readonly prices: readonly PriceView[];
  /** What members of each group pay, an empty list: nothing. Only where it costs them something else. */
  readonly members?: Readonly<Record<string, readonly PriceView[]>>;
  /** What the members of such a group hold, as a sentence. Only where they are members for that. */
  readonly holders?: Readonly<Record<string, string>>;
  /** For how long who has paid has all of it, milliseconds. Only where he has. */
  readonly grantMs?: number;
  /** How it is had beside a payment for each request, as sentences. Only where it is. */
  readonly ways?: readonly string[];
  /** Names of the tools that it is to agents, with `mcp`. */
  readonly tools?: readonly string[];
  /** Why it is none, with `mcp`: completes "it is no tool: …". */
  readonly noTool?: string;
  /** The expression by which the price of each request is computed; not there where all cost the same. */
  readonly computed?: string;
  /** By what its answers are charged, which cost at most its prices then; not there where all cost the same. */
  readonly meter?: ReturnType<typeof toldMeter>;
  /** Name of the upstream; null where nothing is served, or the gateway itself answers. */
  readonly upstream: string | null;
  /** Only where it may be paid from a balance. */
  readonly credits?: true;
  /** Only where it is paid after the work. */
  readonly settle?: "after";
}

export interface RulesView extends SiteView {
  readonly file: string;
  /** Of each other host of the file; only where it has some. */
  readonly hosts?: readonly (SiteView & { readonly host: string })[];
}

/** What holds for one host, or for all that have nothing of their own. */
export interface SiteView {
  /** Path of the gateway's own listing, which comes before every rule; null: not served. */
  readonly listing: string | null;
  /** Paths of its other documents that are served: those that no rule names. */
  readonly documents: readonly string[];
  /** Path of its tools; only where it has some. */
  readonly mcp?: string;
  /** The first one that matches wins. */
  readonly rules: readonly RuleView[];
  readonly unmatched: { readonly action: "free" | "deny"; readonly upstream: string | null };
}

export interface ExplanationView {
  readonly method: string;
  readonly target: string;
  readonly path: string | null;
  readonly query: string;
  readonly outcome: Explanation["outcome"];
  readonly why: string;
  readonly rule: RuleView | null;
  readonly beaten: readonly { readonly key: string; readonly line: number; readonly why: string }[];
  /** Of this very request, where each has its own. */
  readonly price?: Explanation["price"];
  readonly upstream: Explanation["forwarded"];
  readonly answer: {
    readonly status: number;
    /** In the order in which they are sent. */
    readonly headers: readonly (readonly [name: string, value: string])[];
    /** Decoded JSON; null where there is none. */
    readonly body: unknown;
  } | null;
  readonly notes: readonly string[];
}

function ruleView(route: RouteSettings): RuleView {
  const { key, file, line, methods, tool, action } = route;
  // Of a tool that is what stands for it in the router.
  const pattern = tool === undefined ? route.pattern : key.slice(key.indexOf("/"));
  const offers = action.kind === "priced" ? action.offers : [];
  return {
    key,
    file,
    line,
    methods,
    pattern,
    action: action.kind,
    ...(action.kind === "priced" && action.computed !== null && { computed: action.computed.by }),
    ...(action.kind === "priced" &&
      action.metered !== null && { meter: toldMeter(action.metered) }),
    prices: offers.map(priceView),
    ...(action.kind === "priced" && priceViews(action)),
    upstream: upstreamOf(action),
    ...(action.kind === "priced" && action.credits && { credits: true }),
    ...(action.kind === "priced" && action.settle === "after" && { settle: action.settle }),
  };
}

function upstreamOf(action: RouteAction): string | null {
  if (action.kind === "deny") return null;
  return action.kind === "priced" && action.own !== undefined ? null : action.upstream;
}

/** What a route costs those who are known. */
function priceViews({ prices, grants }: PricedAction): Pick<RuleView, "members" | "grantMs"> {
  const members = prices.map(({ group, offers }) => [group, offers.map(priceView)] as const);
  return {
    ...(members.length > 0 && { members: Object.fromEntries(members) }),
    ...(grants !== null && { grantMs: grants.forMs }),
  };
}

function waysOf(
  route: RouteSettings,
  config: PassGround & Pick<Config, "members">,
): Pick<RuleView, "ways" | "holders"> {
  const { action } = route;
  const prices = action.kind === "priced" ? action.prices : [];
  const held = prices.flatMap(({ group }) => {
    const terms = config.members.holders[group];
    return terms === undefined ? [] : [[group, holdersText(terms)] as const];
  });
  const ways = action.kind === "priced" ? waysText(route, action, config) : [];
  return {
    ...(held.length > 0 && { holders: Object.fromEntries(held) }),
    ...(ways.length > 0 && { ways }),
  };
}

function toolsIn(
  { tools, others }: ToolSet = { tools: [], others: [] },
  { key }: RouteSettings,
): Pick<RuleView, "tools" | "noTool"> {
  const names = tools.flatMap(({ route, name }) => (route === key ? [name] : []));
  const why = others.find(({ route }) => route === key)?.why;
  return { ...(names.length > 0 && { tools: names }), ...(why !== undefined && { noTool: why }) };
}

function priceView(offer: OfferSettings): PriceView {
  const { network, asset, payTo, amountAtomic, leastAtomic, dollars } = offer;
  return {
    network,
    asset: asset.address,
    symbol: asset.symbol,
    amount: formatAmount(amountAtomic, asset.decimals),
    amountAtomic: amountAtomic.toString(),
    ...(leastAtomic !== undefined && { least: formatAmount(leastAtomic, asset.decimals) }),
    dollars,
    payTo,
  };
}

export function siteView(config: Site<Config>): SiteView {
  const { routes, unmatched, defaultUpstream, publicUrl } = config;
  // The gateway's own resources, before every rule.
  const paths = publicUrl === null ? [] : [...documentPaths(config)];
  const listing = paths.find((path) => path === PUBLISHED_PATHS.listed) ?? null;
  const path = config.sidecar === null ? config.mcp?.path : undefined;
  const set = path === undefined ? undefined : toolsOf(config);
  return {
    listing,
    documents: paths.filter((each) => each !== listing),
    ...(path !== undefined && { mcp: path }),
    rules: inWinningOrder(routes).map((route) => ({
      ...ruleView(route),
      ...waysOf(route, config),
      ...toolsIn(set, route),
    })),
    unmatched: { action: unmatched, upstream: unmatched === "free" ? defaultUpstream : null },
  };
}

export function explanationView(explanation: Explanation): ExplanationView {
  const { winner, beaten, forwarded, answer, ...rest } = explanation;
  const { method, target, path, query, outcome, why, price, notes } = rest;
  return {
    method,
    target,
    path,
    query,
    outcome,
    why,
    rule: winner === null ? null : ruleView(winner),
    beaten: beaten.map(({ route, why: reason }) => ({
      key: route.key,
      line: route.line,
      why: reason,
    })),
    ...(price !== null && { price }),
    upstream: forwarded,
    answer:
      answer === null
        ? null
        : {
            status: answer.status,
            headers: pairs(answer.lines),
            body: answer.body === "" ? null : JSON.parse(answer.body),
          },
    notes,
  };
}

function pairs(lines: readonly string[]): (readonly [string, string])[] {
  return lines.flatMap((name, index) =>
    index % 2 === 0 ? [[name, lines[index + 1] ?? ""] as const] : [],
  );
}
