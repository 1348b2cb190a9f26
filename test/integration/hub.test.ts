/**
 * Several gateways, one listing: a facilitator that lists what other gateways sell through it, with the gateways and
 * the chain as they are.
 */
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { wrapFetchWithPayment } from "x402-fetch";
import { useFacilitator } from "x402/verify";
import { readCatalogueWord } from "../../src/facilitator/catalogue-word.ts";
import { decodePaymentHeader } from "../../src/x402/header.ts";
import { present, quote, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { PUBLIC_URL, startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount } from "../support/payer.ts";

const WEATHER = "https://weather.example.com";
const MAPS = "https://maps.example.com/v1";
const SHARED = "shared-token";

const WEATHER_ROUTES = `
  GET /today: { price: $0.01, description: The weather today, mimeType: application/json }
  GET /stations/:id/readings: { price: $0.02, description: Readings of a station, input: { pathParams: { id: { type: string, description: Of the station } } } }
  GET /archive/*: { price: $0.03, description: The archive }
  POST /forecast: { price: $0.04, description: A forecast }
  GET /secret: { price: $0.01, description: Not for everybody, discoverable: false }
`;
const MAPS_ROUTES = `
  GET /tiles/:z: { price: $0.001, description: A tile }
`;
const OWN_ROUTES = `
  GET /own: { price: $0.05, description: Our own }
`;

let chain: Chain;
const payee = freshAccount().address;

interface Hubbed {
  readonly hub: RunningGateway;
  readonly weather: RunningGateway;
  readonly maps: RunningGateway;
}

beforeAll(async () => {
  chain = await startChain();
});

afterAll(() => chain.stop());

function tokenOf(name: string): string {
  return `token-of-${name}`;
}

interface HubSetup {
  readonly storePath?: string;
  readonly catalogue?: string;
  readonly routes?: string;
}

function startHub({ storePath, catalogue = "{}", routes = OWN_ROUTES }: HubSetup = {}) {
  const facilitator = `
  listen: 127.0.0.1:0
  auth:
    bearer: ${SHARED}
    gateways:
      weather: { bearer: ${tokenOf("weather")}, urls: ["${WEATHER}"] }
      maps: { bearer: ${tokenOf("maps")}, urls: ["${MAPS}"] }
      quiet: { bearer: ${tokenOf("quiet")} }
  catalogue: ${catalogue}
  embedded:
    networks:
      ${chain.network.name}: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
`;
  const stored = storePath === undefined ? {} : { storePath };
  return startGateway({ chain, payee, routes, facilitator, ...stored });
}

interface SellerSetup {
  readonly hub: RunningGateway;
  readonly token: string;
  readonly publicUrl: string;
  readonly routes: string;
}

function startSeller({ hub, token, publicUrl, routes }: SellerSetup) {
  const facilitator = `
  remote:
    - { url: "${hub.facilitatorUrl}", headers: { Authorization: "Bearer ${token}" } }
`;
  return startGateway({ chain, payee, publicUrl, routes, facilitator });
}

async function buy(url: string, init: RequestInit = {}): Promise<void> {
  const buyer = await richBuyer(chain);
  const answer = await present(url, await sign(buyer, url, { init }), init);
  expect([answer.status, answer.receipt?.["success"]]).toEqual([200, true]);
}

async function listed(base: string, query = "", token: string | null = null) {
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  const response = await fetch(`${base}/discovery/resources${query}`, { headers });
  const body = Object(await response.json());
  expect(response.status).toBe(200);
  return body.items as readonly Item[];
}

interface Item {
  readonly resource: string;
  readonly accepts: readonly Record<string, unknown>[];
  readonly metadata?: Record<string, unknown>;
  readonly lastUpdated: number;
}

const names = (items: readonly Item[]): readonly string[] => items.map(({ resource }) => resource);

describe("what gateways sell through a facilitator", () => {
  let place: Hubbed;

  beforeEach(async () => {
    const hub = await startHub();
    const [weather, maps] = await Promise.all([
      startSeller({ hub, token: tokenOf("weather"), publicUrl: WEATHER, routes: WEATHER_ROUTES }),
      startSeller({ hub, token: tokenOf("maps"), publicUrl: MAPS, routes: MAPS_ROUTES }),
    ]);
    place = { hub, weather, maps };
  });

  afterEach(async () => {
    await Promise.all([place.weather, place.maps].map((gateway) => gateway[Symbol.asyncDispose]()));
    await place.hub[Symbol.asyncDispose]();
  });

  test("is listed beside its own routes once it was sold, on both of its listeners", async () => {
    const { hub, weather, maps } = place;
    expect(names(await listed(hub.url))).toEqual([`${PUBLIC_URL}/own`]);
    const pay = wrapFetchWithPayment(fetch, (await richBuyer(chain)).account);
    expect((await pay(`${weather.url}/today`, { method: "GET" })).status).toBe(200);
    await buy(`${maps.url}/tiles/7`);
    const before = Math.floor(Date.now() / 1000) - 60;
    const items = await listed(hub.url);
    expect(names(items)).toEqual([`${PUBLIC_URL}/own`, `${MAPS}/tiles/:z`, `${WEATHER}/today`]);
    expect(await listed(hub.facilitatorUrl, "", SHARED)).toEqual(items);
    expect(await listed(hub.facilitatorUrl, "", tokenOf("maps"))).toEqual(items);
    // As the gateway itself lists it, but for when it noticed a change.
    const [own] = await listed(weather.url, "?q=today");
    const [, , today] = items;
    expect(today).toEqual({ ...own, lastUpdated: expect.any(Number) });
    expect(today?.lastUpdated).toBeGreaterThan(before);
    const [tiles] = await listed(maps.url);
    expect(items[1]).toEqual({ ...tiles, lastUpdated: expect.any(Number) });
    // The filters find it as they find our own.
    expect(names(await listed(hub.url, "?q=tile"))).toEqual([`${MAPS}/tiles/:z`]);
    expect(names(await listed(hub.url, "?maxPrice=$0.01"))).toEqual([
      `${MAPS}/tiles/:z`,
      `${WEATHER}/today`,
    ]);
    expect(names(await listed(hub.url, "?metadata[routeTemplate]=/v1/tiles/:z"))).toHaveLength(1);
    const client = useFacilitator({ url: hub.url as `http://${string}` });
    expect((await client.list({ limit: 2 })).items).toHaveLength(2);
  });

  test("is one entry for a route with parameters, and says nothing of buyers", async () => {
    const { hub, weather } = place;
    await buy(`${weather.url}/stations/alice/readings?key=private`);
    await buy(`${weather.url}/stations/bob/readings`);
    await buy(`${weather.url}/archive/2020/carol?q=private`);
    await buy(`${weather.url}/today?name=private`);
    const items = await listed(hub.url, "?limit=100");
    expect(names(items)).toEqual([
      `${PUBLIC_URL}/own`,
      `${WEATHER}/archive/*`,
      `${WEATHER}/stations/:id/readings`,
      `${WEATHER}/today`,
    ]);
    expect(JSON.stringify(items)).not.toMatch(/alice|bob|carol|private/);
    expect(items[2]?.metadata).toEqual({
      routeTemplate: "/stations/:id/readings",
      uriTemplate: `${WEATHER}/stations/{id}/readings`,
      pathParams: { id: { type: "string", description: "Of the station" } },
    });
    expect(items[1]?.metadata?.["uriTemplate"]).toBe(`${WEATHER}/archive/{+rest}`);
  });

  test("is one entry for each method, and none where it is not discoverable", async () => {
    const { hub, weather } = place;
    await buy(`${weather.url}/forecast`, { method: "POST", body: "{}" });
    await buy(`${weather.url}/secret`);
    const [, forecast, ...others] = await listed(hub.url);
    expect(others).toEqual([]);
    expect(forecast?.resource).toBe(`${WEATHER}/forecast`);
    expect(Object(forecast?.accepts[0]?.["outputSchema"]).input.method).toBe("POST");
  });

  test("follows its terms with the next sale, with the time of that change", async () => {
    const { hub, weather } = place;
    await buy(`${weather.url}/today`);
    const [, before] = await listed(hub.url);
    const tag = (await fetch(`${hub.url}/discovery/resources`)).headers.get("etag");
    await buy(`${weather.url}/today`);
    expect(await listed(hub.url)).toHaveLength(2);
    const again = await fetch(`${hub.url}/discovery/resources`, {
      headers: { "If-None-Match": tag ?? "" },
    });
    expect(again.status).toBe(304);
    expect(await weather.reroute(WEATHER_ROUTES.replace("$0.01", "$0.015"))).toBe(true);
    expect((await listed(hub.url))[1]).toEqual(before);
    await expect
      .poll(() => Math.floor(Date.now() / 1000))
      .toBeGreaterThan(before?.lastUpdated ?? 0);
    await buy(`${weather.url}/today`);
    const [, after] = await listed(hub.url);
    expect(after?.accepts[0]?.["maxAmountRequired"]).toBe("15000");
    expect(after?.lastUpdated).toBeGreaterThan(before?.lastUpdated ?? 0);
  });

  test("is not believed in anything but the listing", async () => {
    const { hub, weather } = place;
    await buy(`${weather.url}/today`);
    expect((await quote(`${hub.url}/own`)).maxAmountRequired).toBe("50000");
    expect((await fetch(`${hub.url}/today`)).status).toBe(404);
    for (const path of ["/.well-known/x402", "/llms.txt", "/openapi.json"]) {
      expect(await (await fetch(hub.url + path)).text()).not.toContain("weather.example.com");
    }
  });

  test("is counted in the metrics", async () => {
    const { hub, weather } = place;
    await buy(`${weather.url}/today`);
    const metrics = await (await fetch(`${hub.adminUrl}/metrics`)).text();
    expect(metrics).toContain('coinslot_catalogue_resources{gateway="weather"} 1\n');
    expect(metrics).toContain('coinslot_catalogue_resources{gateway="maps"} 0\n');
  });
});

describe("who is not let in, or may not speak for a URL, lists nothing", () => {
  let hub: RunningGateway;
  let seller: RunningGateway;

  beforeAll(async () => {
    hub = await startHub();
    seller = await startSeller({ hub, token: SHARED, publicUrl: WEATHER, routes: WEATHER_ROUTES });
  });

  afterAll(async () => {
    await seller[Symbol.asyncDispose]();
    await hub[Symbol.asyncDispose]();
  });

  /** What `/settle` of the hub answers to a payment for that path of the seller, sent under a token. */
  async function settle(path: string, token: string | null, changes: object = {}) {
    const url = seller.url + path;
    const header = decodePaymentHeader(await sign(await richBuyer(chain), url));
    if (!header.ok) throw new Error("a payment");
    const requirements = await quote(url);
    const authorization = token === null ? {} : { Authorization: `Bearer ${token}` };
    const response = await fetch(`${hub.facilitatorUrl}/settle`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...authorization },
      body: JSON.stringify({
        x402Version: 1,
        paymentPayload: header.value,
        paymentRequirements: { ...requirements, ...changes },
      }),
    });
    const body = Object(await response.json());
    const word = readCatalogueWord(response.headers.get("extension-responses"));
    return { status: response.status, success: body.success, word };
  }

  const total = async (): Promise<number> => (await listed(hub.url, "?limit=100")).length - 1;

  test.each([
    ["no token", null],
    ["a wrong one", "wrong"],
    ["one that only begins like one of them", tokenOf("weather").slice(0, -1)],
    ["one with more behind it", `${tokenOf("weather")} `.padEnd(60, "x")],
  ])("with %s: 401", async (_, token) => {
    expect(await settle("/today", token)).toMatchObject({ status: 401, word: undefined });
    expect(await total()).toBe(0);
    const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
    const listing = await fetch(`${hub.facilitatorUrl}/discovery/resources`, { headers });
    expect([listing.status, await listing.json()]).toEqual([
      401,
      { error: "a bearer token is required" },
    ]);
  });

  test.each([
    ["a token that is no gateway's", SHARED, undefined],
    ["a gateway without URLs", tokenOf("quiet"), undefined],
    [
      "another gateway's token",
      tokenOf("maps"),
      { status: "rejected", reason: "resource is under no URL that this gateway may list" },
    ],
  ])("with %s: it is settled, and not listed", async (_, token, word) => {
    expect(await settle("/today", token)).toEqual({ status: 200, success: true, word });
    expect(await total()).toBe(0);
  });

  const input = { type: "http", method: "GET", discoverable: true };
  test.each([
    ["no word of being discoverable", { outputSchema: {} }],
    [
      "discoverable that is only nearly true",
      { outputSchema: { input: { ...input, discoverable: "true" } } },
    ],
    ["another type", { outputSchema: { input: { ...input, type: "mcp" } } }],
    ["a method that is none", { outputSchema: { input: { ...input, method: "GET /x" } } }],
    ["a host that only begins like ours", { resource: `${WEATHER}.evil.example/today` }],
    ["a way out of our path", { resource: `${WEATHER}@evil.example/today` }],
    ["a script in place of a URL", { resource: "javascript:alert(1)" }],
    [
      "a template of something else",
      { outputSchema: { input: { ...input, routeTemplate: "/else/:id" } } },
    ],
    ["a template with a query", { outputSchema: { input: { ...input, routeTemplate: "/:id?x" } } }],
    ["a URL without end", { resource: `${WEATHER}/${"x".repeat(3_000)}` }],
    [
      "terms without end",
      { outputSchema: { input: { ...input, queryParams: { x: "y".repeat(9_000) } } } },
    ],
  ])("with %s: it is settled, not listed, and the seller hears why", async (_, changes) => {
    const answer = await settle("/today", tokenOf("weather"), changes);
    expect(answer).toMatchObject({ status: 200, success: true, word: { status: "rejected" } });
    expect(answer.word?.reason).toMatch(/^\S.{10,80}$/);
    expect(await total()).toBe(0);
  });

  test("with a payment that is refused", async () => {
    const answer = await settle("/today", tokenOf("weather"), { maxAmountRequired: "999999" });
    expect(answer).toEqual({ status: 200, success: false, word: undefined });
    expect(await total()).toBe(0);
  });

  test("and with everything in order it is listed, under the URL as URLs are written", async () => {
    const resource = `HTTPS://WEATHER.example.com:443/a/../%41?x=1#y`;
    const answer = await settle("/today", tokenOf("weather"), { resource });
    expect(answer).toEqual({
      status: 200,
      success: true,
      word: { status: "success", reason: undefined },
    });
    expect(names(await listed(hub.url)).at(-1)).toBe(`${WEATHER}/%41`);
  });
});

describe("the listing of a facilitator", () => {
  const folder = join(tmpdir(), `coinslot-hub-${randomUUID()}`);

  afterAll(() => rm(folder, { recursive: true, force: true }));

  test("is what it was after a restart, without what has expired and whom it does not know any more", async () => {
    const storePath = join(folder, "a.db");
    const catalogue = "{ expires: 4s }";
    {
      await using hub = await startHub({ storePath });
      await using seller = await startSeller({
        hub,
        token: tokenOf("weather"),
        publicUrl: WEATHER,
        routes: WEATHER_ROUTES,
      });
      await buy(`${seller.url}/today`);
    }
    let first: readonly Item[];
    {
      await using hub = await startHub({ storePath });
      first = await listed(hub.url);
      expect(names(first)).toEqual([`${PUBLIC_URL}/own`, `${WEATHER}/today`]);
    }
    await using hub = await startHub({ storePath, catalogue });
    await expect
      .poll(async () => names(await listed(hub.url)), { timeout: 10_000 })
      .toEqual([`${PUBLIC_URL}/own`]);
    await using seller = await startSeller({
      hub,
      token: tokenOf("weather"),
      publicUrl: WEATHER,
      routes: WEATHER_ROUTES,
    });
    await buy(`${seller.url}/today`);
    expect(names(await listed(hub.url))).toHaveLength(2);
    await expect
      .poll(async () => names(await listed(hub.url)), { timeout: 10_000 })
      .toEqual([`${PUBLIC_URL}/own`]);
  });

  test("is open to everybody where the file says so, and nothing else is", async () => {
    await using hub = await startHub({ catalogue: "{ public: true }" });
    expect(names(await listed(hub.facilitatorUrl))).toEqual([`${PUBLIC_URL}/own`]);
    expect((await fetch(`${hub.facilitatorUrl}/supported`)).status).toBe(401);
    for (const path of ["/verify", "/settle"]) {
      expect((await fetch(hub.facilitatorUrl + path, { method: "POST" })).status).toBe(401);
    }
  });

  test("has so many resources of a gateway: the one that was sold longest ago makes room", async () => {
    await using hub = await startHub({ catalogue: "{ resources: 2 }" });
    await using seller = await startSeller({
      hub,
      token: tokenOf("weather"),
      publicUrl: WEATHER,
      routes: WEATHER_ROUTES,
    });
    await buy(`${seller.url}/today`);
    await buy(`${seller.url}/archive/1`);
    await buy(`${seller.url}/today`);
    await buy(`${seller.url}/stations/1/readings`);
    expect(names(await listed(hub.url))).toEqual([
      `${PUBLIC_URL}/own`,
      `${WEATHER}/stations/:id/readings`,
      `${WEATHER}/today`,
    ]);
  });
});
