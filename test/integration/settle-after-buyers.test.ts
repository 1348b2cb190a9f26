/** `settle: after` for the buyers and the facilitators that there are, and for a thief. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { IncomingMessage, ServerResponse } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { start } from "../../src/app.ts";
import { headerJson, present, PURSE, richBuyer, sign, VERSIONS } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { evmClients } from "../support/evm-clients.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { startNpmFacilitator } from "../support/npm-facilitator.ts";
import { startOfficialFacilitator } from "../support/official-facilitator.ts";
import { sales, SOLANA_ENV, SolanaStage } from "../support/solana-stage.ts";
import { configOf } from "../unit/app/config-of.ts";

const PRICE = 10_000n;
const ROUTES = `
  GET /work: { price: $0.01, settle: after, description: Work }
  POST /work: { price: $0.01, settle: after, description: Work }
  GET /before: { price: $0.01, description: Before }
`;

let chain: Chain;
let gateway: RunningGateway;

beforeAll(async () => {
  // The npm package looks for its transaction once in each block, and misses it for good where no more come.
  chain = await startChain({ blockTime: 1 });
  gateway = await startGateway({ chain, routes: ROUTES });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
});

describe.each(Object.entries(evmClients))("%s", (_, { buy }) => {
  it.each([undefined, { question: 1 }])("buys what is paid after the work: %j", async (body) => {
    const buyer = await richBuyer(chain);
    const bought = await buy(`${gateway.url}/work`, buyer, body);
    expect(bought).toMatchObject({ status: 200, receipt: { success: true } });
    expect(bought.body).toMatchObject({
      url: "/work",
      ...(body && { body: JSON.stringify(body) }),
    });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
  });
});

describe("what is told of it", () => {
  it("is no flow of version 2, where nothing means that the work comes first", async () => {
    const flows = ["/work", "/before"].map(async (path) => {
      const { headers } = await fetch(gateway.url + path);
      return headerJson(headers, "PAYMENT-REQUIRED").accepts[0].extra;
    });
    const [after, before] = await Promise.all(flows);
    expect(after).toEqual({ name: "USDC", version: "2" });
    expect(before).toEqual({ ...after, paymentFlow: "upfront" });
  });

  it("is the same in the listing", async () => {
    const answer = await fetch(`${gateway.url}/v2/discovery/resources`);
    const { items } = Object(await answer.json());
    const told = items.map((item: { resource: string; accepts: { extra: object }[] }) => [
      new URL(item.resource).pathname,
      item.accepts[0]?.extra,
    ]);
    expect(Object.fromEntries(told)).toEqual({
      "/work": { name: "USDC", version: "2" },
      "/before": { name: "USDC", version: "2", paymentFlow: "upfront" },
    });
  });
});

describe.each([
  ["x402 1.2.0", startNpmFacilitator],
  ["@x402/core 2", startOfficialFacilitator],
] as const)("a facilitator elsewhere, %s", (_, open) => {
  it.each(VERSIONS)("settles when the work is done, version %i", async (version) => {
    await using facilitator = await open(chain);
    const balances: bigint[] = [];
    const buyer = await richBuyer(chain);
    await using shop = await startGateway({
      chain,
      routes: ROUTES,
      facilitator: `
  remote: [{ url: "${facilitator.url}" }]
  rpc: { ${chain.network.name}: ["${chain.rpcUrl}"] }
`,
      backend: async (_request: IncomingMessage, response: ServerResponse) => {
        balances.push(await chain.balanceOf(buyer.address));
        response.writeHead(balances.length === 1 ? 500 : 200).end("fine");
      },
    });
    const url = `${shop.url}/work`;
    const header = await sign(buyer, url, { version });
    expect(await present(url, header, {}, version)).toMatchObject({ status: 500 });
    expect(await present(url, header, {}, version)).toMatchObject({
      status: 200,
      text: "fine",
      receipt: { success: true },
    });
    expect(balances).toEqual([PURSE, PURSE]);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
  });
});

describe("on Solana", () => {
  it("it is paid when the work is done, and not where there is nothing to sell", async () => {
    await using stage = await SolanaStage.open();
    const folder = await mkdtemp(join(tmpdir(), "coinslot-after-"));
    await using closing = new AsyncDisposableStack();
    closing.defer(() => rm(folder, { recursive: true, force: true }));
    const routes = `  GET /weather: { price: $0.01, description: Weather, settle: after }
  HEAD /none: { price: $0.01, description: None, settle: after }
`;
    const text = `listen: 127.0.0.1:0
publicUrl: http://localhost:8402
store: sqlite:${join(folder, "ledger.db")}
${stage.yaml(stage.embedded, { routes })}`;
    const running = await start(configOf(text, SOLANA_ENV), "test");
    closing.defer(() => running.close());
    const weather = `http://127.0.0.1:${running.addresses.gateway[0]?.port ?? 0}/weather`;
    const transaction = stage.pay(await stage.quote(weather));
    const head = { method: "HEAD", headers: { "X-PAYMENT": headerOf(transaction) } };
    expect((await fetch(weather, head)).status).toBe(200);
    expect(await stage.moved()).toEqual(sales(0n));
    const bought = await stage.present(weather, transaction);
    expect(bought).toMatchObject({ status: 200, text: "sunny", receipt: { success: true } });
    expect(await stage.moved()).toEqual(sales(1n));
    expect(await stage.present(weather, transaction)).toMatchObject({ status: 200, text: "sunny" });
    expect(await stage.moved()).toEqual(sales(1n));
    expect(stage.served).toBe(2);
  });

  function headerOf(transaction: string): string {
    const payload = { transaction };
    return btoa(
      JSON.stringify({ x402Version: 1, scheme: "exact", network: "solana-devnet", payload }),
    );
  }
});

describe("one authorization at two shops of one seller", () => {
  it("buys once: who has worked for nothing keeps what he has made", async () => {
    const { payee } = gateway;
    const working = Promise.withResolvers<void>();
    const done = Promise.withResolvers<void>();
    await using slow = await startGateway({
      chain,
      payee,
      routes: ROUTES,
      backend: async (_request: IncomingMessage, response: ServerResponse) => {
        working.resolve();
        await done.promise;
        response.end("the goods");
      },
    });
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${slow.url}/work`);
    const first = present(`${slow.url}/work`, header);
    await working.promise;
    expect(await present(`${gateway.url}/work`, header)).toMatchObject({ status: 200 });
    done.resolve();
    const answer = await first;
    expect(answer).toMatchObject({
      status: 402,
      error: expect.stringContaining("invalid_transaction_state"),
    });
    expect(answer.text).not.toContain("the goods");
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
  });
});
