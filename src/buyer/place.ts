/** Addresses that a buyer asks, and how they are told. */
import { err, ok, type Result } from "../x402/result.ts";

/** A whole address of the web without its fragment, or a sentence on what is wrong with it. */
export function readUrl(address: string): Result<URL, string> {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    return err("the URL must be whole, with http:// or https://");
  }
  if (url.username !== "" || url.password !== "") {
    return err("the URL must have no name and no password in it; use -H 'Authorization: …'");
  }
  url.hash = "";
  return ok(url);
}

/** For messages: a query may hold a secret. */
export function placeOf({ origin, pathname }: URL): string {
  return `${origin}${pathname}`;
}
