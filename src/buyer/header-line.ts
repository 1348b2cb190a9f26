/** Header lines that a buyer may add to a request. */
import { err, ok, type Result } from "../x402/result.ts";

/** What the connection or the payment decides, lower case. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "expect",
  "payment-signature",
  "transfer-encoding",
  "upgrade",
  "x-payment",
]);

/** Name and value, or a sentence on what is wrong with them. */
export function readHeaderLine(
  name: string,
  value: string,
): Result<readonly [name: string, value: string], string> {
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
    return err("A header is 'Name: value', on one line.");
  }
  if (OWN_HEADERS.has(name.toLowerCase())) return err(`${name} is not yours to set here.`);
  return ok([name, value]);
}
