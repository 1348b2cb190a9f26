/** Configuration -> what requests are matched against, and what the discovery listing shows. */
import type { Config, Offer as OfferSettings, PricedAction, Route } from "../config/config.ts";
import {
  createCatalogue,
  writeListing,
  outputSchemaOf,
  parseDiscoveryQuery,
  termsHash,
  type Catalogue,
  type CatalogueEntry,
  type PublicTerms,
} from "../discovery/discovery.ts";
import type { Listing } from "../facilitator/endpoints.ts";
import type { RoutePlan, Snapshot } from "../gateway/decision.ts";
import type { EarlierQuotes } from "../gateway/payment/earlier-quotes.ts";
import type { Drafts } from "../gateway/payment/drafts.ts";
import { OfferPage, type PageWriter } from "../gateway/payment/offer-page.ts";
import { Offers, type FeePayers, type Offer } from "../gateway/payment/offers.ts";
import { Router } from "../gateway/paths/router.ts";
import type { Engine } from "../gateway/upstream/upstream.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { paywallPage } from "../web/paywall-page.ts";
import { networkOf } from "../x402/network.ts";
import { EXACT_SCHEME, X402_VERSION } from "../x402/x402.ts";

/** Path of the discovery listing on the public listener (protocol section 4.4). */
const LISTING_PATH = "/discovery/resources";

export type List = (query: string) => Listing;

/** Unix seconds of the last change of a route's public terms, by the key of the route. */
export type TermsChanges = ReadonlyMap<string, number>;

/** What of a configuration the decisions about requests depend on. */
type Selling = Pick<
  Config,
  "routes" | "publicUrl" | "defaultUpstream" | "unmatched" | "discovery" | "paywall" | "cors"
>;

/** What of it the listing depends on. */
type Sales = Pick<Config, "routes" | "publicUrl">;

interface SnapshotGround {
  readonly metrics: Pick<Metrics, "route">;
  readonly feePayers: FeePayers;
  readonly drafts: Pick<Drafts, "networks">;
  /** What was asked for before. */
  readonly earlier: readonly EarlierQuotes[];
}

/** Everything that a request's decision depends on. `engines` has one for every upstream. */
export function createSnapshot(
  config: Selling,
  engines: ReadonlyMap<string, Engine>,
  { metrics, feePayers, drafts, earlier }: SnapshotGround,
): Snapshot {
  const plan = (route: Route): RoutePlan => {
    const meter = metrics.route(route.key);
    const { action } = route;
    if (action.kind === "deny") return { kind: "deny", meter };
    const engine = engineOf(engines, action.upstream);
    if (action.kind === "free") return { kind: "free", meter, engine };
    const offers = new Offers(offersOf(route, action), feePayers);
    const page = config.paywall.page
      ? new OfferPage(offers, pageWriter(config, action, drafts.networks))
      : null;
    return { kind: "priced", label: route.key, meter, engine, offers, page };
  };
  const routes = config.routes.map((route) => ({
    methods: route.methods,
    pattern: route.pattern,
    value: plan(route),
  }));
  const publicUrl = config.publicUrl ?? "";
  const { defaultUpstream } = config;
  return {
    router: new Router(routes, {
      guarded: ({ kind }) => kind !== "free",
      unmatchedGuarded: config.unmatched === "deny",
    }),
    unmatched:
      config.unmatched === "free" && defaultUpstream !== null
        ? {
            kind: "free",
            meter: metrics.route("(unmatched)"),
            engine: engineOf(engines, defaultUpstream),
          }
        : null,
    authorities: new Set([new URL(publicUrl).host]),
    publicUrl,
    listingPath: config.discovery.listed ? LISTING_PATH : null,
    answersPreflight: config.cors !== "off",
    earlier,
  };
}

/** The page of a route; what needs a transaction that nobody here can write is for programs only. */
function pageWriter(
  { paywall, discovery, publicUrl }: Pick<Config, "paywall" | "discovery" | "publicUrl">,
  { description, maxTimeoutSeconds, offers }: PricedAction,
  drafted: ReadonlySet<string>,
): PageWriter {
  const listing = discovery.listed ? `${publicUrl ?? ""}${LISTING_PATH}` : null;
  const isForBrowsers = ({ network }: OfferSettings): boolean =>
    networkOf(network).kind === "evm" || drafted.has(network);
  return (offered) => {
    const asked = offers.filter(({ network, asset }) =>
      offered.some((each) => each.network === network && each.asset === asset.address),
    );
    return paywallPage({
      brand: paywall.brand,
      description,
      maxTimeoutSeconds,
      offers: asked.filter(isForBrowsers),
      others: asked.filter((each) => !isForBrowsers(each)),
      listing,
    });
  };
}

/** How long the longest of its prices may be paid after it was asked for, milliseconds. */
export function longestQuoteMs(routes: Config["routes"]): number {
  const seconds = routes.map(({ action }) =>
    action.kind === "priced" ? action.maxTimeoutSeconds : 0,
  );
  return Math.max(0, ...seconds) * 1000;
}

/** What a configuration that was replaced has asked for. */
export function createEarlierQuotes(
  { routes, publicUrl, unmatched }: Pick<Config, "routes" | "publicUrl" | "unmatched">,
  feePayers: FeePayers,
  replacedMs: number,
): EarlierQuotes {
  const priced = routes.map((route) => {
    const { action, methods, pattern } = route;
    const isSold = action.kind === "priced";
    return {
      methods,
      pattern,
      value: isSold ? new Offers(offersOf(route, action), feePayers) : null,
    };
  });
  const router = new Router(priced, {
    guarded: (offers) => offers !== null,
    unmatchedGuarded: unmatched === "deny",
  });
  const untilMs = replacedMs + longestQuoteMs(routes);
  return { router, publicUrl: publicUrl ?? "", replacedMs, untilMs };
}

/** Notes the terms of every listed route in the ledger, which knows since when each of them has been the same. */
export async function readTermsChanges(
  config: Sales,
  ledger: Pick<Ledger, "termsChangedAt">,
): Promise<TermsChanges> {
  const changes = new Map<string, number>();
  for (const { route, terms } of listed(config)) {
    const now = Math.floor(Date.now() / 1000);
    changes.set(route.key, await ledger.termsChangedAt(route.key, termsHash(terms), now));
  }
  return changes;
}

/**
 * The discovery listing as a function of the raw query string. Who pays the network fee on Solana is no term
 * of a route: it may change at any time, and costs the buyer nothing.
 */
export function createListing(config: Sales, changes: TermsChanges, feePayers: FeePayers): List {
  const sold: readonly Sold[] = listed(config).map(({ route, offers, terms }) => ({
    entry: { ...terms, lastUpdated: changes.get(route.key) ?? 0 },
    offers: new Offers(offers, feePayers),
  }));
  let { revision } = feePayers;
  let catalogue = catalogueOf(sold);
  return (rawQuery) => {
    const query = parseDiscoveryQuery(rawQuery);
    if (query.ok) {
      if (feePayers.revision !== revision) {
        ({ revision } = feePayers);
        catalogue = catalogueOf(sold);
      }
      return { status: 200, body: writeListing(catalogue, query.value) };
    }
    const body = { x402Version: X402_VERSION, error: query.error.detail };
    return { status: 400, body: JSON.stringify(body) };
  };
}

/** The priced routes that anyone may know of, with their public terms. */
function listed({ routes, publicUrl }: Sales): readonly Listed[] {
  return routes.flatMap((route) => {
    const { action, methods, pattern, segments } = route;
    if (action.kind !== "priced" || !action.discoverable) return [];
    const resource = `${publicUrl ?? ""}${pattern}`;
    const offers = offersOf(route, action);
    const terms = {
      resource,
      methods,
      accepts: new Offers(offers).requirements(resource),
      metadata: action.metadata,
      isTemplate: segments.some(({ kind }) => kind !== "static"),
    };
    return [{ route, offers, terms }];
  });
}

interface Listed {
  readonly route: Route;
  readonly offers: readonly Offer[];
  readonly terms: PublicTerms;
}

interface Sold {
  readonly entry: CatalogueEntry;
  readonly offers: Offers;
}

/** What can be paid for now: what cannot is listed again as soon as it can. */
function catalogueOf(sold: readonly Sold[]): Catalogue {
  const payable = sold.filter(({ offers }) => !offers.areNone);
  return createCatalogue(
    payable.map(({ entry, offers }) => ({ ...entry, accepts: offers.accepts(entry.resource) })),
  );
}

function offersOf(route: Route, action: PricedAction): Offer[] {
  const { description, mimeType, maxTimeoutSeconds } = action;
  const outputSchema = outputSchemaOf({
    method: route.methods?.[0] ?? "GET",
    discoverable: action.discoverable,
    input: action.input,
    output: action.outputSchema,
  });
  return action.offers.map(({ network, asset, payTo, amountAtomic }: OfferSettings) => ({
    scheme: EXACT_SCHEME,
    network: networkOf(network).name,
    maxAmountRequired: amountAtomic.toString(),
    asset: asset.address,
    payTo,
    description,
    mimeType,
    maxTimeoutSeconds,
    outputSchema,
    // Solana's names the account that pays the network fee, which is not the configuration's to know.
    ...("eip712" in asset
      ? { extra: { name: asset.eip712.name, version: asset.eip712.version } }
      : {}),
  }));
}

function engineOf(engines: ReadonlyMap<string, Engine>, name: string): Engine {
  const engine = engines.get(name);
  if (engine === undefined) throw new Error(`no upstream named ${name}`);
  return engine;
}
