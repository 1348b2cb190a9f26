/** Header lines that an argument of a tool may write. */
import { believerOf, isPlainName } from "../http/header-names.ts";

/** What frames a request, names who asks or pays, or is written by whoever sends one. */
const NEVER =
  /^(?:host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|content-.*|accept-encoding|cookie|x-payment|payment-.*|sign-in-with-x|x-402-.*|proxy-.*|mcp-.*|traceparent|tracestate|range|if-.*|origin)$/;
/** Printable ASCII, without a blank at either end: nothing that could begin another line. */
const VALUE = /^[\x21-\x7e](?:[\x20-\x7e]{0,4094}[\x21-\x7e])?$/;

/** Whether a field of that name may be an argument. */
export function isWritable(name: string): boolean {
  const lower = name.toLowerCase();
  return isPlainName(lower) && believerOf(lower) === undefined && !NEVER.test(lower);
}

/** Whether it can be the value of one. */
export function isHeaderValue(text: string): boolean {
  return VALUE.test(text);
}
