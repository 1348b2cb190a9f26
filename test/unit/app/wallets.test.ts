import { expect, test } from "vitest";
import { describeWallets } from "../../../src/app/wallets.ts";
import { configOf, SOLANA_ADDRESS as ADDRESS } from "./config-of.ts";

const CONFIG = configOf(`
facilitator:
  listen: 127.0.0.1:4021
  embedded:
    networks:
      solana: { rpc: ["http://127.0.0.1:1"], signers: [env:SOLANA_KEY] }
`);

test("a wallet on Solana is told in SOL, with what a settlement costs it", () => {
  const mechanism = { network: "solana" as const, accounts: [ADDRESS] };
  const balance = {
    address: ADDRESS,
    balanceAtomic: 500_000_000n,
    decimals: 9,
    settlementAtomic: 10_000n,
  };
  const wallet = { network: "solana", address: ADDRESS, source: "env:SOLANA_KEY" };
  expect(describeWallets(CONFIG, [mechanism], new Map([["solana", [balance]]]))).toEqual([
    { ...wallet, funds: "has 0.5 SOL, a settlement costs 0.00001 SOL: enough for 50000" },
  ]);
  expect(describeWallets(CONFIG, [mechanism], new Map())).toEqual([{ ...wallet, funds: null }]);
});
