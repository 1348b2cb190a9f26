/** Messages to the tools that try to get at something else, or at more than they may: by hand, before a chain. */
import { request as httpRequest } from "node:http";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import {
  MAX_MESSAGE_BYTES,
  MAX_ALL_VALUES,
  MAX_MESSAGE_DEPTH,
  MAX_MESSAGE_VALUES,
} from "../../src/gateway/calls/tool-calls.ts";
import { MAX_HELD_BYTES_OF_ALL } from "../../src/gateway/held-response.ts";
import { richBuyer } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { PUBLIC_URL, startGateway, type RunningGateway } from "../support/gateway.ts";
import { payFor, PAYMENT } from "../support/tool-clients.ts";

const closing = new AsyncDisposableStack();
let chain: Chain;
let gateway: RunningGateway;

const ROUTES = `
  GET /reports/:id: { price: $0.25, description: A report, input: { headerFields: { x-lang: { type: string }, x-forwarded-for: { type: string }, x-payment: { type: string } } } }
  GET /reports/secret: { price: $0.01, discoverable: false }
  GET /reports/denied: deny
  GET /reports/free: free
  GET /files/*: { price: $0.01, description: A file }
  GET /files/cheap: { price: $0.001, description: Cheap }
  POST /notes: { price: $0.01, input: { bodyType: json } }
  GET /health: free
`;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  const more = "mcp: { path: /mcp }\nlimits: { unpaidPerIp: 200/s }";
  gateway = closing.use(await startGateway({ chain, routes: ROUTES, more }));
});

afterAll(() => closing.disposeAsync());

interface Told {
  readonly status: number;
  readonly body: ReturnType<typeof JSON.parse>;
}

const HEAD = { "content-type": "application/json", accept: "application/json, text/event-stream" };

/** Posts a message as it is. */
async function post(body: string, headers: Readonly<Record<string, string>> = {}): Promise<Told> {
  const answer = await fetch(`${gateway.url}/mcp`, {
    method: "POST",
    headers: { ...HEAD, ...headers },
    body,
  });
  const text = await answer.text();
  const data = /^data: (.*)$/m.exec(text)?.[1] ?? text;
  return { status: answer.status, body: data === "" ? null : JSON.parse(data) };
}

const message = (params: unknown, method = "tools/call"): string =>
  JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });

const call = async (name: string, given: unknown, more = {}): Promise<Told["body"]> =>
  (await post(message({ name, arguments: given, ...more }))).body;

describe("the path of a call", () => {
  it.each([
    ["another route that is not listed", "get_reports_id", { id: "secret" }],
    ["a route that is denied", "get_reports_id", { id: "denied" }],
    ["a route that is free", "get_reports_id", { id: "free" }],
    ["a cheaper route", "get_files", { rest: "cheap" }],
  ])("does not become that of %s", async (_, name, given) => {
    const { result } = await call(name, given);
    expect(result).toMatchObject({ isError: true });
    expect(result.structuredContent).toBeUndefined();
    expect(result.content[0].text).toContain("would ask for something else");
  });

  it.each([
    "../health",
    "..",
    ".",
    "a/b",
    "%2e%2e",
    "%2f",
    "a%2Fb",
    "a\\b",
    "a;b",
    "a\r\nX-Payment: 1",
    "a\u0000",
    "",
    "denied/",
    "Denied",
    "denied ",
    "ＤＥＮＩＥＤ",
    { toString: "denied" },
    ["denied"],
    null,
  ])("is one segment or none at all: %j", async (id) => {
    const before = gateway.upstream.length;
    const { result } = await call("get_reports_id", { id });
    expect(result).toMatchObject({ isError: true });
    expect(result.structuredContent).toBeUndefined();
    expect(gateway.upstream.length).toBe(before);
  });

  it.each(["x?city=1", "x#top", "x&a=b", "ü", "a b", "a+b", "a@b:c"])(
    "holds all of %j, and nothing of it is the query's",
    async (id) => {
      const { result } = await call("get_reports_id", { id });
      expect(result.structuredContent).toMatchObject({ x402Version: 2 });
      const buyer = await richBuyer(chain);
      const payment = await payFor(buyer, result.structuredContent);
      const bought = await call("get_reports_id", { id }, { _meta: { [PAYMENT]: payment } });
      const { url } = JSON.parse(bought.result.content[0].text);
      // As over HTTP.
      expect(url).toBe(
        new URL(`http://a/reports/${encodeURIComponent(id)}`).pathname.replaceAll(
          /%(40|3A|2B|26|3D)/g,
          decodeURIComponent,
        ),
      );
      expect(decodeURIComponent(url)).toBe(`/reports/${id}`);
    },
  );

  it.each(["..", "a/../health", "a//b", "/a", "a/", "./a", "a/%2e%2e/b", "a\\..\\b"])(
    "leads nowhere else by its rest: %j",
    async (rest) => {
      const { result } = await call("get_files", { rest });
      expect(result).toMatchObject({ isError: true });
      expect(result.structuredContent).toBeUndefined();
    },
  );
});

describe("what an argument writes", () => {
  it.each(["a\r\nX-402-Payer: 0x1", "a\nb", "a\u0000", " a", "caf\u00e9", "x".repeat(5_000)])(
    "is no header line but its own: %j",
    async (text) => {
      const { result } = await call("get_reports_id", { id: "1", "x-lang": text });
      expect(result).toMatchObject({ isError: true });
      expect(result.content[0].text).toContain("x-lang is not the text of a header line");
    },
  );

  it("is no line that only a proxy writes, and no payment", async () => {
    const { tools } = (await post(message({}, "tools/list"))).body.result;
    const report = tools.find(({ name }: { readonly name: string }) => name === "get_reports_id");
    expect(Object.keys(report.inputSchema.properties)).toEqual(["id", "query", "x-lang"]);
    for (const name of ["x-forwarded-for", "x-payment", "toString", "constructor"]) {
      const { result } = await call("get_reports_id", JSON.parse(`{"id":"1","${name}":"1"}`));
      expect(result.content[0].text).toContain("there is no argument of that name");
    }
  });

  it("stays in the query, in the body, and in its type", async () => {
    const query = { "a&b": "c=d#e", list: [1, 2], "../x": true, "\r\n": "\r\n" };
    const buyer = await richBuyer(chain);
    const asked = await call("get_reports_id", { id: "1", query });
    const payment = await payFor(buyer, asked.result.structuredContent);
    const bought = await call(
      "get_reports_id",
      { id: "1", query },
      { _meta: { [PAYMENT]: payment } },
    );
    const { url } = JSON.parse(bought.result.content[0].text);
    const read = new URL(url, PUBLIC_URL).searchParams;
    expect([...read]).toEqual([
      ["a&b", "c=d#e"],
      ["list", "1"],
      ["list", "2"],
      ["../x", "true"],
      ["\r\n", "\r\n"],
    ]);
  });
});

describe("a message", () => {
  it("is no batch", async () => {
    const paid = JSON.parse(message({ name: "get_reports_id", arguments: { id: "1" } }));
    const free = { jsonrpc: "2.0", id: 2, method: "tools/list" };
    for (const batch of [[], [paid], [free, paid]]) {
      const told = await post(JSON.stringify(batch));
      expect(told).toMatchObject({ status: 400, body: { error: { code: -32_600 } } });
      expect(told.body.error.message).toContain("batches are not taken");
    }
  });

  it("is bounded in its size, however that is told", async () => {
    const large = message({
      name: "post_notes",
      arguments: { body: "x".repeat(10 * 1024 * 1024) },
    });
    const refused = await post(large).catch((cause: unknown) => cause);
    // The rest of it is not read: who still writes it may see its connection end.
    if (!(refused instanceof Error)) expect(refused).toMatchObject({ status: 413 });
    expect(await postInPieces(large)).toBe(413);
    const most = message({
      name: "post_notes",
      arguments: { body: "x".repeat(MAX_MESSAGE_BYTES - 200) },
    });
    expect((await post(most)).body.result.structuredContent).toMatchObject({ x402Version: 2 });
  });

  it("is bounded in its depth", async () => {
    const nested = (levels: number): string => {
      const value = "[".repeat(levels) + "]".repeat(levels);
      return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"post_notes","arguments":{"body":${value}}}}`;
    };
    expect((await post(nested(MAX_MESSAGE_DEPTH - 4))).status).toBe(200);
    for (const levels of [MAX_MESSAGE_DEPTH, 100_000]) {
      expect(await post(nested(levels))).toMatchObject({
        status: 400,
        body: { error: { code: -32_600 } },
      });
    }
  });

  it("is bounded in what it holds beside its arguments and its payment", async () => {
    const many = (count: number) => {
      return Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 1]));
    };
    const clientInfo = { name: "a", version: "1" };
    const begin = (experimental: object) => {
      const params = { protocolVersion: "2025-06-18", capabilities: { experimental }, clientInfo };
      return post(message(params, "initialize"));
    };
    // Each of them is named in what the official server says of it.
    expect((await begin(many(100))).body).toMatchObject({ id: 1 });
    const refused = { status: 400, body: { error: { code: -32_600 } } };
    expect(await begin(many(MAX_MESSAGE_VALUES))).toMatchObject(refused);
    const list = { _meta: many(MAX_MESSAGE_VALUES) };
    expect(await post(message(list, "tools/list"))).toMatchObject(refused);
    const wide = { name: "post_notes", arguments: many(MAX_MESSAGE_VALUES) };
    expect(await post(message(wide))).toMatchObject(refused);
    const odd = { name: "post_notes", arguments: { body: 1 }, _meta: { "x402/other": many(300) } };
    expect(await post(message(odd))).toMatchObject(refused);
    const paid = { _meta: { [PAYMENT]: { x402Version: 2, extensions: many(9_000) } } };
    const large = { name: "post_notes", arguments: { body: many(9_000) } };
    expect((await post(message(large))).body.result.structuredContent.x402Version).toBe(2);
    expect((await post(message({ ...large, ...paid }))).body).toMatchObject(refused.body);
    const huge = { name: "post_notes", arguments: { body: many(MAX_ALL_VALUES) } };
    expect(await post(message(huge))).toMatchObject(refused);
    const paidFor = { name: "get_files", arguments: { rest: "a" }, ...paid };
    expect((await post(message(paidFor))).body.result.isError).toBe(true);
  });

  it("calls nothing as a notification, and nothing that is no tool", async () => {
    const before = gateway.upstream.length;
    const notification = JSON.stringify({
      jsonrpc: "2.0",
      method: "tools/call",
      params: { name: "get_reports_id", arguments: { id: "1" } },
    });
    expect((await post(notification)).body).toBeNull();
    for (const name of [
      "GET_REPORTS_ID",
      "get_reports_secret",
      "get_health",
      "__proto__",
      "",
      "get_reports_id ",
    ]) {
      expect((await call(name, { id: "1" })).error.code).toBe(-32_602);
    }
    expect(gateway.upstream.length).toBe(before);
  });

  it("says the same in its head and its body, in the newest revision", async () => {
    const params = {
      name: "get_files",
      arguments: { rest: "a" },
      _meta: {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
      },
    };
    const head = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call" };
    expect((await post(message(params), { ...head, "mcp-name": "get_files" })).status).toBe(200);
    expect((await post(message(params), { ...head, "mcp-name": "get_reports_id" })).status).toBe(
      400,
    );
    expect((await post(message(params), { ...head, "mcp-method": "tools/list" })).status).toBe(400);
  });

  it("has a type and a method, and no stream is ever open", async () => {
    expect((await post("{}", { "content-type": "text/plain" })).status).toBe(415);
    expect(await post("{")).toMatchObject({ status: 400, body: { error: { code: -32_700 } } });
    for (const method of ["GET", "DELETE", "PUT"]) {
      const answer = await fetch(`${gateway.url}/mcp`, { method, headers: HEAD });
      expect(answer.status).toBe(405);
      expect(answer.headers.get("allow")).toBe("POST");
    }
    const listen = message({ notifications: { toolsListChanged: true } }, "subscriptions/listen");
    expect((await post(listen)).body.error.code).toBeLessThan(0);
  });

  it("comes from no page of another origin", async () => {
    const list = message({}, "tools/list");
    for (const origin of ["https://evil.example", "null", `${PUBLIC_URL}.evil.example`]) {
      expect((await post(list, { origin })).status).toBe(403);
    }
    expect((await post(list, { origin: PUBLIC_URL })).status).toBe(200);
  });
});

test("a payment in a header of the message pays for nothing", async () => {
  const buyer = await richBuyer(chain);
  const asked = await call("get_files", { rest: "a" });
  const { extensions: _, ...payment } = Object(await payFor(buyer, asked.result.structuredContent));
  const header = Buffer.from(JSON.stringify(payment)).toString("base64");
  const told = await post(message({ name: "get_files", arguments: { rest: "a" } }), {
    "payment-signature": header,
  });
  expect(told.body.result).toMatchObject({ isError: true, structuredContent: { x402Version: 2 } });
  // It was a good one.
  const meta = { _meta: { [PAYMENT]: payment } };
  expect((await call("get_files", { rest: "a" }, meta)).result.isError).toBeUndefined();
});

test("each host has tools of its own, and a reload has others", async () => {
  const more = `mcp: true\nhosts: { b.example: { routes: { GET /b: $0.02 } }, c.example: { mcp: false, routes: { GET /c: $0.02 } } }`;
  const shops = await startGateway({ chain, routes: "\n  GET /a: $0.01\n", more });
  await using _ = shops;
  const names = async (host: string) => {
    const { status, text } = await postTo(shops.url, host, message({}, "tools/list"));
    return status === 200
      ? [...text.matchAll(/"name":"(get_\w+)"/g)].map(([, name]) => name)
      : status;
  };
  expect(await names("localhost")).toEqual(["get_a"]);
  expect(await names("b.example")).toEqual(["get_b"]);
  expect(await names("c.example")).toBe(404);
  const { text } = await postTo(shops.url, "b.example", message({ name: "get_b", arguments: {} }));
  expect(text).toContain('"amount":"20000"');
  expect(await shops.reroute("\n  GET /z: $0.01\n")).toBe(true);
  expect(await names("localhost")).toEqual(["get_z"]);
});

test("several processes serve the same tools", async () => {
  const shop = await startGateway({
    chain,
    routes: "\n  GET /a: $0.01\n",
    more: "mcp: true\nworkers: 2",
  });
  await using _ = shop;
  const body = message({ name: "get_a", arguments: {} });
  const asked = JSON.parse(
    /^data: (.*)$/m.exec((await postTo(shop.url, "localhost", body)).text)?.[1] ?? "",
  );
  const payment = await payFor(await richBuyer(chain), asked.result.structuredContent);
  const paid = message({ name: "get_a", arguments: {}, _meta: { [PAYMENT]: payment } });
  const { text } = await postTo(shop.url, "localhost", paid);
  expect(text).toContain('"x402/payment-response":{"success":true');
});

test("who asks without paying is limited by his address, as over HTTP", async () => {
  const limited = await startGateway({
    chain,
    routes: "\n  GET /a: { price: $0.01, description: A }\n",
    more: "mcp: true\nlimits: { unpaidPerIp: 3/m }",
  });
  await using _ = limited;
  const body = message({ name: "get_a", arguments: {} });
  const asked = Array.from({ length: 5 }, async () => {
    const init = { method: "POST", headers: HEAD, body };
    return (await fetch(`${limited.url}/mcp`, init)).text();
  });
  const told = await Promise.all(asked);
  const refused = told.filter((text) => text.includes("too many requests"));
  expect(refused.length).toBeGreaterThan(0);
  expect((await fetch(`${limited.url}/a`)).status).toBe(429);
  // What prices there are is asked as a price is.
  for (const method of ["initialize", "tools/list", "ping"]) {
    const init = { method: "POST", headers: HEAD, body: message({}, method) };
    const answer = await fetch(`${limited.url}/mcp`, init);
    expect([answer.status, answer.headers.has("retry-after")]).toEqual([429, true]);
  }
  // Who pays is never limited by it.
  const account = await richBuyer(chain);
  const first = told.find((text) => text.includes("x402Version")) ?? "";
  const asking = JSON.parse(/^data: (.*)$/m.exec(first)?.[1] ?? first).result.structuredContent;
  const meta = { _meta: { [PAYMENT]: await payFor(account, asking) } };
  const paid = message({ name: "get_a", arguments: {}, ...meta });
  const init = { method: "POST", headers: HEAD, body: paid };
  expect(await (await fetch(`${limited.url}/mcp`, init)).text()).toContain('"success":true');
});

/** By another name than that of the address. */
function postTo(
  url: string,
  host: string,
  body: string,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { ...HEAD, host, "content-length": Buffer.byteLength(body) };
    const request = httpRequest(`${url}/mcp`, { method: "POST", headers }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part: string) => (text += part));
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text }));
    });
    request.on("error", reject);
    request.end(body);
  });
}

/** Chunked: nothing tells how much is coming. */
function postInPieces(body: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      `${gateway.url}/mcp`,
      { method: "POST", headers: HEAD },
      (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
        request.destroy();
      },
    );
    request.on("error", reject);
    request.write(body.slice(0, body.length / 2));
    request.end(body.slice(body.length / 2));
  });
}

test("large messages whose calls wait take no more than they all may, and leave small ones alone", async () => {
  const letGo: (() => void)[] = [];
  await using busy = await startGateway({
    chain,
    more: "mcp: { path: /mcp }\ntrustedProxies: [127.0.0.1]",
    routes: `
  POST /notes: { price: $0.01, free: 1000/d by address, input: { bodyType: json } }\n`,
    backend: (request, response) => {
      request.resume().on("end", () => letGo.push(() => response.end("noted")));
    },
  });
  const ask = async (address: number, letters: number): Promise<number> => {
    const body = message({ name: "post_notes", arguments: { body: { a: "x".repeat(letters) } } });
    const headers = { ...HEAD, "x-forwarded-for": `198.51.${address}.1` };
    const answer = await fetch(`${busy.url}/mcp`, { method: "POST", headers, body });
    await answer.body?.cancel();
    return answer.status;
  };
  // As many as fit, from many addresses, and some more.
  const fitting = Math.floor(MAX_HELD_BYTES_OF_ALL / (MAX_MESSAGE_BYTES - 1_024));
  const large = Array.from({ length: fitting }, (_, at) => ask(at, MAX_MESSAGE_BYTES - 1_100));
  await expect.poll(() => letGo.length, { timeout: 30_000 }).toBe(fitting);
  expect(await ask(200, MAX_MESSAGE_BYTES - 1_100)).toBe(503);
  const small = ask(201, 10);
  await expect.poll(() => letGo.length).toBe(fitting + 1);
  for (const each of letGo) each();
  expect(await small).toBe(200);
  expect(new Set(await Promise.all(large))).toEqual(new Set([200]));
});
