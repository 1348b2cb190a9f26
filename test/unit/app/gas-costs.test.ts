import { describe, expect, test } from "vitest";
import { findLosses, LeastAmounts, roughly } from "../../../src/app/gas-costs.ts";
import type { Config } from "../../../src/config/config.ts";
import { configOf as configFrom } from "./config-of.ts";

/** $3 of gas at $3000: one thousandth of a whole unit. */
const COST = { settlementAtomic: 10n ** 15n, decimals: 18 };

function configOf(nativePrice: string): Config {
  const text = `
upstream: http://localhost:3000
publicUrl: http://localhost:8402
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base]
unmatched: deny
assets:
  TKN: { base: { address: "0x${"a1".repeat(20)}", decimals: 2, eip712: { name: T, version: "1" } } }
facilitator:
  embedded:
    networks:
      polygon: { rpc: ["http://127.0.0.1:2"], signers: [env:KEY] }
      base: { rpc: ["http://127.0.0.1:1"], signers: [env:KEY]${nativePrice} }
routes:
  GET /cheap: $0.01
  GET /just-below: $2.999999
  GET /just-enough: $3
  GET /dear: $5
  GET /as-cheap: $0.01
  GET /free: free
  GET /admin: deny
  GET /tokens: { accept: [{ network: base, asset: TKN, amount: "1" }] }
  GET /elsewhere: { price: $0.01, accept: [polygon] }
`;
  return configFrom(text, { KEY: `0x${"5a".repeat(32)}` });
}

describe("what others have to pay at least", () => {
  const USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
  const TKN = `0x${"a1".repeat(20)}`;
  const leastOf = (keys: string, noted = COST) => {
    const least = new LeastAmounts(configOf(keys));
    least.note("base", noted);
    return (asset: string, network = "base") => least.of({ network, asset });
  };

  test("is about its gas, where that can be told, in units of the token, and never 0", () => {
    expect(leastOf(", nativePrice: $3000")(USDC)).toBe(3_000_000n);
    expect(leastOf(", nativePrice: $3000")(TKN)).toBe(300n);
    expect(leastOf(", nativePrice: $3000", { ...COST, settlementAtomic: 1n })(USDC)).toBe(1n);
    expect(leastOf("")(USDC)).toBe(1n);
    const unknown = new LeastAmounts(configOf(", nativePrice: $3000"));
    expect(unknown.of({ network: "base", asset: USDC })).toBe(1n);
  });

  test("is what the configuration says instead, more or less", () => {
    const dear = leastOf(", nativePrice: $3000 }\n    allow: { assets: [TKN], minAmount: $4 ");
    expect([dear(USDC), dear(TKN)]).toEqual([4_000_000n, 400n]);
    expect(leastOf(", nativePrice: $3000 }\n    allow: { minAmount: $0.000001 ")(USDC)).toBe(1n);
  });

  test("is anything where it is settled elsewhere, or not at all", () => {
    const least = leastOf(", nativePrice: $3000");
    expect([least(USDC, "avalanche"), least(`0x${"b2".repeat(20)}`)]).toEqual([1n, 1n]);
  });
});

describe("routes that cost more than they earn", () => {
  test("are named with their price and the cost, those of one price together", () => {
    const findings = findLosses(configOf(", nativePrice: $3000"), "base", COST);

    const cost = "its settlement alone costs about $3 of gas (0.001 ETH at $3000)";
    expect(findings).toEqual([
      { level: "warning", message: `GET /cheap earns $0.01 (as do 1 more), ${cost}` },
      { level: "warning", message: `GET /just-below earns $2.999999, ${cost}` },
    ]);
  });

  test("are none where gas costs less than the cheapest", () => {
    const cost = { settlementAtomic: 10n ** 12n, decimals: 18 };
    expect(findLosses(configOf(", nativePrice: $3000"), "base", cost)).toEqual([]);
  });

  test("are not looked for where nothing says what the currency is worth", () => {
    expect(findLosses(configOf(""), "base", COST)).toEqual([]);
    expect(findLosses(configOf(", nativePrice: $3000"), "polygon", COST)).toEqual([]);
  });
});

test("on Solana a settlement is weighed in lamports, by the token of that very spelling", () => {
  const config = configFrom(`
upstream: http://localhost:3000
publicUrl: http://localhost:8402
payTo: CmGgLQL36Y9ubtTsy2zmE46TAxwCBm66onZmPPhUWNqv
accept: [solana]
unmatched: deny
facilitator:
  embedded:
    networks:
      solana: { rpc: ["http://127.0.0.1:1"], signers: [env:SOLANA_KEY], nativePrice: $200 }
routes:
  GET /cheap: $0.001
  GET /dear: $0.01
`);
  const cost = { settlementAtomic: 10_000n, decimals: 9 };
  expect(findLosses(config, "solana", cost)).toEqual([
    {
      level: "warning",
      message:
        "GET /cheap earns $0.001, its settlement alone costs " +
        "about $0.002 of network fees (0.00001 SOL at $200)",
    },
  ]);
});

test.each([
  [0n, "0"],
  [999n, "0.000000000000000999"],
  [1_000n, "0.000000000000001"],
  [2_123_456_789_012n, "0.00000213"],
  [9_999_000_000_000_000_000n, "10"],
  [1_234_000_000_000_000_000_000n, "1240"],
])("%s atomic units are roughly %s", (atomic, text) => {
  expect(roughly(atomic, 18)).toBe(text);
});
