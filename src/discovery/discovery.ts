/**
 * The catalogue of priced resources that clients discover (protocol sections 2.6 and 4.4): made from
 * the routes when they are configured, then only read.
 */
import { createHash } from "node:crypto";
import {
  X402_VERSION,
  type DiscoveredResource,
  type DiscoveryResponse,
  type PaymentRequirements,
} from "../x402/x402.ts";
import { parseAtomicAmount } from "../x402/amount.ts";
import { findNetwork } from "../x402/network.ts";
import {
  DOLLAR_DECIMALS,
  type DiscoveryQuery,
  type OfferFilter,
  type PriceLimit,
} from "./discovery-query.ts";
import { SearchIndex, termOf } from "./search-index.ts";
import { describeTemplate } from "./template.ts";

export { parseDiscoveryQuery, type DiscoveryQuery } from "./discovery-query.ts";

/** The one type of resource that the protocol defines (section 2.6). */
const LISTED_TYPE = "http";

/** `methods` in the metadata of a route of any method. */
const ANY_METHOD = ["*"] as const;

/** What a route offers to anyone, apart from when it last changed. */
export interface PublicTerms {
  /** Absolute URL; of a pattern route the template with its `:param` and `*`. */
  readonly resource: string;
  /** Null for a route of any method. */
  readonly methods: readonly string[] | null;
  readonly accepts: readonly PaymentRequirements[];
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Whether `resource` is a template, which is then described in the metadata, see `template.ts`. */
  readonly isTemplate: boolean;
  /** Of a template, what is known of its parameters by their names. */
  readonly pathParams?: Readonly<Record<string, unknown>> | undefined;
}

export interface CatalogueEntry extends PublicTerms {
  /** Unix seconds of the last change of the terms, see {@link termsHash}. */
  readonly lastUpdated: number;
}

/** Numbers in place of texts that thousands of entries share: two numbers are compared at once. */
class Names {
  readonly #numbers = new Map<string, number>();

  /** The number of a text, from now on. */
  add(text: string): number {
    const known = this.#numbers.get(text) ?? this.#numbers.size;
    this.#numbers.set(text, known);
    return known;
  }

  /** Undefined where nothing has that text. */
  find(text: string): number | undefined {
    return this.#numbers.get(text);
  }
}

/** One way to pay, as queries ask for it; texts by their {@link Names}. */
interface ListedOffer {
  readonly network: number;
  readonly asset: number;
  readonly payTo: number;
  /** Atomic units. */
  readonly amount: bigint;
  /** At {@link DOLLAR_DECIMALS}; undefined: it is in another token than the network's own stablecoin. */
  readonly dollars: bigint | undefined;
}

class CatalogueItem {
  readonly item: DiscoveredResource;
  readonly offers: readonly ListedOffer[];
  #json: string | undefined;

  constructor(item: DiscoveredResource, names: Names) {
    this.item = item;
    this.offers = item.accepts.map((requirements) => listedOffer(requirements, names));
  }

  /** Written when it is first listed. */
  get json(): string {
    return (this.#json ??= JSON.stringify(this.item));
  }
}

/** The resources in the order in which they are listed. */
export interface Catalogue {
  readonly items: readonly CatalogueItem[];
  readonly index: SearchIndex;
  readonly names: Names;
}

/**
 * Prepares entries for listing. They are put in order of resource and then methods, by code unit:
 * routes are a map whose order means nothing, and pages have to hold still between requests.
 */
export function createCatalogue(entries: readonly CatalogueEntry[]): Catalogue {
  const placed = entries.map((entry) => ({ entry, methods: entry.methods?.join() ?? "" }));
  placed.sort(
    (left, right) =>
      compare(left.entry.resource, right.entry.resource) || compare(left.methods, right.methods),
  );
  const names = new Names();
  const items = placed.map(({ entry }) => new CatalogueItem(itemOf(entry), names));
  const index = new SearchIndex(
    items.map(({ item }) => ({ terms: termsOf(item), text: textOf(item) })),
  );
  return { items, index, names };
}

/** One page; `total` counts what the filters let through, and an offset beyond it is an empty page. */
export function listResources(catalogue: Catalogue, query: DiscoveryQuery): DiscoveryResponse {
  const { page, total } = select(catalogue, query);
  const { limit, offset } = query;
  const items = page.map(({ item }) => item);
  return { x402Version: X402_VERSION, items, pagination: { limit, offset, total } };
}

/** The JSON text of {@link listResources}, put together from items that are written once. */
export function writeListing(catalogue: Catalogue, query: DiscoveryQuery): string {
  const { page, total } = select(catalogue, query);
  const { limit, offset } = query;
  const items = page.map(({ json }) => json).join();
  const pagination = JSON.stringify({ limit, offset, total });
  return `{"x402Version":${X402_VERSION},"items":[${items}],"pagination":${pagination}}`;
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
}

/**
 * `outputSchema` of a payment requirement, in the form that version 1 catalogues read; the same in
 * 402 offers and in the listing, because remote facilitators list what passes through them.
 */
export function outputSchemaOf(exchange: ExchangeDescription): Readonly<Record<string, unknown>> {
  const { method, discoverable, input: described, output } = exchange;
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
  };
  return output === null ? { input } : { input, output };
}

interface Selection {
  readonly page: readonly CatalogueItem[];
  /** What the filters let through. */
  readonly total: number;
}

function select(catalogue: Catalogue, query: DiscoveryQuery): Selection {
  const { type, metadata, offer, words, offset, limit } = query;
  const { items } = catalogue;
  // The type is exact, and there is one.
  if (type !== undefined && type !== LISTED_TYPE) return { page: [], total: 0 };
  const isFiltered = metadata.length > 0 || words.length > 0 || offer !== undefined;
  if (isFiltered) return selectFiltered(catalogue, query);
  return { page: items.slice(offset, offset + limit), total: items.length };
}

function selectFiltered({ items, index, names }: Catalogue, query: DiscoveryQuery): Selection {
  const { metadata, offer, words, offset, limit } = query;
  const terms = metadata.map(({ key, value }) => termOf(`metadata.${key}`, value));
  const { marks, wanted } = index.find(terms, words);
  const fits = offer === undefined ? undefined : offerTest(offer, names);
  const page: CatalogueItem[] = [];
  let total = 0;
  for (let place = 0; place < items.length; place += 1) {
    const item = items[place];
    if (item === undefined || marks[place] !== wanted) continue;
    if (fits !== undefined && !item.offers.some(fits)) continue;
    if (total >= offset && page.length < limit) page.push(item);
    total += 1;
  }
  return { page, total };
}

/** All conditions have to hold for the same way to pay. */
function offerTest(filter: OfferFilter, names: Names): (offer: ListedOffer) => boolean {
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

/** Addresses with `0x` have a checksum in their letter case and mean the same without it; others do not. */
function comparable(address: string): string {
  return /^0x/i.test(address) ? address.toLowerCase() : address;
}

function listedOffer(requirements: PaymentRequirements, names: Names): ListedOffer {
  const { network, asset, payTo, maxAmountRequired } = requirements;
  const usual = findNetwork(network)?.asset;
  const isUsual = usual !== undefined && comparable(usual.address) === comparable(asset);
  const amount = parseAtomicAmount(maxAmountRequired) ?? 0n;
  return {
    network: names.add(network),
    asset: names.add(comparable(asset)),
    payTo: names.add(comparable(payTo)),
    amount,
    dollars: isUsual ? amount * 10n ** BigInt(DOLLAR_DECIMALS - usual.decimals) : undefined,
  };
}

function itemOf(entry: CatalogueEntry): DiscoveredResource {
  const { resource, type, x402Version, accepts, metadata } = published(entry);
  const { lastUpdated } = entry;
  const shown = metadata === undefined ? {} : { metadata };
  return { resource, type, x402Version, accepts, lastUpdated, ...shown };
}

/** Of metadata only scalars can be asked for. */
function termsOf({ metadata = {} }: DiscoveredResource): readonly string[] {
  return Object.entries(metadata).flatMap(([key, value]) => {
    return isScalar(value) ? [termOf(`metadata.${key}`, String(value))] : [];
  });
}

function textOf({ resource, accepts, metadata = {} }: DiscoveredResource): string {
  const descriptions = accepts.map(({ description }) => description);
  const values = Object.values(metadata).filter(isScalar);
  return [pathOf(resource), ...new Set(descriptions), ...values].join(" ");
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

/** A listed resource without the time of its last change. */
function published(terms: PublicTerms): Omit<DiscoveredResource, "lastUpdated"> {
  const { resource, accepts, isTemplate, pathParams } = terms;
  const described = isTemplate ? describeTemplate(resource, pathOf(resource), pathParams) : {};
  const metadata = { ...terms.metadata, ...described, ...severalMethods(terms) };
  return {
    resource,
    type: LISTED_TYPE,
    x402Version: X402_VERSION,
    accepts,
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
}

/** The ways to pay name one method; where there are more, nobody would know of the others. */
function severalMethods({ methods }: PublicTerms): { readonly methods?: readonly string[] } {
  if (methods === null) return { methods: ANY_METHOD };
  return methods.length > 1 ? { methods } : {};
}

/** The path of an absolute URL as written: parsing it would rewrite a template's characters. */
function pathOf(resource: string): string {
  return resource.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/]*/i, "");
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

function compare(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
