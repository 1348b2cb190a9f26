/** What a tool's result says of money, read as a 402 of HTTP is: from a seller who may mean harm. */
import { paymentRequiredOf, paymentRequiredOfError, receiptOf } from "../../x402/mcp.ts";
import { SETTLEMENT_PENDING } from "../../x402/version-2.ts";
import { readQuoteJson, type Quote } from "../offer.ts";
import { readReceiptJson, type PaymentReceipt } from "../receipt.ts";

/** A price, where a result asks for one. */
export function quoteOfResult(result: unknown): Quote | undefined {
  return quoteOf(paymentRequiredOf(result));
}

/** The same of an error of the protocol, as version 1 asks. */
export function quoteOfError(error: unknown): Quote | undefined {
  return quoteOf(paymentRequiredOfError(error));
}

function quoteOf(asked: unknown): Quote | undefined {
  const quote = asked === undefined ? undefined : readQuoteJson(asked);
  return quote?.ok === true ? quote.value : undefined;
}

export interface ToldReceipt {
  readonly receipt: PaymentReceipt | null;
  /** It was sent to its chain, and nobody knows yet. */
  readonly isPending: boolean;
}

/** Of a success in `_meta`, of a failure in what says so. */
export function receiptOfResult(result: unknown): ToldReceipt {
  const receipt = readReceiptJson(receiptOf(result));
  const isPending = receipt?.errorReason === SETTLEMENT_PENDING && receipt.transaction !== "";
  return isPending ? { receipt: null, isPending } : { receipt, isPending };
}
