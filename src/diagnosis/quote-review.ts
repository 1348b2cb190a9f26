/**
 * How long the head of each 402 is, what its quote of version 2 had to leave out, and how large its page is: what a file
 * costs those who have a proxy in front or a slow line, and tells catalogues.
 */
import { readHeaderJson } from "../buyer/offer.ts";
import { routePath, type Config, type Remark, type RouteSettings } from "../config/config.ts";
import { KEEP_ALIVE_MS } from "../gateway/listener/http1-server.ts";
import { extensionsOf } from "../x402/bazaar.ts";
import { zippedPage } from "../gateway/offers/offer-page.ts";
import { asciiJson } from "../x402/header.ts";
import { isRecord, memberOf } from "../x402/json.ts";
import { identifierExtension } from "../x402/payment-identifier.ts";
import { FITTING_OFFERS, MAX_PAGE_BYTES } from "../web/paywall-page.ts";
import type { DryAnswer } from "./dry-gateway.ts";
import { listed, quoteHeader, routeQuotes, type RouteQuote } from "./route-quotes.ts";

/** What nginx reads of a head by default (`proxy_buffer_size`), bytes; of more it makes a 502. */
const NGINX_HEAD = 4_096;
/** What a browser is sent has no more than this in its head beside what a program is sent, bytes. */
const MOST_MORE = 1_024;
/** What takes less of a head is no cause of its size, bytes. */
const SMALL_PART = 300;

const DESCRIPTION = "the description";

/** Of a file that is accepted. */
export function reviewQuotes(config: Config): readonly Remark[] {
  const large: LargeHead[] = [];
  const short: ShortQuote[] = [];
  const pages: LargePage[] = [];
  for (const quote of routeQuotes(config)) {
    const bytes = pageBytes(quote);
    if (bytes > MAX_PAGE_BYTES) pages.push({ route: quote.route, bytes });
    const head = largeHead(quote);
    if (head !== undefined) large.push(head);
    const missing = config.protocol.v2 ? missingIn(quote) : "";
    if (missing !== "") short.push({ route: quote.route, missing });
  }
  return [...tellLargeHeads(large), ...tellShortQuotes(short), ...tellLargePages(pages)];
}

interface LargePage {
  readonly route: RouteSettings;
  readonly bytes: number;
}

/** As a browser is sent it; 0 where there is none, or where it is not too large whatever it says. */
function pageBytes({ accepts, toBrowser }: RouteQuote): number {
  if (accepts.length <= FITTING_OFFERS) return 0;
  const { body } = toBrowser();
  if (!isPage(body)) return 0;
  return zippedPage(body).length;
}

/** One for all of them. */
function tellLargePages(pages: readonly LargePage[]): readonly Remark[] {
  const [first] = pages.toSorted((one, other) => other.bytes - one.bytes);
  if (first === undefined) return [];
  const message =
    `the page of ${listed(pages.map(({ route }) => route.key))} has up to ${inWords(first.bytes)} bytes in gzip, ` +
    `over the ${inWords(MAX_PAGE_BYTES)} that are soon there on a slow line`;
  const suggestion =
    "it shows all ways to pay nevertheless; accept fewer tokens for it to be smaller";
  return [remark("warning", first.route, { code: "large-page", message, suggestion })];
}

function isPage(body: string): boolean {
  return body.startsWith("<");
}

interface LargeHead {
  readonly route: RouteSettings;
  readonly bytes: number;
  /** The largest first. */
  readonly parts: readonly Part[];
}

interface Part {
  readonly what: string;
  readonly bytes: number;
}

interface ShortQuote {
  readonly route: RouteSettings;
  /** In words. */
  readonly missing: string;
}

/** Undefined where it is not. */
function largeHead({ route, answer, toBrowser }: RouteQuote): LargeHead | undefined {
  if (headBytes(answer) + MOST_MORE <= NGINX_HEAD) return undefined;
  const largest = toBrowser();
  const bytes = headBytes(largest);
  return bytes > NGINX_HEAD ? { route, bytes, parts: partsOf(largest) } : undefined;
}

/** One for all routes that have the same cause before all. */
function tellLargeHeads(large: readonly LargeHead[]): readonly Remark[] {
  const causes = Map.groupBy(large, ({ parts }) => parts[0]?.what);
  return [...causes.values()].flatMap((some) => {
    const [first] = some.toSorted((one, other) => other.bytes - one.bytes);
    if (first === undefined) return [];
    const parts = first.parts.map(({ what, bytes }) => `${what} ${inWords(bytes)}`).join(", ");
    const message =
      `the 402 of ${listed(some.map(({ route }) => route.key))} has a head of up to ${inWords(first.bytes)} bytes (${parts}): ` +
      `nginx reads ${inWords(NGINX_HEAD)} by default, and answers 502`;
    const isLong = first.parts.some(({ what }) => what === DESCRIPTION);
    const suggestion =
      "raise proxy_buffer_size where nginx is in front, as deploy/sidecar/nginx.conf does, " +
      `or ${isLong ? "shorten the description" : "accept fewer networks"}`;
    return [
      remark("warning", (some[0] ?? first).route, { code: "large-head", message, suggestion }),
    ];
  });
}

/** What is sent before a body, with what node adds to it. */
function headBytes({ status, lines, body }: DryAnswer): number {
  const added = [
    isPage(body) ? ["Content-Encoding", "gzip"] : [],
    ["Date", new Date(0).toUTCString()],
    ["Connection", "keep-alive"],
    ["Keep-Alive", `timeout=${KEEP_ALIVE_MS / 1_000}`],
  ].flat();
  const all = [...lines, ...added];
  // Each name and value has two characters behind it, and the last line two more.
  const characters = all.reduce((sum, each) => sum + Buffer.byteLength(each, "latin1") + 2, 2);
  return `HTTP/1.1 ${status} Payment Required\r\n`.length + characters;
}

/** What takes much of a head. */
function partsOf(answer: DryAnswer): readonly Part[] {
  const header = quoteHeader(answer);
  const quote = readHeaderJson(header ?? "");
  const { accepts, extensions = {}, resource = {} } = isRecord(quote) ? quote : {};
  const ways = Array.isArray(accepts) ? accepts.length : 0;
  const told: readonly (readonly [what: string, value: unknown])[] = [
    [ways === 1 ? "the way to pay" : `${ways} ways to pay`, accepts],
    ...Object.entries(Object(extensions)).map(
      ([name, said]) => [`extension ${name}`, said] as const,
    ),
    [DESCRIPTION, memberOf(resource, "description")],
    ["the URL", memberOf(resource, "url")],
  ];
  const parts = told.map(([what, value]) => ({ what, bytes: headerBytes(value) }));
  const bytes = headBytes(answer) - (header?.length ?? 0);
  return [...parts, { what: isPage(answer.body) ? "lines of the page" : "other lines", bytes }]
    .filter((part) => part.bytes >= SMALL_PART)
    .toSorted((one, other) => other.bytes - one.bytes);
}

/** As base64 of JSON. */
function headerBytes(value: unknown): number {
  return value === undefined ? 0 : Math.ceil((asciiJson(value).length / 3) * 4);
}

/** One for all routes that have to leave out the same. */
function tellShortQuotes(short: readonly ShortQuote[]): readonly Remark[] {
  const alike = Map.groupBy(short, ({ missing }) => missing);
  return [...alike].flatMap(([missing, some]) => {
    const [first] = some;
    if (first === undefined) return [];
    const isAll = missing === ALL;
    const message = isAll
      ? `PAYMENT-REQUIRED is left out of the 402 of ${listed(some.map(({ route }) => route.key))}: with it the head would be over 16 KiB`
      : `PAYMENT-REQUIRED of ${listed(some.map(({ route }) => route.key))} has no room for ${missing}`;
    const suggestion = isAll
      ? "accept fewer networks: most clients of version 2 find no price there now"
      : "buyers can pay all the same; accept fewer networks for catalogues to be told of it";
    const severity = isAll ? "warning" : "note";
    return [remark(severity, first.route, { code: "short-quote", message, suggestion })];
  });
}

const ALL = "all of it";

/** In words; "": nothing. */
function missingIn({ answer, offers, accepts: [first] }: RouteQuote): string {
  if (first === undefined) return "";
  const header = quoteHeader(answer);
  if (header === null) return ALL;
  const quote = readHeaderJson(header);
  const wanted = { ...extensionsOf(first), ...identifierExtension(offers.identifier) };
  const said = memberOf(quote, "extensions");
  const lost = Object.keys(wanted).flatMap((name) => {
    const extension = memberOf(said, name);
    if (extension === undefined) return [`extension ${name}`];
    return memberOf(extension, "schema") === undefined ? [`the schema of ${name}`] : [];
  });
  const isTold = memberOf(memberOf(quote, "resource"), "description") !== undefined;
  if (first.description !== "" && !isTold) lost.push(DESCRIPTION);
  return lost.join(" and ");
}

function remark(
  severity: Remark["severity"],
  route: RouteSettings,
  fault: Remark["fault"],
): Remark {
  return { severity, path: routePath(route), part: "key", fault };
}

function inWords(count: number): string {
  return count.toLocaleString("en");
}
