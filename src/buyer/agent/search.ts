/**
 * Looks for what is sold: in listings that the owner has named, and at sellers that he allows, by what leads there
 * (`/.well-known/x402`). Whatever is found is somebody else's word: told, and never obeyed.
 */
import { formatAmount } from "../../x402/amount.ts";
import { isRecord, nestsAtMost } from "../../x402/json.ts";
import { printable } from "../../x402/printable.ts";
import { err, messageOf, ok, type Result } from "../../x402/result.ts";
import { sooner, systemTime } from "../../time/time.ts";
import { exchange, readBody } from "../exchange.ts";
import { parseJson, readQuoteJson, type SellersOffer } from "../offer.ts";
import { readTerms } from "../terms.ts";
import { sellerAt, type AllowedSeller } from "./allowance.ts";

/** Listings and sellers that are asked for one search, the first ones. */
const MAX_PLACES = 16;
/** What is told of one search. */
const MAX_FOUND = 20;
/** Entries of one listing that are looked at. */
const MAX_ENTRIES = 200;
/** The largest document that is read, bytes. */
const MAX_DOCUMENT_BYTES = 2 * 1024 * 1024;
/** Levels of it: what writes JSON calls itself for each. */
const MAX_LEVELS = 64;
/** How long one of them may take, milliseconds. */
const DOCUMENT_MS = 10_000;
/** Longest text of a stranger that is told, characters, and longest description of an input. */
const MAX_TEXT = 300;
const MAX_INPUT = 2_000;
const WELL_KNOWN = "/.well-known/x402";
const LISTING = "/discovery/resources";

export interface FoundOffer {
  readonly url: string;
  /** `http` or `mcp`, as the listing says; "" where it does not. */
  readonly type: string;
  readonly method: string;
  /** `$0.01 USDC on base`; "": the listing does not say it. */
  readonly prices: readonly string[];
  readonly description: string;
  /** What it takes, in the listing's words. */
  readonly input: unknown;
  /** Whether the owner allows its seller. */
  readonly isAllowed: boolean;
}

export interface SellerSearch {
  readonly words: string;
  /** URLs of listings: of a place that has them at the usual path, or whole. */
  readonly listings: readonly URL[];
  readonly sellers: readonly AllowedSeller[];
  readonly signal: AbortSignal;
}

export interface SearchResult {
  readonly found: readonly FoundOffer[];
  /** One sentence for each place that told nothing. */
  readonly faults: readonly string[];
}

export async function searchSold(options: SellerSearch): Promise<SearchResult> {
  const { listings, sellers, words } = options;
  const named = listings.map((url) => () => listed(listingOf(url, words), options));
  const led = sellers
    .filter(({ kind }) => kind === "host")
    .map((seller) => () => atSeller(originOf(seller), options));
  const asked = await Promise.all([...named, ...led].slice(0, MAX_PLACES).map((each) => each()));
  const faults = asked.flatMap((each) => (each.ok ? [] : [each.error]));
  const seen = new Set<string>();
  const found = asked
    .flatMap((each) => (each.ok ? each.value : []))
    .filter((each) => {
      const name = JSON.stringify([each.url, each.method, each.type, each.input]);
      return !seen.has(name) && seen.add(name);
    });
  // What may be bought comes first.
  const sorted = found.toSorted((a, b) => Number(b.isAllowed) - Number(a.isAllowed));
  return { found: sorted.slice(0, MAX_FOUND), faults };
}

function originOf({ protocol, host }: AllowedSeller): string {
  const isHere = /^(?:localhost|127(?:\.[0-9]+){3}|\[::1\])(?::|$)/.test(host);
  return `${protocol ?? (isHere ? "http:" : "https:")}//${host}`;
}

function listingOf(url: URL, words: string): URL {
  const whole = url.pathname === "/" ? new URL(LISTING, url) : new URL(url);
  if (words !== "" && !whole.searchParams.has("q")) whole.searchParams.set("q", words);
  return whole;
}

/** A seller's own document leads to its own listing, and nowhere else. */
async function atSeller(
  origin: string,
  options: SellerSearch,
): Promise<Result<FoundOffer[], string>> {
  const document = await read(new URL(WELL_KNOWN, origin), options.signal);
  // Sellers that say nothing of it may have one at the usual place.
  if (!document.ok) return listed(listingOf(new URL(origin), options.words), options);
  const { listing, listingV2, resources } = Object(document.value);
  for (const each of [listingV2, listing]) {
    if (typeof each !== "string" || !URL.canParse(each)) continue;
    // What it calls itself may be another name than the one it was asked by.
    const { pathname, search } = new URL(each);
    return listed(listingOf(new URL(pathname + search, origin), options.words), options);
  }
  const urls: readonly unknown[] = Array.isArray(resources) ? resources : [];
  return ok(urls.slice(0, MAX_ENTRIES).flatMap((resource) => foundOf({ resource }, options)));
}

async function listed(url: URL, options: SellerSearch): Promise<Result<FoundOffer[], string>> {
  const document = await read(url, options.signal);
  if (!document.ok) return document;
  const { items, resources } = Object(document.value);
  const entries: unknown = items ?? resources;
  if (!Array.isArray(entries)) return err(`${url.origin}${url.pathname} is no listing`);
  return ok(entries.slice(0, MAX_ENTRIES).flatMap((entry) => foundOf(entry, options)));
}

async function read(url: URL, signal: AbortSignal): Promise<Result<unknown, string>> {
  const place = `${url.origin}${url.pathname}`;
  const ends = sooner(signal, systemTime.timeout(DOCUMENT_MS));
  const request = { url, method: "GET", headers: [], body: null };
  try {
    const answer = await exchange(request, { silenceMs: DOCUMENT_MS, signal: ends });
    if (answer.status !== 200) {
      answer.drop();
      return err(`${place} answers ${answer.status}`);
    }
    const body = await readBody(answer, MAX_DOCUMENT_BYTES);
    if (body === undefined) return err(`${place} says more than anybody reads`);
    const json = parseJson(body);
    if (!isRecord(json)) return err(`${place} is no JSON`);
    return nestsAtMost(json, MAX_LEVELS) ? ok(json) : err(`${place} is nested too deeply`);
  } catch (cause) {
    return err(`${place}: ${messageOf(cause)}`);
  }
}

function foundOf(entry: unknown, { words, sellers }: SellerSearch): FoundOffer[] {
  if (!isRecord(entry)) return [];
  const { resource, type, metadata } = entry;
  const address = isRecord(resource) ? resource["url"] : resource;
  if (typeof address !== "string" || !URL.canParse(address)) return [];
  const url = new URL(address);
  const quote = readQuoteJson({ error: "", ...entry });
  const offers = quote.ok ? quote.value.offers : [];
  const input = inputOf(entry);
  const said = isRecord(resource) ? resource : isRecord(metadata) ? metadata : entry;
  const description = line(offers[0]?.description || said["description"]);
  const found: FoundOffer = {
    url: line(address),
    type: line(type),
    method: line(Object(input).method).toUpperCase(),
    prices: offers.slice(0, 4).map(priceText),
    description,
    input: bounded(input),
    isAllowed: sellerAt(url, sellers).ok,
  };
  const text = `${address} ${description} ${JSON.stringify(found.input)}`.toLowerCase();
  const wanted = words.toLowerCase().split(/\s+/);
  // Listings that know no search tell everything.
  return wanted.every((word) => text.includes(word)) ? [found] : [];
}

/** Of version 1 beside its offer, of version 2 as an extension. */
function inputOf(entry: Readonly<Record<string, unknown>>): unknown {
  const { accepts, extensions } = entry;
  const [offer]: readonly unknown[] = Array.isArray(accepts) ? accepts : [];
  const { bazaar } = Object(extensions);
  return Object(Object(bazaar).info).input ?? Object(Object(offer).outputSchema).input ?? null;
}

function priceText(offer: SellersOffer): string {
  const terms = readTerms(offer, []);
  if (!terms.ok || terms.value.token === null)
    return `${offer.amount} units of ${offer.asset} on ${line(offer.network)}`;
  const { token, network } = terms.value;
  return `$${formatAmount(offer.amount, token.decimals)} ${token.symbol} on ${network.name}`;
}

function bounded(input: unknown): unknown {
  const text = JSON.stringify(input ?? null);
  return text.length <= MAX_INPUT ? (input ?? null) : `${text.slice(0, MAX_INPUT)}…`;
}

/** One line of somebody else's. */
function line(text: unknown): string {
  if (typeof text !== "string") return "";
  return printable(text.replace(/\s+/g, " ").trim()).slice(0, MAX_TEXT).toWellFormed();
}
