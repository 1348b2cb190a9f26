/**
 * Configuration -> the catalogue page: which routes it shows, in which groups and portions. What is searched for is
 * found by the index of the listing, so that both find the same.
 */
import type { PricedAction, RouteSettings } from "../config/config.ts";
import { cataloguePage, CATALOGUE_POLICY } from "../web/catalogue-page.ts";
import type { CatalogueGroup, CatalogueInput, CatalogueRoute } from "../web/catalogue-view.ts";
import { formatAmount } from "../x402/amount.ts";
import { declaredExample } from "../x402/declared-example.ts";
import { networkOf } from "../x402/network.ts";
import { isSameToken } from "../x402/token.ts";
import { CREDITS_PATH } from "../x402/prepaid.ts";
import type { X402Version } from "../x402/x402.ts";
import { compare, type CatalogueItem } from "../discovery/catalogue.ts";
import type { CatalogueEntry } from "../discovery/catalogue.ts";
import { entryName, searchItems, type Catalogue } from "../discovery/discovery.ts";
import { exampleRequest } from "../discovery/example-request.ts";
import type { RouteQuality } from "../discovery/quality.ts";

/** Routes on one page. */
const PAGE_SIZE = 50;
/** Longest text that is searched for, characters. */
const MAX_SEARCHED = 100;
/** Longest query string that is read at all, characters. */
const MAX_QUERY_LENGTH = 4_096;
/** Pages that are kept as they were written: most visitors ask for the same few. */
const MAX_KEPT = 32;
/** Inputs of one route that are shown. */
const MAX_INPUTS = 50;
/** Of routes that nobody has put into a group, and that are alone with the beginning of their path. */
const OTHERS = "More";
/** What paths begin with that says nothing of what is behind it. */
const USUAL_BEGINNING = /^(?:v\d+|api|rest|x402)$/i;

/** Header lines of every page. */
export const PAGE_LINES = [
  ["Content-Security-Policy", CATALOGUE_POLICY],
  ["X-Content-Type-Options", "nosniff"],
  ["X-Frame-Options", "DENY"],
  ["Referrer-Policy", "no-referrer"],
].flat();

/** A route that is sold. */
export interface SoldHere {
  readonly route: RouteSettings;
  readonly action: PricedAction;
}

interface CatalogueGround {
  readonly publicUrl: string | null;
  /** Of what can be paid for now. */
  readonly catalogue: Catalogue;
  /** By the name of its entry. */
  readonly sold: ReadonlyMap<string, SoldHere>;
  /** The version that buyers' code speaks. */
  readonly version: X402Version;
}

interface Entry extends SoldHere {
  readonly item: CatalogueItem;
  readonly group: string;
}

export class CataloguePages {
  readonly #ground: CatalogueGround;
  readonly #base: string;
  /** In order of group and resource; by the item in the catalogue. */
  readonly #entries: ReadonlyMap<CatalogueItem, Entry>;
  readonly #hasGroups: boolean;
  readonly #kept = new Map<string, string>();

  constructor(ground: CatalogueGround) {
    this.#ground = ground;
    this.#base = ground.publicUrl ?? "";
    const entries = grouped(
      ground.catalogue.items.flatMap((item) => {
        const sold = ground.sold.get(entryName(item.entry));
        return sold === undefined ? [] : [{ ...sold, item }];
      }),
    );
    this.#hasGroups = new Set(entries.map(({ group }) => group)).size > 1;
    this.#entries = new Map(entries.map((entry) => [entry.item, entry]));
  }

  /** The page for a raw query string: `q` and `page`, whatever else there is. */
  write(rawQuery: string): string {
    const asked = new URLSearchParams(rawQuery.slice(0, MAX_QUERY_LENGTH));
    const query = (asked.get("q") ?? "").trim().slice(0, MAX_SEARCHED).toWellFormed();
    const text = asked.get("page") ?? "";
    const page = /^[1-9]\d{0,6}$/.test(text) ? Number(text) : 1;
    const name = `${page} ${query}`;
    const kept = this.#kept.get(name);
    if (kept !== undefined) return kept;
    const written = this.#write(query, page);
    this.#kept.set(name, written);
    const [oldest] = this.#kept.size > MAX_KEPT ? this.#kept.keys() : [];
    if (oldest !== undefined) this.#kept.delete(oldest);
    return written;
  }

  #write(query: string, asked: number): string {
    const { catalogue, version } = this.#ground;
    const wanted = query === "" ? null : new Set(searchItems(catalogue, query));
    const found = [...this.#entries.values()].filter(({ item }) => wanted?.has(item) ?? true);
    const pages = Math.max(1, Math.ceil(found.length / PAGE_SIZE));
    const page = Math.min(asked, pages);
    const shown = found.slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE);
    const groups: { name: string | null; routes: CatalogueRoute[] }[] = [];
    for (const entry of shown) {
      const name = this.#hasGroups ? entry.group : null;
      if (groups.at(-1)?.name !== name) groups.push({ name, routes: [] });
      groups.at(-1)?.routes.push(routeView(entry, this.#base, entry.item.entry));
    }
    return cataloguePage({
      shop: URL.parse(this.#base)?.host ?? this.#base,
      query,
      found: found.length,
      page,
      pages,
      version,
      groups: groups satisfies readonly CatalogueGroup[],
    });
  }
}

/** Each with its group, in their order: what the seller says, or else how its path begins. */
function grouped(all: readonly Omit<Entry, "group">[]): readonly Entry[] {
  const counts = new Map<string, number>();
  const named = all.map((each) => {
    const told = toldGroup(each.action);
    const group = told ?? beginningOf(each.route);
    const key = group.toLowerCase();
    counts.set(key, (counts.get(key) ?? 0) + 1);
    return { ...each, group, key, isTold: told !== undefined };
  });
  // Of each that spelling which comes first.
  const spelt = new Map(named.toReversed().map(({ key, group }) => [key, group]));
  return named
    .map(({ key, isTold, ...each }) => {
      const isAlone = !isTold && counts.get(key) === 1;
      return {
        ...each,
        group: isAlone ? OTHERS : (spelt.get(key) ?? key),
        key: isAlone ? "\uffff" : key,
      };
    })
    .toSorted(
      (left, right) =>
        compare(left.key, right.key) ||
        compare(left.item.entry.resource, right.item.entry.resource),
    );
}

function toldGroup({ metadata: { category, tags } }: PricedAction): string | undefined {
  const [tag] = Array.isArray(tags) ? (tags as readonly unknown[]) : [tags];
  const words = [category, tag].filter((each) => typeof each === "string" && each.trim() !== "");
  return words.map(String)[0];
}

function beginningOf({ segments }: RouteSettings): string {
  const texts = segments.flatMap((each) => (each.kind === "static" ? [each.text] : []));
  return texts.find((text) => !USUAL_BEGINNING.test(text)) ?? OTHERS;
}

/** What is shown of a route, of how else it is had, and of how well it was delivered where that is known. */
export function routeView(
  { route, action }: SoldHere,
  base: string,
  { quality, ways = [] }: Pick<CatalogueEntry, "quality" | "ways"> = {},
): CatalogueRoute {
  const { methods, pattern } = route;
  const { description, mimeType, input, outputSchema } = action;
  const { target, missing } = exampleRequest(pattern, input);
  const isWhole = missing.length === 0;
  const url = isWhole ? base + target : null;
  const isFollowed = methods === null || methods.includes("GET");
  const sample = declaredExample(outputSchema);
  return {
    methods,
    shown: target,
    url,
    // Below the public URL, by whatever name the shop is visited.
    href:
      url !== null && isFollowed
        ? (URL.parse(base)?.pathname ?? "").replace(/\/$/, "") + target
        : null,
    missing,
    description,
    mimeType,
    prices: pricesOf(action),
    inputs: inputsOf(action),
    bodyType: input.bodyType ?? null,
    sample:
      sample === undefined || typeof sample === "string"
        ? (sample ?? null)
        : JSON.stringify(sample, null, 2),
    ...(action.credits && { credits: base + CREDITS_PATH }),
    ways,
    quality: quality === undefined ? "" : wordsOn(quality),
  };
}

const DAY = { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" } as const;

function day(time: string): string {
  return new Date(time).toLocaleDateString("en-GB", DAY);
}

/** `sold 20 times since 1 Jun 2026, 95 % delivered, half of them within 1.2 s, last on 30 Jun 2026` */
function wordsOn({
  sales,
  since,
  deliveredShare,
  medianDeliveryMs,
  lastDeliveredAt,
}: RouteQuality): string {
  const words = [
    `sold ${sales === 1 ? "once" : `${sales} times`} since ${day(since)}`,
    deliveredShare === undefined ? "" : `${Math.floor(deliveredShare * 1000) / 10} % delivered`,
    medianDeliveryMs === undefined
      ? ""
      : `half of them within ${(medianDeliveryMs / 1000).toFixed(1)} s`,
    lastDeliveredAt === undefined ? "none delivered" : `last on ${day(lastDeliveredAt)}`,
  ];
  return words.filter((each) => each !== "").join(", ");
}

function pricesOf({ offers, metered }: PricedAction): CatalogueRoute["prices"] {
  const most = metered === null ? "" : "up to ";
  return offers.map(({ network, asset, amountAtomic, leastAtomic, dollars }) => ({
    family: networkOf(network).kind,
    dollars,
    amount: `${most}${rangeText(leastAtomic, amountAtomic, asset.decimals)} ${asset.symbol}`,
    amountAtomic: amountAtomic.toString(),
    network: networkOf(network).displayName,
    asset: asset.address,
    isUsual: isSameToken(network, asset.address, networkOf(network).asset.address),
  }));
}

/** `0.01`, or `0.001 to 0.5` where each request has its own. */
function rangeText(least: bigint | undefined, most: bigint, decimals: number): string {
  const [first, last] = [least ?? most, most].map((each) => formatAmount(each, decimals));
  return first === last ? `${last}` : `${first} to ${last}`;
}

function inputsOf({ input }: PricedAction): readonly CatalogueInput[] {
  const { pathParams = {}, queryParams = {}, bodyFields = {}, headerFields = {} } = input;
  const inputs = [
    ...Object.entries(pathParams).map((each) => inputOf("path", each)),
    ...Object.entries(queryParams).map((each) => inputOf("query", each)),
    ...Object.entries(bodyFields).map((each) => inputOf("body", each)),
    ...Object.entries(headerFields).map((each) => inputOf("header", each)),
  ];
  return inputs.slice(0, MAX_INPUTS);
}

/** What stands under a name is a JSON Schema, or whatever the file says in its place. */
function inputOf(
  place: CatalogueInput["place"],
  [name, written]: readonly [string, unknown],
): CatalogueInput {
  if (typeof written !== "object" || written === null || Array.isArray(written)) {
    const description = typeof written === "string" ? written : (JSON.stringify(written) ?? "");
    return { place, name, type: "", isRequired: place === "path", description };
  }
  const { type, required, description } = Object(written);
  return {
    place,
    name,
    type: typeof type === "string" ? type : "",
    isRequired: place === "path" || required === true,
    description: typeof description === "string" ? description : "",
    example: declaredExample(written),
  };
}
