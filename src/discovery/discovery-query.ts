/**
 * The query of the discovery listing: `type`, `limit`, `offset` and `metadata[key]=value` of protocol
 * section 4.4, and as extensions `network`, `asset`, `payTo`, `maxPrice`, `q`, `sort` and `updatedSince`. Version 2
 * has `scheme` and `extensions` besides; its search needs a `query` and goes on with a `cursor`. What large catalogues
 * call otherwise has their names as well, in every form. Read here by hand and flat: every parameter is known by its
 * whole name, so no query can build an object or reach a prototype, and one that is not known is refused: leaving it
 * out would show what it was to leave out.
 */
import damerauLevenshtein from "damerau-levenshtein";
import { parseAtomicAmount, parseDollars } from "../x402/amount.ts";
import { nameOfCaip2 } from "../x402/version-2.ts";
import { err, ok, type Result } from "../x402/result.ts";

/** What an answer looks like, and what may be asked for: the listing of each version, and the search of version 2. */
export type ListingForm = "v1" | "v2" | "search";

export interface DiscoveryQuery {
  readonly form: ListingForm;
  /** Only resources of this type; undefined: of any. */
  readonly type: string | undefined;
  /** 1 to {@link MAX_LIMIT}. */
  readonly limit: number;
  /** A safe integer from 0. */
  readonly offset: number;
  /** All of them have to hold. */
  readonly metadata: readonly MetadataFilter[];
  /** What one and the same way to pay has to fulfil; undefined: there are no conditions on it. */
  readonly offer: OfferFilter | undefined;
  /** Lower-case words, each of which begins a word of the resource, its description or its metadata. */
  readonly words: readonly string[];
  /** Only what is paid for by this scheme; undefined: by any. */
  readonly scheme: string | undefined;
  /** Only resources of which the extension of this name says something; undefined: all. */
  readonly extension: string | undefined;
  /** Only what has changed then or later, Unix seconds; undefined: all. */
  readonly updatedSince: number | undefined;
  /** Undefined: by resource. */
  readonly sort: Sort | undefined;
}

/** What is equal stays in the order of the listing, and what has no price in dollars comes last. */
export interface Sort {
  readonly by: "price" | "updated";
  readonly isDescending: boolean;
}

interface MetadataFilter {
  /** The name of a metadata member, matched exactly. */
  readonly key: string;
  /** Matched without regard to letter case. */
  readonly value: string;
}

/** Addresses are compared without letter case where they begin with `0x`, else as they are written. */
export interface OfferFilter {
  /** A name of version 1, whichever the query had. */
  readonly network: string | undefined;
  readonly asset: string | undefined;
  readonly payTo: string | undefined;
  readonly maxPrice: PriceLimit | undefined;
}

export type PriceLimit =
  /** Dollars at {@link DOLLAR_DECIMALS}: holds for payments in a network's own stablecoin. */
  | { readonly kind: "dollars"; readonly amount: bigint }
  /** Atomic units of whatever token the payment is in. */
  | { readonly kind: "units"; readonly amount: bigint };

/** Why a query is refused: a sentence for the 400 body, which never repeats what was sent. */
export interface QueryProblem {
  readonly detail: string;
}

/** Section 8: limit 1 to 100, default 20; offset default 0. */
export const MAX_LIMIT = 100;
export const DEFAULT_LIMIT = 20;
/** Longest query, characters as sent; it bounds every name and value in it. */
export const MAX_QUERY_LENGTH = 4096;
/** Most parameters in one query, those that mean nothing here included. */
export const MAX_PARAMETERS = 64;
/** Most `metadata[…]` filters in one query. */
export const MAX_METADATA_FILTERS = 16;
/** Most words in `q`. */
export const MAX_WORDS = 8;
/** Decimals of a price in dollars: as many as any token has, and more. */
export const DOLLAR_DECIMALS = 36;

const DECIMAL = /^(?:0|[1-9][0-9]{0,15})$/;
const METADATA = /^metadata\[([^[\]]+)\]$/;
const CONTROL = /\p{Cc}/u;
/** What programs that build objects from names trip over. */
const PROTOTYPE_NAMES: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);
const UNITS = /^([0-9]{1,78})units$/i;
const DOLLARS = /^(?:\$([0-9.]{1,80})|([0-9.]{1,80})usd)$/i;
const WORD = /[\p{L}\p{N}]+/gu;

/** A time of RFC 3339, or its day alone. */
const TIME = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/;
/** Of a name that is not known so much is compared with those that are, characters. */
const MAX_COMPARED = 32;

const SORTS: ReadonlyMap<string, Sort> = new Map([
  ["price", { by: "price", isDescending: false }],
  ["price_asc", { by: "price", isDescending: false }],
  ["price_desc", { by: "price", isDescending: true }],
  // The newest is what is asked for.
  ["updated", { by: "updated", isDescending: true }],
  ["updated_asc", { by: "updated", isDescending: false }],
  ["updated_desc", { by: "updated", isDescending: true }],
]);

/** Those that may be given once, by what they mean. */
const SINGLE: ReadonlyMap<string, string> = new Map([
  ...[
    "type",
    "limit",
    "offset",
    "network",
    "asset",
    "payTo",
    "maxPrice",
    "scheme",
    "extensions",
    "q",
  ]
    .concat("sort", "updatedSince", "x402Version")
    .map((name) => [name, name] as const),
  // The names of other catalogues.
  ["query", "q"],
  ["cursor", "offset"],
  ["maxUsdPrice", "maxPrice"],
]);

interface Given {
  /** As it was written. */
  readonly name: string;
  readonly value: string;
}

/** By what they mean. */
type Single = ReadonlyMap<string, Given>;

/**
 * Reads a raw query string, with or without its `?`. Names are case-sensitive. A parameter that is not listed
 * above, repeated, empty or out of range is refused, and so is a query whose percent-encoding is broken anywhere,
 * or whose names could build an object.
 * @param asked "either": version 1, unless the query has `x402Version=2`
 */
export function parseDiscoveryQuery(
  rawQuery: string,
  asked: ListingForm | "either" = "either",
): Result<DiscoveryQuery, QueryProblem> {
  const query = rawQuery.startsWith("?") ? rawQuery.slice(1) : rawQuery;
  if (query.length > MAX_QUERY_LENGTH) {
    return problem(`the query must have at most ${MAX_QUERY_LENGTH} characters`);
  }
  const parts = query.split("&");
  if (parts.length > MAX_PARAMETERS) {
    return problem(`the query must have at most ${MAX_PARAMETERS} parameters`);
  }
  const fields = parts.map(parseField);
  if (!fields.every((field) => field !== undefined)) {
    return problem("the query has malformed percent-encoding");
  }
  const odd = oddField(fields);
  if (odd !== undefined) return problem(odd);
  const metadata = readFilters(fields);
  if (!metadata.ok) return metadata;
  const form = asked === "either" ? versionOf(fields) : asked;
  const single = readSingle(fields);
  return single.ok ? withRanges(form, single.value, metadata.value) : single;
}

/** The words that a search looks for, and those that it looks in: letters and digits, lower case. */
export function wordsOf(text: string): readonly string[] {
  return text.toLowerCase().match(WORD) ?? [];
}

interface Field {
  readonly name: string;
  readonly value: string;
}

function versionOf(fields: readonly Field[]): ListingForm {
  const isNew = fields.some(({ name, value }) => name === "x402Version" && value === "2");
  return isNew ? "v2" : "v1";
}

function parseField(field: string): Field | undefined {
  const equals = field.indexOf("=");
  const name = decode(equals === -1 ? field : field.slice(0, equals));
  const value = decode(equals === -1 ? "" : field.slice(equals + 1));
  return name === undefined || value === undefined ? undefined : { name, value };
}

/** What no honest client sends: refused wherever it stands, whether or not it would mean something. */
function oddField(fields: readonly Field[]): string | undefined {
  for (const { name, value } of fields) {
    if (CONTROL.test(name) || CONTROL.test(value)) return "the query has control characters";
    const key = METADATA.exec(name)?.[1];
    if (PROTOTYPE_NAMES.has(key ?? name)) return "the query has a name that is not allowed";
    const isFilter = name === "metadata" || name.startsWith("metadata[");
    if (!isFilter && /[[\]]/.test(name)) return "only metadata takes a name in brackets";
  }
  return undefined;
}

/** A filter that cannot be read is refused: ignoring it would show what it was to leave out. */
function readFilters(fields: readonly Field[]): Result<readonly MetadataFilter[], QueryProblem> {
  const filters: MetadataFilter[] = [];
  for (const { name, value } of fields) {
    if (name !== "metadata" && !name.startsWith("metadata[")) continue;
    const key = METADATA.exec(name)?.[1];
    if (key === undefined) return problem("a metadata filter must be metadata[key]=value");
    filters.push({ key, value });
  }
  if (filters.length <= MAX_METADATA_FILTERS) return ok(filters);
  return problem(`at most ${MAX_METADATA_FILTERS} metadata filters are allowed`);
}

function readSingle(fields: readonly Field[]): Result<Single, QueryProblem> {
  const single = new Map<string, Given>();
  for (const [index, { name, value }] of fields.entries()) {
    if (name.startsWith("metadata[") || (name === "" && value === "")) continue;
    const meaning = SINGLE.get(name);
    if (meaning === undefined) {
      return problem(
        `parameter ${index + 1} is not known here; the nearest one is ${nearest(name)}`,
      );
    }
    const earlier = single.get(meaning)?.name;
    if (earlier === name) return problem(`${name} must be given once`);
    if (earlier !== undefined) return problem(`${earlier} and ${name} mean the same: give one`);
    // A limit or offset of nothing is out of its range, which is said below.
    const isNumber = name === "limit" || name === "offset";
    if (value === "" && !isNumber) return problem(`${name} must not be empty`);
    single.set(meaning, { name, value });
  }
  return ok(single);
}

/** By the fewest edits, the first one where several have as few. */
function nearest(name: string): string {
  const written = name.slice(0, MAX_COMPARED).toLowerCase();
  const far = [...SINGLE.keys()].map((known) => {
    return { known, steps: damerauLevenshtein(written, known.toLowerCase()).steps };
  });
  return far.reduce((best, each) => (each.steps < best.steps ? each : best)).known;
}

function withRanges(
  form: ListingForm,
  single: Single,
  metadata: readonly MetadataFilter[],
): Result<DiscoveryQuery, QueryProblem> {
  const limit = parseInteger(single.get("limit")?.value ?? `${DEFAULT_LIMIT}`);
  if (limit === undefined || limit < 1 || limit > MAX_LIMIT) {
    return problem(`limit must be an integer from 1 to ${MAX_LIMIT}`);
  }
  // The order of what is found is fixed: a cursor is how much of it was shown.
  const start = single.get("offset");
  const offset = parseInteger(start?.value ?? "0");
  if (offset === undefined) {
    if (start?.name === "cursor") return problem("cursor must be one of an earlier answer");
    return problem(`offset must be an integer from 0 to ${Number.MAX_SAFE_INTEGER}`);
  }
  const searched =
    single.get("q") ?? (form === "search" ? { name: "query", value: "" } : undefined);
  const words = [...new Set(wordsOf(searched?.value ?? ""))];
  if (searched !== undefined && words.length === 0) {
    return problem(`${searched.name} must have a letter or a digit`);
  }
  if (words.length > MAX_WORDS) {
    return problem(`${searched?.name} must have at most ${MAX_WORDS} words`);
  }
  const ordered = readOrder(single);
  if (!ordered.ok) return ordered;
  const offer = readOfferFilter(single);
  if (!offer.ok) return offer;
  const [type, scheme, extension] = ["type", "scheme", "extensions"].map(
    (name) => single.get(name)?.value,
  );
  const filters = { type, metadata, offer: offer.value, words, scheme, extension };
  return ok({ form, limit, offset, ...filters, ...ordered.value });
}

function readOrder(
  single: Single,
): Result<Pick<DiscoveryQuery, "updatedSince" | "sort">, QueryProblem> {
  const since = single.get("updatedSince")?.value;
  const updatedSince = since === undefined ? undefined : readTime(since);
  if (Number.isNaN(updatedSince)) {
    return problem("updatedSince must be a time like 2026-01-31T12:00:00Z, or Unix seconds");
  }
  const order = single.get("sort")?.value;
  const sort = SORTS.get(order ?? "");
  if (order !== undefined && sort === undefined) {
    return problem(`sort must be one of ${[...SORTS.keys()].join(", ")}`);
  }
  return ok({ updatedSince, sort });
}

/** Unix seconds; NaN for what is no time. */
function readTime(text: string): number {
  const seconds = parseInteger(text);
  return seconds ?? (TIME.test(text) ? Math.ceil(Date.parse(text) / 1000) : Number.NaN);
}

function readOfferFilter(single: Single): Result<OfferFilter | undefined, QueryProblem> {
  const [spelt, asset, payTo] = ["network", "asset", "payTo"].map(
    (name) => single.get(name)?.value,
  );
  const network = spelt === undefined ? undefined : nameOfCaip2(spelt);
  const price = single.get("maxPrice");
  if ([network, asset, payTo, price].every((value) => value === undefined)) return ok(undefined);
  const maxPrice = price && (price.name === "maxPrice" ? readPriceLimit : readUsd)(price.value);
  if (price === undefined || maxPrice !== undefined) return ok({ network, asset, payTo, maxPrice });
  return price.name === "maxPrice"
    ? problem("maxPrice must be a price with its unit: $0.05, 0.05usd or 50000units")
    : problem("maxUsdPrice must be a price in dollars: 0.05");
}

/** Its name says what it is in. */
function readUsd(text: string): PriceLimit | undefined {
  return readPriceLimit(`$${text.replace(/^\$/, "")}`);
}

/** A bare number could mean dollars or atomic units, so it means nothing here. */
function readPriceLimit(text: string): PriceLimit | undefined {
  const amount = parseAtomicAmount(UNITS.exec(text)?.[1] ?? "");
  if (amount !== undefined) return { kind: "units", amount };
  const [, before, behind] = DOLLARS.exec(text) ?? [];
  const read = parseDollars(`$${before ?? behind ?? ""}`, DOLLAR_DECIMALS);
  return read.ok ? { kind: "dollars", amount: read.value } : undefined;
}

/** Percent-decoding of UTF-8, `+` for a space; undefined for what is neither. */
function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}

function parseInteger(text: string): number | undefined {
  const value = DECIMAL.test(text) ? Number(text) : undefined;
  return Number.isSafeInteger(value) ? value : undefined;
}

function problem(detail: string): Result<never, QueryProblem> {
  return err({ detail });
}
