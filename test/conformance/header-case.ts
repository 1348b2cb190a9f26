/**
 * The cases of `header.yaml`: a correct payment, written into the request's head in another way.
 *
 * - `json`: what is encoded, as text. `$payment` is the payment's JSON, `$members` the same without its
 *   opening brace. Default: `$payment`.
 * - `size`: the payment with an unknown key, so long that its JSON has that many bytes.
 * - `bytes`: what is encoded, in hex.
 * - `charset`: how text becomes bytes.
 * - `name`, `values`: the header lines. `$base64` is the encoded text, `$unpadded` the same without `=`,
 *   `$base64url` in the URL-safe alphabet (RFC 4648 section 5), which Node writes without padding, and
 *   `$base64urlPadded` with it; `$percent` is percent-encoded, `$twice` encoded once more, `$json` not at all.
 * - `expect`: status, and the code that `error` begins with where there is one.
 *
 * `each` and the placeholders `<field>` are those of `conformance-case.ts`.
 */
import { z } from "zod";
import { ERROR_CODES } from "../../src/x402/error-code.ts";
import { readCases } from "./conformance-case.ts";

/** How a payment is written. */
export const writing = z.strictObject({
  json: z.string().default("$payment"),
  size: z.int().exactOptional(),
  bytes: z.string().exactOptional(),
  charset: z.enum(["utf8", "latin1", "utf16le"]).default("utf8"),
  header: z.string().default("X-PAYMENT"),
  values: z.array(z.string()).default(["$base64"]),
});

const headerCase = writing.extend({
  name: z.string(),
  cites: z.string(),
  expect: z.strictObject({ status: z.int(), code: z.enum(ERROR_CODES).exactOptional() }),
});

export type HeaderCase = z.infer<typeof headerCase>;

export function readHeaderCases(): readonly HeaderCase[] {
  return readCases("header.yaml", headerCase);
}

/** The raw `name, value` pairs that a case sends for a payment. */
export function headerLines(each: z.infer<typeof writing>, payment: string): string[] {
  const encoded = encode(each, payment);
  return each.values.flatMap((value) => {
    const text = value.replaceAll(/\$([A-Za-z0-9]+)/g, (_, name: string) => encoded[name] ?? "");
    return [each.header, text];
  });
}

function encode(each: z.infer<typeof writing>, payment: string): Partial<Record<string, string>> {
  const json = each.json
    .replaceAll("$payment", () => payment)
    .replaceAll("$members", () => payment.slice(1));
  const text = each.size === undefined ? json : padTo(each.size, json);
  const bytes =
    each.bytes === undefined ? Buffer.from(text, each.charset) : Buffer.from(each.bytes, "hex");
  const base64 = bytes.toString("base64");
  const base64url = bytes.toString("base64url");
  return {
    json: text,
    base64,
    base64url,
    base64urlPadded: base64url.padEnd(base64.length, "="),
    unpadded: base64.replaceAll("=", ""),
    // Not every base64 has a character that has to be.
    percent: encodeURIComponent(base64).replace(/^e/, "%65"),
    twice: Buffer.from(base64).toString("base64"),
  };
}

function padTo(bytes: number, json: string): string {
  const start = `{"unknown":"`;
  const end = `",${json.slice(1)}`;
  return start + "a".repeat(bytes - start.length - Buffer.byteLength(end)) + end;
}
