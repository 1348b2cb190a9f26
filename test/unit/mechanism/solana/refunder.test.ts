/** What the key for refunds signs on Solana, whatever chance adds to it. */
import { expect, test } from "vitest";
import { SolanaRefunder } from "../../../../src/mechanism/solana/refunder.ts";
import {
  transactionOf,
  transferMessage,
} from "../../../../src/mechanism/solana/transfer-message.ts";
import { TOKEN_PROGRAM } from "../../../../src/mechanism/solana/programs.ts";
import { paymentKey } from "../../../../src/x402/payment-key.ts";
import { SOME_BLOCKHASH, testKey, USDC } from "../../../support/solana-messages.ts";

const [feePayer, refunder, buyer] = [testKey(1), testKey(2), testKey(3)];
const { signal } = new AbortController();
const BACK = {
  asset: USDC,
  to: buyer.address,
  amountAtomic: 10_000n,
  payment: "solana/one",
  number: 1,
  resource: "https://shop.example.com/weather",
};

test("two refunds of one price to one payer are two transactions, within one blockhash, too", async () => {
  const key = new SolanaRefunder({
    keypair: refunder,
    network: "solana",
    assets: [{ symbol: "USDC", address: USDC, decimals: 6, tokenProgram: TOKEN_PROGRAM }],
    endpoints: { run: () => Promise.reject(new Error("the chain is not asked")) },
    feePayer: () => feePayer.address,
    draft: async ({ asset, payTo, maxAmountRequired, extra }, payer) => {
      const mint = { program: TOKEN_PROGRAM, decimals: 6 };
      const amount = BigInt(maxAmountRequired);
      const transfer = { feePayer: feePayer.address, payer, payTo, asset, amount, mint };
      // As often as chance will have it.
      const same = { blockhash: SOME_BLOCKHASH, variation: 0 };
      const memo = typeof extra?.["memo"] === "string" ? extra["memo"] : null;
      return transactionOf(transferMessage({ ...transfer, ...same, memo }));
    },
  });
  const keyOf = async (changes: Partial<typeof BACK> = {}) =>
    paymentKey(await key.transfer({ ...BACK, ...changes }, signal));
  expect([key.has(BACK.asset), key.has(BACK.asset.toLowerCase())]).toEqual([true, false]);
  const first = await keyOf();
  expect(first).toMatchObject({ ok: true });
  expect(await keyOf()).toEqual(first);
  expect(await keyOf({ payment: "solana/two" })).not.toEqual(first);
  expect(await keyOf({ number: 2 })).not.toEqual(first);
});
