/** Configuration -> what requests are matched against, and what was asked for before. */
import {
  isShadowed,
  PUBLISHED_PATHS,
  siteNames,
  sitesOf,
  type Config,
  type OfferSettings,
  type PricedAction,
  type RouteAction,
  type RouteSettings,
  type Site,
  toldPasses,
  toldMeter,
} from "../config/config.ts";
import { REPLAY_MS } from "../ledger/ledger.ts";
import { AtPrices, KeptPrices, type ComputedPlans } from "../gateway/computed-plans.ts";
import type { PricedPlan, RoutePlan, Snapshot } from "../gateway/decision.ts";
import type { EarlierQuotes, QuotedEarlier } from "../gateway/offers/earlier-quotes.ts";
import type { Drafts } from "../gateway/offers/drafts.ts";
import type { Holders } from "../gateway/holders.ts";
import type { MemberTerms } from "../gateway/membership.ts";
import { OfferPage, PLAIN_PAGES, type PageWriter } from "../gateway/offers/offer-page.ts";
import type { BlockhashHints } from "../payments/sale/blockhash-hints.ts";
import { Offers, type FeePayers, type NetworkStates } from "../payments/sale/offers.ts";
import { Router, type Route as RouterEntry } from "../gateway/paths/router.ts";
import type { Engine } from "../gateway/upstream/upstream.ts";
import type { GatewaySettings, SiteSettings } from "../gateway/work.ts";
import type { ServedHosts } from "../gateway/client/other-hosts.ts";
import {
  UNMATCHED,
  type Metrics,
  type RouteMeter,
  type RouteMeterSettings,
} from "../telemetry/metrics.ts";
import { atOnce, type Steps } from "../time/breath.ts";
import { systemTime } from "../time/time.ts";
import { paywallPage } from "../web/paywall-page.ts";
import { HostNames } from "../http/host-names.ts";
import { networkOf } from "../x402/network.ts";
import { PayerList } from "../x402/payer-list.ts";
import type { ToldPass } from "../x402/pass-offers.ts";
import { PaymentStatusUrls } from "../x402/payment-status.ts";
import { passesExtension } from "../x402/pass-offers.ts";
import { BALANCE_PATH, CREDITS_PATH, prepaidExtension } from "../x402/prepaid.ts";
import { SIGN_IN_PATH } from "../x402/sign-in.ts";
import { toolService } from "../tools/tool-service.ts";
import { servedTool, toolExtension } from "../x402/tool-bazaar.ts";
import { serviceOf, type ExtensionsV2 } from "../x402/version-2.ts";
import { X402_VERSION, X402_VERSION_2 } from "../x402/x402.ts";
import { freeTerms } from "./free-terms.ts";
import { creditsOf, planTerms } from "./plan-terms.ts";
import { balanceTerms, ownSide } from "./own-routes.ts";
import { signInTerms } from "./sign-in-terms.ts";
import { documentPaths } from "../publishing/publishing.ts";
import { offersOf } from "../publishing/route-offers.ts";
import type { Attodollars } from "../pricing/computed-price.ts";
import { actionAt, computedPrice } from "../publishing/computed.ts";
import type { SitesPublisher } from "../publishing/site-publications.ts";

/** What of a configuration the decisions about requests depend on. */
type Selling = Pick<
  Config,
  | "routes"
  | "publicUrl"
  | "hosts"
  | "sites"
  | "listen"
  | "sidecar"
  | "defaultUpstream"
  | "unmatched"
  | "discovery"
  | "support"
  | "paywall"
  | "cors"
  | "mcp"
  | "protocol"
  | "members"
  | "sessions"
  | "passes"
  | "credits"
> &
  Partial<Pick<Site<Config>, "site">>;

/** Of a group that was refused. */
const NOBODY = new PayerList("that");

interface SnapshotGround {
  readonly metrics: Pick<Metrics, "route">;
  readonly feePayers: FeePayers;
  /** Default: all are open. */
  readonly networks?: NetworkStates;
  readonly drafts: Pick<Drafts, "networks">;
  /** Told to buyers on Solana. Default: none. */
  readonly blockhashes?: Pick<BlockhashHints, "of">;
  /** What was asked for before. */
  readonly earlier: readonly EarlierQuotes[];
  /** By which challenges to sign in are made. Default: nobody is asked who he is. */
  readonly signInKey?: Uint8Array | undefined;
  /** What is known of who holds what. Default: nothing, and nobody is a member for that. */
  readonly holders?: Holders | undefined;
}

/** Who is in each group: those that are listed, or known to hold what its members hold. */
function groupLists(
  { groups, holders }: Config["members"],
  known: Holders | undefined,
): Readonly<Record<string, MemberTerms["list"]>> {
  const held = Object.entries(holders).map(([name, terms]) => {
    return [name, known?.listOf(terms) ?? NOBODY] as const;
  });
  return { ...groups, ...Object.fromEntries(held) };
}

/** Everything that a request's decision depends on. `engines` has one for every upstream. */
export function createSnapshot(...made: Parameters<typeof snapshotSteps>): Snapshot {
  return atOnce(snapshotSteps(...made));
}

/** The same, a step for each route. */
export function* snapshotSteps(
  config: Selling,
  engines: ReadonlyMap<string, Engine>,
  ground: SnapshotGround,
): Steps<Snapshot> {
  const { metrics, feePayers, networks, drafts, blockhashes, earlier, signInKey: key } = ground;
  const { publicUrl: base, protocol, site = "" } = config;
  const isAsking = key !== undefined && base !== null;
  const groups = groupLists(config.members, ground.holders);
  const asker = isAsking ? signInTerms(config, { key, publicUrl: base }, groups) : null;
  const signIn = asker && { issuer: asker.issuer, now: () => systemTime.now() };
  const plannerAs = (route: RouteSettings) => {
    const meter = metrics.route(route.key, pricesOf(route));
    return (action: RouteAction) => planOf(route, action, meter);
  };
  const planOf = (
    route: RouteSettings,
    action: RouteAction,
    meter: RouteMeter,
  ): ((method: string) => RoutePlan) => {
    if (action.kind === "deny") return () => ({ kind: "deny", meter });
    const side = sideOf(action, engines, base);
    if (action.kind === "free") {
      const free = { ...freeTerms(route, action, config), meter, engine: side.engine };
      return () => ({ kind: "free", ...free });
    }
    return (method) => {
      const asked = offersOf({ route, action, publicUrl: base, method });
      const service = serviceOf(action.metadata, config.paywall.brand);
      const { memo, paymentIdentifier: identifier } = action;
      const opening = toldPasses(route, config);
      const extensions = {
        ...(action.credits && prepaidExtension(base ?? "")),
        ...passesExtension(opening),
        ...(action.metered !== null && { metered: { info: toldMeter(action.metered) } }),
        ...bazaarOf(route, action),
      };
      const told = { protocol, service, identifier, memo, signIn, extensions };
      const known = planTerms(route, action, config);
      const { isSettledAfter } = known;
      const terms = { ...told, blockhashes, networks, route: route.key, isSettledAfter };
      const offers = new Offers(asked, feePayers, terms);
      const pageOf = (shown: Offers, priced: PricedAction): OfferPage | null => {
        if (!config.paywall.page) return null;
        // A page signs in for a session.
        const beside = { asksWho: asker !== null && asker.sessions !== null, passes: opening };
        return offerPage(shown, config, priced, drafts.networks, beside);
      };
      const page = pageOf(offers, action);
      const members = action.prices.map(({ group, offers: own }): MemberTerms => {
        const list = groups[group] ?? NOBODY;
        if (own.length === 0) return { group, list, offers: null, page: null };
        const priced = { ...action, offers: own };
        const asking = offersOf({ route, action: priced, publicUrl: base, method });
        const shown = new Offers(asking, feePayers, terms);
        const credits = creditsOf(priced);
        return { group, list, offers: shown, page: pageOf(shown, priced), credits };
      });
      const sold = { members, ...side, ...known };
      return { kind: "priced", label: route.key, meter, offers, page, ...sold };
    };
  };
  const kept = new KeptPrices<PricedPlan>();
  const planner = (route: RouteSettings): ((method: string) => RoutePlan) => {
    const planAs = plannerAs(route);
    const { action } = route;
    const price = action.kind === "priced" ? computedPrice(route, action) : undefined;
    if (action.kind !== "priced" || price === undefined) return planAs(action);
    return (method) => {
      const computed: ComputedPlans<PricedPlan> = new AtPrices(
        price,
        (each) => ({ ...pricedPlan(planAs(actionAt(action, each))(method)), computed }),
        kept,
      );
      return { ...pricedPlan(planAs(action)(method)), computed };
    };
  };
  const router = yield* Router.steps(byMethod(config.routes, planner), {
    guarded: (plan: RoutePlan) => plan.kind !== "free" || plan.tools !== undefined,
    unmatchedGuarded: config.unmatched === "deny",
  });
  const publicUrl = base ?? "";
  // Where the file has hosts alone, nothing is anywhere else.
  const documents = base === null ? [] : documentPaths(config);
  return {
    site,
    router,
    unmatched: unmatchedPlan(config, engines, metrics),
    authorities: new Set(base === null ? [] : [new URL(base).host]),
    hosts: config.sidecar === null || config.hosts !== null ? servedHosts(config) : null,
    publicUrl,
    documents: new Set([...documents, ...(asker === null ? [] : ownPaths(config))]),
    protocol,
    answersPreflight: config.cors !== "off",
    earlier: earlier.filter((each) => each.site === site),
    signIn: asker,
    balances: asker && config.sidecar === null ? balanceTerms(config, publicUrl) : null,
    tools: toolsPath(config),
    statuses: isAsking ? new PaymentStatusUrls({ key, publicUrl: base }) : null,
  };
}

/** What is sold at the file's own site, and under the name of each other host. */
export function* siteSteps(
  config: Selling & Pick<Config, "support">,
  engines: ReadonlyMap<string, Engine>,
  { publish, ...ground }: SnapshotGround & { readonly publish: SitesPublisher },
): Steps<SiteSettings & Pick<GatewaySettings, "hosts">> {
  const made: (readonly [Pick<Site<Selling>, "site" | "publicUrl" | "routes">, SiteSettings])[] =
    [];
  for (const each of sitesOf(config)) {
    const { site, cors, support, paywall } = each;
    const path = toolsPath(each);
    const settings: SiteSettings = {
      snapshot: yield* snapshotSteps(each, engines, ground),
      publish: (asked) => publish(asked, site),
      tools: path === null ? null : toolService({ ...each, path, brand: paywall.brand }),
      cors: typeof cors === "string" ? cors : new Set(cors),
      support,
    };
    made.push([each, settings]);
  }
  const [[, own] = []] = made;
  if (own === undefined) throw new Error("a configuration without a site");
  return { ...own, hosts: siteNames(made) };
}

/** A proxy asks of its own clients' requests, and of no messages. */
function toolsPath({ mcp, sidecar }: Pick<Config, "mcp" | "sidecar">): string | null {
  return sidecar === null ? (mcp?.path ?? null) : null;
}

function pricedPlan(plan: RoutePlan): PricedPlan {
  if (plan.kind !== "priced") throw new Error("a route that is priced, and not sold");
  return plan;
}

/** Of which routes /metrics tells. */
export function toldRoutes({
  routes,
  metrics,
}: Pick<Config, "routes" | "metrics">): RouteMeterSettings {
  return { routes: routes.map(({ key }) => key), isByRoute: metrics.routeHistograms };
}

/** How a route can be paid for, as metrics name it. */
function pricesOf({ action }: RouteSettings): readonly { network: string; asset: string }[] {
  if (action.kind !== "priced") return [];
  return action.offers.map(({ network, asset }) => ({ network, asset: asset.symbol }));
}

/** Where who signs in asks: a route with that very path wins, as of the other documents. */
function ownPaths(config: Pick<Config, "routes" | "sidecar">): readonly string[] {
  const paths = config.sidecar === null ? [SIGN_IN_PATH, BALANCE_PATH] : [SIGN_IN_PATH];
  return paths.filter((path) => !isShadowed(config, path));
}

/** By which a tool is known to those who list what they settle. */
function bazaarOf({ tool }: RouteSettings, { description }: PricedAction): ExtensionsV2 {
  return tool?.isListed === true ? toolExtension(servedTool(tool.name, description)) : {};
}

/** By which names we are asked: as buyers are told, where we listen by name, and what the file lists. */
function servedHosts({
  publicUrl,
  hosts,
  listen,
}: Pick<Config, "publicUrl" | "hosts" | "listen">): ServedHosts {
  const told = publicUrl === null ? [] : [new URL(publicUrl).hostname];
  const heard = listen.flatMap(({ host }) => (host === null ? [] : [host]));
  return { names: new HostNames([...told, ...heard, ...(hosts ?? [])]), only: hosts !== null };
}

/** What a route without methods is asked for besides GET, almost always. */
const USUAL_METHODS = ["POST", "PUT", "PATCH", "DELETE"] as const;

/**
 * Priced routes once for each method by which they are asked for: what buyers, and catalogues, are told of a resource
 * names its method. The answer to any request is that of the route as it is written.
 */
function* byMethod<Value>(
  routes: Config["routes"],
  plannerOf: (route: RouteSettings) => (method: string) => Value,
): Generator<RouterEntry<Value>> {
  for (const route of routes) {
    const { methods, pattern, action } = route;
    const planFor = plannerOf(route);
    const entry = (named: readonly string[] | null): RouterEntry<Value> => {
      return { methods: named, pattern, value: planFor(named?.[0] ?? "GET") };
    };
    if (action.kind !== "priced") yield entry(methods);
    else if (methods !== null) yield* methods.map((method) => entry([method]));
    // No other key of the file has that pattern.
    else yield* [entry(null), ...USUAL_METHODS.map((method) => entry([method]))];
  }
}

type PageSettings = Pick<Config, "paywall" | "discovery" | "publicUrl" | "support" | "protocol">;

function offerPage(offers: Offers, ...made: Parameters<typeof pageWriter>): OfferPage {
  const [, { computed }] = made;
  return new OfferPage(offers, pageWriter(...made), computed === null ? 0 : PLAIN_PAGES);
}

/** Passes that a page tells: the listing has all. */
const MAX_PAGE_PASSES = 4;

/** The page of a route; what needs a transaction that nobody here can write is for programs only. */
function pageWriter(
  { paywall, discovery, publicUrl, support, protocol }: PageSettings,
  { description, mimeType, maxTimeoutSeconds, repeat, offers, credits, metered }: PricedAction,
  drafted: ReadonlySet<string>,
  { asksWho, passes }: { readonly asksWho: boolean; readonly passes: readonly ToldPass[] },
): PageWriter {
  const listing = discovery.page ?? (discovery.listed ? PUBLISHED_PATHS.listed : null);
  const isForBrowsers = ({ network }: OfferSettings): boolean =>
    networkOf(network).kind === "evm" || drafted.has(network);
  return (offered) => {
    const asked = offered.flatMap((each) =>
      offers.filter(
        ({ network, asset }) => each.network === network && each.asset === asset.address,
      ),
    );
    return paywallPage({
      brand: paywall.brand,
      host: publicUrl === null ? "" : new URL(publicUrl).host,
      description,
      mimeType,
      maxTimeoutSeconds,
      // Small answers are kept, large ones may be fetched again: the page cannot know which it will be.
      againSeconds: Math.max(REPLAY_MS, repeat?.forMs ?? 0) / 1000,
      asksWho,
      passes: passes.slice(0, MAX_PAGE_PASSES).map(({ url, name, price }) => {
        return { url, text: `${name}, ${price}` };
      }),
      credits: credits ? `${publicUrl ?? ""}${CREDITS_PATH}` : null,
      metered: metered !== null,
      offers: asked.filter(isForBrowsers),
      others: asked.filter((each) => !isForBrowsers(each)),
      version: protocol.v2 ? X402_VERSION_2 : X402_VERSION,
      listing: listing === null ? null : `${publicUrl ?? ""}${listing}`,
      support,
    });
  };
}

/** How long the longest of its prices may be paid after it was asked for, milliseconds. */
export function longestQuoteMs(routes: Config["routes"]): number {
  let longest = 0;
  for (const { action } of routes) {
    if (action.kind === "priced") longest = Math.max(longest, action.maxTimeoutSeconds);
  }
  return longest * 1000;
}

/** What of a configuration tells what it has asked for. */
export type EarlierTerms = Pick<
  Config,
  "routes" | "sites" | "publicUrl" | "unmatched" | "protocol" | "members"
>;

/** What a configuration that was replaced has asked for at each of its sites. */
export function createEarlierQuotes(
  ...made: Parameters<typeof earlierSteps>
): readonly EarlierQuotes[] {
  return atOnce(earlierSteps(...made));
}

/** The same, a step for each route. */
export function* earlierSteps(
  config: EarlierTerms,
  feePayers: FeePayers,
  replacedMs: number,
  holders?: Holders,
): Steps<readonly EarlierQuotes[]> {
  const all: EarlierQuotes[] = [];
  const groups = groupLists(config.members, holders);
  for (const each of sitesOf(config)) {
    all.push(yield* earlierOf(each, groups, { feePayers, replacedMs }));
  }
  return all;
}

function* earlierOf(
  { site, routes, publicUrl, unmatched, protocol }: Site<EarlierTerms>,
  groups: Readonly<Record<string, MemberTerms["list"]>>,
  { feePayers, replacedMs }: { readonly feePayers: FeePayers; readonly replacedMs: number },
): Steps<EarlierQuotes> {
  const computed = new Map<Offers, ComputedPlans<Offers>>();
  const kept = new KeptPrices<Offers>();
  const priced = byMethod(routes, (route) => {
    const { action } = route;
    if (action.kind !== "priced") return () => null;
    const { memo, paymentIdentifier: identifier } = action;
    const terms = { memo, identifier };
    const offersAs = (sold: PricedAction, method: string) =>
      new Offers(offersOf({ route, action: sold, publicUrl, method }), feePayers, terms);
    const price = computedPrice(route, action);
    return (method): QuotedEarlier => {
      const offers = offersAs(action, method);
      if (price !== undefined) {
        const planAt = (each: Attodollars) => offersAs(actionAt(action, each), method);
        computed.set(offers, new AtPrices(price, planAt, kept));
      }
      const asked = action.prices.flatMap(({ group, offers: own }) => {
        const list = groups[group] ?? NOBODY;
        const told = offersAs({ ...action, offers: own }, method);
        return own.length === 0 ? [] : [{ group, list, offers: told, page: null }];
      });
      return { offers, members: asked, isMetered: action.metered !== null };
    };
  });
  const router = yield* Router.steps(priced, {
    guarded: (quoted: QuotedEarlier | null) => quoted !== null,
    unmatchedGuarded: unmatched === "deny",
  });
  const untilMs = replacedMs + longestQuoteMs(routes);
  const told = { site, router, computed, publicUrl: publicUrl ?? "", protocol };
  return { ...told, replacedMs, untilMs };
}

/** What answers a route, and what a payment for it fills, where that is the gateway itself. */
function sideOf(
  action: Exclude<RouteAction, { kind: "deny" }>,
  engines: ReadonlyMap<string, Engine>,
  publicUrl: string | null,
): Pick<PricedPlan, "engine" | "fills"> {
  if (action.kind === "priced" && action.own !== undefined) {
    return ownSide(action.own, publicUrl ?? "");
  }
  return { engine: engineOf(engines, action.upstream) };
}

function unmatchedPlan(
  { unmatched, defaultUpstream }: Pick<Selling, "unmatched" | "defaultUpstream">,
  engines: ReadonlyMap<string, Engine>,
  metrics: Pick<Metrics, "route">,
): Snapshot["unmatched"] {
  if (unmatched !== "free" || defaultUpstream === null) return null;
  const engine = engineOf(engines, defaultUpstream);
  return { kind: "free", meter: metrics.route(UNMATCHED), engine };
}

function engineOf(engines: ReadonlyMap<string, Engine>, name: string): Engine {
  const engine = engines.get(name);
  if (engine === undefined) throw new Error(`no upstream named ${name}`);
  return engine;
}
