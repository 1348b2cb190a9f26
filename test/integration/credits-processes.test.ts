/** Balances that are bought while processes die, from workers, and on several networks of one family. */
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { inHeader, present, PURSE, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { signPayment, type FreshAccount } from "../support/payer.ts";
import { Site, type Served } from "../support/serve.ts";
import { openSessionAt } from "../support/sign-in.ts";
import {
  bothWorkersOf,
  connectTo,
  kill,
  startBackend,
  startSeller,
  type Seller,
} from "./workers/stage.ts";

// Each of them starts and ends several processes.
vi.setConfig({ testTimeout: 120_000 });

const PACK = "/.x402/credits/0.05";
const PRICE = 50_000n;
const ROUTES = `  GET /weather: { price: $0.01, description: Weather, credits: true }
  GET /who/*: free
`;

let seller: Seller;
let chain: Chain;

beforeAll(async () => {
  seller = await startSeller();
  ({ chain } = seller);
});

afterAll(() => chain.stop());

const yaml = () =>
  `credits: { packs: [$0.05] }\n${seller.yaml({ url: "http://127.0.0.1:9" }, ROUTES)}`;

const sessionOf = (buyer: FreshAccount, { url }: Served): Promise<string> =>
  openSessionAt(url, buyer);

/** What is in an account's balance, by the family of networks. */
async function creditsOf(
  session: string,
  { url }: Served,
): Promise<Readonly<Record<string, string>>> {
  const answer = await fetch(`${url}/.x402/balance`, { headers: { [SESSION_HEADER]: session } });
  const { credits }: { credits: { family: string; amount: string }[] } = Object(
    await answer.json(),
  );
  return Object.fromEntries(credits.map(({ family, amount }) => [family, amount]));
}

describe("kill -9 of the process", () => {
  const single = () => yaml().replace("workers: 2", "workers: 1");

  it("between the settlement and its answer leaves one pack in the balance, and its answer owed", async () => {
    await using site = await Site.create();
    const first = await site.serve(single(), seller.env);
    await first.untilReady();
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, first.url + PACK);
    await chain.rpc("evm_setAutomine", [false]);
    try {
      const lost = present(first.url + PACK, header).catch(() => "lost");
      while (Object(await chain.rpc("txpool_status")).pending === "0x0") await turn();
      await first.end("SIGKILL");
      expect(await lost).toBe("lost");
    } finally {
      await chain.rpc("evm_setAutomine", [true]);
      await chain.mine();
    }
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
    const second = await site.launch(seller.env);
    await second.untilReady();
    const answer = await present(second.url + PACK, header);
    expect(answer).toMatchObject({ status: 200, receipt: { success: true } });
    const again = await present(second.url + PACK, header);
    expect([again.status, again.text]).toEqual([200, answer.text]);
    const session = await sessionOf(buyer, second);
    expect(await creditsOf(session, second)).toEqual({ "evm-testnet": String(PRICE) });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
    expect(await second.end("SIGTERM")).toBe(0);
  });
});

describe("workers", () => {
  it("sell packs and tell balances alike, also when the one that sold is gone", async () => {
    await using backend = await startBackend((_, response) => void response.end("fine"));
    await using site = await Site.create();
    const more = `credits: { packs: [$0.05] }\n${seller.yaml(backend, ROUTES)}`;
    const served = await site.serve(more, seller.env);
    await served.untilReady();
    using one = await connectTo(served, 1);
    using other = await connectTo(served, 2);
    const buyer = await richBuyer(chain);
    for (const connection of [one, other]) {
      const header = await sign(buyer, served.url + PACK);
      expect(await connection.get(PACK, header)).toMatchObject({ status: 200 });
    }
    const session = await sessionOf(buyer, served);
    kill((await bothWorkersOf(served)).get(1));
    const told = await other.get("/.x402/balance", { [SESSION_HEADER]: session });
    expect(JSON.parse(told.text).credits).toMatchObject([{ amount: String(2n * PRICE) }]);
    expect(await served.end("SIGTERM")).toBe(0);
  });
});

describe("networks of one family", () => {
  it("fill one balance, and those of another family another one", async () => {
    await using other = await startChain({ network: "avalanche-fuji" });
    await using real = await startChain({ network: "base" });
    for (const each of [other, real]) await each.fund(seller.signer.address, 0n, 10n ** 18n);
    await using site = await Site.create();
    const accepted = yaml()
      .replace(
        "accept: [base-sepolia]",
        "accept: [base, { network: base-sepolia, testnet: true }, { network: avalanche-fuji, testnet: true }]",
      )
      .replace(
        "    networks:\n",
        `    networks:
      base: { rpc: ["${real.rpcUrl}"], signers: [env:SIGNER], confirmations: 1 }
      avalanche-fuji: { rpc: ["${other.rpcUrl}"], signers: [env:SIGNER], confirmations: 1 }
`,
      )
      .replace("workers: 2", "workers: 1");
    const served = await site.serve(accepted, seller.env);
    await served.untilReady();
    const buyer = await richBuyer(chain);
    for (const each of [other, real]) await each.fund(buyer.address, PURSE);
    for (const { network } of [chain, other, real]) {
      const url = served.url + PACK;
      const { accepts } = Object(await (await fetch(url)).json());
      const requirements = accepts.find(
        (offer: { network: string }) => offer.network === network.name,
      );
      const payment = await signPayment({ account: buyer.account, requirements });
      const paid = await present(
        url,
        inHeader({ paymentPayload: payment, paymentRequirements: requirements }, 1),
      );
      expect(paid).toMatchObject({ status: 200, receipt: { network: network.name } });
    }
    expect(await creditsOf(await sessionOf(buyer, served), served)).toEqual({
      evm: String(PRICE),
      "evm-testnet": String(2n * PRICE),
    });
    expect(await served.end("SIGTERM")).toBe(0);
  });
});
