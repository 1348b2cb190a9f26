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
} from "../discovery/discovery.ts";
import type { Listing } from "../facilitator/endpoints.ts";
import type { RoutePlan, Snapshot } from "../gateway/decision.ts";
import { Offers, type FeePayers, type Offer } from "../gateway/offers.ts";
import { Router } from "../gateway/router.ts";
import type { Engine } from "../gateway/upstream.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { networkOf } from "../x402/network.ts";
import { EXACT_SCHEME, X402_VERSION } from "../x402/x402.ts";

/** Path of the discovery listing on the public listener (protocol section 4.4). */
const LISTING_PATH = "/discovery/resources";

export type List = (query: string) => Listing;

/** Everything that a request's decision depends on. `engines` has one for every upstream. */
export function createSnapshot(
  config: Config,
  engines: ReadonlyMap<string, Engine>,
  { metrics, feePayers }: { readonly metrics: Metrics; readonly feePayers: FeePayers },
): Snapshot {
  const plan = (route: Route): RoutePlan => {
    const meter = metrics.route(route.key);
    const { action } = route;
    if (action.kind === "deny") return { kind: "deny", meter };
    const engine = engineOf(engines, action.upstream);
    if (action.kind === "free") return { kind: "free", meter, engine };
    const offers = new Offers(offersOf(route, action), feePayers);
    return { kind: "priced", label: route.key, meter, engine, offers };
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
  };
}

/**
 * The discovery listing as a function of the raw query string; `ledger` keeps when terms changed. Who pays
 * the network fee on Solana is no term of a route: it may change at any time, and costs the buyer nothing.
 */
export async function createListing(
  config: Config,
  ledger: Pick<Ledger, "termsChangedAt">,
  feePayers: FeePayers,
): Promise<List> {
  const sold: Sold[] = [];
  for (const route of config.routes) {
    if (route.action.kind !== "priced" || !route.action.discoverable) continue;
    const resource = `${config.publicUrl ?? ""}${route.pattern}`;
    const offers = offersOf(route, route.action);
    const terms = {
      resource,
      methods: route.methods,
      accepts: new Offers(offers).requirements(resource),
      metadata: route.action.metadata,
      isTemplate: route.segments.some(({ kind }) => kind !== "static"),
    };
    const now = Math.floor(Date.now() / 1000);
    const lastUpdated = await ledger.termsChangedAt(route.key, termsHash(terms), now);
    sold.push({ entry: { ...terms, lastUpdated }, offers: new Offers(offers, feePayers) });
  }
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
