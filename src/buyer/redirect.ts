/** Where an answer leads: a redirect as the next request, and the place where a seller helps buyers. */
import { err, ok, type Result } from "../x402/result.ts";
import type { BuyerAnswer, BuyerRequest } from "./exchange.ts";

/** Redirects that are followed one after another. */
export const MAX_REDIRECTS = 5;
/** 300 leaves the choice to a person, 304 and 305 lead nowhere. */
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** Of which clients make a GET of what was posted (RFC 9110, section 15.4). */
const OFTEN_GET: ReadonlySet<number> = new Set([301, 302]);
/** Longest `Link` header that is read, characters. */
const MAX_LINK = 4_096;
/** Longest address of help that is shown, characters. */
const MAX_HELP = 500;

/** Whole, where it can be understood; null for an answer that leads nowhere. */
export function locationOf({ url }: BuyerRequest, answer: BuyerAnswer): string | null {
  const target = answer.header("location");
  if (!REDIRECTS.has(answer.status) || target === "") return null;
  return URL.canParse(target, url.href) ? new URL(target, url).href : target;
}

/**
 * The request that follows that redirect, or a sentence on why none does. Headers and a body may hold secrets of the
 * buyer's: they go to the same host alone, and never from an encrypted connection to an open one.
 */
export function redirected(
  request: BuyerRequest,
  { status }: BuyerAnswer,
  location: string,
): Result<BuyerRequest, string> {
  const url = URL.canParse(location) ? new URL(location) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    return err("it redirects to what is no address of the web");
  }
  if (request.url.protocol === "https:" && url.protocol === "http:") {
    return err(
      `it redirects to an open connection, ${url.origin}: ask there, if that is good enough`,
    );
  }
  [url.hash, url.username, url.password] = ["", "", ""];
  const asked = request.method;
  const isGet = (status === 303 && asked !== "HEAD") || (OFTEN_GET.has(status) && asked === "POST");
  const method = isGet ? "GET" : asked;
  if (!isOtherPlace(request, url)) {
    if (!isGet) return ok({ ...request, url });
    const headers = request.headers.filter(([name]) => name.toLowerCase() !== "content-type");
    return ok({ url, method, headers, body: null });
  }
  if (method !== "GET" && method !== "HEAD") {
    return err(`it redirects to another place, ${url.origin}: ask there, if you trust it`);
  }
  return ok({ url, method, headers: [], body: null });
}

/** A connection that becomes encrypted leads to the same host. */
export function isOtherPlace({ url: before }: BuyerRequest, url: URL): boolean {
  const isUpgrade = before.protocol === "http:" && url.protocol === "https:";
  return url.origin !== before.origin && !(isUpgrade && url.hostname === before.hostname);
}

/** What the seller names as help for buyers (`Link: <…>; rel="help"`): a page, or a mail address; null: nothing. */
export function helpOf({ url }: BuyerRequest, answer: BuyerAnswer): string | null {
  const links = answer.header("link").slice(0, MAX_LINK);
  for (const [, target = "", parameters = ""] of links.matchAll(/<([^<>]*)>([^<]*)/g)) {
    const [, quoted, word] = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+))/i.exec(parameters) ?? [];
    const relations = (quoted ?? word ?? "").toLowerCase().split(/\s+/);
    if (!relations.includes("help") || !URL.canParse(target, url.href)) continue;
    const { protocol, href } = new URL(target, url);
    const isUsable = protocol === "https:" || protocol === "http:" || protocol === "mailto:";
    if (isUsable && href.length <= MAX_HELP) return href;
  }
  return null;
}
