/** The four recipes of `deploy/RECIPES.md`, as their files have them, on a real chain: what each sells, to whom, for how much. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { parse } from "yaml";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { evmClients, type EvmPurchase } from "../support/evm-clients.ts";
import { startGateway, type GatewaySetup, type RunningGateway } from "../support/gateway.ts";
import { modelBackend } from "../support/model-backend.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import { balanceIn } from "../support/prepaid.ts";
import { openSessionAt } from "../support/sign-in.ts";
import type { McpClient } from "../support/mcp/clients.ts";
import { McpBuyer } from "../support/mcp/paying.ts";

const closing = new AsyncDisposableStack();
let chain: Chain;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
});

afterAll(() => closing.disposeAsync());

/** All of a file but where it listens, what is behind it, and who settles. */
async function open(
  name: string,
  setup: Partial<GatewaySetup> & { readonly members?: object } = {},
): Promise<RunningGateway> {
  const { members, ...rest } = setup;
  const file = parse(readFileSync(join(import.meta.dirname, "../../config", name), "utf8"));
  const { routes, unmatched, upstream, publicUrl, payTo, accept, facilitator, ...more } = file;
  expect([upstream, publicUrl, payTo, accept, facilitator]).not.toContain(undefined);
  const told = { ...more, ...(members !== undefined && { members }) };
  const lines = Object.entries(told).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
  const written = { routes: JSON.stringify(routes), unmatched, more: lines.join("\n") };
  return startGateway({ chain, ...written, ...rest });
}

async function richBuyer(dollars: bigint): Promise<FreshAccount> {
  const account = freshAccount();
  await chain.fund(account.address, dollars * 1_000_000n);
  return account;
}

/** By the newest official client. */
async function buys(url: string, buyer: FreshAccount): Promise<EvmPurchase> {
  const client = Object.values(evmClients).at(-1);
  if (client === undefined) throw new Error("no client");
  return client.buy(url, buyer);
}

const left = (account: FreshAccount): Promise<bigint> => chain.balanceOf(account.address);

const by = (session: string, url: string, init: RequestInit = {}): Promise<Response> =>
  fetch(url, { ...init, headers: { ...Object(init.headers), [SESSION_HEADER]: session } });

it("llm.yaml: a pack is bought once, and each answer costs its tokens, streamed or not", async () => {
  const storePath = join(tmpdir(), `coinslot-recipe-${randomUUID()}`, "ledger.db");
  await using shop = await open("llm.yaml", { backend: modelBackend().listener, storePath });
  const buyer = await richBuyer(6n);
  expect((await buys(`${shop.url}/.x402/credits/5`, buyer)).status).toBe(200);
  expect(await left(buyer)).toBe(1_000_000n);
  const session = await openSessionAt(shop.url, buyer);
  const ask = async (body: object): Promise<string> => {
    const headers = { "Content-Type": "application/json" };
    const asked = { method: "POST", headers, body: JSON.stringify(body) };
    const answer = await by(session, `${shop.url}/v1/chat/completions`, asked);
    expect(answer.status).toBe(200);
    return answer.text();
  };
  const whole = JSON.parse(await ask({ tokens: 1_000 }));
  const streamed = await ask({
    tokens: 250,
    stream: true,
    stream_options: { include_usage: true },
  });
  expect(whole.usage.total_tokens).toBe(1_000);
  expect(streamed).toContain('"total_tokens":250');
  await vi.waitFor(() => expect(balanceIn(storePath, buyer.address)).toBe(5_000_000n - 2_500n));
  const told = Object(await (await by(session, `${shop.url}/.x402/balance`)).json());
  expect(told.credits).toMatchObject([{ dollars: "4.9975" }]);
  expect((await fetch(`${shop.url}/v1/models`)).status).toBe(200);
});

it("newspaper.yaml: two articles are free, a third is not, and a pass opens all of it", async () => {
  await using shop = await open("newspaper.yaml");
  const read = async (path: string): Promise<number> => (await fetch(shop.url + path)).status;
  expect(await read("/")).toBe(200);
  expect([await read("/articles/1"), await read("/articles/2")]).toEqual([200, 200]);
  expect([await read("/articles/3"), await read("/archive/1")]).toEqual([402, 402]);
  const reader = await richBuyer(1n);
  expect((await buys(`${shop.url}/.x402/passes/day`, reader)).status).toBe(200);
  const session = await openSessionAt(shop.url, reader);
  for (const path of ["/articles/3", "/articles/4", "/archive/1"]) {
    expect((await by(session, shop.url + path)).status).toBe(200);
  }
  expect(await left(reader)).toBe(500_000n);
});

it("partner-prices.yaml: everybody pays a cent, a partner half of it, and staff nothing", async () => {
  const [anybody, partner, staff] = [await richBuyer(1n), await richBuyer(1n), freshAccount()];
  const members = { partners: [partner.address], staff: [staff.address] };
  await using shop = await open("partner-prices.yaml", { members });
  const url = `${shop.url}/rates/EUR`;
  expect((await buys(url, anybody)).status).toBe(200);
  expect(await left(anybody)).toBe(990_000n);
  expect((await by(await openSessionAt(shop.url, staff), url)).status).toBe(200);
  const asked = await by(await openSessionAt(shop.url, partner), url);
  expect([asked.status, Object(await asked.json()).accepts[0].maxAmountRequired]).toEqual([
    402,
    "5000",
  ]);
});

it("mcp.yaml: a tool is sold by its name, and what is not named is not to be had", async () => {
  const result = { content: [{ type: "text", text: "sunny" }] };
  await using shop = await open("mcp.yaml", {
    backend: (_, response) => {
      response.writeHead(200, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id: 1, result }));
    },
  });
  const call: McpClient["call"] = async (name, args = {}, { meta } = {}) => {
    const params = { name, arguments: args, ...(meta !== undefined && { _meta: meta }) };
    const response = await fetch(`${shop.url}/mcp`, {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        Accept: "application/json, text/event-stream",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
    });
    return Object(await response.json()).result;
  };
  const account = await richBuyer(1n);
  const buyer = McpBuyer.onEvm({ call }, account);
  const weather = await buyer.buy("get_weather", { city: "Oslo" });
  expect([weather.result.content, weather.receipt]).toMatchObject([
    result.content,
    { success: true, payer: account.address },
  ]);
  expect((await buyer.buy("search_cities")).receipt).toMatchObject({ success: true });
  expect((await call("ping")).content).toEqual(result.content);
  expect(await call("other")).toBeUndefined();
  expect(await left(account)).toBe(988_000n);
});
