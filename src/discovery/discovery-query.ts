/**
 * The query of the discovery listing: `type`, `limit`, `offset` and `metadata[key]=value` of protocol
 * section 4.4, and as extensions `network`, `asset`, `payTo`, `maxPrice` and `q`. Version 2 has `scheme` and
 * `extensions` besides; its search calls `q` a `query`, needs one, and goes on with a `cursor`. Read here by hand and
 * flat: every parameter is known by its whole name, so no query can build an object or reach a prototype.
 */
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

/** Those that may be given once. */
const OF_ANY_FORM = ["type", "limit", "network", "asset", "payTo", "maxPrice"];
const SINGLE: Readonly<Record<ListingForm, readonly string[]>> = {
  v1: [...OF_ANY_FORM, "offset", "q"],
  v2: [...OF_ANY_FORM, "offset", "q", "scheme", "extensions"],
  search: [...OF_ANY_FORM, "cursor", "query", "scheme", "extensions"],
};

type Single = ReadonlyMap<string, string>;

/**
 * Reads a raw query string, with or without its `?`. Names are case-sensitive. Parameters that are not
 * listed above are ignored; a listed one that is repeated, empty or out of range is refused, and so is a
 * query whose percent-encoding is broken anywhere, or whose names could build an object.
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
  const single = readSingle(fields, SINGLE[form]);
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

function readSingle(
  fields: readonly Field[],
  known: readonly string[],
): Result<Single, QueryProblem> {
  const single = new Map<string, string>();
  for (const { name, value } of fields) {
    if (!known.includes(name)) continue;
    if (single.has(name)) return problem(`${name} must be given once`);
    // A limit or offset of nothing is out of its range, which is said below.
    const isNumber = name === "limit" || name === "offset";
    if (value === "" && !isNumber) return problem(`${name} must not be empty`);
    single.set(name, value);
  }
  return ok(single);
}

function withRanges(
  form: ListingForm,
  single: Single,
  metadata: readonly MetadataFilter[],
): Result<DiscoveryQuery, QueryProblem> {
  const limit = parseInteger(single.get("limit") ?? `${DEFAULT_LIMIT}`);
  if (limit === undefined || limit < 1 || limit > MAX_LIMIT) {
    return problem(`limit must be an integer from 1 to ${MAX_LIMIT}`);
  }
  const isSearch = form === "search";
  // The order of what is found is fixed: a cursor is how much of it was shown.
  const offset = parseInteger(single.get(isSearch ? "cursor" : "offset") ?? "0");
  if (offset === undefined) {
    if (isSearch) return problem("cursor must be one of an earlier answer");
    return problem(`offset must be an integer from 0 to ${Number.MAX_SAFE_INTEGER}`);
  }
  const q = isSearch ? "query" : "q";
  const words = [...new Set(wordsOf(single.get(q) ?? ""))];
  if ((isSearch || single.has(q)) && words.length === 0) {
    return problem(`${q} must have a letter or a digit`);
  }
  if (words.length > MAX_WORDS) return problem(`${q} must have at most ${MAX_WORDS} words`);
  const offer = readOfferFilter(single);
  if (!offer.ok) return offer;
  const [type, scheme, extension] = ["type", "scheme", "extensions"].map((name) =>
    single.get(name),
  );
  return ok({ form, type, limit, offset, metadata, offer: offer.value, words, scheme, extension });
}

function readOfferFilter(single: Single): Result<OfferFilter | undefined, QueryProblem> {
  const [spelt, asset, payTo] = ["network", "asset", "payTo"].map((name) => single.get(name));
  const network = spelt === undefined ? undefined : nameOfCaip2(spelt);
  const written = single.get("maxPrice");
  if ([network, asset, payTo, written].every((value) => value === undefined)) return ok(undefined);
  const maxPrice = written === undefined ? undefined : readPriceLimit(written);
  if (written !== undefined && maxPrice === undefined) {
    return problem("maxPrice must be a price with its unit: $0.05, 0.05usd or 50000units");
  }
  return ok({ network, asset, payTo, maxPrice });
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
