/** What is found in listings that may be anybody's, and how much of it is told. */
import { createServer, type RequestListener } from "node:http";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readSeller, type AllowedSeller } from "../../../../src/buyer/agent/allowance.ts";
import { searchSold } from "../../../../src/buyer/agent/search.ts";
import { drain, listen } from "../../../../src/gateway/listener/listener.ts";

let closing: AsyncDisposableStack;

beforeEach(() => {
  closing = new AsyncDisposableStack();
});

afterEach(() => closing.disposeAsync());

/** Its origin, and the paths that it was asked for. */
async function serve(answers: RequestListener): Promise<{ origin: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    answers(request, response);
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(server, AbortSignal.abort()));
  return { origin: `http://127.0.0.1:${port}`, asked };
}

const json =
  (body: unknown): RequestListener =>
  (_, response) =>
    void response.setHeader("Content-Type", "application/json").end(JSON.stringify(body));

function named(...names: readonly string[]): readonly AllowedSeller[] {
  return names.flatMap((name) => {
    const seller = readSeller(name, null);
    return seller.ok ? [seller.value] : [];
  });
}

async function search(
  words: string,
  listings: readonly string[],
  sellers: readonly AllowedSeller[] = [],
) {
  const { signal } = new AbortController();
  return searchSold({ words, listings: listings.map((url) => new URL(url)), sellers, signal });
}

const offer = {
  scheme: "exact",
  network: "base",
  maxAmountRequired: "10000",
  asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  maxTimeoutSeconds: 60,
};

const entry = (resource: string, description: string) => ({
  resource,
  type: "http",
  x402Version: 1,
  accepts: [{ ...offer, description, outputSchema: { input: { method: "post" } } }],
});

test("entries of either version are read, those of allowed sellers first, and each one once", async () => {
  const newer = {
    resource: { url: "https://api.new.example.com/b", description: "Weather in words" },
    type: "mcp",
    x402Version: 2,
    accepts: [{ ...offer, network: "eip155:8453", amount: "20000" }],
    extensions: { bazaar: { info: { input: { type: "mcp", toolName: "say" } } } },
  };
  const items = [
    entry("https://a.example.com/weather", "Weather"),
    entry("https://a.example.com/weather", "Weather"),
    newer,
    entry("https://c.example.com/news", "News"),
  ];
  const { origin, asked } = await serve(json({ items }));
  const { found, faults } = await search("weather", [origin], named("*.new.example.com"));
  expect(faults).toEqual([]);
  expect(asked).toEqual(["/discovery/resources?q=weather"]);
  expect(found).toEqual([
    {
      url: "https://api.new.example.com/b",
      type: "mcp",
      method: "",
      prices: ["$0.02 USDC on base"],
      description: "Weather in words",
      input: { type: "mcp", toolName: "say" },
      isAllowed: true,
    },
    {
      url: "https://a.example.com/weather",
      type: "http",
      method: "POST",
      prices: ["$0.01 USDC on base"],
      description: "Weather",
      input: { method: "post" },
      isAllowed: false,
    },
  ]);
});

test("a seller's own document leads to its own listing, wherever it says that this is", async () => {
  const items = [entry("https://a.example.com/x", "X")];
  const { origin, asked } = await serve((request, response) =>
    json(
      request.url === "/.well-known/x402"
        ? { listing: "https://evil.example.com/theirs?all=1" }
        : { items },
    )(request, response),
  );
  const { found } = await search("", [], named(new URL(origin).host));
  expect(asked).toEqual(["/.well-known/x402", "/theirs?all=1"]);
  expect(found).toHaveLength(1);
});

test("what is odd, hostile or too much is passed over, cut or told as a fault", async () => {
  const long = `\u001b[31m${"a ".repeat(500)}\u202e`;
  const odd = [null, 1, "x", {}, { resource: 1 }, { resource: "no address" }, { resource: {} }];
  const many = Array.from({ length: 500 }, (_, at) => entry(`https://a.example.com/${at}`, long));
  const hostile = await serve(json({ items: [...odd, ...many] }));
  const { found } = await search("", [hostile.origin]);
  expect(found).toHaveLength(20);
  for (const { description } of found) {
    expect(description.length).toBeLessThanOrEqual(300);
    expect(description).not.toContain("\u001b");
    expect(description).not.toContain("\u202e");
  }
  const huge = await serve((_, response) => void response.end("[".repeat(3 * 1024 * 1024)));
  const none = await serve((_, response) => void response.writeHead(500).end());
  const list = await serve(json([1]));
  const text = await serve(json({ items: "none" }));
  const faulty = [huge, none, list, text].map(({ origin }) => origin);
  const told = await search("", faulty);
  expect(told.found).toEqual([]);
  expect(told.faults).toEqual([
    `${huge.origin}/discovery/resources says more than anybody reads`,
    `${none.origin}/discovery/resources answers 500`,
    `${list.origin}/discovery/resources is no JSON`,
    `${text.origin}/discovery/resources is no listing`,
  ]);
});

test("sixteen places are asked, and no more", async () => {
  const { origin, asked } = await serve(json({ items: [] }));
  await search(
    "",
    Array.from({ length: 40 }, () => origin),
  );
  expect(asked).toHaveLength(16);
});

test("a listing that nests without an end spoils its own place, and no other", async () => {
  const item = JSON.stringify(entry("https://a.example.com/weather", "Weather"));
  const deep = `{"items":[${item.replace('"post"', "[".repeat(20_000) + "]".repeat(20_000))}]}`;
  const hostile = await serve((_, response) => void response.end(deep));
  const honest = await serve(json({ items: [entry("https://b.example.com/weather", "Weather")] }));
  const { found, faults } = await search("weather", [hostile.origin, honest.origin]);
  expect(found.map(({ url }) => url)).toEqual(["https://b.example.com/weather"]);
  expect(faults).toEqual([`${hostile.origin}/discovery/resources is nested too deeply`]);
});
