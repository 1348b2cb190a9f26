/** Tools that are paid on Solana, by the official packages of both protocols. */
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { x402Client } from "@x402/fetch";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createSvmSigner, type Shopper } from "../support/solana-clients.ts";
import { openSolanaShop, PRICE, PURSE, type SolanaShop } from "../support/solana-shop.ts";
import { PAYMENT, RECEIPT, toolClients } from "../support/tool-clients.ts";

let shop: SolanaShop;

beforeAll(async () => {
  shop = await openSolanaShop({ network: "solana-devnet", workers: 2 });
}, 60_000);

afterAll(() => shop[Symbol.asyncDispose]());

async function sign({ key, rpcUrl }: Shopper, required: unknown): Promise<object> {
  const client = new x402Client().setSpendControls({ allowedAssets: true });
  client.register("solana:*", new ExactSvmScheme(await createSvmSigner(key), { rpcUrl }));
  const { x402Version, accepts, resource, extensions } = Object(required);
  return client.createPaymentPayload({ x402Version, accepts, resource, extensions });
}

it.each(Object.entries(toolClients))("is bought by %s, once", async (_, connect) => {
  const shopper = await shop.newShopper();
  const client = await connect(`${shop.url}/mcp`);
  const given = { id: shopper.key.address };
  const { structured } = await client.call("get_reports_id", given);
  const meta = { [PAYMENT]: await sign(shopper, structured) };
  const bought = await client.call("get_reports_id", given, meta);
  expect(bought).toMatchObject({
    isError: false,
    meta: { [RECEIPT]: { success: true, payer: shopper.key.address } },
  });
  const again = await client.call("get_reports_id", given, meta);
  expect(again.content).toEqual(bought.content);
  await client.close();
  expect(await shop.node.tokenBalanceOf(shopper.key.address, shop.usdc)).toBe(PURSE - PRICE);
  expect(shop.asked.filter((url) => url === `/reports/${shopper.key.address}`)).toHaveLength(1);
});
