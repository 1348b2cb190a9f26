/**
 * The discovery listing of somebody else, or our own as others see it, page by page. Whoever serves it may be
 * wrong, slow or large: pages, their number and the time for them are bounded, and nothing of an entry is
 * taken but what is compared.
 */
import { BAZAAR } from "../../x402/bazaar.ts";
import { ask } from "../doctor/http-probe.ts";
import { describeFailure } from "../doctor/finding.ts";
import { NETWORK_NAMES, networkOf } from "../../x402/network.ts";
import { memberOf } from "../../x402/json.ts";

/** Entries that are asked for at once. */
const PAGE_ENTRIES = 50;
/** Largest page, bytes: an entry repeats the schemas of its route for each way to pay. */
const MAX_PAGE_BYTES = 8 * 1024 * 1024;
/** Pages of one listing that are read. */
const MAX_PAGES = 200;
/** Longest that all pages of one listing may take, milliseconds. */
const LISTING_TIMEOUT_MS = 120_000;
/** Ways to pay of one entry that are looked at. */
const MAX_OFFERS = 32;
/** Longest text that is taken from an entry, characters. */
const MAX_TEXT = 4_096;

export interface ListingPlace {
  /** Host, or `own` for the listing of the gateway itself. */
  readonly name: string;
  readonly kind: "own" | "facilitator";
  /** Without `/discovery/resources`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface ListedEntry {
  readonly resource: string;
  /** Upper case; undefined: the entry does not say. */
  readonly method: string | undefined;
  readonly offers: readonly ListedTerms[];
}

export interface ListedTerms {
  /** By the names of version 1, whatever the entry calls it. */
  readonly network: string;
  readonly asset: string;
  readonly payTo: string;
  readonly amount: string;
}

export type ReadListing =
  /** `total`: what the listing says it has; more than was read: the rest is beyond {@link MAX_PAGES}. */
  | { readonly state: "read"; readonly entries: readonly ListedEntry[]; readonly total: number }
  /** There is no such page. */
  | { readonly state: "absent"; readonly detail: string }
  /** Whoever asks is not let in. */
  | { readonly state: "refused"; readonly detail: string }
  | { readonly state: "unreadable"; readonly detail: string };

/** How far the reading of one listing has come. */
export interface ReadSoFar {
  readonly name: string;
  readonly entries: number;
  /** As the listing says. */
  readonly total: number;
}

export interface ReadOptions {
  /** For each page, milliseconds. */
  readonly timeoutMs: number;
  /** Hears of each page. */
  readonly onPage: (read: ReadSoFar) => void;
}

/** A page as it came, and what it says; `total` null: it does not say how many entries there are. */
type ReadPage =
  | {
      readonly state: "read";
      readonly text: string;
      readonly entries: readonly ListedEntry[];
      readonly total: number | null;
    }
  | Exclude<ReadListing, { state: "read" }>;

/** Never rejects. */
export async function readListing(
  place: ListingPlace,
  { timeoutMs, onPage }: ReadOptions,
): Promise<ReadListing> {
  const patience = AbortSignal.timeout(LISTING_TIMEOUT_MS);
  const entries: ListedEntry[] = [];
  let total = 0;
  let before = "";
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const signal = AbortSignal.any([patience, AbortSignal.timeout(timeoutMs)]);
    const read = await readPage(place, entries.length, signal);
    if (read.state !== "read") return read;
    // Whoever takes no notice of the offset gives the first page for ever.
    if (read.text === before) break;
    before = read.text;
    entries.push(...read.entries);
    const isLast = read.entries.length < (read.total === null ? PAGE_ENTRIES : 1);
    total = Math.max(read.total ?? 0, entries.length);
    onPage({ name: place.name, entries: entries.length, total });
    if (isLast || (read.total !== null && entries.length >= read.total)) break;
  }
  return { state: "read", entries, total };
}

async function readPage(
  place: ListingPlace,
  offset: number,
  signal: AbortSignal,
): Promise<ReadPage> {
  const url = `${place.url}/discovery/resources?type=http&limit=${PAGE_ENTRIES}&offset=${offset}`;
  const headers = { accept: "application/json", ...place.headers };
  try {
    const { status, text } = await ask({ url, headers, maxBytes: MAX_PAGE_BYTES }, signal);
    if (status === 200) {
      let json: unknown;
      try {
        json = JSON.parse(text);
      } catch {
        return { state: "unreadable", detail: "a page is no JSON, or too large" };
      }
      const items = memberOf(json, "items") ?? memberOf(json, "resources");
      if (!Array.isArray(items)) return { state: "unreadable", detail: "a page has no items" };
      const total = memberOf(memberOf(json, "pagination"), "total");
      const entries = items.slice(0, PAGE_ENTRIES).map(entryOf);
      const isCount = Number.isSafeInteger(total) && Number(total) >= 0;
      return { state: "read", text, entries, total: isCount ? Number(total) : null };
    }
    const detail = `it answers ${status}`;
    if (status === 401 || status === 402 || status === 403) return { state: "refused", detail };
    const isAbsent = status === 404 || status === 405 || status === 501;
    return { state: isAbsent ? "absent" : "unreadable", detail };
  } catch (cause) {
    return { state: "unreadable", detail: describeFailure(cause) };
  }
}

function entryOf(item: unknown): ListedEntry {
  const accepts = memberOf(item, "accepts");
  const offers = Array.isArray(accepts) ? accepts.slice(0, MAX_OFFERS) : [];
  // Version 1 describes the request in the way to pay, version 2 beside it.
  const described = memberOf(memberOf(memberOf(item, "extensions"), BAZAAR), "info");
  const inputs = [memberOf(offers[0], "outputSchema"), described].map((each) =>
    memberOf(each, "input"),
  );
  const methods = inputs.map((input) => text(memberOf(input, "method")).toUpperCase());
  const method = methods.find((each) => each !== "");
  return {
    resource: text(memberOf(item, "resource")),
    method,
    offers: offers.map((offer: unknown) => ({
      network: networkName(text(memberOf(offer, "network"))),
      asset: text(memberOf(offer, "asset")),
      payTo: text(memberOf(offer, "payTo")),
      amount: text(memberOf(offer, "maxAmountRequired") ?? memberOf(offer, "amount")),
    })),
  };
}

function networkName(written: string): string {
  return NETWORK_NAMES.find((name) => networkOf(name).caip2 === written) ?? written;
}

function text(value: unknown): string {
  return typeof value === "string" ? value.slice(0, MAX_TEXT) : "";
}
