/** What `coinslot mcp` does on its pipes and at sellers that are hard to buy from. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MAIN, startAgent } from "../../support/agents/agent.ts";
import { startMcpSeller, type McpSellerSetup } from "../../support/agents/mcp-seller.ts";
import { richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freePort } from "../../support/free-port.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import type { FreshAccount } from "../../support/payer.ts";
import { balanceIn, prepay } from "../../support/prepaid.ts";
import { openSolanaShop, PRICE, PURSE } from "../../support/solana-shop.ts";

let folder: string;
let chain: Chain;
let gateway: RunningGateway;
let buyer: FreshAccount;
let storePath: string;
let states = 0;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-wire-"));
  chain = await startChain();
  buyer = await richBuyer(chain);
  storePath = join(folder, "ledger.db");
  await prepay(storePath, { [buyer.address]: 2_500n });
  const listen = `127.0.0.1:${await freePort()}`;
  gateway = await startGateway({
    chain,
    listen,
    storePath,
    publicUrl: `http://${listen}`,
    more: "credits: { packs: [$1] }\nmcp: { path: /mcp }",
    routes: `
  GET /cheap: { price: $0.001, description: Cheap, credits: true }
  GET /missing: { price: $0.001, description: Whether it is there, credits: true, goods: [404] }
  GET /goods/:name: { price: $0.01, description: Goods, mimeType: text/plain }
`,
    backend: ({ url }, response) => {
      response.writeHead(url === "/missing" ? 404 : 200, { "content-type": "text/plain" });
      response.end(`goods of ${url}`);
    },
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
  await rm(folder, { recursive: true, force: true });
});

function words(...sellers: readonly string[]): readonly string[] {
  states += 1;
  const hosts = [gateway.url, ...sellers].map((url) => new URL(url).host);
  const state = join(folder, `purchases-${states}.db`);
  return [...hosts.flatMap((host) => ["--seller", host]), "--state", state];
}

const env = () => ({ COINSLOT_KEY: buyer.privateKey });

const seller = (more: Partial<McpSellerSetup>) =>
  startMcpSeller({
    chain,
    facilitatorUrl: gateway.facilitatorUrl,
    payTo: gateway.payee,
    amount: 10_000n,
    ...more,
  });

describe("the pipes", () => {
  test("stdout has the protocol alone, nothing tells the key, and the process ends with its client", async () => {
    const child = spawn(process.execPath, [MAIN, "mcp", ...words()], {
      env: { PATH: process.env["PATH"], ...env() },
    });
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (part) => (stdout += String(part)));
    child.stderr.on("data", (part) => (stderr += String(part)));
    const say = (message: object) =>
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    const answered = async (id: number) => {
      await expect.poll(() => stdout, { timeout: 30_000 }).toContain(`"id":${id}`);
    };
    const clientInfo = { name: "raw", version: "1" };
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
    say({ id: 1, method: "initialize", params });
    await answered(1);
    say({ method: "notifications/initialized" });
    const call = { url: `${gateway.url}/goods/raw` };
    say({ id: 2, method: "tools/call", params: { name: "buy", arguments: call } });
    await answered(2);
    child.stdin.write("this is no JSON\n");
    say({ id: 3, method: "tools/call", params: { name: "buy", arguments: { url: 1 } } });
    await answered(3);
    child.stdin.end();
    const [code] = await once(child, "close");
    expect(code).toBe(0);
    const lines = stdout.trim().split("\n");
    expect(lines.map((line) => JSON.parse(line).jsonrpc)).toEqual(["2.0", "2.0", "2.0"]);
    expect(stdout).toContain("goods of /goods/raw");
    expect(stdout + stderr).not.toContain(buyer.privateKey.slice(2));
    expect(stdout).not.toContain("signature");
  });

  test("a client that tries out a process of its own first has the book nevertheless", async () => {
    const common = { command: process.execPath, args: [MAIN, "mcp", ...words()] };
    const transport = new StdioClientTransport({ ...common, env: env(), stderr: "ignore" });
    const versionNegotiation = { mode: "auto" } as const;
    const client = new Client({ name: "a", version: "1" }, { versionNegotiation });
    await client.connect(transport);
    const told = await client.callTool({
      name: "buy",
      arguments: { url: `${gateway.url}/goods/auto` },
    });
    expect(told.isError).not.toBe(true);
    await client.close();
  });
});

describe("a seller of tools", () => {
  test("that is a gateway sells a route as a tool, once", async () => {
    await using agent = await startAgent({ words: words(), env: env(), revision: "2026-07-28" });
    const before = await chain.balanceOf(buyer.address);
    const call = { url: `${gateway.url}/mcp`, tool: "get_goods_name", arguments: { name: "t" } };
    expect((await agent.call("quote", call)).facts).toMatchObject({ price: "0.01 USDC ($0.01)" });
    const bought = await agent.call("buy", call);
    expect(bought.answer).toContain("goods of /goods/t");
    expect(bought.facts["transaction"]).toMatch(/^0x[0-9a-f]{64}$/);
    expect(await chain.balanceOf(buyer.address)).toBe(before - 10_000n);
  });

  test.each(["json", "sse"] as const)(
    "whose %s is cut after it was paid is shown the same payment again",
    async (answersBy) => {
      // The first call asks for the price, the second one pays.
      await using cutting = await seller({ answersBy, isCut: (call) => call === 2 || call === 3 });
      const setup = { words: words(cutting.url), env: env(), revision: "2025-11-25" } as const;
      await using agent = await startAgent(setup);
      const before = await chain.balanceOf(buyer.address);
      const call = { url: cutting.url, tool: "report", arguments: { by: answersBy } };
      const bought = await agent.call("buy", call);
      expect(bought.facts).toMatchObject({ bought: true });
      expect(cutting.sold).toEqual([{ by: answersBy }]);
      expect(await chain.balanceOf(buyer.address)).toBe(before - 10_000n);
    },
  );

  test("that asks for more than it may, or elsewhere than is named, gets nothing", async () => {
    await using dear = await seller({ amount: 200_000n });
    await using agent = await startAgent({
      words: words(dear.url),
      env: env(),
      revision: "2026-07-28",
    });
    const refused = await agent.call("buy", { url: dear.url, tool: "report" });
    expect(refused.facts["reason"]).toBe("$0.2 is more than one call may cost, $0.1");
    const none = await agent.call("buy", { url: dear.url, tool: "none" });
    expect(none.isError).toBe(true);
    const mixed = await agent.call("buy", { url: dear.url, tool: "report", body: "a" });
    expect(mixed.facts["reason"]).toBe("a tool takes arguments, and no method, headers or body");
    expect(dear.sold).toEqual([]);
  });
});

test("what was prepaid is used by a session, once, and told", async () => {
  await using agent = await startAgent({ words: words(), env: env(), revision: "2026-07-28" });
  const url = `${gateway.url}/cheap?a`;
  expect((await agent.call("quote", { url })).facts["ways"]).toEqual([
    { way: "payment" },
    {
      way: "account",
      how: expect.stringContaining("a balance there"),
      told: expect.objectContaining({ buy: `${gateway.url}/.x402/credits` }),
    },
  ]);
  const before = await chain.balanceOf(buyer.address);
  const bought = await agent.call("buy", { url, way: "account" });
  expect(bought).toMatchObject({
    answer: "goods of /cheap?a",
    facts: { heard: "debited 0.001 USDC" },
  });
  const again = await agent.call("buy", { url, way: "account" });
  expect(again.facts["again"]).toContain("nothing was paid now");
  await expect.poll(() => balanceIn(storePath, buyer.address)).toBe(1_500n);
  const left = await agent.call("balance", { url });
  expect(left.facts).toMatchObject({
    today: { spentOrPromised: "$0.001" },
    prepaid: { balances: [{ dollars: "0.0015", token: "USDC" }] },
  });
  // What is sold with a status that is no success is debited, and told so.
  const missing = await agent.call("buy", { url: `${gateway.url}/missing`, way: "account" });
  expect(missing).toMatchObject({
    answer: "goods of /missing",
    facts: { bought: true, heard: "debited 0.001 USDC" },
  });
  const unpaid = await agent.call("buy", { url: `${gateway.url}/goods/b`, way: "account" });
  expect(unpaid.facts["reason"]).toContain("the account does not pay for it");
  expect(await chain.balanceOf(buyer.address)).toBe(before);
});

test("pays on Solana within the same budgets", async () => {
  await using shop = await openSolanaShop({ network: "solana-devnet" });
  const { key, rpcUrl } = await shop.newShopper();
  const common = [...words(shop.url), "--rpc", rpcUrl, "--max-day", "$0.01"];
  const setup = {
    words: common,
    env: { COINSLOT_KEY: key.secret },
    revision: "2026-07-28",
  } as const;
  await using agent = await startAgent(setup);
  const bought = await agent.call("buy", { url: `${shop.url}/weather` });
  expect(bought).toMatchObject({ isError: false, facts: { network: "solana-devnet" } });
  const more = await agent.call("buy", { url: `${shop.url}/weather?more` });
  expect(more.facts["reason"]).toContain("over the budget of a day");
  expect(await shop.node.tokenBalanceOf(key.address, shop.usdc)).toBe(PURSE - PRICE);
});
