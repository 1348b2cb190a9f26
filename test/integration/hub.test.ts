/**
 * Several gateways, one listing: a facilitator that lists what other gateways sell through it, with the gateways and
 * the chain as they are.
 */
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { wrapFetchWithPayment } from "x402-fetch";
import { useFacilitator } from "x402/verify";
import { readCatalogueWord } from "../../src/facilitator/catalogue-word.ts";
import { decodePaymentHeader } from "../../src/x402/header.ts";
import { quote, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { signedV2 } from "./facilitator/stage.ts";
import { PUBLIC_URL, type RunningGateway } from "../support/gateway.ts";
import {
  buy,
  listed,
  MAPS,
  payee,
  resourcesOf as names,
  SHARED,
  startHub,
  startSeller,
  tokenOf,
  WEATHER,
  WEATHER_ROUTES,
  type Listed,
} from "../support/hub.ts";

const MAPS_ROUTES = `
  GET /tiles/:z: { price: $0.001, description: A tile }
`;

let chain: Chain;

beforeAll(async () => {
  chain = await startChain();
});

afterAll(() => chain.stop());

interface Place {
  readonly hub: RunningGateway;
  readonly weather: RunningGateway;
  readonly maps: RunningGateway;
}

function methodOf(item: Listed | undefined): unknown {
  return Object(item?.accepts[0]?.["outputSchema"]).input.method;
}

describe("what gateways sell through a facilitator", () => {
  let place: Place;

  beforeEach(async () => {
    const hub = await startHub({ chain });
    const { facilitatorUrl } = hub;
    const tiles = { token: tokenOf("maps"), publicUrl: MAPS, routes: MAPS_ROUTES };
    const [weather, maps] = await Promise.all([
      startSeller({ chain, facilitatorUrl }),
      startSeller({ chain, facilitatorUrl, ...tiles }),
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
    await buy(chain, `${maps.url}/tiles/7`);
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
    await buy(chain, `${weather.url}/stations/alice/readings?key=private`);
    await buy(chain, `${weather.url}/stations/bob/readings`);
    await buy(chain, `${weather.url}/archive/2020/carol?q=private`);
    await buy(chain, `${weather.url}/today?name=private`);
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
    await buy(chain, `${weather.url}/forecast`, { method: "POST", body: "{}" });
    await buy(chain, `${weather.url}/secret`);
    const [, forecast, ...others] = await listed(hub.url);
    expect(others).toEqual([]);
    expect(forecast?.resource).toBe(`${WEATHER}/forecast`);
    expect(Object(forecast?.accepts[0]?.["outputSchema"]).input.method).toBe("POST");
  });

  test("is told apart by the method of the sale, also where a route takes any", async () => {
    const { hub, weather } = place;
    const routes = `
  /any: { price: $0.01, description: Any method }
  GET,POST /both: { price: $0.01, description: Two methods }
`;
    expect(await weather.reroute(routes)).toBe(true);
    await buy(chain, `${weather.url}/any`, { method: "PUT", body: "{}" });
    await buy(chain, `${weather.url}/both`, { method: "POST", body: "{}" });
    const [, any, both] = await listed(hub.url);
    expect([methodOf(any), methodOf(both)]).toEqual(["PUT", "POST"]);
  });

  test("follows its terms with the next sale, with the time of that change", async () => {
    const { hub, weather } = place;
    await buy(chain, `${weather.url}/today`);
    const [, before] = await listed(hub.url);
    const tag = (await fetch(`${hub.url}/discovery/resources`)).headers.get("etag");
    await buy(chain, `${weather.url}/today`);
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
    await buy(chain, `${weather.url}/today`);
    const [, after] = await listed(hub.url);
    expect(after?.accepts[0]?.["maxAmountRequired"]).toBe("15000");
    expect(after?.lastUpdated).toBeGreaterThan(before?.lastUpdated ?? 0);
  });

  test("is not believed in anything but the listing", async () => {
    const { hub, weather } = place;
    await buy(chain, `${weather.url}/today`);
    expect((await quote(`${hub.url}/own`)).maxAmountRequired).toBe("50000");
    expect((await fetch(`${hub.url}/today`)).status).toBe(404);
    for (const path of ["/.well-known/x402", "/llms.txt", "/openapi.json"]) {
      expect(await (await fetch(hub.url + path)).text()).not.toContain("weather.example.com");
    }
  });

  test("is counted in the metrics", async () => {
    const { hub, weather } = place;
    await buy(chain, `${weather.url}/today`);
    const metrics = await (await fetch(`${hub.adminUrl}/metrics`)).text();
    expect(metrics).toContain('coinslot_catalogue_resources{gateway="weather"} 1\n');
    expect(metrics).toContain('coinslot_catalogue_resources{gateway="maps"} 0\n');
  });
});

describe("who is not let in, or may not speak for a URL, lists nothing", () => {
  let hub: RunningGateway;
  let seller: RunningGateway;

  beforeAll(async () => {
    hub = await startHub({ chain });
    seller = await startSeller({ chain, facilitatorUrl: hub.facilitatorUrl, token: SHARED });
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
      await using hub = await startHub({ chain, storePath });
      await using seller = await startSeller({ chain, facilitatorUrl: hub.facilitatorUrl });
      await buy(chain, `${seller.url}/today`);
    }
    let first: readonly Listed[];
    {
      await using hub = await startHub({ chain, storePath });
      first = await listed(hub.url);
      expect(names(first)).toEqual([`${PUBLIC_URL}/own`, `${WEATHER}/today`]);
    }
    await using hub = await startHub({ chain, storePath, catalogue });
    await expect
      .poll(async () => names(await listed(hub.url)), { timeout: 10_000 })
      .toEqual([`${PUBLIC_URL}/own`]);
    await using seller = await startSeller({ chain, facilitatorUrl: hub.facilitatorUrl });
    await buy(chain, `${seller.url}/today`);
    expect(names(await listed(hub.url))).toHaveLength(2);
    await expect
      .poll(async () => names(await listed(hub.url)), { timeout: 10_000 })
      .toEqual([`${PUBLIC_URL}/own`]);
  });

  test("is open to everybody where the file says so, and nothing else is", async () => {
    await using hub = await startHub({ chain, catalogue: "{ public: true }" });
    expect(names(await listed(hub.facilitatorUrl))).toEqual([`${PUBLIC_URL}/own`]);
    expect((await fetch(`${hub.facilitatorUrl}/supported`)).status).toBe(401);
    for (const path of ["/verify", "/settle"]) {
      expect((await fetch(hub.facilitatorUrl + path, { method: "POST" })).status).toBe(401);
    }
  });

  test("has so many resources of a gateway: the one that was sold longest ago makes room", async () => {
    await using hub = await startHub({ chain, catalogue: "{ resources: 2 }" });
    await using seller = await startSeller({ chain, facilitatorUrl: hub.facilitatorUrl });
    await buy(chain, `${seller.url}/today`);
    await buy(chain, `${seller.url}/archive/1`);
    await buy(chain, `${seller.url}/today`);
    await buy(chain, `${seller.url}/stations/1/readings`);
    expect(names(await listed(hub.url))).toEqual([
      `${PUBLIC_URL}/own`,
      `${WEATHER}/stations/:id/readings`,
      `${WEATHER}/today`,
    ]);
  });
});

describe("what a seller of version 2 sells through a facilitator", () => {
  const bazaar = {
    info: { input: { type: "http", method: "GET", pathParams: { id: "alice" } } },
    schema: {
      type: "object",
      properties: { input: { type: "object", properties: { type: { const: "http" } } } },
      required: ["input"],
    },
    routeTemplate: "/users/:id",
  };

  /** Verified and settled with the official client; what is told of the listing with each. */
  async function sell(hub: RunningGateway, told: object, path = "/users/alice?key=private") {
    const beside = { resource: { url: `${WEATHER}${path}` }, extensions: { bazaar: told } };
    const { paid, wanted } = await signedV2(chain, beside, { requirements: { payTo: payee } });
    const Authorization = `Bearer ${tokenOf("weather")}`;
    const shown = { Authorization };
    const client = new HTTPFacilitatorClient({
      url: hub.facilitatorUrl,
      createAuthHeaders: async () => ({ verify: shown, settle: shown, supported: shown }),
    });
    const { extensions } = await client.getSupported();
    const verified = await client.verify(paid, wanted);
    const settled = await client.settle(paid, wanted);
    expect([extensions, verified.isValid, settled.success]).toEqual([["bazaar"], true, true]);
    return [verified, settled].map((answer) => Object(answer).extensionResponses?.bazaar);
  }

  test("is listed as its bazaar extension says, and nothing of buyers", async () => {
    await using hub = await startHub({ chain });
    expect(await sell(hub, bazaar)).toEqual([{ status: "processing" }, { status: "success" }]);
    const [, item] = await listed(hub.url);
    expect(item?.resource).toBe(`${WEATHER}/users/:id`);
    expect(methodOf(item)).toBe("GET");
    expect(JSON.stringify(item)).not.toMatch(/alice|private/);
  });

  test.each([
    ["a template that leads upwards", { ...bazaar, routeTemplate: "/users/%252e%252e" }],
    ["a schema that it does not fit", { ...bazaar, schema: { type: "string" } }],
    ["a template of another path", { ...bazaar, routeTemplate: "/other/:id" }],
  ])("is settled and not listed with %s, and told so", async (_, told) => {
    await using hub = await startHub({ chain });
    const rejected = { status: "rejected", rejectedReason: expect.any(String) };
    expect(await sell(hub, told)).toEqual([rejected, rejected]);
    expect(names(await listed(hub.url))).toEqual([`${PUBLIC_URL}/own`]);
  });
});
