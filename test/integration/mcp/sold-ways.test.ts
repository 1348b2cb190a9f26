/** The ways to sell, for tools of a server: from a balance, by use, to members, and some for nothing; with a client as it is. */
import type { RequestListener } from "node:http";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SESSION_HEADER } from "../../../src/x402/session.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import { connectSdk, type McpClient } from "../../support/mcp/clients.ts";
import { McpBuyer, paymentRequiredOf } from "../../support/mcp/paying.ts";
import { McpStage } from "../../support/mcp/stage.ts";
import { PURSE, richBuyer } from "../../support/buyer.ts";
import { freshAccount, type FreshAccount } from "../../support/payer.ts";
import { balanceIn, prepay } from "../../support/prepaid.ts";
import { openSessionAt } from "../../support/sign-in.ts";

const closing = new AsyncDisposableStack();
const rich = freshAccount();
const staff = freshAccount();
const PREPAID = 100_000n;
let chain: Chain;
let stage: McpStage;
let gateway: RunningGateway;
let storePath: string;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  const folder = await mkdtemp(join(tmpdir(), "coinslot-sold-ways-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  storePath = join(folder, "ledger.db");
  await prepay(storePath, { [rich.address]: PREPAID, [staff.address]: 1n });
  stage = closing.use(await McpStage.open({ json: true }));
  const routes = `
  /mcp:
    tools:
      quote: { price: $0.01, credits: true, prices: { staff: free } }
      fail: { price: $0.01, credits: true }
      big: { meter: { of: json("result._meta.used"), each: $0.001, max: $0.05 }, credits: true }
      echo: { price: $0.01, free: 2/d by address }
`;
  const more = `members: { staff: ["${staff.address}"] }\ncredits: { packs: [$1] }`;
  const upstreamUrl = stage.origin;
  gateway = closing.use(await startGateway({ chain, upstreamUrl, routes, more, storePath }));
});

afterAll(() => closing.disposeAsync());

/** A client whose messages show a session. */
async function clientOf(account: FreshAccount, at = gateway): Promise<McpClient> {
  const session = await openSessionAt(at.url, account);
  const own: typeof fetch = (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set(SESSION_HEADER, session);
    return fetch(input, { ...init, headers });
  };
  return connectSdk(`${at.url}/mcp`, { fetch: own });
}

const left = () => balanceIn(storePath, rich.address);

test("a call is paid from a balance, one that fails costs nothing, and one by use what it has used", async () => {
  await using client = await clientOf(rich);
  expect(await client.call("quote", { ticker: "AAPL" })).toMatchObject({
    content: [{ text: "AAPL: 42" }],
  });
  await expect.poll(left).toBe(PREPAID - 10_000n);
  expect(await client.call("fail")).toMatchObject({ isError: true });
  const before = stage.workshop.count("big");
  await client.call("big", { letters: 3 });
  expect(stage.workshop.count("big")).toBe(before + 1);
  await expect.poll(left).toBe(PREPAID - 10_000n - 3_000n);
});

test("a call by use that is paid for costs the most, and what is left is its buyer's", async () => {
  const account = await richBuyer(chain);
  await using client = await connectSdk(`${gateway.url}/mcp`);
  const { receipt } = await McpBuyer.onEvm(client, account).buy("big", { letters: 3 });
  expect(receipt).toMatchObject({ success: true });
  expect(await chain.balanceOf(account.address)).toBe(PURSE - 50_000n);
  await expect.poll(() => balanceIn(storePath, account.address) > 40_000n).toBe(true);
});

test("a member has a tool for nothing, and nobody else does", async () => {
  await using client = await clientOf(staff);
  expect(paymentRequiredOf(await client.call("quote", { ticker: "A" }))).toBeNull();
  await using other = await connectSdk(`${gateway.url}/mcp`);
  expect(paymentRequiredOf(await other.call("quote", { ticker: "A" }))).not.toBeNull();
});

test("as many calls are free as the file says, and the next asks for its price", async () => {
  await using client = await connectSdk(`${gateway.url}/mcp`);
  const asked = [];
  for (let count = 0; count < 3; count += 1) {
    asked.push(paymentRequiredOf(await client.call("echo", { text: "hé" })) !== null);
  }
  expect(asked).toEqual([false, false, true]);
});

test("a call that fails uses nothing up of what is free, or bought for several", async () => {
  const routes = `
  /mcp:
    tools:
      fail: { price: $0.01, free: 1/d by address }
      big: { price: $0.01, grants: { for: 24h, times: 1 } }
`;
  await using shop = await startGateway({ chain, upstreamUrl: stage.origin, routes });
  await using client = await connectSdk(`${shop.url}/mcp`);
  for (let count = 0; count < 3; count += 1) {
    expect(paymentRequiredOf(await client.call("fail"))).toBeNull();
  }
  const account = await richBuyer(chain);
  await McpBuyer.onEvm(client, account).buy("big", { letters: 1 });
  await using known = await clientOf(account, shop);
  const calls = async (letters: number) => {
    const result = await known.call("big", { letters });
    return paymentRequiredOf(result) === null ? result.isError === true : "asked to pay";
  };
  expect([await calls(-1), await calls(-1), await calls(2), await calls(2)]).toEqual([
    true,
    true,
    false,
    "asked to pay",
  ]);
});

test("a free call that its caller has spoilt, or given up, is used up; one of a server that fails is not", async () => {
  const backend: RequestListener = (request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const { id, params } = JSON.parse(Buffer.concat(parts).toString());
      const error = { code: params.arguments.code, message: "no" };
      response.writeHead(200, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, error }));
    });
  };
  const routes = "\n  /mcp: { tools: { any: { price: $0.01, free: 2/d by address } } }\n";
  await using shop = await startGateway({ chain, backend, routes });
  const statuses: number[] = [];
  for (const code of [-32_603, -32_602, -32_603, -32_800, -32_603]) {
    const params = { name: "any", arguments: { code } };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(`${shop.url}/mcp`, { method: "POST", headers, body });
    await answer.text();
    statuses.push(answer.status);
  }
  expect(statuses).toEqual([200, 200, 200, 200, 402]);
});
