import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DiscoveredResourceSchema } from "x402/types";
import { useFacilitator } from "x402/verify";
import { wrapFetchWithPayment } from "x402-fetch";
import { richBuyer } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { PUBLIC_URL, startGateway, type RunningGateway } from "../support/gateway.ts";

const ROUTES = `
  GET /weather: { price: $0.01, description: Weather, metadata: { category: weather, provider: Acme } }
  GET /reports/:id: { price: $0.25, description: A report, metadata: { category: reports, provider: Acme } }
  POST /hidden: { price: $0.02, description: Not listed, discoverable: false }
  GET /health: free
`;

let chain: Chain;
let gateway: RunningGateway;
const folder = join(tmpdir(), `coinslot-discovery-${randomUUID()}`);

beforeAll(async () => {
  chain = await startChain();
  gateway = await startGateway({ chain, routes: ROUTES, storePath: join(folder, "a.db") });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
  await rm(folder, { recursive: true, force: true });
});

async function list(query = "", base = gateway.url) {
  const response = await fetch(`${base}/discovery/resources${query}`);
  return { status: response.status, body: Object(await response.json()) };
}

const resources = (body: { items: { resource: string }[] }) =>
  body.items.map(({ resource }) => resource.slice(PUBLIC_URL.length));

describe("GET /discovery/resources", () => {
  it("lists the priced, discoverable routes of the configuration, in the shape of section 2.6", async () => {
    const { status, body } = await list();
    expect(status).toBe(200);
    expect(resources(body)).toEqual(["/reports/:id", "/weather"]);
    expect(body.pagination).toEqual({ limit: 20, offset: 0, total: 2 });
    expect(body.items[1]).toEqual({
      resource: `${PUBLIC_URL}/weather`,
      type: "http",
      x402Version: 1,
      accepts: [
        expect.objectContaining({
          scheme: "exact",
          network: "base-sepolia",
          maxAmountRequired: "10000",
          payTo: gateway.payee,
          outputSchema: { input: { type: "http", method: "GET", discoverable: true } },
        }),
      ],
      lastUpdated: expect.any(Number),
      metadata: { category: "weather", provider: "Acme" },
    });
    expect(body.items[0].metadata).toMatchObject({
      routeTemplate: "/reports/:id",
      uriTemplate: `${PUBLIC_URL}/reports/{id}`,
      pathParams: { id: { type: "string", required: true } },
    });
  });

  it("is the same on the facilitator's listener", async () => {
    expect(await list("", gateway.facilitatorUrl)).toEqual(await list());
  });

  it("has no route on either listener where the configuration lists none", async () => {
    const more = "discovery: { listed: false }";
    await using silent = await startGateway({ chain, routes: ROUTES, more });
    expect((await list("", silent.url)).status).toBe(404);
    const { status, body } = await list("?limit=5", silent.facilitatorUrl);
    expect([status, body]).toEqual([
      200,
      { x402Version: 1, items: [], pagination: { limit: 5, offset: 0, total: 0 } },
    ]);
    expect((await list("?limit=0", silent.facilitatorUrl)).status).toBe(400);
  });

  it("is read by the official discovery client, from either listener", async () => {
    for (const base of [gateway.url, gateway.facilitatorUrl]) {
      const { list: listed } = useFacilitator({ url: `http://${new URL(base).host}` });
      const whole = await listed();
      expect(whole.items.map(({ resource }) => resource.slice(PUBLIC_URL.length))).toEqual([
        "/reports/:id",
        "/weather",
      ]);
      const page = await listed({ type: "http", limit: 1, offset: 1 });
      expect(page.pagination).toEqual({ limit: 1, offset: 1, total: 2 });
      expect(page.items[0]?.accepts[0]?.payTo).toBe(gateway.payee);
    }
  });

  it("is given again on the facilitator's listener only if it has changed", async () => {
    const at = `${gateway.facilitatorUrl}/discovery/resources?limit=1`;
    const first = await fetch(at);
    const etag = first.headers.get("etag") ?? "";
    expect([first.status, first.headers.get("cache-control")]).toEqual([200, "no-cache"]);
    await first.text();
    const again = await fetch(at, { headers: { "If-None-Match": etag } });
    expect([again.status, again.headers.get("etag"), await again.text()]).toEqual([304, etag, ""]);
    const whole = `${gateway.facilitatorUrl}/discovery/resources`;
    const packed = await fetch(whole, { headers: { "Accept-Encoding": "gzip" } });
    expect([packed.headers.get("content-encoding"), packed.headers.get("vary")]).toEqual([
      "gzip",
      "Accept-Encoding",
    ]);
    expect(Object(await packed.json()).items).toHaveLength(2);
    const head = await fetch(at, { method: "HEAD" });
    expect([head.status, head.headers.get("etag")]).toEqual([200, etag]);
    const other = await fetch(`${at}&offset=1`, { headers: { "If-None-Match": etag } });
    expect(other.status).toBe(200);
    await other.text();
  });

  it.each([
    ["?network=base-sepolia&maxPrice=$0.05", ["/weather"]],
    ["?payTo=0x0000000000000000000000000000000000000001", []],
    ["?q=REPORT", ["/reports/:id"]],
    ["?type=http", ["/reports/:id", "/weather"]],
    ["?type=mcp", []],
    ["?limit=1", ["/reports/:id"]],
    ["?limit=1&offset=1", ["/weather"]],
    ["?offset=5", []],
    ["?metadata[category]=WEATHER", ["/weather"]],
    ["?metadata%5Bprovider%5D=acme&metadata[category]=reports", ["/reports/:id"]],
    ["?metadata[category]=nothing", []],
    ["?maxUsdPrice=0.05", ["/weather"]],
    ["?scheme=upto", []],
    ["?query=report", ["/reports/:id"]],
    ["?sort=price", ["/weather", "/reports/:id"]],
    ["?sort=price_desc", ["/reports/:id", "/weather"]],
    ["?updatedSince=2100-01-01", []],
  ])("answers %s", async (query, expected) => {
    const { status, body } = await list(query);
    expect([status, resources(body)]).toEqual([200, expected]);
  });

  it.each(["?limit=0", "?limit=101", "?limit=ten", "?limit=1.5", "?offset=-1", "?limit=1&limit=2"])(
    "refuses %s with 400 and a sentence",
    async (query) => {
      const { status, body } = await list(query);
      expect(status).toBe(400);
      expect(body.error).toMatch(/limit|offset/);
    },
  );

  it("refuses what it does not know with the nearest that it does, on either listener", async () => {
    for (const base of [gateway.url, gateway.facilitatorUrl]) {
      const { status, body } = await list("?maxUsdPrise=0.01", base);
      expect([status, body]).toEqual([
        400,
        { x402Version: 1, error: "parameter 1 is not known here; the nearest one is maxUsdPrice" },
      ]);
    }
  });

  it("tells what its own ledger says of each sale, in the form of each version", async () => {
    const storePath = join(folder, "sales.db");
    const routes = `${ROUTES}  GET /broken: { price: $0.01, description: Never delivered }\n`;
    const backend: RequestListener = ({ url }, response) => {
      response.writeHead(url === "/broken" ? 500 : 200).end("sold");
    };
    const setup = { chain, routes, storePath, backend };
    {
      await using shop = await startGateway(setup);
      const { account } = await richBuyer(chain);
      const pay = wrapFetchWithPayment(fetch, account);
      for (const path of ["/weather", "/weather", "/broken"]) {
        await (await pay(`${shop.url}${path}`, {})).text();
      }
    }
    await using again = await startGateway(setup);
    const qualityOf = (item?: { metadata?: Record<string, unknown> }) =>
      item?.metadata?.["quality"];
    await expect
      .poll(async () => qualityOf((await list("?q=weather", again.url)).body.items[0]))
      .toMatchObject({ sales: 2, l30DaysTotalCalls: 2, l30DaysUniquePayers: 1 });
    const { body } = await list("", again.url);
    const [broken, report, weather] = body.items;
    expect(qualityOf(report)).toBeUndefined();
    expect(qualityOf(broken)).toMatchObject({ sales: 1 });
    expect(qualityOf(broken)).not.toHaveProperty("lastDeliveredAt");
    expect(
      DiscoveredResourceSchema.safeParse({ ...weather, lastUpdated: new Date() }).error,
    ).toBeUndefined();
    // What the listing of the newer version has beside the terms, under the name that the largest catalogue gave it.
    const newer = await list("?x402Version=2&q=weather", again.url);
    expect(newer.body.items[0].quality).toEqual(qualityOf(weather));
    expect(newer.body.items[0].metadata).not.toHaveProperty("quality");
    expect(Date.parse(newer.body.items[0].quality.lastDeliveredAt)).toBeLessThan(Date.now());
  });

  it("keeps lastUpdated over a restart, and moves it when the terms change", async () => {
    const storePath = join(folder, "b.db");
    const updated = async (routes: string, at: number): Promise<Map<string, number>> => {
      const realNow = Date.now;
      Date.now = () => at;
      try {
        await using other = await startGateway({ chain, routes, storePath, payee: PAYEE });
        const { body } = await list("", other.url);
        return new Map(
          body.items.map((item: { resource: string; lastUpdated: number }) => [
            item.resource.slice(PUBLIC_URL.length),
            item.lastUpdated,
          ]),
        );
      } finally {
        Date.now = realNow;
      }
    };
    const PAYEE = gateway.payee;
    const now = Math.floor(Date.now() / 1000);
    const first = await updated(ROUTES, now * 1000);
    expect(first.get("/weather")).toBe(now);
    const second = await updated(ROUTES, (now + 10) * 1000);
    expect(second).toEqual(first);
    const third = await updated(ROUTES.replace("$0.01", "$0.03"), (now + 20) * 1000);
    expect(third.get("/weather")).toBe(now + 20);
    expect(third.get("/reports/:id")).toBe(now);
  });
});
