/** Which header fields a price may depend on. */
import { believerOf, isPlainName } from "../http/header-names.ts";

/**
 * Secrets and proofs of a client, what belongs to its connection alone, and what is written here for the backend: a
 * price by one of these would be one that its sender chooses, and the backend would see another value.
 */
const UNREADABLE =
  /^(?:x-payment.*|payment-.*|sign-in-with-x|x-402-.*|cookie2?|authorization|proxy-.*|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|host|http2-settings|content-length|via)$/;

/** @param name lower-case */
export function isReadableHeader(name: string): boolean {
  return isPlainName(name) && !UNREADABLE.test(name) && believerOf(name) === undefined;
}
