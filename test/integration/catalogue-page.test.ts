import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseConfig } from "../../src/config/config.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { FeePayerNews } from "../../src/app/start-order.ts";
import { documentPaths, Publications } from "../../src/publishing/publishing.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";

const ROUTES = `
  GET /weather: { price: $0.01, description: Current weather, metadata: { provider: Øresund } }
  GET /reports/:id: { price: $0.25, description: A report on <anything> }
  POST /hidden: { price: $0.25, discoverable: false }
  GET /health: free
`;

let chain: Chain;
let gateway: RunningGateway;
let url = "";

beforeAll(async () => {
  chain = await startChain();
  gateway = await startGateway({ chain, routes: ROUTES, more: "discovery: { page: /catalogue }" });
  url = `${gateway.url}/catalogue`;
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
});

const patterns = (page: string): readonly string[] =>
  [...page.matchAll(/<h3>.*?<code>([^<]*)<\/code>(?:<\/a>)?<\/h3>/g)].map(
    ([, pattern = ""]) => pattern,
  );

const found = async (query: string) => patterns(await (await fetch(url + query)).text());

describe("the catalogue page", () => {
  test("shows the routes that have a price and are listed, and nothing else", async () => {
    const answer = await fetch(url);
    expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(answer.headers.get("content-security-policy")).toMatch(
      /^default-src 'none'; .*frame-ancestors 'none'/,
    );
    const page = await answer.text();
    expect(patterns(page)).toEqual(["/reports/{id}", "/weather"]);
    expect(page).toContain("A report on &lt;anything&gt;");
    expect(gateway.upstream).toEqual([]);
  });

  test("is searched by its query, in any case and by several words", async () => {
    expect(await found("?q=WEATHER")).toEqual(["/weather"]);
    expect(await found("?q=report+any")).toEqual(["/reports/{id}"]);
    expect(await found("?q=hidden")).toEqual([]);
    expect(await found("?q=!")).toEqual([]);
  });

  test("finds what the listing finds: by the beginnings of words, in metadata as well", async () => {
    for (const query of ["weather", "%C3%98RES", "eather", "rep", "0.25", "anything+report"]) {
      const listing = await fetch(`${gateway.url}/discovery/resources?q=${query}`);
      const { items } = Object(await listing.json());
      const listed = items.map(({ resource }: { resource: string }) =>
        new URL(resource).pathname.replace(":id", "{id}"),
      );
      expect([query, await found(`?q=${query}`)]).toEqual([query, listed]);
    }
    expect(await found("?q=%C3%B8res")).toEqual(["/weather"]);
    expect(await found("?q=%E0%A4%Z&page=-1&page=x")).toEqual([]);
  });

  test("is sent once to who keeps it", async () => {
    const first = await fetch(url);
    const etag = first.headers.get("etag") ?? "";
    expect(first.headers.get("cache-control")).toBe("no-cache");
    const again = await fetch(url, { headers: { "if-none-match": etag } });
    expect([again.status, await again.text()]).toEqual([304, ""]);
    expect((await fetch(`${url}?q=x`, { headers: { "if-none-match": etag } })).status).toBe(200);
  });

  test("shows what is for sale now, as soon as the configuration is another one", async () => {
    const etag = (await fetch(url)).headers.get("etag") ?? "";
    expect(await gateway.reroute("\n  GET /tides: { price: $0.03, description: Tides }\n")).toBe(
      true,
    );
    const changed = await fetch(url, { headers: { "if-none-match": etag } });
    expect([changed.status, patterns(await changed.text())]).toEqual([200, ["/tides"]]);
    expect(await gateway.reroute(ROUTES)).toBe(true);
  });

  test("is read only", async () => {
    const answer = await fetch(url, { method: "POST" });
    expect([answer.status, answer.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    const head = await fetch(url, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
  });
});

describe("the address of the host alone", () => {
  test("leads people to the page, and tells programs what there is", async () => {
    // Not by fetch, which says that it is no navigation.
    const asked = request(gateway.url, { headers: { accept: "text/html,*/*;q=0.8" } }).end();
    const [seen]: IncomingMessage[] = await once(asked, "response");
    seen?.resume();
    const { location, vary } = seen?.headers ?? {};
    expect([seen?.statusCode, location, vary]).toEqual([302, "/catalogue", "Accept"]);
    const told = await fetch(gateway.url);
    expect([told.status, told.headers.get("vary")]).toEqual([200, "Accept, Accept-Encoding"]);
    const links = Object(await told.json());
    expect(links).toMatchObject({
      x402Versions: [1, 2],
      page: "http://localhost:8402/catalogue",
      listing: "http://localhost:8402/discovery/resources",
    });
    expect(links).not.toHaveProperty("openapi");
    expect((await fetch(gateway.url, { method: "POST" })).status).toBe(405);
  });

  test.each([
    ["a route has it", "GET /: free", "deny"],
    ["a route has all paths", "/*: deny", "deny"],
    ["the backend has what no route has", "GET /x: free", "free"],
  ] as const)("is left alone where %s", (_, route, unmatched) => {
    const parsed = parseConfig(
      `publicUrl: https://shop.example.com
upstream: http://localhost:3000
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: ${unmatched}
discovery: { page: /catalogue }
routes: { "${route.split(": ")[0]}": ${route.split(": ")[1]}, GET /sold: $1 }
`,
      { file: "x.yaml", env: {}, readFile: () => "" },
    );
    if (!parsed.ok) throw new Error("refused");
    expect(documentPaths(parsed.config).has("/")).toBe(false);
    expect(documentPaths(parsed.config).has("/catalogue")).toBe(true);
  });
});

test("there is none where the configuration names none", async () => {
  await using closed = await startGateway({ chain, routes: ROUTES });
  for (const path of ["/catalogue", "/"]) {
    expect((await fetch(closed.url + path)).status).toBe(404);
  }
});

describe("10,000 routes", () => {
  const routes = Array.from(
    { length: 10_000 },
    (_, index) =>
      `  GET /products/${index}: { price: $0.01, description: Product number ${index} }`,
  );
  const text = `publicUrl: https://shop.example.com
upstream: http://localhost:3000
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: deny
discovery: { page: /catalogue }
routes:
${routes.join("\n")}
`;
  const pages = { write: (query: string): string => query };

  beforeAll(() => {
    const parsed = parseConfig(text, { file: "x.yaml", env: {}, readFile: () => "" });
    if (!parsed.ok) throw new Error("refused");
    const ground = { changes: new Map<string, number>(), feePayers: new FeePayerNews([]) };
    const { publish } = new Publications(parsed.config, ground);
    pages.write = (query) => publish({ path: "/catalogue", query, ifNoneMatch: undefined }).body;
  });

  test("are shown in portions, each of them once", () => {
    const seen = new Set<string>();
    for (let page = 1; page <= 200; page += 1) {
      const shown = patterns(pages.write(`page=${page}`));
      expect(shown).toHaveLength(50);
      for (const pattern of shown) seen.add(pattern);
    }
    expect(seen.size).toBe(10_000);
    // Behind the last one is the last one.
    expect(pages.write("page=201")).toContain("Page 200 of 200");
    expect(pages.write("page=9999999")).toContain("Page 200 of 200");
  });

  test("are searched without a page growing", () => {
    for (const query of [
      "",
      "q=product",
      `q=${"a".repeat(8_000)}`,
      `q=${"%2B".repeat(1_000)}`,
      "&=&==%%%",
    ]) {
      expect(pages.write(query).length).toBeLessThan(150_000);
    }
    expect(patterns(pages.write("q=number+4321"))).toEqual(["/products/4321"]);
  });
});
