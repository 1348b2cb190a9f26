/** Tools of servers of MCP that are sold by their names, to the official clients of both SDKs. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PURSE, present, quote, richBuyer, sign } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { PUBLIC_URL, startGateway, type RunningGateway } from "../../support/gateway.ts";
import { connectSdk, connectWeb, type Connect, type McpClient } from "../../support/mcp/clients.ts";
import { McpBuyer, paymentRequiredOf } from "../../support/mcp/paying.ts";
import { McpStage, type McpStageOptions } from "../../support/mcp/stage.ts";

let chain: Chain;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain[Symbol.asyncDispose]());

const CLIENTS: Readonly<Record<string, Connect>> = {
  "@modelcontextprotocol/sdk 1.32.2": connectSdk,
  "@modelcontextprotocol/client 2.4.0": connectWeb(),
  "@modelcontextprotocol/client 2.4.0 as one of before": connectWeb("legacy"),
};

const SERVERS: Readonly<Record<string, McpStageOptions>> = {
  "sessions, streams": {},
  "sessions, JSON": { json: true },
  "requests, streams where there is something to tell": { serves: "requests" },
  "requests, JSON": { serves: "requests", json: true },
};

const ROUTES = `
  /mcp:
    tools:
      echo: free
      quote: $0.01
      hold: { price: $0.02, description: Waits }
      cut: $0.01
      fail: $0.01
      "test_*": $0.002
      test_elicitation: $0.005
      big: deny
`;

interface Shop extends AsyncDisposable {
  readonly stage: McpStage;
  readonly gateway: RunningGateway;
  readonly url: string;
}

async function open(options: McpStageOptions = {}, routes = ROUTES): Promise<Shop> {
  await using opening = new AsyncDisposableStack();
  const stage = opening.use(await McpStage.open(options));
  const gateway = opening.use(await startGateway({ chain, upstreamUrl: stage.origin, routes }));
  const owned = opening.move();
  const url = `${gateway.url}/mcp`;
  return { stage, gateway, url, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const said = ({ content }: Awaited<ReturnType<McpClient["call"]>>) => content[0]?.text;

describe.each(Object.entries(SERVERS))("a server of %s", (_, options) => {
  test.each(Object.entries(CLIENTS))("sells a tool to %s", async (__, connect) => {
    await using shop = await open(options);
    await using client = await connect(shop.url);
    const account = await richBuyer(chain);
    const buyer = McpBuyer.onEvm(client, account);

    const listed = await client.list();
    const names = listed.map(({ name }) => name);
    expect(names).toContain("quote");
    expect(names).toContain("test_simple_text");
    expect(names).not.toContain("big");
    expect(names).not.toContain("json_schema_2020_12_tool");
    expect(listed.find(({ name }) => name === "quote")).toMatchObject({
      description: expect.stringContaining("$0.01"),
      _meta: { "x402/price": "$0.01" },
    });

    expect(said(await client.call("echo", { text: "hé" }))).toBe("hé");
    const unpaid = await client.call("quote", { ticker: "AAPL" });
    expect(paymentRequiredOf(unpaid)).toMatchObject({
      x402Version: 2,
      resource: { url: expect.stringMatching(/\/mcp#quote$/) },
      accepts: [{ amount: "10000" }],
    });
    expect(shop.stage.workshop.count("quote")).toBe(0);

    const paid = await chain.balanceOf(shop.gateway.payee);
    const bought = await buyer.buy("quote", { ticker: "AAPL" });
    expect(said(bought.result)).toBe("AAPL: 42");
    expect(bought.receipt).toMatchObject({ success: true, payer: account.address });
    expect(await chain.balanceOf(shop.gateway.payee)).toBe(paid + 10_000n);
    expect(await chain.balanceOf(account.address)).toBe(PURSE - 10_000n);
    expect(shop.stage.workshop.count("quote")).toBe(1);

    await expect(client.call("big", { letters: 3 })).rejects.toThrow("there is no such tool");
    expect(shop.stage.workshop.count("big")).toBe(0);
  });
});

/** A shop, a client of it, and a buyer with money. */
async function shopping(options: McpStageOptions = {}, routes = ROUTES, connect = connectSdk) {
  await using opening = new AsyncDisposableStack();
  const shop = opening.use(await open(options, routes));
  const account = await richBuyer(chain);
  const client = opening.use(await connect(shop.url));
  const buyer = McpBuyer.onEvm(client, account);
  const owned = opening.move();
  const spent = async () => PURSE - (await chain.balanceOf(account.address));
  const called = (name: string) => shop.stage.workshop.count(name);
  return { shop, client, buyer, spent, called, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

describe.each(Object.entries(SERVERS))("one payment buys one call of %s:", (_, options) => {
  test("what failed is had again for it, and charged once", async () => {
    await using stage = await shopping(options);
    const { buyer, spent, called } = stage;
    const { result, payment, receipt } = await buyer.buy("fail");
    expect([result.isError, said(result), receipt]).toMatchObject([
      true,
      "it failed",
      { success: true },
    ]);
    const again = await buyer.present(payment ?? {}, "fail");
    expect([said(again), called("fail"), await spent()]).toEqual(["it failed", 2, 10_000n]);
  });

  test("it buys no other tool, no other arguments, and nothing in another session", async () => {
    await using stage = await shopping(options);
    const { shop, buyer, spent, called } = stage;
    const { payment } = await buyer.buy("quote", { ticker: "AAPL" });
    const paid = payment ?? {};
    await using other = await connectSdk(shop.url);
    const elsewhere = McpBuyer.onEvm(other, await richBuyer(chain));
    for (const refused of [
      await buyer.present(paid, "quote", { ticker: "MSFT" }),
      await buyer.present(paid, "cut"),
      ...(other.sessionId === undefined
        ? []
        : [await elsewhere.present(paid, "quote", { ticker: "AAPL" })]),
    ]) {
      expect(paymentRequiredOf(refused)).toMatchObject({ x402Version: 2 });
    }
    expect([called("quote"), called("cut"), await spent()]).toEqual([1, 0, 10_000n]);
  });
});

test.each(["sessions", "requests"] as const)(
  "an answer of JSON of %s is given again to who has it paid, and not made again",
  async (serves) => {
    await using stage = await shopping({ serves, json: true });
    const { buyer, spent, called } = stage;
    const { payment, receipt } = await buyer.buy("quote", { ticker: "AAPL" });
    const again = await buyer.present(payment ?? {}, "quote", { ticker: "AAPL" });
    expect(said(again)).toBe("AAPL: 42");
    expect(again._meta).toMatchObject({ "x402/payment-response": receipt });
    expect([called("quote"), await spent()]).toEqual([1, 10_000n]);
  },
);

test("a call that asks for more is one call with the answers, and paid once", async () => {
  const asking: Connect = (url) =>
    connectWeb()(url, { answer: { username: "ada", email: "ada@example.com" } });
  await using stage = await shopping({ serves: "requests" }, ROUTES, asking);
  const { buyer, spent, called } = stage;
  const { result } = await buyer.buy("test_elicitation", { message: "Who?" });
  expect(said(result)).toContain("action=accept");
  expect([called("test_elicitation"), await spent()]).toEqual([2, 5_000n]);
});

describe.each(Object.entries(SERVERS))("paid after the work, of %s:", (_, options) => {
  const after = `
  /mcp: { tools: { quote: { price: $0.01, settle: after }, fail: { price: $0.01, settle: after } } }
`;
  test("what is good is charged, and what failed is not", async () => {
    await using stage = await shopping(options, after);
    const { buyer, spent, called } = stage;
    const failed = await buyer.buy("fail");
    expect([said(failed.result), failed.receipt, await spent()]).toEqual([
      "it failed",
      undefined,
      0n,
    ]);
    const good = await buyer.buy("quote", { ticker: "AAPL" });
    expect(said(good.result)).toBe("AAPL: 42");
    expect(good.receipt).toMatchObject({ success: true });
    expect([called("quote"), await spent()]).toEqual([1, 10_000n]);
  });
});

test("progress of a paid call passes as it comes, before its answer", async () => {
  await using stage = await shopping();
  const { shop, client, buyer, spent } = stage;
  const unpaid = await client.call("hold");
  const asked = paymentRequiredOf(unpaid);
  expect(asked).not.toBeNull();
  const half = Promise.withResolvers<number>();
  const bought = buyer.buy("hold", {}, { onProgress: half.resolve });
  expect(await half.promise).toBe(1);
  shop.stage.workshop.release();
  const { result, receipt } = await bought;
  expect([said(result), receipt]).toMatchObject(["released", { success: true }]);
  expect(await spent()).toBe(20_000n);
});

test("a stream that its server cuts is taken up again, and the call is paid once", async () => {
  await using stage = await shopping();
  const { shop, buyer, spent, called } = stage;
  const resumed = Promise.withResolvers<void>();
  shop.stage.onRequest = (method, headers) => {
    if (method === "GET" && headers["last-event-id"] !== undefined) resumed.resolve();
  };
  const bought = buyer.buy("cut");
  await resumed.promise;
  shop.stage.workshop.release();
  expect(said((await bought).result)).toBe("resumed");
  expect([called("cut"), await spent()]).toEqual([1, 10_000n]);
});

test("a backend never sees a payment", async () => {
  const bodies: string[] = [];
  const { createServer } = await import("node:http");
  const http = createServer((request, response) => {
    let body = "";
    request.on("data", (part) => (body += String(part)));
    request.on("end", () => {
      bodies.push(body);
      response.writeHead(200, { "Content-Type": "application/json" });
      response.end('{"jsonrpc":"2.0","id":1,"result":{"content":[]}}');
    });
  });
  await new Promise<void>((resolve) => void http.listen(0, "127.0.0.1", resolve));
  await using _closing = { [Symbol.asyncDispose]: async () => void http.close() };
  const address = http.address();
  const port = typeof address === "object" ? address?.port : 0;
  const upstreamUrl = `http://127.0.0.1:${port}`;
  await using gateway = await startGateway({ chain, upstreamUrl, routes: ROUTES });
  const ask = async (params: object) => {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    const headers = {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
    };
    const response = await fetch(`${gateway.url}/mcp`, { method: "POST", headers, body });
    return { sent: body, ...Object(await response.json()) };
  };
  const account = await richBuyer(chain);
  const buyer = McpBuyer.onEvm(
    {
      call: async (name, args = {}, { meta } = {}) => {
        const params = { name, arguments: args, ...(meta !== undefined && { _meta: meta }) };
        return (await ask(params)).result;
      },
    },
    account,
  );
  const { payment } = await buyer.buy("quote", { ticker: "AAPL" });
  await buyer.present(payment ?? {}, "echo");
  expect(bodies.length).toBe(2);
  for (const body of bodies) {
    expect(body).not.toContain("signature");
    expect(Object(JSON.parse(body)).params._meta).toEqual({});
  }
});

describe("plain HTTP", () => {
  const call = (name: string, args: object = {}) => ({
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 7,
      method: "tools/call",
      params: { name, arguments: args },
    }),
  });

  test("is told by 402 whoever asks, where the file says so", async () => {
    const routes = "{ /mcp: { tools: { quote: $0.01 }, unpaid: status } }";
    await using shop = await open({ serves: "requests", json: true }, routes);
    const init = call("quote", { ticker: "MSFT" });
    const headers = { ...init.headers, Accept: "application/json, text/event-stream" };
    expect(await quote(shop.url, { ...init, headers })).toMatchObject({
      maxAmountRequired: "10000",
    });
    const unknown = await fetch(shop.url, { ...call("other"), headers });
    expect([unknown.status, await unknown.json()]).toEqual([
      404,
      { error: "there is no such tool" },
    ]);
  });

  test("has one payment: with another one in `_meta` it is refused, and nothing is charged", async () => {
    await using shop = await open({ serves: "requests", json: true });
    const account = await richBuyer(chain);
    const init = call("quote", { ticker: "MSFT" });
    const header = await sign(account, shop.url, { init });
    const message = JSON.parse(init.body);
    message.params._meta = { "x402/payment": JSON.parse(atob(header)) };
    const body = JSON.stringify(message);
    const both = await present(shop.url, header, { ...init, body });
    expect([both.status, both.error]).toEqual([
      400,
      expect.stringContaining("a payment is in a header line, and another one in x402/payment"),
    ]);
    expect(await chain.balanceOf(account.address)).toBe(PURSE);
    // In `_meta` alone it is one, in version 1, too.
    const headers = { ...init.headers, Accept: "application/json, text/event-stream" };
    const alone = await fetch(shop.url, { ...init, headers, body });
    expect(alone.headers.get("X-PAYMENT-RESPONSE")).not.toBeNull();
    expect(shop.stage.workshop.count("quote")).toBe(1);
    expect(await chain.balanceOf(account.address)).toBe(PURSE - 10_000n);
  });

  test("reaches no tool by a path, nor by a tunnel", async () => {
    await using shop = await open();
    const hex = Buffer.from("quote").toString("hex");
    const init = call("quote");
    expect((await fetch(`${shop.url}%23tool.${hex}`, init)).status).toBe(404);
    expect((await fetch(`${shop.url}/`, init)).status).toBe(404);
    expect((await fetch(shop.url.replace("/mcp", "/MCP"), init)).status).toBe(404);
    // Nor by what lines say of a message where there is none.
    for (const method of ["GET", "DELETE"]) {
      const headers = { Accept: "text/event-stream", "Mcp-Method": "tools/call" };
      expect((await fetch(shop.url, { method, headers })).status).toBe(400);
    }
    expect(shop.stage.workshop.calls).toEqual([]);
  });

  test("has in the access log what was sent, and in the metrics what it was", async () => {
    const folder = await mkdtemp(join(tmpdir(), "coinslot-sold-log-"));
    const file = join(folder, "access.log");
    await using stage = await McpStage.open({ json: true });
    const more = `logging: { level: silent, access: { format: json, file: "${file}" } }`;
    const routes = "{ /mcp: { tools: { quote: $0.01 } } }";
    const setup = { chain, upstreamUrl: stage.origin, routes, logging: more };
    await using gateway = await startGateway(setup);
    const both = { ...call("quote").headers, Accept: "application/json, text/event-stream" };
    const asked = [call("quote"), { ...call("quote"), headers: both }, call("big")];
    const sent = [];
    for (const init of asked) sent.push((await fetch(`${gateway.url}/mcp`, init)).status);
    expect(sent).toEqual([402, 200, 404]);
    const lines = async () => (await readFile(file, "utf8")).trim().split("\n");
    await expect.poll(async () => (await lines()).length).toBe(3);
    const logged = (await lines()).map((line) => JSON.parse(line));
    expect(logged.map(({ status, outcome }) => [status, outcome])).toEqual([
      [402, "challenged"],
      [200, "challenged"],
      [404, "denied"],
    ]);
    const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
    expect(metrics).toMatch(
      /^coinslot_http_requests_total\{route="POST \/mcp#quote",[^}]*402[^}]*\} 2$/m,
    );
    await rm(folder, { recursive: true, force: true });
  });

  test("is told by 402, and paid in a header line", async () => {
    await using shop = await open({ serves: "requests", json: true });
    const account = await richBuyer(chain);
    const init = call("quote", { ticker: "MSFT" });
    expect(await quote(shop.url, init)).toMatchObject({ maxAmountRequired: "10000" });
    const header = await sign(account, shop.url, { init });
    const both = {
      ...init,
      headers: { ...init.headers, Accept: "application/json, text/event-stream" },
    };
    const answer = await present(shop.url, header, both);
    expect([answer.status, answer.receipt]).toMatchObject([200, { success: true }]);
    expect(answer.text).toContain("MSFT: 42");
    const [, json = answer.text] = /^data: (.*)$/m.exec(answer.text) ?? [];
    expect(JSON.parse(json)).toMatchObject({
      id: 7,
      result: { _meta: { "x402/payment-response": { success: true } } },
    });
  });
});

test("tools are listed by their names, and known to those who settle for them", async () => {
  await using shop = await open();
  const read = async (path: string) => Object(await (await fetch(shop.gateway.url + path)).json());
  const { items } = await read("/v2/discovery/resources?type=mcp");
  const named = items.map((each: { resource: string; extensions: never }) => {
    const { input } = Object(each.extensions["bazaar"]).info;
    return [each.resource, input.type, input.toolName, input.description];
  });
  const resource = `${PUBLIC_URL}/mcp`;
  expect(named).toHaveLength(5);
  expect(new Set(named)).toEqual(
    new Set([
      [resource, "mcp", "quote", undefined],
      [resource, "mcp", "hold", "Waits"],
      [resource, "mcp", "cut", undefined],
      [resource, "mcp", "fail", undefined],
      [resource, "mcp", "test_elicitation", undefined],
    ]),
  );
  // Over HTTP alone there is nothing of them.
  expect((await read("/discovery/resources")).items).toEqual([]);
  await using client = await connectSdk(shop.url);
  const asked = paymentRequiredOf(await client.call("hold"));
  expect(Object(asked).extensions.bazaar.info.input).toMatchObject({
    type: "mcp",
    toolName: "hold",
  });
});
