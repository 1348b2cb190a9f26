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
import type { DiscoveryQuery } from "./discovery-query.ts";

export { parseDiscoveryQuery, type DiscoveryQuery } from "./discovery-query.ts";

/** What a route offers to anyone, apart from when it last changed. */
export interface PublicTerms {
  /** Absolute URL; of a pattern route the template with its `:param` and `*`. */
  readonly resource: string;
  /** Null for a route of any method. */
  readonly methods: readonly string[] | null;
  readonly accepts: readonly PaymentRequirements[];
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Whether `resource` is a template; its path is then published as `metadata.routeTemplate`. */
  readonly isTemplate: boolean;
}

export interface CatalogueEntry extends PublicTerms {
  /** Unix seconds of the last change of the terms, see {@link termsHash}. */
  readonly lastUpdated: number;
}

interface CatalogueItem {
  readonly item: DiscoveredResource;
  readonly json: string;
  /** The metadata that filters can match: scalars as lower-case text. */
  readonly searchable: ReadonlyMap<string, string>;
}

/** The resources in the order in which they are listed. */
export interface Catalogue {
  readonly items: readonly CatalogueItem[];
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
  return { items: placed.map(({ entry }) => toCatalogueItem(entry)) };
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
  const { queryParams, bodyType, bodyFields, headerFields } = described;
  const input = {
    type: "http",
    method,
    discoverable,
    ...(queryParams === undefined ? {} : { queryParams }),
    ...(bodyType === undefined ? {} : { bodyType }),
    ...(bodyFields === undefined ? {} : { bodyFields }),
    ...(headerFields === undefined ? {} : { headerFields }),
  };
  return output === null ? { input } : { input, output };
}

function select(
  catalogue: Catalogue,
  { type, metadata, offset, limit }: DiscoveryQuery,
): { readonly page: readonly CatalogueItem[]; readonly total: number } {
  const filters = metadata.map(({ key, value }) => ({ key, value: value.toLowerCase() }));
  const unfiltered = type === undefined && filters.length === 0;
  const found = unfiltered
    ? catalogue.items
    : catalogue.items.filter(
        ({ item, searchable }) =>
          (type === undefined || item.type === type) &&
          filters.every(({ key, value }) => searchable.get(key) === value),
      );
  return { page: found.slice(offset, offset + limit), total: found.length };
}

function toCatalogueItem(entry: CatalogueEntry): CatalogueItem {
  const { resource, type, x402Version, accepts, metadata } = published(entry);
  const { lastUpdated } = entry;
  const item: DiscoveredResource = {
    resource,
    type,
    x402Version,
    accepts,
    lastUpdated,
    ...(metadata === undefined ? {} : { metadata }),
  };
  const searchable = new Map<string, string>();
  for (const [key, value] of Object.entries(metadata ?? {})) {
    if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") {
      searchable.set(key, String(value).toLowerCase());
    }
  }
  return { item, json: JSON.stringify(item), searchable };
}

/** A listed resource without the time of its last change. */
function published(terms: PublicTerms): Omit<DiscoveredResource, "lastUpdated"> {
  const { resource, accepts, isTemplate } = terms;
  const routeTemplate = isTemplate ? { routeTemplate: pathOf(resource) } : {};
  const metadata = { ...terms.metadata, ...routeTemplate };
  return {
    resource,
    type: "http",
    x402Version: X402_VERSION,
    accepts,
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
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
