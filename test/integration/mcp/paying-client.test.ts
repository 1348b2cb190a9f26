/** The buyer that the tests of sold tools pay with, held against the examples of the specification (`specs/transports-v2/mcp.md`). */
import { expect, test } from "vitest";
import type { CallResult, McpClient } from "../../support/mcp/clients.ts";
import { McpBuyer, PAYMENT_KEY, paymentRequiredOf } from "../../support/mcp/paying.ts";
import { freshAccount } from "../../support/payer.ts";

const ASKED = {
  x402Version: 2,
  error: "Payment required to access this resource",
  resource: {
    url: "mcp://tool/financial_analysis",
    description: "Advanced financial analysis tool",
    mimeType: "application/json",
  },
  accepts: [
    {
      scheme: "exact",
      network: "eip155:84532",
      amount: "10000",
      asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
      payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
      maxTimeoutSeconds: 60,
      extra: { name: "USDC", version: "2" },
    },
  ],
};
const RECEIPT = {
  success: true,
  transaction: "0x1234567890abcdef1234567890abcdef1234567890abcdef1234567890abcdef",
  network: "eip155:84532",
  payer: "0x857b06519E91e3A54538791bDbb0E22373e36b66",
};
const WRAPPED = { "x402/error": { code: 402, message: "Payment required", data: ASKED } };
const text = (value: object) => [{ type: "text", text: JSON.stringify(value) }];

test.each<[string, CallResult]>([
  ["structured", { isError: true, structuredContent: ASKED, content: text({}) }],
  ["structured and wrapped", { isError: true, structuredContent: WRAPPED, content: text({}) }],
  ["written", { isError: true, content: text(ASKED) }],
  ["written and wrapped", { isError: true, content: text(WRAPPED) }],
])("finds what is asked for where it is %s", (_, result) => {
  expect(paymentRequiredOf(result)).toEqual(ASKED);
  expect(paymentRequiredOf({ ...result, isError: false })).toBeNull();
});

test("pays what is asked for in `_meta`, once, and reads the receipt", async () => {
  const metas: unknown[] = [];
  const client: Pick<McpClient, "call"> = {
    call: async (_, __, { meta } = {}) => {
      metas.push(meta);
      if (meta === undefined) return { isError: true, structuredContent: ASKED, content: text({}) };
      return { content: text({ price: 42 }), _meta: { "x402/payment-response": RECEIPT } };
    },
  };
  const buyer = freshAccount();
  const bought = await McpBuyer.onEvm(client, buyer).buy("financial_analysis");
  expect(bought.receipt).toEqual(RECEIPT);
  expect(metas).toEqual([undefined, { [PAYMENT_KEY]: bought.payment }]);
  expect(bought.payment).toMatchObject({
    x402Version: 2,
    accepted: ASKED.accepts[0],
    resource: ASKED.resource,
    payload: { authorization: { from: buyer.address, value: "10000" } },
  });
});
