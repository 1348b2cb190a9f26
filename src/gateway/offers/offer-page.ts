/**
 * What a person is shown who opens a priced URL in a browser, and how such a request is told from those of
 * programs. How the page looks is decided elsewhere (`PageWriter`); here it is written once for each route,
 * and again only when something else is asked for.
 */
import type { Answer } from "../answers.ts";
import type { InboundRequest } from "../message/inbound.ts";
import type { Offer, Offers } from "../../payments/sale/offers.ts";

/** A page without the URL that it is for. */
export interface Page {
  /** Raw header lines, without those on the body. */
  readonly lines: readonly string[];
  /** HTML; `resource` is the absolute URL that is asked for. */
  readonly body: (resource: string) => string;
}

/** Writes a route's page; `offered` is what can be paid now, never empty. */
export type PageWriter = (offered: readonly Offer[]) => Page;

const HTML = "text/html; charset=utf-8";

export class OfferPage {
  readonly #offers: Offers;
  readonly #write: PageWriter;
  #written: { readonly revision: number; readonly page: Page } | undefined;

  constructor(offers: Offers, write: PageWriter) {
    this.#offers = offers;
    this.#write = write;
  }

  /** The 402 answer for one URL. `lines`: raw header lines that it has besides. */
  answer(resource: string, lines: readonly string[]): Answer {
    const page = this.#current();
    const all = [...lines, ...page.lines];
    return { status: 402, lines: all, body: page.body(resource), type: HTML };
  }

  #current(): Page {
    const { revision } = this.#offers;
    if (this.#written?.revision !== revision) {
      this.#written = { revision, page: this.#write(this.#offers.accepts("")) };
    }
    return this.#written.page;
  }
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
