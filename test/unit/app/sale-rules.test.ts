/** What a configuration says of an hour, as sales and gas are counted. */
import { expect, test } from "vitest";
import { saleRules, saleRuleSteps } from "../../../src/app/sale-rules.ts";
import { atOnce } from "../../../src/time/breath.ts";
import { configOf } from "./config-of.ts";

const EURC = "0xC891EB4cbdEFf6e073e859e987815Ed1505c2ACD";
const config = configOf(
  `
listen: 127.0.0.1:0
publicUrl: https://shop.example
upstream: http://127.0.0.1:1
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base, { network: avalanche, asset: EURC, amount: "2000000000000000000" }]
assets:
  EURC: { avalanche: { address: "${EURC}", decimals: 18, eip712: { name: Euro, version: "2" } } }
limits: { perPayer: $10/h, sales: $500/h, gas: $3/h }
facilitator:
  embedded:
    networks:
      base: { rpc: ["http://127.0.0.1:2"], signers: [env:EVM_KEY], nativePrice: $3000 }
      avalanche: { rpc: ["http://127.0.0.1:3"], signers: [env:EVM_KEY], nativePrice: $30 }
unmatched: deny
routes:
  GET /cheap: $0.01
  GET /dear: $2.50
  GET /free: free
`,
  { EVM_KEY: `0x${"5a".repeat(32)}` },
);

test("prices are millionths of a dollar, the lowest of each route, and gas is in its own currency", () => {
  const { perPayer, sales, gas, prices } = saleRules(config);
  expect([perPayer, sales]).toEqual([10_000_000, 500_000_000]);
  expect([...prices]).toEqual([
    ["GET /cheap", 10_000],
    ["GET /dear", 2_000_000],
  ]);
  expect([...gas]).toEqual([
    ["base", 1e15],
    ["avalanche", 1e17],
  ]);
});

test("a whole unit of a token is a dollar by its decimals, also when it is not sold for any more, and a part is never nothing", () => {
  const { decimals } = atOnce(saleRuleSteps(config));
  const { worthOf } = saleRules({ ...config, routes: [] }, decimals);
  expect(worthOf("avalanche", EURC.toLowerCase(), 1_500_000_000_000_000_000n)).toBe(1_500_000);
  expect(worthOf("avalanche", EURC, 1n)).toBe(1);
  expect(worthOf("base", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", 10_000n)).toBe(10_000);
});
