/** `coinslot mcp` as an agent's program meets it: official clients of both revisions, the real gateway, a local chain. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startAgent, REVISIONS, type AgentSetup } from "../../support/agents/agent.ts";
import { richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freePort } from "../../support/free-port.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import type { FreshAccount } from "../../support/payer.ts";

let folder: string;
let chain: Chain;
let gateway: RunningGateway;
let buyer: FreshAccount;
let states = 0;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-agent-"));
  chain = await startChain();
  const routes = `
  GET /weather: { price: $0.01, description: Weather, mimeType: text/plain }
  POST /summarize: { price: $0.02, description: A summary, mimeType: application/json }
  GET /dear: { price: $0.11, description: Dear }
  GET /health: free
`;
  const listen = `127.0.0.1:${await freePort()}`;
  gateway = await startGateway({ chain, routes, listen, publicUrl: `http://${listen}` });
  buyer = await richBuyer(chain);
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
  await rm(folder, { recursive: true, force: true });
});

function setup(
  words: readonly string[] = [],
  more: Partial<AgentSetup> = {},
): AgentSetup & { readonly state: string } {
  states += 1;
  const state = join(folder, `purchases-${states}.db`);
  const common = ["--seller", new URL(gateway.url).host, "--state", state];
  const env = { COINSLOT_KEY: buyer.privateKey };
  return { words: [...common, ...words], env, revision: "2026-07-28", state, ...more };
}

describe.each(REVISIONS)("a client of %s", (revision) => {
  test("finds, asks the price, buys once, and reads what it has bought", async () => {
    await using agent = await startAgent(setup([], { revision }));
    expect(await agent.tools()).toEqual(["search", "quote", "buy", "balance", "history"]);

    const found = await agent.call("search", { words: "weather" });
    expect(found.facts).toMatchObject({
      found: [
        {
          url: `${gateway.url}/weather`,
          method: "GET",
          prices: ["$0.01 USDC on base-sepolia"],
          isAllowed: true,
        },
      ],
    });

    const url = `${gateway.url}/weather?for=${revision}`;
    const quote = await agent.call("quote", { url });
    expect(quote.facts).toMatchObject({
      price: "0.01 USDC ($0.01)",
      wouldBuy: true,
      payTo: gateway.payee,
    });

    const before = await chain.balanceOf(buyer.address);
    const bought = await agent.call("buy", { url });
    expect(bought).toMatchObject({
      isError: false,
      facts: { bought: true, amount: "0.01 USDC ($0.01)" },
    });
    expect(JSON.parse(bought.answer ?? "")).toMatchObject({ url: `/weather?for=${revision}` });
    const again = await agent.call("buy", { url });
    expect(again.facts).toMatchObject({ again: expect.stringContaining("nothing was paid now") });
    expect(again.answer).toBe(bought.answer);
    expect(await chain.balanceOf(buyer.address)).toBe(before - 10_000n);

    const left = await agent.call("balance");
    expect(left.facts).toMatchObject({ today: { spentOrPromised: "$0.01", left: "$0.99" } });
    const history = await agent.call("history");
    expect(history.facts).toMatchObject({
      purchases: [{ state: "bought and answered", amount: "0.01 USDC ($0.01)" }],
    });
    expect(agent.said()).toBe("");
  });
});
