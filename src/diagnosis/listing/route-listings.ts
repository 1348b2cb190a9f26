/**
 * Whether each priced route is listed, where, with which terms, and if not why: what listings say, compared
 * with the configuration and with what was sold so far.
 */
import {
  sitesOf,
  type Config,
  type PricedAction,
  type RemoteFacilitatorSettings,
  type RouteSettings,
  type Site,
} from "../../config/config.ts";
import { openBooks } from "../../admin/books.ts";
import { isSameToken } from "../../x402/token.ts";
import { EntryFinder } from "./entry-finder.ts";
import { askForWords, type RouteWord } from "./heard-words.ts";
import {
  readListing,
  type ListedEntry,
  type ListedTerms,
  type ListingPlace,
  type ReadListing,
  type ReadOptions,
} from "./read-listing.ts";
import { messageOf } from "../../x402/result.ts";

/** Newest sales that are looked at unless told otherwise: facilitators list what they have settled. */
const MAX_SALES = 5_000;

export interface ExamineListingOptions extends ReadOptions {
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
  /** The facilitator said so, with an answer to a payment. */
  | "rejected"
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
  /** What the facilitator said last of listing it; null: nothing that is known. */
  readonly said: Said | null;
}

type Said = Pick<RouteWord, "status" | "reason" | "at">;

export interface RouteListing {
  readonly key: string;
  readonly places: readonly RouteAtPlace[];
}

export interface PlaceReport {
  readonly name: string;
  readonly kind: ListingPlace["kind"];
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
  /** Why it is not known what facilitators said of listing routes; null: it is, or there are none elsewhere. */
  readonly saidUnknown: string | null;
}

/** Entries of one route that are named. */
const MAX_RESOURCES = 5;

/** Asks every listing that the configuration knows. Never rejects. */
export async function examineListings(
  config: Config,
  { maxSales = MAX_SALES, ...options }: ExamineListingOptions,
): Promise<ListingReport> {
  const sites = sitesOf(config).filter(({ routes }) => routes.length > 0);
  const places = [...sites.flatMap(ownPlaces), ...placesElsewhere(config)];
  const [sales, words, ...read] = await Promise.all([
    readSales(config, maxSales),
    askForWords(config, options.timeoutMs),
    ...places.map(async (place) => ({ place, listing: await readListing(place, options) })),
  ]);
  const finder = new EntryFinder(config);
  const found = read.map(({ place, listing }) => {
    const entries = listing.state === "read" ? finder.byRoute(listing.entries) : new Map();
    return { place, listing, entries };
  });
  const routes = sites.flatMap((site) => {
    const theirs = found.filter(({ place }) => place.kind !== "own" || isOwnOf(place, site));
    return site.routes.flatMap((route) => {
      const { action } = route;
      if (action.kind !== "priced") return [];
      const at = theirs.map((each) => judge({ ...each, route, action, config, sales, words }));
      return [{ key: route.key, places: site.discovery.listed ? at : [offAt(site), ...at] }];
    });
  });
  const reports = found.map(({ place, listing }) => placeReport(place, listing));
  const off = sites.filter(({ discovery }) => !discovery.listed).map(ownOff);
  return {
    places: [...off, ...reports],
    routes,
    salesUnknown: sales.unknown,
    saidUnknown: words.unknown,
  };
}

/** The listing of a site of ours. */
function ownName({ site }: Site<Config>): string {
  return site === "" ? "own" : `own of ${site}`;
}

function isOwnOf({ name }: ListingPlace, site: Site<Config>): boolean {
  return name === ownName(site);
}

const OFF_DETAIL = "discovery.listed is false: the gateway serves no listing to buyers";

function offAt(site: Site<Config>): RouteAtPlace {
  const place = ownName(site);
  return { place, state: "switched-off", detail: OFF_DETAIL, resources: [], said: null };
}

function ownPlaces(site: Site<Config>): readonly ListingPlace[] {
  const { discovery, publicUrl } = site;
  if (!discovery.listed) return [];
  return [{ name: ownName(site), kind: "own", url: publicUrl ?? "", headers: {} }];
}

function placesElsewhere({ facilitator }: Config): readonly ListingPlace[] {
  return facilitator.remote.map(({ url, headers }): ListingPlace => {
    const sent = headers.map(({ name, value }) => [name, value.reveal()] as const);
    return { name: nameOf(url), kind: "facilitator", url, headers: Object.fromEntries(sent) };
  });
}

/** Host and path: several facilitators may share a host. */
function nameOf(url: RemoteFacilitatorSettings["url"]): string {
  return url.replace(/^https?:\/\//, "");
}

function ownOff(site: Site<Config>): PlaceReport {
  const url = site.publicUrl ?? "";
  return {
    ...COUNTED_NOTHING,
    name: ownName(site),
    kind: "own",
    url,
    state: "switched-off",
    detail: OFF_DETAIL,
  };
}

const COUNTED_NOTHING = { entries: 0, total: 0 } as const;

function placeReport({ name, kind, url }: ListingPlace, listing: ReadListing): PlaceReport {
  const place = { name, kind, url, state: listing.state };
  if (listing.state !== "read") return { ...place, ...COUNTED_NOTHING, detail: listing.detail };
  const { total } = listing;
  const entries = listing.entries.length;
  const rest = entries < total ? "; the others are not shown, or too many" : "";
  return { ...place, entries, total, detail: `${entries} of ${total} entries read${rest}` };
}

type Sold = {
  readonly has: (route: RouteSettings, url: string) => boolean;
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
    const reason = messageOf(cause);
    return { has: () => false, unknown: reason, newest: null };
  }
  const newest = count < limit ? null : limit;
  return { has: (route, url) => sold.has(`${route.key} ${url}`), unknown: null, newest };
}

interface Judged {
  readonly place: ListingPlace;
  readonly listing: ReadListing;
  readonly entries: ReadonlyMap<RouteSettings, readonly ListedEntry[]>;
  readonly route: RouteSettings;
  readonly action: PricedAction;
  readonly config: Config;
  readonly sales: Sold;
  readonly words: { readonly words: readonly RouteWord[] };
}

function judge(judged: Judged): RouteAtPlace {
  const { place, route } = judged;
  const said = saidOf(judged);
  const entries = judged.entries.get(route) ?? [];
  const resources = entries.slice(0, MAX_RESOURCES).map(({ resource }) => resource);
  const [state, detail] = entries.length === 0 ? absence(judged) : presence(judged, entries);
  const isTold = said !== null && state !== "listed" && state !== "rejected";
  const told = isTold ? `; it said of it: ${wordText(said)}` : "";
  return { place: place.name, state, detail: detail + told, resources, said };
}

function saidOf({ place, route, words }: Judged): Said | null {
  const own = words.words.filter(({ facilitator, route: key }) => {
    return place.kind === "facilitator" && facilitator === place.url && key === route.key;
  });
  const last = own.reduce<RouteWord | null>((latest, each) => {
    return latest === null || each.at >= latest.at ? each : latest;
  }, null);
  return last === null ? null : { status: last.status, reason: last.reason, at: last.at };
}

function wordText({ status, reason, at }: Said): string {
  const when = new Date(at * 1000).toISOString();
  return `${status}${reason === null ? "" : `, ${reason}`} (${when})`;
}

type Judgement = readonly [ListingState, string];

function absence(judged: Judged): Judgement {
  const { place, listing, sales, route } = judged;
  const reason = withheld(judged);
  if (reason !== undefined) return reason;
  if (listing.state !== "read") {
    const { state, detail } = listing;
    switch (state) {
      case "absent":
        return ["no-listing", `there is no listing: ${detail}`];
      case "refused":
        return ["not-shown", `its listing is not shown to us: ${detail}`];
      case "unreadable":
        return ["unreadable", `its listing could not be read: ${detail}`];
    }
  }
  if (place.kind === "own") {
    const said = "the gateway that answers under publicUrl does not list it";
    return ["missing", `${said}: it runs an older configuration, or nobody can pay for it now`];
  }
  if (sales.unknown === null && !sales.has(route, place.url)) {
    const when = sales.newest === null ? "yet" : `among the newest ${sales.newest} sales`;
    return ["no-sale-yet", `it has settled no sale of it ${when}, and lists what it has settled`];
  }
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

/** Why nobody can expect it there, whatever the listing says. */
function withheld(judged: Judged): Judgement | undefined {
  const { place, action, config } = judged;
  if (!action.discoverable) return ["not-discoverable", "discoverable is false"];
  if (place.kind !== "own" && offersThere(action, config).length === 0) {
    return ["not-settled-there", "its networks are all settled in this process"];
  }
  const said = saidOf(judged);
  return said?.status === "rejected" ? ["rejected", `it said of it: ${wordText(said)}`] : undefined;
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

function staleness({ kind }: ListingPlace): string {
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
