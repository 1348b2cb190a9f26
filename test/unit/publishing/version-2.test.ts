import { HTTPFacilitatorClient } from "@x402/core/http";
import {
  BAZAAR,
  sanitizeResourceServiceMetadata,
  validateDiscoveryExtension,
  withBazaar,
} from "@x402/extensions";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FeePayerNews } from "../../../src/app/start-order.ts";
import { documentPaths, Publications } from "../../../src/publishing/publishing.ts";
import { configOf } from "../app/config-of.ts";

const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const OTHER = "0x857b06519E91e3A54538791bDbb0E22373e36b66";

const config = configOf(
  `
publicUrl: https://api.example.com
payTo: "${PAYEE}"
accept: [base, avalanche]
facilitator: https://facilitator.example.com
upstream: http://localhost:3000
unmatched: deny
paywall: { brand: Example Weather }
discovery: { wellKnown: true, openapi: true, llms: true }
routes:
  GET /weather:
    price: $0.01
    description: The weather of today
    mimeType: application/json
    metadata: { category: weather, tags: [forecast, Weather, "é"] }
    outputSchema: { type: object, properties: { degrees: { type: number } }, example: { degrees: 21 } }
    input: { queryParams: { city: { type: string, required: true, example: Paris } } }
  GET,POST /reports/:id: { price: $0.25, payTo: "${OTHER}", metadata: { provider: Acme } }
  OPTIONS /odd: { price: $0.02, description: The weather of an odd method }
`,
  {},
);
const changes = new Map([["GET /weather", 1_703_123_456]]);
const ground = { changes, feePayers: new FeePayerNews([]) };
const { publish, list } = new Publications(config, ground);

const server = createServer((request, response) => {
  const { pathname, search } = new URL(request.url ?? "", "http://localhost");
  const ifNoneMatch = request.headers["if-none-match"];
  const { status, body, etag } = publish({ path: pathname, query: search.slice(1), ifNoneMatch });
  response.writeHead(status, etag === null ? {} : { ETag: etag }).end(body);
});
let base = "";

beforeAll(async () => {
  await once(server.listen(0, "127.0.0.1"), "listening");
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => {
  server.close();
});

/** The official client, which knows a base URL and no query of ours. */
function bazaar() {
  return withBazaar(new HTTPFacilitatorClient({ url: `${base}/v2` })).extensions.bazaar;
}

const pathOf = ({ resource }: { readonly resource: string }): string => new URL(resource).pathname;

describe("the listing of version 2", () => {
  test("has each resource as the official client reads it", async () => {
    const { x402Version, items, pagination } = await bazaar().listResources();
    expect([x402Version, pagination]).toEqual([2, { limit: 20, offset: 0, total: 3 }]);
    expect(items.map(pathOf)).toEqual(["/odd", "/reports/:id", "/weather"]);
    const [odd, reports, weather] = items;
    expect(weather).toEqual({
      resource: "https://api.example.com/weather",
      type: "http",
      x402Version: 2,
      accepts: [
        {
          scheme: "exact",
          network: "eip155:8453",
          amount: "10000",
          asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
          payTo: PAYEE,
          maxTimeoutSeconds: 60,
          extra: { name: "USD Coin", version: "2", paymentFlow: "upfront" },
        },
        expect.objectContaining({ network: "eip155:43114", amount: "10000" }),
      ],
      lastUpdated: "2023-12-21T01:50:56.000Z",
      description: "The weather of today",
      mimeType: "application/json",
      serviceName: "Example Weather",
      tags: ["forecast", "Weather"],
      extensions: { bazaar: expect.anything() },
      metadata: { category: "weather", tags: ["forecast", "Weather", "é"] },
    });
    expect(reports).toMatchObject({
      serviceName: "Acme",
      extensions: { bazaar: { routeTemplate: "/reports/:id" } },
    });
    expect(odd).not.toHaveProperty("extensions");
    for (const item of items) {
      const { serviceName, tags } = item;
      const said = { ...(serviceName !== undefined && { serviceName }), ...(tags && { tags }) };
      expect(sanitizeResourceServiceMetadata({ url: item.resource, ...said })).toEqual(said);
    }
    for (const item of [reports, weather]) {
      const extension = item?.extensions?.[BAZAAR.key];
      type Extension = Parameters<typeof validateDiscoveryExtension>[0];
      expect(validateDiscoveryExtension(extension as Extension)).toEqual({ valid: true });
    }
  });

  test.each([
    [{ type: "http" }, 3],
    [{ type: "mcp" }, 0],
    [{ payTo: OTHER.toLowerCase() }, 1],
    [{ scheme: "exact" }, 3],
    [{ scheme: "upto" }, 0],
    [{ network: "eip155:43114" }, 3],
    [{ network: "avalanche" }, 3],
    [{ network: "eip155:84532" }, 0],
    [{ extensions: "bazaar" }, 2],
    [{ extensions: "payment-identifier" }, 0],
    [{ extensions: "bazaar", payTo: OTHER, limit: 1 }, 1],
  ])("finds by %j", async (asked, total) => {
    expect((await bazaar().listResources(asked)).pagination.total).toBe(total);
  });

  test("is the one of version 1 with x402Version=2, which has its own body otherwise", () => {
    const newer = publish({
      path: "/v2/discovery/resources",
      query: "limit=2",
      ifNoneMatch: undefined,
    });
    expect(list("x402Version=2&limit=2")).toEqual(newer);
    expect(newer.body).not.toContain("maxAmountRequired");
    expect(list("x402Version=1&limit=2")).toEqual(list("limit=2"));
    expect(list("limit=2").body).not.toContain("eip155");
  });

  test("is not sent again to whoever has it, and has another tag than that of version 1", () => {
    const { etag } = list("", {}, "v2");
    expect(etag).not.toBe(list("").etag);
    expect(list("", { ifNoneMatch: etag ?? "" }, "v2")).toMatchObject({ status: 304, body: "" });
    expect(list("", { ifNoneMatch: etag ?? "" })).toMatchObject({ status: 200 });
  });

  test("takes networks in either spelling in version 1, too", () => {
    expect(list("network=eip155%3A8453")).toEqual(list("network=base"));
    expect(JSON.parse(list("network=base").body).pagination.total).toBe(3);
  });
});

describe("the search of version 2", () => {
  test("is read by the official client, page by page", async () => {
    const first = await bazaar().search({ query: "weather", limit: 1 });
    expect(first).toMatchObject({
      x402Version: 2,
      pagination: { limit: 1, cursor: expect.any(String) },
    });
    const cursor = first.pagination?.cursor ?? "";
    const second = await bazaar().search({ query: "weather", limit: 1, cursor });
    expect([...first.resources, ...second.resources].map(pathOf)).toEqual(["/odd", "/weather"]);
    expect(second.pagination).toEqual({ limit: 1, cursor: null });
    const one = await bazaar().search({ query: "weather", extensions: "bazaar", network: "base" });
    expect(one.resources.map(pathOf)).toEqual(["/weather"]);
    expect((await bazaar().search({ query: "nothing" })).resources).toEqual([]);
  });

  test("is found by clients that know the older base URL, and says whether there is more", async () => {
    const older = withBazaar(new HTTPFacilitatorClient({ url: base })).extensions.bazaar;
    const found = await older.search({ query: "weather", scheme: "exact", limit: 1 });
    expect(found).toMatchObject({ x402Version: 2, partialResults: true });
    expect(found.resources.map(pathOf)).toEqual(["/odd"]);
    const { status, body } = list("q=weather&maxUsdPrice=0.01&sort=price", {}, "search");
    expect([status, JSON.parse(body)]).toEqual([
      200,
      expect.objectContaining({ partialResults: false, resources: [expect.anything()] }),
    ]);
  });

  test.each([
    ["", "query must have a letter or a digit"],
    ["query=%21", "query must have a letter or a digit"],
    ["query=", "query must not be empty"],
    ["query=a&cursor=next", "cursor must be one of an earlier answer"],
    ["query=a&limit=101", "limit must be an integer from 1 to 100"],
  ])("refuses %j", (query, error) => {
    const { status, body } = list(query, {}, "search");
    expect([status, JSON.parse(body)]).toEqual([400, { x402Version: 2, error }]);
  });
});

describe("what is told of a purchase", () => {
  const told = (path: string, spoken = config) =>
    new Publications(spoken, ground).publish({ path, query: "", ifNoneMatch: undefined }).body;
  const v2 = { ...config, protocol: { v1: false, v2: true } };

  test("has a request with the values that are declared, its terms, and a client of that version", () => {
    const older = told("/llms.txt");
    expect(older).toContain("    curl -i 'https://api.example.com/weather?city=Paris'\n");
    expect(older).toContain('      "x402Version": 1,\n');
    expect(older).toContain('"maxAmountRequired": "10000"');
    expect(older).toContain('import { wrapFetchWithPayment } from "x402-fetch";');
    const newer = told("/llms.txt", v2);
    expect(newer).toContain('      "x402Version": 2,\n');
    expect(newer).toContain('"network": "eip155:8453"');
    expect(newer).toContain('import { wrapFetchWithPayment, x402Client } from "@x402/fetch";');
    expect(newer).toContain('pay("https://api.example.com/weather?city=Paris")');
  });

  test("has tags in the OpenAPI document, and a sample of the answer", () => {
    const { paths, tags } = JSON.parse(told("/openapi.json"));
    expect(paths["/weather"].get.tags).toEqual(["forecast", "Weather"]);
    expect(tags).toEqual([{ name: "forecast" }, { name: "Weather" }]);
    const { content } = paths["/weather"].get.responses["200"];
    expect(content["application/json"].example).toEqual({ degrees: 21 });
  });
});

describe("where one version is spoken alone", () => {
  const v1 = { ...config, protocol: { v1: true, v2: false } };
  const v2 = { ...config, protocol: { v1: false, v2: true } };
  const all = (spoken: typeof v1) => {
    const { publish } = new Publications(spoken, ground);
    const paths = ["/discovery/resources", "/.well-known/x402", "/openapi.json", "/llms.txt"];
    return paths
      .map((path) => publish({ path, query: "x402Version=2", ifNoneMatch: undefined }).body)
      .join();
  };

  test("nothing of the other one is published", () => {
    const older = /X-PAYMENT|maxAmountRequired/;
    const newer = /PAYMENT-SIGNATURE|PAYMENT-REQUIRED|eip155|"amount":"\d+",/;
    expect(all(v1)).toMatch(older);
    expect(all(v1)).not.toMatch(newer);
    expect(all(v2)).toMatch(newer);
    expect(all(v2)).not.toMatch(older);
  });

  test("the paths of version 2 are there with it, unless a route has them", () => {
    const newer = ["/v2/discovery/resources", "/v2/discovery/search", "/discovery/search"];
    const served = (spoken: Parameters<typeof documentPaths>[0]) =>
      newer.filter((path) => documentPaths(spoken).has(path));
    expect(served(config)).toEqual(newer);
    expect(served(v2)).toEqual(newer);
    expect(served(v1)).toEqual([]);
    expect(served({ ...config, discovery: { ...config.discovery, listed: false } })).toEqual([]);
    const [route] = config.routes;
    if (route === undefined) throw new Error("no route");
    const shadowing = { ...route, pattern: "/v2/discovery/search" };
    expect(served({ ...config, routes: [shadowing] })).toEqual([newer[0], newer[2]]);
  });
});
