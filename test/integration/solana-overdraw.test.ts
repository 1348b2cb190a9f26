/** A buyer who presents more payments at once than the money is for: only what can be paid is signed. */
import { beforeEach, describe, expect, test } from "vitest";
import type { Keypair } from "../../src/mechanism/solana/signing.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import {
  buildTransaction,
  memo,
  testKey,
  transfer,
  unitLimit,
  type Payment,
} from "../support/solana-messages.ts";
import { devnetPayment } from "../support/solana-requests.ts";
import { FEE_PAYER, PRICE, SOLANA_ENV, SolanaStage } from "../support/solana-stage.ts";
import { Site } from "../support/serve.ts";

/** Gateways are processes, and slots take real time. */
const TIMEOUT_MS = 60_000;
/** What a settlement costs the fee payer, without a bid for its compute units: two signatures. */
const NETWORK_FEE = 10_000n;

let stage: SolanaStage;
beforeEach(async () => {
  stage = await SolanaStage.open({ slotMs: 100 });
  return () => stage[Symbol.asyncDispose]();
});

/** A buyer with so many prices and nothing else. */
async function fund(number: number, prices: bigint): Promise<Keypair> {
  const buyer = testKey(number);
  const { asset: mint } = devnetPayment();
  await stage.node.fundToken({ mint, owner: buyer.address, amount: prices * PRICE });
  return buyer;
}

/** Different transactions, each of which pays the price. */
function sign(payer: Keypair, asked: PaymentRequirements, count: number): readonly string[] {
  const { asset, payTo } = asked;
  const payment: Payment = devnetPayment({ payer, asset, payTo, amount: PRICE });
  return Array.from({ length: count }, (_, index) =>
    buildTransaction({
      instructions: [unitLimit(60_000), transfer(payment), memo(`one of many: ${index}`)],
      feePayer: payment.feePayer,
      blockhash: stage.node.blockhash,
      signers: [payer],
    }),
  );
}

describe("many payments of one account at once", { timeout: TIMEOUT_MS }, () => {
  test.each([
    { prices: 1n, presented: 60 },
    { prices: 3n, presented: 20 },
  ])("with money for $prices cost us the fee of as many", async ({ prices, presented }) => {
    await using site = await Site.create();
    const served = await site.serve(stage.yaml(), SOLANA_ENV);
    await served.untilReady();
    const url = `${served.url}/weather`;
    const asked = await stage.quote(url);
    const buyer = await fund(77, prices);
    const before = stage.node.lamportsOf(FEE_PAYER.address);
    const all = sign(buyer, asked, presented);
    const answers = await Promise.all(all.map((each) => stage.present(url, each)));
    const paid = answers.filter(({ status }) => status === 200);
    expect(paid).toHaveLength(Number(prices));
    for (const { status, text } of answers) {
      if (status === 200) continue;
      expect(status).toBe(402);
      expect(Object(JSON.parse(text)).error).toMatch(/^insufficient_funds/);
    }
    expect(stage.served).toBe(Number(prices));
    expect(new Set(stage.node.sent).size).toBe(Number(prices));
    expect(before - stage.node.lamportsOf(FEE_PAYER.address)).toBe(prices * NETWORK_FEE);
  });

  test("are all sold to buyers who can pay them, of whom one has just enough", async () => {
    await using site = await Site.create();
    const served = await site.serve(stage.yaml(), SOLANA_ENV);
    await served.untilReady();
    const url = `${served.url}/weather`;
    const asked = await stage.quote(url);
    const [exact, rich] = [await fund(78, 2n), await fund(79, 100n)];
    const all = [...sign(exact, asked, 2), ...sign(rich, asked, 20)];
    const answers = await Promise.all(all.map((each) => stage.present(url, each)));
    expect(answers.map(({ status }) => status)).toEqual(all.map(() => 200));
  });
});
