/**
 * `X-PAYMENT` and `X-PAYMENT-RESPONSE`: base64 of JSON in one header line (protocol sections 2.2,
 * 2.3). Decoding never throws: whatever a client sends is either a value or a refusal.
 */
import { ok, refuse, type Refusal, type Result } from "./result.ts";
import { parsePaymentPayload } from "./schema.ts";
import type { PaymentPayload, SettleResponse } from "./x402.ts";

/** The largest decoded `X-PAYMENT`, bytes: a payment takes about 500, a smart wallet's about 3000. */
export const MAX_PAYMENT_HEADER_BYTES = 16 * 1024;

/** Checked before anything is decoded: the longest text that can hold so many bytes. */
const MAX_PAYMENT_HEADER_CHARACTERS = 4 * Math.ceil(MAX_PAYMENT_HEADER_BYTES / 3);
const TOO_LARGE = refuse(
  "invalid_payload",
  `X-PAYMENT exceeds ${MAX_PAYMENT_HEADER_BYTES} bytes decoded`,
);

/** Standard or URL-safe alphabet, padded or not: both are in the field (RFC 4648 sections 4, 5). */
const BASE64 = /^(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}$/;
const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Reads an `X-PAYMENT` value. Refusals: `invalid_payload`, `invalid_x402_version`. */
export function decodePaymentHeader(value: string): Result<PaymentPayload, Refusal> {
  const json = decodeBase64Json(value);
  return json.ok ? parsePaymentPayload(json.value) : json;
}

/** Writes an `X-PAYMENT` value, as a client does. */
export function encodePaymentHeader(payment: PaymentPayload): string {
  return Buffer.from(JSON.stringify(payment), "utf8").toString("base64");
}

/**
 * Writes an `X-PAYMENT-RESPONSE` value: standard alphabet, ASCII-only JSON. Version 1 clients read it
 * with `atob`, which breaks on the URL-safe alphabet and garbles UTF-8.
 */
export function encodeSettlementHeader(response: SettleResponse): string {
  const ascii = JSON.stringify(response).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return Buffer.from(ascii, "latin1").toString("base64");
}

function decodeBase64Json(value: string): Result<unknown, Refusal> {
  const text = value.trim();
  if (text === "") return refuse("invalid_payload", "X-PAYMENT is empty");
  if (text.length > MAX_PAYMENT_HEADER_CHARACTERS) return TOO_LARGE;
  if (!BASE64.test(text)) return refuse("invalid_payload", "X-PAYMENT is not base64");
  const bytes = Buffer.from(text, "base64");
  if (bytes.length > MAX_PAYMENT_HEADER_BYTES) return TOO_LARGE;
  try {
    return ok(JSON.parse(utf8.decode(bytes)));
  } catch {
    return refuse("invalid_payload", "X-PAYMENT is not base64 of JSON in UTF-8");
  }
}
