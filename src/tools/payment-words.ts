/** Stand-in. */
import type { CallToolResult } from "@modelcontextprotocol/server";

export const PAYMENT_META = "x402/payment";
export const RECEIPT_META = "x402/payment-response";

export function paymentRequiredResult(required: Readonly<Record<string, unknown>>): CallToolResult {
  return {
    isError: true,
    structuredContent: required,
    content: [{ type: "text", text: JSON.stringify(required) }],
  };
}
