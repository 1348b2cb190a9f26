/**
 * Whether each priced route is listed, where, with which terms, and if not why: what listings say, compared
 * with the configuration and with what was sold so far.
 */
import type { Config, PricedAction, RemoteFacilitator, Route } from "../../config/config.ts";
import { Router } from "../../gateway/paths/router.ts";
import { openBooks } from "../books.ts";
import { isSameToken } from "../token-address.ts";
import {
  readListing,
  type ListedEntry,
  type ListedTerms,
  type Place,
  type ReadListing,
  type ReadOptions,
} from "./read-listing.ts";

/** Newest sales that are looked at unless told otherwise: facilitators list what they have settled. */
const MAX_SALES = 5_000;

export interface ExamineOptions extends ReadOptions {
  /** Newest sales that are looked at. */
  readonly maxSales?: number;
}

export type ListingState =
  /** With the terms of the configuration. */
  | "listed"
  | "other-terms"
  /** `discoverable: false` */
  | "not-discoverable"
  /** `discovery.listed: false` */
  | "switched-off"
  /** Nothing of it is paid through this facilitator. */
  | "not-settled-there"
  /** Facilitators list what they have settled, and none of it was this. */
  | "no-sale-yet"
  /** It is not among the entries, although it was sold, or nobody knows whether it was. */
  | "missing"
  | "no-listing"
  | "not-shown"
  | "unreadable";

export interface RouteAtPlace {
  readonly place: string;
  readonly state: ListingState;
  /** One sentence without a period at its end. */
  readonly detail: string;
  /** URLs of the entries that are this route, the first ones. */
  readonly resources: readonly string[];
}

export interface RouteListing {
  readonly key: string;
  readonly places: readonly RouteAtPlace[];
}

export interface PlaceReport {
  readonly name: string;
  readonly kind: Place["kind"];
  readonly url: string;
  readonly state: ReadListing["state"] | "switched-off";
  readonly detail: string;
  /** Entries that were read, and those that the listing says it has. */
  readonly entries: number;
  readonly total: number;
}

export interface ListingReport {
  readonly places: readonly PlaceReport[];
  readonly routes: readonly RouteListing[];
  /** Why it is not known what was sold; null: it is. */
  readonly salesUnknown: string | null;
}

/** Entries of one route that are named. */
const MAX_RESOURCES = 5;

/** Asks every listing that the configuration knows. Never rejects. */
export async function examineListings(
  config: Config,
  { maxSales = MAX_SALES, ...options }: ExamineOptions,
): Promise<ListingReport> {
  const places = placesOf(config);
  const [sales, ...read] = await Promise.all([
    readSales(config, maxSales),
    ...places.map(async (place) => ({ place, listing: await readListing(place, options) })),
  ]);
  const finder = new EntryFinder(config);
  const found = read.map(({ place, listing }) => {
    const entries = listing.state === "read" ? finder.byRoute(listing.entries) : new Map();
    return { place, listing, entries };
  });
  const routes = config.routes.flatMap((route) => {
    const { action } = route;
    if (action.kind !== "priced") return [];
    const at = found.map((each) => judge({ ...each, route, action, config, sales }));
    return [{ key: route.key, places: config.discovery.listed ? at : [OFF, ...at] }];
  });
  const reports = found.map(({ place, listing }) => placeReport(place, listing));
  return {
    places: config.discovery.listed ? reports : [ownOff(config), ...reports],
    routes,
    salesUnknown: sales.unknown,
  };
}

const OWN = "own";
const OFF_DETAIL = "discovery.listed is false: the gateway serves no listing to buyers";
const OFF: RouteAtPlace = { place: OWN, state: "switched-off", detail: OFF_DETAIL, resources: [] };

function placesOf({ publicUrl, discovery, facilitator }: Config): readonly Place[] {
  const own: Place = { name: OWN, kind: "own", url: publicUrl ?? "", headers: {} };
  const others = facilitator.remote.map(({ url, headers }): Place => {
    const sent = headers.map(({ name, value }) => [name, value.reveal()] as const);
    return { name: nameOf(url), kind: "facilitator", url, headers: Object.fromEntries(sent) };
  });
  return discovery.listed ? [own, ...others] : others;
}

/** Host and path: several facilitators may share a host. */
function nameOf(url: RemoteFacilitator["url"]): string {
  return url.replace(/^https?:\/\//, "");
}

function ownOff({ publicUrl }: Config): PlaceReport {
  const url = publicUrl ?? "";
  return {
    ...COUNTED_NOTHING,
    name: OWN,
    kind: "own",
    url,
    state: "switched-off",
    detail: OFF_DETAIL,
  };
}

const COUNTED_NOTHING = { entries: 0, total: 0 } as const;

function placeReport({ name, kind, url }: Place, listing: ReadListing): PlaceReport {
  const place = { name, kind, url, state: listing.state };
  if (listing.state !== "read") return { ...place, ...COUNTED_NOTHING, detail: listing.detail };
  const { total } = listing;
  const entries = listing.entries.length;
  const rest = entries < total ? "; the others are not shown, or too many" : "";
  return { ...place, entries, total, detail: `${entries} of ${total} entries read${rest}` };
}

type Sold = {
  readonly has: (route: Route, url: string) => boolean;
  readonly unknown: string | null;
  /** How many sales were looked at; null: all that there are. */
  readonly newest: number | null;
};

/** What facilitators settled of each route, as the ledger tells. */
async function readSales(config: Config, limit: number): Promise<Sold> {
  const sold = new Set<string>();
  let count = 0;
  const finder = new EntryFinder(config);
  try {
    const books = await openBooks(config);
    try {
      const states = ["SETTLED", "DELIVERING", "DELIVERED"] as const;
      const sales = await books.list({ states, limit });
      count = sales.length;
      for (const { binding, facilitator } of sales) {
        const [method = "", path = ""] = binding?.split(" ") ?? [];
        const route = finder.routeOf(method, path);
        if (route !== undefined && facilitator !== null) sold.add(`${route.key} ${facilitator}`);
      }
    } finally {
      await books.close();
    }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    return { has: () => false, unknown: reason, newest: null };
  }
  const newest = count < limit ? null : limit;
  return { has: (route, url) => sold.has(`${route.key} ${url}`), unknown: null, newest };
}

/** Which entries are which route. */
class EntryFinder {
  readonly #publicUrl: string;
  readonly #router: Router<Route>;
  readonly #routes: readonly Route[];
  /** What an entry may mean that names no method, GET before all others. */
  readonly #methods: readonly string[];

  constructor({ routes, publicUrl }: Pick<Config, "routes" | "publicUrl">) {
    this.#publicUrl = publicUrl ?? "";
    this.#routes = routes;
    this.#methods = [...new Set(["GET", ...routes.flatMap(({ methods }) => methods ?? [])])];
    const values = routes.map((route) => {
      return { methods: route.methods, pattern: route.pattern, value: route };
    });
    // What is close to a price is not the question here.
    this.#router = new Router(values, { guarded: () => false, unmatchedGuarded: false });
  }

  byRoute(entries: readonly ListedEntry[]): ReadonlyMap<Route, readonly ListedEntry[]> {
    const found = new Map<Route, ListedEntry[]>();
    const templates = new Map<string, Route[]>();
    for (const route of this.#routes) {
      templates.set(route.pattern, [...(templates.get(route.pattern) ?? []), route]);
    }
    for (const entry of entries) {
      const path = this.#pathOf(entry.resource);
      if (path === undefined) continue;
      const methods = entry.method === undefined ? this.#methods : [entry.method];
      const isOf = ({ methods: own }: Route) => own?.some((each) => methods.includes(each)) ?? true;
      const named = templates.get(path)?.find(isOf);
      const route = named ?? methods.map((each) => this.routeOf(each, path)).find(Boolean);
      if (route !== undefined) found.set(route, [...(found.get(route) ?? []), entry]);
    }
    return found;
  }

  routeOf(method: string, path: string): Route | undefined {
    const match = this.#router.match(method, path);
    return match.kind === "route" ? match.value : undefined;
  }

  /** Of what is ours; undefined of what is somebody else's. */
  #pathOf(resource: string): string | undefined {
    const [url = ""] = resource.split(/[?#]/);
    if (!url.startsWith(`${this.#publicUrl}/`) && url !== this.#publicUrl) return undefined;
    const path = url.slice(this.#publicUrl.length);
    return path === "" ? "/" : path;
  }
}

interface Judged {
  readonly place: Place;
  readonly listing: ReadListing;
  readonly entries: ReadonlyMap<Route, readonly ListedEntry[]>;
  readonly route: Route;
  readonly action: PricedAction;
  readonly config: Config;
  readonly sales: Sold;
}

function judge(judged: Judged): RouteAtPlace {
  const { place, route } = judged;
  const entries = judged.entries.get(route) ?? [];
  const resources = entries.slice(0, MAX_RESOURCES).map(({ resource }) => resource);
  const [state, detail] = entries.length === 0 ? absence(judged) : presence(judged, entries);
  return { place: place.name, state, detail, resources };
}

type Judgement = readonly [ListingState, string];

function absence({ place, listing, route, action, config, sales }: Judged): Judgement {
  if (!action.discoverable) return ["not-discoverable", "discoverable is false"];
  const isOwn = place.kind === "own";
  if (!isOwn && offersThere(action, config).length === 0) {
    return ["not-settled-there", "its networks are all settled in this process"];
  }
  switch (listing.state) {
    case "absent":
      return ["no-listing", `there is no listing: ${listing.detail}`];
    case "refused":
      return ["not-shown", `its listing is not shown to us: ${listing.detail}`];
    case "unreadable":
      return ["unreadable", `its listing could not be read: ${listing.detail}`];
    default:
      break;
  }
  if (isOwn) {
    const said = "the gateway that answers under publicUrl does not list it";
    return ["missing", `${said}: it runs an older configuration, or nobody can pay for it now`];
  }
  if (sales.unknown === null && !sales.has(route, place.url)) return noSale(sales);
  const { entries, total } = listing;
  if (entries.length < total) {
    return ["missing", `not among the first ${entries.length} of its ${total} entries`];
  }
  const known =
    sales.unknown === null
      ? "although it has settled a sale of it"
      : "and it is not known whether it was sold";
  return ["missing", `it does not list it, ${known}`];
}

function noSale({ newest }: Sold): Judgement {
  const when = newest === null ? "yet" : `among the newest ${newest} sales`;
  return ["no-sale-yet", `it has settled no sale of it ${when}, and lists what it has settled`];
}

function presence(judged: Judged, entries: readonly ListedEntry[]): Judgement {
  const { place, action, config } = judged;
  const offers = place.kind === "own" ? action.offers : offersThere(action, config);
  const judgements = entries.map(({ offers: listed }) => differences(listed, offers));
  const odd = judgements.find((found) => found.length > 0);
  const count = entries.length === 1 ? "" : ` as ${entries.length} entries`;
  if (odd === undefined) return ["listed", `listed${count} with the present terms`];
  return ["other-terms", `${odd.join("; ")}${staleness(place)}`];
}

function staleness({ kind }: Place): string {
  if (kind === "own") return "; the gateway runs another configuration";
  return "; it is likely to change with the next sale";
}

type Offers = PricedAction["offers"];

/** The ways to pay that a facilitator elsewhere gets to see. */
function offersThere(action: PricedAction, { facilitator }: Config): Offers {
  const here = new Set<string>(facilitator.embedded.map(({ network }) => network));
  return action.offers.filter(({ network }) => !here.has(network));
}

/** What an entry says otherwise than the configuration; the entry may know fewer ways to pay. */
function differences(listed: readonly ListedTerms[], offers: Offers): readonly string[] {
  if (listed.length === 0) return ["its entry has no way to pay"];
  return listed.flatMap((entry) => {
    const rivals = offers.filter(({ network }) => network === entry.network);
    if (rivals.length === 0) return [`lists ${entry.network}, which is not accepted there`];
    const ours = rivals.find(({ asset }) => isSameToken(entry.network, asset.address, entry.asset));
    if (ours === undefined) return [`${entry.network}: lists the token ${entry.asset}`];
    const amount = ours.amountAtomic.toString();
    return [
      ...(entry.amount === amount
        ? []
        : [`${entry.network}: lists the price ${entry.amount}, it is ${amount} now`]),
      ...(isSameToken(entry.network, ours.payTo, entry.payTo)
        ? []
        : [`${entry.network}: lists ${entry.payTo} as payee, it is ${ours.payTo} now`]),
    ];
  });
}
