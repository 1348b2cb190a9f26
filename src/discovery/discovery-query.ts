/**
 * The query of the discovery listing (protocol section 4.4): `type`, `limit`, `offset` and
 * `metadata[key]=value`. Read here by hand and flat: every parameter is known by its whole name, so
 * no query can build an object or reach a prototype.
 */
import { err, ok, type Result } from "../x402/result.ts";

export interface DiscoveryQuery {
  /** Only resources of this type; undefined: of any. */
  readonly type: string | undefined;
  /** 1 to {@link MAX_LIMIT}. */
  readonly limit: number;
  /** A safe integer from 0. */
  readonly offset: number;
  /** All of them have to hold. */
  readonly metadata: readonly MetadataFilter[];
}

interface MetadataFilter {
  /** The name of a metadata member, matched exactly. */
  readonly key: string;
  /** Matched without regard to letter case. */
  readonly value: string;
}

/** Why a query is refused: a sentence for the 400 body, which never repeats what was sent. */
export interface QueryProblem {
  readonly detail: string;
}

/** Section 8: limit 1 to 100, default 20; offset default 0. */
export const MAX_LIMIT = 100;
export const DEFAULT_LIMIT = 20;
/** Longest query, characters as sent; it bounds every name and value in it. */
export const MAX_QUERY_LENGTH = 4096;
/** Most `metadata[…]` filters in one query. */
export const MAX_METADATA_FILTERS = 16;

const DECIMAL = /^(?:0|[1-9][0-9]{0,15})$/;
const METADATA = /^metadata\[([^[\]]+)\]$/;

/**
 * Reads a raw query string, with or without its `?`. Names are case-sensitive. Parameters that the
 * protocol does not list are ignored; a listed one that is repeated, empty or out of range is refused,
 * and so is a query whose percent-encoding is broken anywhere.
 */
export function parseDiscoveryQuery(rawQuery: string): Result<DiscoveryQuery, QueryProblem> {
  const query = rawQuery.startsWith("?") ? rawQuery.slice(1) : rawQuery;
  if (query.length > MAX_QUERY_LENGTH) {
    return problem(`the query must have at most ${MAX_QUERY_LENGTH} characters`);
  }
  const fields = query.split("&").map(parseField);
  if (!fields.every((field) => field !== undefined)) {
    return problem("the query has malformed percent-encoding");
  }
  const metadata = readFilters(fields);
  if (!metadata.ok) return metadata;
  const single = new Map<string, string>();
  for (const { name, value } of fields) {
    if (name !== "type" && name !== "limit" && name !== "offset") continue;
    if (single.has(name)) return problem(`${name} must be given once`);
    single.set(name, value);
  }
  return withRanges(single, metadata.value);
}

interface Field {
  readonly name: string;
  readonly value: string;
}

function parseField(field: string): Field | undefined {
  const equals = field.indexOf("=");
  const name = decode(equals === -1 ? field : field.slice(0, equals));
  const value = decode(equals === -1 ? "" : field.slice(equals + 1));
  return name === undefined || value === undefined ? undefined : { name, value };
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

function withRanges(
  single: ReadonlyMap<string, string>,
  metadata: readonly MetadataFilter[],
): Result<DiscoveryQuery, QueryProblem> {
  const limit = parseInteger(single.get("limit") ?? `${DEFAULT_LIMIT}`);
  if (limit === undefined || limit < 1 || limit > MAX_LIMIT) {
    return problem(`limit must be an integer from 1 to ${MAX_LIMIT}`);
  }
  const offset = parseInteger(single.get("offset") ?? "0");
  if (offset === undefined) {
    return problem(`offset must be an integer from 0 to ${Number.MAX_SAFE_INTEGER}`);
  }
  const type = single.get("type");
  if (type === "") return problem("type must not be empty");
  return ok({ type, limit, offset, metadata });
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
