/**
 * Which header lines cross the gateway, and which are written here. Raw `name, value` arrays in both
 * directions, so that names keep their letter case and repeated lines (Set-Cookie) stay apart.
 */
import { isNamed, valueOf, valuesOf } from "./field-values.ts";
import { believerOf, isPlainName, NEEDED_NAMES } from "../../http/header-names.ts";
import type { Client } from "../client/client.ts";
import {
  EXTENSION_RESPONSES_HEADER,
  PAYMENT_HEADERS,
  PAYMENT_REQUIRED_HEADER,
  RECEIPT_HEADERS,
} from "../../x402/header.ts";
import { SIGN_IN_HEADER } from "../../x402/sign-in.ts";
import { withoutSession } from "../../x402/session.ts";
import type { InboundRequest } from "./inbound.ts";

/** RFC 9110 section 7.6.1, and the older names that mean the same: they belong to one connection. */
const hopByHop = ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

/** What the gateway says of payments: a backend that said it would be believed. */
const receiptNames = [
  PAYMENT_REQUIRED_HEADER,
  EXTENSION_RESPONSES_HEADER,
  ...Object.values(RECEIPT_HEADERS),
].map((name) => name.toLowerCase());
const paymentNames = [
  ...Object.values(PAYMENT_HEADERS).map((name) => name.toLowerCase()),
  ...receiptNames,
];

const signInName = SIGN_IN_HEADER.toLowerCase();

/** Written or answered here, or a payment, or a proof of who asks: whoever holds those could use them elsewhere. */
const requestNames = new Set([
  ...hopByHop,
  "expect",
  "host",
  "http2-settings",
  signInName,
  ...paymentNames,
]);

const responseNames = new Set([...hopByHop, ...receiptNames]);

/** What a sale says of its answer, and what frames one. */
const sayings = new Set(["cache-control", "content-length", "vary"]);

/**
 * What tells caches apart from `Cache-Control`, whose targeted forms (RFC 9213) outrank it: those of CDNs and servers
 * end like it.
 */
const steersCaches =
  /-cache-control$|^(?:surrogate-.*|x-accel-expires|edge-control|expires|pragma)$/;

const reservedPrefix = /^(?:proxy-|x-402-)/;

function crossesToUpstream(name: string): boolean {
  const isOurs = requestNames.has(name) || reservedPrefix.test(name);
  return isPlainName(name) && !isOurs && believerOf(name) === undefined;
}

/**
 * An answer's names become nobody's variables, so that others than plain ones cross: but not where somebody who reads
 * them loosely would take them for ours.
 */
function crossesToClient(name: string): boolean {
  const loose = name.replaceAll(/[^a-z0-9]/g, "-");
  if (responseNames.has(loose) || reservedPrefix.test(loose)) return false;
  return loose === name || !sayings.has(loose);
}

/** Verdicts kept for the few names, as spelled, that make up almost all traffic. */
const verdictLimit = 1024;
const verdictNameLimit = 64;

/** Remembers a pure function of a header name; to judge a name each time costs more than the rest. */
export class NameFilter {
  readonly #judge: (lowerCaseName: string) => boolean;
  readonly #verdicts = new Map<string, boolean>();

  constructor(judge: (lowerCaseName: string) => boolean) {
    this.#judge = judge;
  }

  /** Of what would cross to any backend, the listed names, lower-case, and those that HTTP needs. */
  static allowing(listed: readonly string[]): NameFilter {
    const allowed = new Set([...NEEDED_NAMES, ...listed]);
    return new NameFilter((name) => allowed.has(name) && crossesToUpstream(name));
  }

  passes(name: string): boolean {
    const known = this.#verdicts.get(name);
    if (known !== undefined) return known;
    const verdict = this.#judge(name.toLowerCase());
    if (name.length > verdictNameLimit) return verdict;
    // Names that a client makes up push the others out for a moment, never for good.
    if (this.#verdicts.size >= verdictLimit) this.#verdicts.clear();
    this.#verdicts.set(name, verdict);
    return verdict;
  }
}

const toUpstream = new NameFilter(crossesToUpstream);
const toClient = new NameFilter(crossesToClient);
const toClientUncached = new NameFilter(
  (name) => crossesToClient(name) && !steersCaches.test(name),
);

/**
 * The sentence that refuses the request's framing (400, then close), or null. Everything here is a
 * request that two readers could cut at different places; the parser in front refuses most of it too.
 */
export function framingProblem(request: InboundRequest): string | null {
  const { rawHeaders, method } = request;
  if (valuesOf(rawHeaders, "host").length > 1) return "The request has more than one Host.";
  const lengths = valuesOf(rawHeaders, "content-length");
  const codings = valuesOf(rawHeaders, "transfer-encoding");
  const [length] = lengths;
  const [coding] = codings;
  if (lengths.length > 1) return "The request has more than one Content-Length.";
  if (codings.length > 1) return "The request has more than one Transfer-Encoding.";
  if (length !== undefined && !/^\d{1,15}$/.test(length)) return "Content-Length is not a number.";
  if (coding === undefined) return null;
  if (length !== undefined) return "The request has both Content-Length and Transfer-Encoding.";
  return codingProblem(coding, method ?? "", request.httpVersion);
}

/** The sentence that refuses a request with names that would not cross here, where somebody else forwards it; or null. */
export function nameProblem(rawHeaders: readonly string[]): string | null {
  const isPlain = rawHeaders.every(
    (name, index) => index % 2 === 1 || isPlainName(name.toLowerCase()),
  );
  return isPlain ? null : "The names of header lines have letters, digits and dashes here.";
}

/** Methods whose bodies mean nothing: backends skip them, or take them for the next request. */
const bodyless = new Set(["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"]);

function codingProblem(coding: string, method: string, version: string): string | null {
  if (coding.toLowerCase() !== "chunked") return "The only Transfer-Encoding taken is chunked.";
  // RFC 9112 section 6.1: a recipient of HTTP/1.0 may not know the field at all.
  if (version === "1.0") return "HTTP/1.0 has no Transfer-Encoding.";
  return bodyless.has(method) ? `${method} is not taken with a Transfer-Encoding.` : null;
}

export interface RequestLines {
  /** Without Host and without framing other than Content-Length: those are the connection's. */
  readonly lines: string[];
  /** Bytes; null when there is none. */
  readonly contentLength: number | null;
  readonly chunked: boolean;
}

const NONE: ReadonlySet<string> = new Set();

/** What the request lines are made of; every exchange has it. */
export interface Crossing {
  readonly request: Pick<InboundRequest, "rawHeaders">;
  readonly client: Client;
  /** Raw pairs; they replace the client's lines of the same name, and those that tell of the client. */
  readonly requestHeaders: readonly string[];
  /** Lower-case names of the client's lines that do not cross, beside those that never do. */
  readonly removed?: ReadonlySet<string>;
  /** Which of the client's names cross. Default: all but those that never do. */
  readonly names?: NameFilter;
}

/**
 * The lines for the backend: the client's, filtered and without those that are removed or replaced; then who
 * the client is; then the added ones.
 */
export function requestLines(crossing: Crossing): RequestLines {
  const { request, client, requestHeaders: added, removed = NONE, names = toUpstream } = crossing;
  const { rawHeaders } = request;
  const lines: string[] = [];
  const listed = connectionOptions(rawHeaders);
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    if (!names.passes(name) || isListed(listed, name)) continue;
    if (isRemoved(removed, name) || isSet(name, added)) continue;
    const value = rawHeaders[index + 1] ?? "";
    const crossing = isNamed(name, "cookie") ? withoutSession(value) : value;
    if (crossing !== "" || value === "") lines.push(name, crossing);
  }
  const { forwardedFor, host, proto } = client;
  pushUnset(lines, "X-Forwarded-For", forwardedFor, added);
  if (host !== undefined) pushUnset(lines, "X-Forwarded-Host", host, added);
  pushUnset(lines, "X-Forwarded-Proto", proto, added);
  for (const text of added) lines.push(text);
  const length = valueOf(added, "content-length") ?? valueOf(rawHeaders, "content-length");
  return {
    lines,
    contentLength: length === undefined ? null : Number(length),
    chunked: valueOf(rawHeaders, "transfer-encoding") !== undefined,
  };
}

function pushUnset(lines: string[], name: string, value: string, set: readonly string[]): void {
  if (!isSet(name, set)) lines.push(name, value);
}

/**
 * The lines for the client: the backend's, filtered, without those that `set` replaces and those that are
 * `removed` (lower-case names); then `set`, then `added`, which stand beside the backend's. Where `set` says what caches may do, the backend says
 * nothing of it.
 */
export function responseLines(
  raw: readonly string[],
  set: readonly string[],
  added: readonly string[],
  removed = NONE,
): string[] {
  const lines: string[] = [];
  const listed = connectionOptions(raw);
  const crossing = isSet("Cache-Control", set) ? toClientUncached : toClient;
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] ?? "";
    if (!crossing.passes(name) || isListed(listed, name) || isSet(name, set)) continue;
    if (isRemoved(removed, name)) continue;
    lines.push(name, raw[index + 1] ?? "");
  }
  for (const text of set) lines.push(text);
  for (const text of added) lines.push(text);
  return lines;
}

/**
 * What 426 cannot do without (RFC 9110 section 15.5.22): the protocols that the backend wants to be asked in, and
 * that they are named for this connection. Empty where the backend names none.
 *
 * @param isLast no answer follows on the client's connection
 */
export function upgradeRequiredLines(
  raw: readonly string[],
  isLast: boolean,
  removed = NONE,
): string[] {
  const protocols = removed.has("upgrade") ? [] : valuesOf(raw, "upgrade");
  if (protocols.length === 0) return [];
  return ["Upgrade", protocols.join(", "), "Connection", isLast ? "close, Upgrade" : "Upgrade"];
}

/** The lines of an interim answer for the client, filtered as those of the answer; it frames nothing. */
export function interimLines(raw: readonly string[], removed = NONE): string[] {
  const lines = responseLines(raw, [], [], removed);
  return lines.filter((_, index) => !isNamed(lines[index - (index % 2)] ?? "", "content-length"));
}

/** RFC 9110 section 6.5.1: fields that would change how the message is read are never trailers. */
const neverTrailers = new Set([
  "cache-control",
  "content-length",
  "content-encoding",
  "content-type",
  "host",
]);

/**
 * What else a backend would take for a part of the request's head when it merges the two: who asks, for
 * what, and on which conditions.
 */
const neverRequestTrailers = new Set([
  ...neverTrailers,
  "authorization",
  "cache-control",
  "content-range",
  "cookie",
  "idempotency-key",
  "max-forwards",
  "pragma",
  "range",
]);

/** A request's trailer lines, raw, filtered like its header lines ({@link requestLines}). */
export function requestTrailerLines(
  raw: readonly string[],
  {
    requestHeaders: added,
    removed = NONE,
    names = toUpstream,
  }: Omit<Crossing, "request" | "client">,
): string[] {
  const lines: string[] = [];
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] ?? "";
    const lowerCase = name.toLowerCase();
    if (!names.passes(name) || neverRequestTrailers.has(lowerCase)) continue;
    if (lowerCase.startsWith("if-") || removed.has(lowerCase) || isSet(name, added)) continue;
    lines.push(name, raw[index + 1] ?? "");
  }
  return lines;
}

/** A backend's trailer lines as pairs, filtered like its header lines. */
export function trailerLines(raw: readonly string[], removed = NONE): [string, string][] {
  const lines: [string, string][] = [];
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] ?? "";
    const lower = name.toLowerCase();
    if (toClientUncached.passes(name) && !neverTrailers.has(lower) && !removed.has(lower)) {
      lines.push([name, raw[index + 1] ?? ""]);
    }
  }
  return lines;
}

/** The header names that `Connection` lists, lower-case; null when it lists nothing of interest. */
function connectionOptions(raw: readonly string[]): Set<string> | null {
  let options: Set<string> | null = null;
  for (let index = 0; index < raw.length; index += 2) {
    if (!isNamed(raw[index] ?? "", "connection")) continue;
    const value = raw[index + 1] ?? "";
    if (/^(?:keep-alive|close|upgrade)$/i.test(value)) continue;
    options ??= new Set();
    for (const option of value.toLowerCase().split(",")) options.add(option.trim());
  }
  return options;
}

/** Whether its sender says that a field is for the connection alone: then it does not cross. */
export function isForConnection(raw: readonly string[], name: string): boolean {
  return isListed(connectionOptions(raw), name);
}

/** The length of the body is never one hop's affair, whoever says so. */
function isListed(listed: Set<string> | null, name: string): boolean {
  return listed !== null && listed.has(name.toLowerCase()) && !isNamed(name, "content-length");
}

/** The length of the body is not the configuration's affair either. */
function isRemoved(removed: ReadonlySet<string>, name: string): boolean {
  return removed.size > 0 && removed.has(name.toLowerCase()) && !isNamed(name, "content-length");
}

function isSet(name: string, set: readonly string[]): boolean {
  for (let index = 0; index < set.length; index += 2) {
    const own = set[index] ?? "";
    if (own.length === name.length && isNamed(name, own.toLowerCase())) return true;
  }
  return false;
}

/** Adds raw lines whose names are not there yet. */
export function addMissing(lines: string[], added: readonly string[]): void {
  for (let index = 0; index < added.length; index += 2) {
    const name = added[index] ?? "";
    if (valueOf(lines, name.toLowerCase()) === undefined) lines.push(name, added[index + 1] ?? "");
  }
}

/** Puts lines in place of those of the same names. */
export function setLines(lines: string[], set: readonly string[]): void {
  for (let index = 0; index < set.length; index += 2) {
    const name = set[index] ?? "";
    const lowerCase = name.toLowerCase();
    for (let at = lines.length - 2; at >= 0; at -= 2) {
      if (isNamed(lines[at] ?? "", lowerCase)) lines.splice(at, 2);
    }
    lines.push(name, set[index + 1] ?? "");
  }
}
