/**
 * What a person is shown who opens a priced URL in a browser, and how such a request is told from those of
 * programs. How the page looks is decided elsewhere (`PageWriter`); here it is written, and compressed, once for each
 * route, and again only when something else is asked for.
 */
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { codingFor, type ContentCoding } from "../../http/content-coding.ts";
import type { Answer } from "../answers.ts";
import type { InboundRequest } from "../message/inbound.ts";
import type { Offer, Offers } from "../../payments/sale/offers.ts";

export interface Page {
  /** Raw header lines, without those on the body. */
  readonly lines: readonly string[];
  /** HTML, the same for every URL of the route. */
  readonly body: string;
}

/** Writes a route's page; `offered` is what can be paid now, empty where nothing can. */
export type PageWriter = (offered: readonly Offer[]) => Page;

const HTML = "text/html; charset=utf-8";
/** A page is compressed while others wait: this takes two milliseconds, and the best that there is a hundred. */
const BROTLI_QUALITY = 6;
/** Small blocks with a code each: style, script and data are unlike each other, which saves some hundred bytes. */
const GZIP_MEMORY = 5;
/** Of what brotli looks back at, as a power of two: a page has less than 64 KiB. */
const BROTLI_WINDOW = 16;

/**
 * Where each request may have a price of its own, a page is compressed once so many have asked for it: else whoever asks
 * for another price each time had all of them compressed, a millisecond each.
 */
export const PLAIN_PAGES = 16;

interface Written {
  readonly revision: number;
  readonly page: Page;
  /** How often. */
  asked: number;
  /** As they are asked for. */
  readonly coded: Map<ContentCoding, Uint8Array>;
}

export class OfferPage {
  readonly #offers: Offers;
  readonly #write: PageWriter;
  readonly #plainly: number;
  #written: Written | undefined;

  /** @param plainly how often it is sent as it is, before it is compressed */
  constructor(offers: Offers, write: PageWriter, plainly = 0) {
    this.#offers = offers;
    this.#write = write;
    this.#plainly = plainly;
  }

  /**
   * The answer, 402 where anything can be paid. `lines`: raw header lines that it has besides; `accepted`: Accept-Encoding
   * of who asks.
   */
  answer(lines: readonly string[], accepted: string | undefined, status: 402 | 503 = 402): Answer {
    const written = this.#current();
    written.asked += 1;
    const { page, coded } = written;
    const { body } = page;
    const answer = { status, lines: [...lines, ...page.lines], body, type: HTML };
    const coding = codingFor(accepted);
    if (coding === null || written.asked <= this.#plainly) return answer;
    let bytes = coded.get(coding);
    if (bytes === undefined) coded.set(coding, (bytes = compressed(body, coding)));
    return { ...answer, lines: [...answer.lines, "Content-Encoding", coding], bytes };
  }

  #current(): Written {
    const { revision } = this.#offers;
    if (this.#written?.revision !== revision) {
      const page = this.#write(this.#offers.accepts(""));
      this.#written = { revision, page, asked: 0, coded: new Map() };
    }
    return this.#written;
  }
}

/** As it is sent to every browser. */
export function zippedPage(body: string): Uint8Array {
  return gzipSync(body, { level: constants.Z_BEST_COMPRESSION, memLevel: GZIP_MEMORY });
}

function compressed(body: string, coding: ContentCoding): Uint8Array {
  if (coding === "gzip") return zippedPage(body);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
    [constants.BROTLI_PARAM_LGWIN]: BROTLI_WINDOW,
  };
  return brotliCompressSync(body, { params });
}

/** What Java's own client says without being asked: it is no browser, and never shows a page. */
const JAVA_ACCEPT = "text/html, image/gif, image/jpeg, ";
/** What else of an Accept header a 402 in JSON would satisfy. */
const JSON_RANGE = /^(?:application\/(?:json|\*)|\*\/\*)$/;
/** A quality of RFC 9110 section 12.4.2. */
const QUALITY = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/i;

/**
 * Whether a browser opens the URL for somebody to look at: GET, HTML asked for before everything that JSON
 * would be, and, where the browser says what the request is for, a navigation and not a `fetch`.
 */
export function wantsPage({ method, headers }: InboundRequest): boolean {
  const { accept } = headers;
  // Programs ask for anything or for JSON; with them this is all that is looked at.
  if (accept === undefined || !accept.includes("text/html")) return false;
  if (method !== "GET" && method !== "HEAD") return false;
  if (headers.upgrade !== undefined || accept.startsWith(JAVA_ACCEPT)) return false;
  const mode = headers["sec-fetch-mode"];
  return (mode === undefined || mode === "navigate") && prefersHtml(accept);
}

function prefersHtml(accept: string): boolean {
  let html = 0;
  let json = 0;
  for (const range of accept.split(",")) {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    const written = parameters
      .map((part) => QUALITY.exec(part)?.[1])
      .find((part) => part !== undefined);
    const quality = written === undefined ? 1 : Number(written);
    if (type === "text/html") html = Math.max(html, quality);
    else if (JSON_RANGE.test(type)) json = Math.max(json, quality);
  }
  return html > json;
}
