/** Keys of tools that a reload may change: in a file that has none before. */
import type { KeyChange } from "./keys.ts";

const NETWORK = "base-sepolia";

/** What a tool says of its sale, beside or in place of a price. */
const SALES: Readonly<Record<string, object>> = {
  mode: { mode: "shadow" },
  description: { description: "What an agent buys" },
  maxTimeoutSeconds: { maxTimeoutSeconds: 90 },
  memo: { memo: "book 7" },
  paymentIdentifier: { paymentIdentifier: "optional" },
  settle: { settle: "after" },
  credits: { credits: true },
  "price.amount": { price: { amount: "7000", asset: "USDC" } },
  "price.asset": { price: { amount: "7000", asset: "USDC" } },
  ...Object.fromEntries(
    ["by", "from", "to"].map((key) => [
      `price.${key}`,
      { price: { by: "1000 * size(body.params.arguments)", from: "$0.001", to: "$0.009" } },
    ]),
  ),
  ...Object.fromEntries(
    ["of", "each", "max"].map((key) => [
      `meter.${key}`,
      { price: undefined, meter: { of: 'header("X-Usage")', each: "$0.000002", max: "$0.009" } },
    ]),
  ),
  ...Object.fromEntries(
    ["network", "testnet"].map((key) => [
      `accept[].${key}`,
      { accept: [{ network: NETWORK, testnet: true }] },
    ]),
  ),
  ...Object.fromEntries(
    ["asset", "amount"].map((key) => [
      `accept[].${key}`,
      { accept: [{ network: NETWORK, asset: "USDC", amount: "9000" }] },
    ]),
  ),
  "grants.for": { grants: { for: "2h", times: 7 } },
  "grants.times": { grants: { for: "2h", times: 7 } },
  "free.requests": { free: { requests: "7/d", by: "payer" } },
  "free.by": { free: { requests: "7/d", by: "payer" } },
  "prices.NAME.amount": { prices: { partners: { amount: "7000", asset: "USDC" } } },
  "prices.NAME.asset": { prices: { partners: { amount: "7000", asset: "USDC" } } },
};

function tooled(sale: object, more: object = {}): object {
  return { tools: { quote: { price: "$0.01", ...sale } }, ...more };
}

export const TOOL_CHANGES: readonly KeyChange[] = [
  ...Object.entries(SALES).map(([key, sale]): KeyChange => ({
    key: `routes.NAME.tools.NAME.${key}`,
    written: ({ payees }) => [
      [["credits"], { packs: ["$1"] }],
      [["members"], { partners: payees[1] }],
      [["routes", "/tools-of-mcp"], tooled(sale)],
    ],
  })),
  {
    key: "routes.NAME.tools.NAME.payTo.evm",
    written: ({ payees }) => [[["routes", "/tools-of-mcp"], tooled({ payTo: { evm: payees[1] } })]],
  },
  {
    key: "routes.NAME.tools.NAME.payTo.solana",
    written: ({ solanaPayees }) => [
      [["routes", "/tools-of-mcp"], tooled({ payTo: { solana: solanaPayees[1] } })],
    ],
  },
  ...Object.entries({ unpaid: "status", telling: false }).map(([key, value]): KeyChange => ({
    key: `routes.NAME.${key}`,
    written: () => [[["routes", "/tools-of-mcp"], tooled({}, { [key]: value })]],
  })),
];
