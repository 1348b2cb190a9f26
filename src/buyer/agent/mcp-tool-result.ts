/**
 * What a tool's result says of money, in the order in which version 2 has it looked for (its MCP transport: as
 * `structuredContent`, wrapped in that, as the text of the first block), and in version 1 as an error of code 402.
 */
import { isRecord } from "../../x402/json.ts";
import { SETTLEMENT_PENDING } from "../../x402/version-2.ts";
import { parseJson, readQuoteJson, type Quote } from "../offer.ts";
import { readReceiptJson, type PaymentReceipt } from "../receipt.ts";

/** The member of `_meta` that has a payment. */
export const PAYMENT_META = "x402/payment";
/** The one that has its receipt. */
const RECEIPT_META = "x402/payment-response";
const WRAPPER = "x402/error";
/** Longest text that is looked into for a price, characters: as large as the 402 of HTTP may be. */
const MAX_TEXT = 1024 * 1024;

/** A price, where a result asks for one. */
export function quoteOfResult(result: unknown): Quote | undefined {
  if (!isRecord(result) || result["isError"] !== true) return undefined;
  const { structuredContent: said, content } = result;
  const [block]: readonly unknown[] = Array.isArray(content) ? content : [];
  const text = isRecord(block) && typeof block["text"] === "string" ? block["text"] : "";
  const written = text.length > MAX_TEXT ? undefined : parseJson(Buffer.from(text));
  for (const each of [said, unwrapped(said), written, unwrapped(written)]) {
    if (!isRecord(each) || !Array.isArray(each["accepts"])) continue;
    const quote = readQuoteJson(each);
    if (quote.ok) return quote.value;
  }
  return undefined;
}

/** The same of an error's `data`. */
export function quoteOfError(code: number, data: unknown): Quote | undefined {
  const quote = code === 402 ? readQuoteJson(data) : undefined;
  return quote?.ok === true ? quote.value : undefined;
}

function unwrapped(said: unknown): unknown {
  if (!isRecord(said)) return undefined;
  const { [WRAPPER]: wrapper } = said;
  return isRecord(wrapper) ? wrapper["data"] : undefined;
}

export interface ToldReceipt {
  readonly receipt: PaymentReceipt | null;
  /** It was sent to its chain, and nobody knows yet. */
  readonly isPending: boolean;
}

/** Of a success in `_meta`, of a failure in what says so. */
export function receiptOfResult(result: unknown): ToldReceipt {
  const { _meta: meta, structuredContent: said } = Object(result);
  for (const each of [meta, said]) {
    const receipt = isRecord(each) ? readReceiptJson(each[RECEIPT_META]) : null;
    if (receipt === null) continue;
    const isPending = receipt.errorReason === SETTLEMENT_PENDING && receipt.transaction !== "";
    return isPending ? { receipt: null, isPending } : { receipt, isPending };
  }
  return { receipt: null, isPending: false };
}
