/**
 * The listing of priced resources that clients discover (protocol sections 2.6 and 4.4): a page of a catalogue for
 * a query, and what routes say of themselves in it.
 */
import { createHash } from "node:crypto";
import {
  EXACT_SCHEME,
  X402_VERSION,
  X402_VERSION_2,
  type DiscoveryResponse,
} from "../x402/x402.ts";
import { BAZAAR } from "../x402/bazaar.ts";
import {
  comparable,
  compare,
  published,
  sortItems,
  type Catalogue,
  type CatalogueItem,
  type ListedOffer,
  type PublicTerms,
} from "./catalogue.ts";
import { entityTag } from "./entity-tag.ts";
import {
  MAX_WORDS,
  wordsOf,
  type DiscoveryQuery,
  type OfferFilter,
  type PriceLimit,
} from "./discovery-query.ts";
import { termOf } from "./search-index.ts";

export { catalogueSteps, createCatalogue, entryName, pathOf } from "./catalogue.ts";
export type { Catalogue, CatalogueEntry, PublicTerms } from "./catalogue.ts";
export { parseDiscoveryQuery, type DiscoveryQuery, type ListingForm } from "./discovery-query.ts";

/** One page; `total` counts what the filters let through, and an offset beyond it is an empty page. */
export function listResources(catalogue: Catalogue, query: DiscoveryQuery): DiscoveryResponse {
  const { page, total } = select(catalogue, query);
  const { limit, offset } = query;
  const items = page.map(({ item }) => item);
  return { x402Version: X402_VERSION, items, pagination: { limit, offset, total } };
}

/** What a search finds that takes any text: of more words than the listing takes the first ones count. */
export function searchItems({ items, index }: Catalogue, text: string): readonly CatalogueItem[] {
  const words = [...new Set(wordsOf(text))].slice(0, MAX_WORDS);
  if (words.length === 0) return [];
  const { marks, wanted } = index.find([], words);
  return items.filter(({ number }) => marks[number] === wanted);
}

/** A page as it is sent: {@link listResources} as JSON. */
export interface WrittenPage {
  /** Strong: another one where a byte is another. */
  readonly etag: string;
  /** Characters of the body, about. */
  readonly length: number;
  /** Not written before it is asked for. */
  readonly body: () => string;
}

/** Puts a page together from items that are written, and tagged, once: a page may be megabytes. */
export function writePage(catalogue: Catalogue, query: DiscoveryQuery): WrittenPage {
  const { page, total } = select(catalogue, query);
  const { form, limit, offset } = query;
  const written = page.map((item) => (form === "v1" ? item.written : item.writtenV2));
  const next = offset + page.length;
  const cursor = next < total ? `${next}` : null;
  const pagination = JSON.stringify(
    form === "search" ? { limit, cursor } : { limit, offset, total },
  );
  const version = form === "v1" ? X402_VERSION : X402_VERSION_2;
  const name = form === "search" ? "resources" : "items";
  return {
    etag: entityTag([...written.map(({ tag }) => tag), pagination].join()),
    length: written.reduce((length, { json }) => length + json.length, pagination.length),
    body: () => {
      const items = written.map(({ json }) => json).join();
      // The largest catalogue's clients look there for whether there is more.
      const partial = form === "search" ? `"partialResults":${cursor !== null},` : "";
      return `{"x402Version":${version},"${name}":[${items}],${partial}"pagination":${pagination}}`;
    },
  };
}

/**
 * SHA-256, hex, of everything public about a route: while it stays the same, so does `lastUpdated`.
 * The order of members does not matter, the order of `accepts` does, since buyers see it.
 */
export function termsHash(terms: PublicTerms): string {
  return createHash("sha256")
    .update(canonicalJson(published(terms)))
    .digest("hex");
}

/** What a buyer has to send besides the payment. */
interface InputDescription {
  readonly queryParams?: Readonly<Record<string, unknown>>;
  readonly bodyType?: "json" | "form-data" | "multipart-form-data" | "text" | "binary";
  readonly bodyFields?: Readonly<Record<string, unknown>>;
  readonly headerFields?: Readonly<Record<string, unknown>>;
  readonly pathParams?: Readonly<Record<string, unknown>>;
}

export interface ExchangeDescription {
  readonly method: string;
  readonly discoverable: boolean;
  readonly input: InputDescription;
  /** JSON schema of the response; null when unknown. */
  readonly output: Readonly<Record<string, unknown>> | null;
  /** Of a pattern route its whole path: `/reports/:id`. Null or undefined: the URL is one and the same each time. */
  readonly routeTemplate?: string | null;
}

/**
 * `outputSchema` of a payment requirement, in the form that version 1 catalogues read; the same in
 * 402 offers and in the listing, because remote facilitators list what passes through them.
 */
export function outputSchemaOf(exchange: ExchangeDescription): Readonly<Record<string, unknown>> {
  const { method, discoverable, input: described, output, routeTemplate } = exchange;
  const { queryParams, bodyType, bodyFields, headerFields, pathParams } = described;
  const input = {
    type: "http",
    method,
    discoverable,
    ...(queryParams === undefined ? {} : { queryParams }),
    ...(bodyType === undefined ? {} : { bodyType }),
    ...(bodyFields === undefined ? {} : { bodyFields }),
    ...(headerFields === undefined ? {} : { headerFields }),
    ...(pathParams === undefined ? {} : { pathParams }),
    ...(routeTemplate == null ? {} : { routeTemplate }),
  };
  return output === null ? { input } : { input, output };
}

interface Selection {
  readonly page: readonly CatalogueItem[];
  /** What the filters let through. */
  readonly total: number;
}

function select(catalogue: Catalogue, query: DiscoveryQuery): Selection {
  const { type, scheme, extension, metadata, offer, words, updatedSince, sort } = query;
  const { offset, limit } = query;
  const { items, type: own } = catalogue;
  // There is one of each, and they are matched exactly.
  const isNone =
    (type ?? own) !== own ||
    (scheme ?? EXACT_SCHEME) !== EXACT_SCHEME ||
    (extension ?? BAZAAR) !== BAZAAR;
  if (isNone) return { page: [], total: 0 };
  const isFiltered =
    metadata.length > 0 ||
    words.length > 0 ||
    [offer, extension, updatedSince, sort].some((each) => each !== undefined);
  if (isFiltered) return selectFiltered(catalogue, query);
  return { page: items.slice(offset, offset + limit), total: items.length };
}

function selectFiltered(catalogue: Catalogue, query: DiscoveryQuery): Selection {
  const { index, names } = catalogue;
  const { extension, metadata, offer, words, offset, limit, updatedSince = 0, sort } = query;
  const terms = metadata.map(({ key, value }) => termOf(`metadata.${key}`, value));
  const { marks, wanted } = index.find(terms, words);
  const fits = offer === undefined ? undefined : offerTest(offer, names);
  const items = sort === undefined ? catalogue.items : catalogue.inOrder(sort);
  // Of what some ways to pay leave out the price may be another one.
  const isMoved = sort?.by === "price" && fits !== undefined;
  const found: CatalogueItem[] = [];
  let total = 0;
  // By index, like all that every client may ask for.
  for (let place = 0; place < items.length; place += 1) {
    const item = items[place];
    if (item === undefined || marks[item.number] !== wanted) continue;
    if (fits !== undefined && !item.offers.some(fits)) continue;
    if (extension !== undefined && !item.hasBazaar) continue;
    if (item.entry.lastUpdated < updatedSince) continue;
    if (isMoved || (total >= offset && found.length < limit)) found.push(item);
    total += 1;
  }
  if (!isMoved) return { page: found, total };
  return { page: sortItems(found, sort, fits).slice(offset, offset + limit), total };
}

/** All conditions have to hold for the same way to pay. */
function offerTest(
  filter: OfferFilter,
  names: Catalogue["names"],
): (offer: ListedOffer) => boolean {
  const { maxPrice } = filter;
  // What nothing has matches nothing: no number is -1.
  const wanted = (text: string | undefined): number | undefined =>
    text === undefined ? undefined : (names.find(comparable(text)) ?? -1);
  const [network, asset, payTo] = [filter.network, filter.asset, filter.payTo].map(wanted);
  return (offer) =>
    (network === undefined || offer.network === network) &&
    (asset === undefined || offer.asset === asset) &&
    (payTo === undefined || offer.payTo === payTo) &&
    (maxPrice === undefined || isWithin(offer, maxPrice));
}

function isWithin({ amount, dollars }: ListedOffer, limit: PriceLimit): boolean {
  if (limit.kind === "units") return amount <= limit.amount;
  return dollars !== undefined && dollars <= limit.amount;
}

/** JSON with the members of every object in order of their names. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => {
    if (typeof member !== "object" || member === null || Array.isArray(member)) return member;
    return Object.fromEntries(
      Object.entries(member).sort(([left], [right]) => compare(left, right)),
    );
  });
}
