/** What is charged by use where processes die, and where workers sell: what is left of a payment is there once, or owed. */
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { PAYMENT_HEADERS } from "../../src/x402/header.ts";
import { X402_VERSION } from "../../src/x402/x402.ts";
import { present, PURSE, richBuyer, sign } from "../support/buyer.ts";
import type { Chain } from "../support/chain.ts";
import { modelBackend } from "../support/model-backend.ts";
import type { FreshAccount } from "../support/payer.ts";
import { balanceIn } from "../support/prepaid.ts";
import { Site } from "../support/serve.ts";
import { startBackend, startSeller, type Backend, type Seller } from "./workers/stage.ts";

// Each of them starts and ends several processes.
vi.setConfig({ testTimeout: 120_000 });

const ROUTES = `  POST /chat: { meter: { of: [json("usage.total_tokens"), sse("usage.total_tokens")], each: $0.000002, max: $0.01 }, description: A model }
credits: { packs: [$1] }
`;
const MAX = 10_000n;

let seller: Seller;
let chain: Chain;

beforeAll(async () => {
  seller = await startSeller();
  ({ chain } = seller);
});

afterAll(() => chain.stop());

const asking = (body: object): RequestInit => ({ method: "POST", body: JSON.stringify(body) });
const yamlOf = (backend: Backend, workers: number): string =>
  seller.yaml(backend, ROUTES).replace("workers: 2", `workers: ${workers}`);
const inBalance = (site: Site, { address }: FreshAccount): bigint =>
  balanceIn(site.store.replace("sqlite:", ""), address);

it("a stream that a kill -9 cuts is owed, and its change comes with the answer that is had for it", async () => {
  const model = modelBackend();
  await using backend = await startBackend(model.listener);
  await using site = await Site.create();
  const first = await site.serve(yamlOf(backend, 1), seller.env);
  await first.untilReady();
  const buyer = await richBuyer(chain);
  const header = await sign(buyer, `${first.url}/chat`, { init: asking({}) });
  const headers = { [PAYMENT_HEADERS[X402_VERSION]]: header };
  const answer = await fetch(`${first.url}/chat`, {
    ...asking({ stream: true, how: "holds" }),
    headers,
  });
  const reader = answer.body?.getReader();
  expect((await reader?.read())?.done).toBe(false);
  await first.end("SIGKILL");
  await expect(reader?.read().then(() => reader.read())).rejects.toThrow();
  expect(inBalance(site, buyer)).toBe(0n);
  const second = await site.launch(seller.env);
  await second.untilReady();
  expect(await present(`${second.url}/chat`, header, asking({ tokens: 100 }))).toMatchObject({
    status: 200,
    receipt: { success: true },
  });
  // Its end writes all that was answered.
  expect(await second.end("SIGTERM")).toBe(0);
  expect(inBalance(site, buyer)).toBe(MAX - 200n);
  expect(await chain.balanceOf(buyer.address)).toBe(PURSE - MAX);
  const third = await site.launch(seller.env);
  await third.untilReady();
  // Once, also for whoever asks again when that has died.
  const again = await present(`${third.url}/chat`, header, asking({ tokens: 1 }));
  expect(again.status).toBe(402);
  await third.end("SIGKILL");
  expect(inBalance(site, buyer)).toBe(MAX - 200n);
});

it("workers sell by use as one process does", async () => {
  const model = modelBackend();
  await using backend = await startBackend(model.listener);
  await using site = await Site.create();
  const served = await site.serve(yamlOf(backend, 2), seller.env);
  await served.untilReady();
  const buyers = await Promise.all([1, 2, 3, 4].map(() => richBuyer(chain)));
  const sold = buyers.map(async (buyer) => {
    const header = await sign(buyer, `${served.url}/chat`, { init: asking({}) });
    return present(`${served.url}/chat`, header, asking({ tokens: 321 }));
  });
  expect((await Promise.all(sold)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect(await served.end("SIGTERM")).toBe(0);
  expect(buyers.map((buyer) => inBalance(site, buyer))).toEqual(buyers.map(() => MAX - 642n));
});
