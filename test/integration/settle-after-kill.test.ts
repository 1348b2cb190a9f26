/** `settle: after` where processes die, and where nobody knows what became of the settlement. */
import { setImmediate as turn } from "node:timers/promises";
import type { RequestListener } from "node:http";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { MAX_STORED_BODY_BYTES } from "../../src/ledger/ledger.ts";
import { present, PURSE, richBuyer, sign } from "../support/buyer.ts";
import type { Chain } from "../support/chain.ts";
import { startGateway } from "../support/gateway.ts";
import type { FreshAccount } from "../support/payer.ts";
import { Site, type Served } from "../support/serve.ts";
import {
  bothWorkersOf,
  COMES_TRUE,
  connectTo,
  kill,
  logOf,
  startBackend,
  startSeller,
  type Backend,
  type Seller,
} from "./workers/stage.ts";

// Each of them starts and ends several processes.
vi.setConfig({ testTimeout: 120_000 });

const ROUTES = `  GET /work: { price: $0.01, description: Work, settle: after }
  GET /free: free
  GET /who/*: free
`;
const PRICE = 10_000n;

let seller: Seller;
let chain: Chain;

beforeAll(async () => {
  seller = await startSeller();
  ({ chain } = seller);
});

afterAll(() => chain.stop());

const paid = async ({ address }: FreshAccount) =>
  expect(await chain.balanceOf(address)).toBe(PURSE - PRICE);
const unpaid = async ({ address }: FreshAccount) =>
  expect(await chain.balanceOf(address)).toBe(PURSE);
const worked = ({ seen }: Backend) => seen.filter((path) => path === "/work").length;

/** While no block is made. */
async function withoutBlocks(work: () => Promise<void>): Promise<void> {
  await chain.rpc("evm_setAutomine", [false]);
  try {
    await work();
  } finally {
    await chain.rpc("evm_setAutomine", [true]);
    await chain.mine();
  }
}

async function isSent(): Promise<void> {
  while (Object(await chain.rpc("txpool_status")).pending === "0x0") await turn();
}

/** A backend whose first work does not end, and that says when it has begun. */
function slowAtFirst(): { readonly begun: Promise<void>; readonly listener: RequestListener } {
  const begun = Promise.withResolvers<void>();
  let isFirst = true;
  return {
    begun: begun.promise,
    listener: (request, response) => {
      if (request.url !== "/work" || !isFirst) return void response.end("fine");
      isFirst = false;
      response.on("error", () => undefined);
      begun.resolve();
    },
  };
}

describe("kill -9 of the process", () => {
  const single = (backend: Backend) =>
    seller.yaml(backend, ROUTES).replace("workers: 2", "workers: 1");

  async function again(served: Served, header: string) {
    await served.untilReady();
    const answer = await present(`${served.url}/work`, header);
    return answer;
  }

  it("while the backend works charges nothing, and the payment is as new", async () => {
    const { begun, listener } = slowAtFirst();
    await using backend = await startBackend(listener);
    await using site = await Site.create();
    const first = await site.serve(single(backend), seller.env);
    await first.untilReady();
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${first.url}/work`);
    const lost = present(`${first.url}/work`, header).catch(() => "lost");
    await begun;
    await first.end("SIGKILL");
    expect(await lost).toBe("lost");
    await unpaid(buyer);
    const second = await site.launch(seller.env);
    expect(await again(second, header)).toMatchObject({ status: 200, text: "fine" });
    expect(worked(backend)).toBe(2);
    await paid(buyer);
    expect(await second.end("SIGTERM")).toBe(0);
  });

  it.each([
    ["what is kept is delivered, and the backend not asked again", "fine", 1],
    ["what is too large for that is asked for again", "x".repeat(MAX_STORED_BODY_BYTES + 1), 2],
  ])("while it is settled: %s", async (_name, body, times) => {
    await using backend = await startBackend((_request, response) => void response.end(body));
    await using site = await Site.create();
    const first = await site.serve(single(backend), seller.env);
    await first.untilReady();
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${first.url}/work`);
    await withoutBlocks(async () => {
      const lost = present(`${first.url}/work`, header).catch(() => "lost");
      await isSent();
      await first.end("SIGKILL");
      expect(await lost).toBe("lost");
    });
    const second = await site.launch(seller.env);
    const answer = await again(second, header);
    expect(answer).toMatchObject({ status: 200, text: body, receipt: { success: true } });
    expect(worked(backend)).toBe(times);
    await paid(buyer);
    expect(await second.end("SIGTERM")).toBe(0);
  });

  it("when it is settled delivers what was kept, once more or for the first time", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const first = await site.serve(single(backend), seller.env);
    await first.untilReady();
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${first.url}/work`);
    await withoutBlocks(async () => {
      const asked = present(`${first.url}/work`, header).catch(() => "lost");
      await isSent();
      await chain.mine();
      while ((await chain.balanceOf(buyer.address)) === PURSE) await turn();
      await first.end("SIGKILL");
      await asked;
    });
    const second = await site.launch(seller.env);
    expect(await again(second, header)).toMatchObject({ status: 200, text: "fine" });
    expect(worked(backend)).toBe(1);
    await paid(buyer);
    expect(await second.end("SIGTERM")).toBe(0);
  });
});

describe("kill -9 of a worker", () => {
  it("while the backend works charges nothing, and the other one sells", async () => {
    const { begun, listener } = slowAtFirst();
    await using backend = await startBackend(listener);
    await using site = await Site.create();
    const served = await site.serve(seller.yaml(backend, ROUTES), seller.env);
    await served.untilReady();
    using first = await connectTo(served, 1);
    using second = await connectTo(served, 2);
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${served.url}/work`);
    const lost = first.get("/work", header).catch(() => "lost");
    await begun;
    kill((await bothWorkersOf(served)).get(1));
    expect(await lost).toBe("lost");
    const said = () => logOf(served).map(({ msg }) => msg);
    await expect
      .poll(said, COMES_TRUE)
      .toContain("payments that a dead worker held are free again");
    await unpaid(buyer);
    expect(await second.get("/work", header)).toMatchObject({ status: 200, text: "fine" });
    expect(worked(backend)).toBe(2);
    await paid(buyer);
    expect(await served.end("SIGTERM")).toBe(0);
  });

  it("while it is settled loses nothing: the other one delivers what was kept", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const served = await site.serve(seller.yaml(backend, ROUTES), seller.env);
    await served.untilReady();
    using first = await connectTo(served, 1);
    using second = await connectTo(served, 2);
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${served.url}/work`);
    await withoutBlocks(async () => {
      const lost = first.get("/work", header).catch(() => "lost");
      await isSent();
      kill((await bothWorkersOf(served)).get(1));
      expect(await lost).toBe("lost");
    });
    expect(await second.get("/work", header)).toMatchObject({ status: 200, text: "fine" });
    expect(worked(backend)).toBe(1);
    await paid(buyer);
    expect(await served.end("SIGTERM")).toBe(0);
  });
});

describe("an outcome that is not known", () => {
  const more = "limits: { settlementWait: 1s }";

  it("is no 402: the same payment gets what was kept, uncharged, and nobody works again", async () => {
    await using gateway = await startGateway({ chain, routes: `\n${ROUTES}`, more });
    const url = `${gateway.url}/work`;
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, url);
    await withoutBlocks(async () => {
      const unknown = await present(url, header);
      expect(unknown).toMatchObject({
        status: 500,
        error: expect.stringContaining("same payment"),
      });
      expect(unknown.text).not.toContain('"url"');
    });
    const answer = await present(url, header);
    expect(answer).toMatchObject({ status: 200, receipt: { success: true } });
    expect(answer.text).toContain("/work");
    expect(gateway.upstream).toHaveLength(1);
    await paid(buyer);
  });

  it("is that of its own request alone: with another body the backend is asked", async () => {
    const routes = `\n  POST /work: { price: $0.01, description: Work, settle: after }\n`;
    await using gateway = await startGateway({ chain, routes, more });
    const url = `${gateway.url}/work`;
    const buyer = await richBuyer(chain);
    const [one, other] = ["one", "other"].map((body) => ({ method: "POST", body }));
    const header = await sign(buyer, url, { init: one ?? {} });
    await withoutBlocks(async () => {
      expect(await present(url, header, one)).toMatchObject({ status: 500 });
    });
    const answer = await present(url, header, other);
    expect(answer).toMatchObject({ status: 200, receipt: { success: true } });
    expect(JSON.parse(answer.text)).toMatchObject({ body: "other" });
    expect(gateway.upstream.map(({ body }) => body)).toEqual(["one", "other"]);
    await paid(buyer);
  });

  it("is found for a buyer who has left while it was settled", async () => {
    await using gateway = await startGateway({ chain, routes: `\n${ROUTES}` });
    const url = `${gateway.url}/work`;
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, url);
    await withoutBlocks(async () => {
      const leaving = new AbortController();
      const lost = present(url, header, { signal: leaving.signal }).catch(() => "lost");
      await isSent();
      leaving.abort();
      expect(await lost).toBe("lost");
    });
    // Owed: to the same payment, and to a new one, which is not charged.
    const proof = await present(url, await sign(buyer, url));
    expect(proof).toMatchObject({ status: 200, receipt: { success: true } });
    expect(gateway.upstream).toHaveLength(1);
    await paid(buyer);
  });
});
