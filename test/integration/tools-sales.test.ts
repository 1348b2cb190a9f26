/** Calls of tools are sales as any: counted, had once at a time, and owed to who has left. */
import type { RequestListener } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import { PURSE, richBuyer } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import type { FreshAccount } from "../support/payer.ts";
import { payFor, PAYMENT, RECEIPT, toolClients, type ToolClient } from "../support/tool-clients.ts";

const closing = new AsyncDisposableStack();
let chain: Chain;
let gateway: RunningGateway;
let client: ToolClient;
/** Hears that the backend works on something, and has it wait. */
let holding: { readonly begun: () => void; readonly until: Promise<void> } | null = null;

const ROUTES = `
  GET /counted: { price: $0.01, description: Counted }
  GET /moved: { price: $0.01, description: What has moved }
  GET /slow: { price: $0.01, description: Slow }
  GET /taste: { price: $0.01, description: A taste, free: 1/d by address }
  POST /chat: { meter: { of: json("usage"), each: $0.001, max: $0.05 }, description: A model, credits: true }
`;

const backend: RequestListener = (request, response) => {
  const work = async (): Promise<void> => {
    request.resume();
    holding?.begun();
    await holding?.until;
    if (request.url === "/moved") response.writeHead(301, { Location: "/counted" });
    else response.writeHead(200, { "Content-Type": "application/json" });
    response.end(JSON.stringify({ url: request.url, usage: 7 }));
  };
  void work();
};

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  const more = `mcp: true\ncredits: { packs: [$1] }`;
  gateway = closing.use(await startGateway({ chain, routes: ROUTES, more, backend }));
  const connect = toolClients["@modelcontextprotocol/client 2.4.0"];
  if (connect === undefined) throw new Error("there is no such client");
  client = await connect(`${gateway.url}/mcp`);
  closing.defer(() => client.close());
});

afterAll(() => closing.disposeAsync());

const charged = async ({ address }: Pick<FreshAccount, "address">): Promise<bigint> =>
  PURSE - (await chain.balanceOf(address));

const metrics = async (): Promise<string> => (await fetch(`${gateway.adminUrl}/metrics`)).text();

async function paymentFor(
  buyer: FreshAccount,
  name: string,
): Promise<Readonly<Record<string, unknown>>> {
  const { structured } = await client.call(name);
  return { [PAYMENT]: await payFor(buyer, structured) };
}

it("is counted as a sale of its route, and nothing else", async () => {
  const buyer = await richBuyer(chain);
  const meta = await paymentFor(buyer, "get_counted");
  expect((await client.call("get_counted", {}, meta)).isError).toBe(false);
  const told = (await metrics())
    .split("\n")
    .filter((line) => line.includes('route="GET /counted"'));
  const counts = told.filter((line) => line.startsWith("coinslot_http_requests_total"));
  expect(counts.map((line) => line.slice(line.indexOf("code")))).toEqual([
    'code="402",outcome="challenged"} 1',
    'code="200",outcome="paid"} 1',
  ]);
});

it("has what its backend leads on to: no call of a tool could go there", async () => {
  const buyer = await richBuyer(chain);
  const meta = await paymentFor(buyer, "get_moved");
  const answer = await client.call("get_moved", {}, meta);
  expect(answer).toMatchObject({ isError: false, meta: { [RECEIPT]: { success: true } } });
  expect(JSON.stringify(answer)).toContain("/counted");
  expect(JSON.stringify(answer)).not.toContain("(301)");
  expect(await charged(buyer)).toBe(10_000n);
});

it("is one sale however many show its payment at once", async () => {
  const buyer = await richBuyer(chain);
  const before = gateway.upstream.length;
  const meta = await paymentFor(buyer, "get_counted");
  const all = await Promise.all(
    Array.from({ length: 6 }, () => client.call("get_counted", {}, meta)),
  );
  // As over HTTP: three of those who wait get the same answer.
  const served = all.filter(({ isError }) => !isError);
  expect(served).toHaveLength(4);
  for (const each of served) expect(each.meta).toMatchObject({ [RECEIPT]: { success: true } });
  expect(gateway.upstream.length).toBe(before + 1);
  expect(await charged(buyer)).toBe(10_000n);
});

it("is owed to who has left before its answer, by the same payment", async () => {
  const buyer = await richBuyer(chain);
  const meta = await paymentFor(buyer, "get_slow");
  const begun = Promise.withResolvers<void>();
  const until = Promise.withResolvers<void>();
  holding = { begun: begun.resolve, until: until.promise };
  const leaving = new AbortController();
  const params = { name: "get_slow", arguments: {}, _meta: meta };
  const left = fetch(`${gateway.url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
    signal: leaving.signal,
  }).catch((cause: unknown) => cause);
  await begun.promise;
  leaving.abort();
  expect(await left).toBeInstanceOf(Error);
  holding = null;
  until.resolve();
  await expect
    .poll(async () => (await client.call("get_slow", {}, meta)).isError, { timeout: 10_000 })
    .toBe(false);
  expect(await charged(buyer)).toBe(10_000n);
});

it("is free as often as its route is", async () => {
  expect(await client.call("get_taste")).toMatchObject({ isError: false });
  expect(await client.call("get_taste")).toMatchObject({
    isError: true,
    structured: { x402Version: 2 },
  });
});

it("is charged by its use where its route is, and what is left is in the balance", async () => {
  const buyer = await richBuyer(chain);
  const { structured } = await client.call("post_chat", { body: {} });
  expect(Object(structured).accepts[0].amount).toBe("50000");
  const payment = await payFor(buyer, structured);
  const bought = await client.call("post_chat", { body: {} }, { [PAYMENT]: payment });
  expect(bought.isError).toBe(false);
  expect(await charged(buyer)).toBe(50_000n);
  await expect
    .poll(async () => (await metrics()).includes('coinslot_usage_total{route="POST /chat"} 7'))
    .toBe(true);
});
