/** `coinslot listing`: what listings say, compared with the file and with what was sold. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { present, richBuyer, sign } from "../../support/buyer.ts";
import { examineListings } from "../../../src/diagnosis/listing/route-listings.ts";
import { formatProblems, loadConfig } from "../../../src/config/config.ts";
import type { Catalogue } from "../../support/catalogue.ts";
import { startCataloguedShop, type CataloguedShop } from "../../support/catalogued-shop.ts";
import type { Chain } from "../../support/chain.ts";
import { freePort } from "../../support/free-port.ts";
import { runHere } from "./run-here.ts";

const ROUTES = `
  GET /weather: { price: $0.03, description: Weather, mimeType: application/json }
  GET /cheap: { price: $0.01, description: The cheapest }
  GET /reports/:id: { price: $0.25, description: A report }
  GET /hidden: { price: $0.001, description: Not listed, discoverable: false }
`;

const FOREIGN = { resource: "https://shop.example/x", accepts: [], lastUpdated: 1 };

let shop: CataloguedShop;
let chain: Chain;
let catalogue: Catalogue;
let folder: string;
let file: string;
let url: string;

/** Of `/cheap` one answer is sold. */
beforeAll(async () => {
  shop = await startCataloguedShop(ROUTES, "{ listed: true }");
  ({ chain, catalogue, folder, file, url } = shop);
  const buyer = await richBuyer(chain);
  const { receipt } = await present(`${url}/cheap`, await sign(buyer, `${url}/cheap`));
  expect(receipt).toMatchObject({ success: true });
});

afterAll(() => shop[Symbol.asyncDispose]());

async function report(...words: string[]) {
  const { code, stdout } = await runHere(["listing", file, "--json", ...words]);
  const { routes, places } = JSON.parse(stdout);
  const states = new Map<string, string[]>(
    routes.map(({ key, places: at }: { key: string; places: { state: string }[] }) => {
      return [key, at.map(({ state }) => state)];
    }),
  );
  return { code, states: Object.fromEntries(states), routes, places };
}

/** What the facilitator lists of `/cheap`, as it got it, with other terms. */
function listing(change: Record<string, unknown> = {}) {
  const first = catalogue.passed.find(({ path }) => path === "/settle");
  const requirements = { ...first?.paymentRequirements, ...change };
  const { resource } = requirements;
  return [{ resource, type: "http", x402Version: 1, accepts: [requirements], lastUpdated: 1 }];
}

function page(items: readonly unknown[], total = items.length) {
  catalogue.list = (query) => {
    const offset = Number(query.get("offset"));
    const some = items.slice(offset, offset + Number(query.get("limit")));
    return { status: 200, body: { x402Version: 1, items: some, pagination: { total } } };
  };
}

/** The header by which facilitators speak of their catalogue. */
const said = (bazaar: object) => Buffer.from(JSON.stringify({ bazaar })).toString("base64");

describe("coinslot listing", () => {
  test("says of every route whether it is listed, where, and if not why", async () => {
    const foreign = Array.from({ length: 120 }, (_, n) => {
      return { resource: `https://shop-${n}.example/x`, accepts: [], lastUpdated: 1 };
    });
    page([...foreign, ...listing()]);
    const { code, states, places } = await report();
    expect(code).toBe(0);
    expect(states).toEqual({
      "GET /weather": ["listed", "no-sale-yet"],
      "GET /cheap": ["listed", "listed"],
      "GET /reports/:id": ["listed", "no-sale-yet"],
      "GET /hidden": ["not-discoverable", "not-discoverable"],
    });
    expect(places).toMatchObject([
      { name: "own", state: "read", entries: 3, total: 3 },
      { name: catalogue.url.slice("http://".length), state: "read", entries: 121, total: 121 },
    ]);
  });

  test("tells other terms one by one", async () => {
    page(listing({ maxAmountRequired: "99", payTo: chain.network.asset.address }));
    const { code, routes } = await report();
    expect(code).toBe(1);
    const cheap = routes.find(({ key }: { key: string }) => key === "GET /cheap").places[1];
    expect(cheap.state).toBe("other-terms");
    expect(cheap.detail).toContain("lists the price 99, it is 10000 now");
    expect(cheap.detail).toContain(`as payee, it is ${shop.facilitator.payee} now`);
    page(listing({ network: "avalanche" }));
    expect((await report()).routes[1].places[1].detail).toContain("lists avalanche");
  });

  test("knows a network by its name in version 2", async () => {
    const { maxAmountRequired, ...rest } = Object(listing()[0]?.accepts[0]);
    page(
      listing().map((item) => ({
        ...item,
        accepts: [{ ...rest, network: "eip155:84532", amount: maxAmountRequired }],
      })),
    );
    expect((await report()).states["GET /cheap"]).toEqual(["listed", "listed"]);
  });

  test.each([
    [404, {}, "no-listing", 0],
    [401, {}, "not-shown", 0],
    [500, {}, "unreadable", 3],
    [200, {}, "unreadable", 3],
    [200, { items: "none" }, "unreadable", 3],
  ] as const)("takes the answer %i %j for %s", async (status, body, state, exitCode) => {
    catalogue.list = () => ({ status, body });
    const { code, states } = await report();
    expect(states["GET /cheap"]).toEqual(["listed", state]);
    expect(code).toBe(exitCode);
  });

  test("waits for a page no longer than it is told, and reads no listing without end", async () => {
    catalogue.list = () => null;
    expect((await report("--timeout", "1s")).states["GET /cheap"]).toEqual([
      "listed",
      "unreadable",
    ]);
    let pages = 0;
    catalogue.list = () => {
      pages += 1;
      const foreign = { resource: `https://shop.example/${pages}`, accepts: [] };
      const body = { items: Array.from({ length: 50 }, () => foreign), pagination: { total: 1e9 } };
      return { status: 200, body };
    };
    const { places, routes } = await report();
    expect(pages).toBe(200);
    expect(places[1]).toMatchObject({ entries: 10_000, total: 1e9 });
    expect(routes[1].places[1]).toMatchObject({ state: "missing" });
  });

  test("reads a listing to its end that does not say how long it is, or always gives its first page", async () => {
    const all = [...Array.from({ length: 50 }, () => FOREIGN), ...listing()];
    catalogue.list = (query) => {
      const offset = Number(query.get("offset"));
      return { status: 200, body: { items: all.slice(offset, offset + 50) } };
    };
    const { states, places } = await report();
    expect(states["GET /cheap"]).toEqual(["listed", "listed"]);
    expect(places[1]).toMatchObject({ entries: 51, total: 51 });
    catalogue.list = () => ({ status: 200, body: { items: listing(), pagination: { total: 7 } } });
    const stuck = await report();
    expect(stuck.routes[1].places[1]).toMatchObject({
      state: "listed",
      resources: [`${url}/cheap`],
    });
    expect(stuck.places[1]).toMatchObject({ entries: 1, total: 7 });
  });

  test("reads pages of entries that say much", async () => {
    const schema = { description: "x".repeat(20_000) };
    page([...Array.from({ length: 49 }, () => ({ ...FOREIGN, schema })), ...listing()]);
    expect((await report()).states["GET /cheap"]).toEqual(["listed", "listed"]);
  });

  test.each([
    ["says its method beside the ways to pay", { bazaar: { info: { input: { method: "POST" } } } }],
    ["does not say its method", {}],
  ])("knows a route by an entry that %s", async (_, extensions) => {
    const other = join(folder, "other.yaml");
    await writeFile(other, shop.yaml("\n  POST /cheap: $0.01\n  GET /other: $0.01"));
    page(
      listing({ outputSchema: undefined }).map((item) => ({ ...item, x402Version: 2, extensions })),
    );
    const { stdout } = await runHere(["listing", other, "--json"]);
    expect(JSON.parse(stdout).routes[0].places[1]).toMatchObject({ state: "listed" });
  });

  test("does not say of a route that it was never sold where not every sale was looked at", async () => {
    page([]);
    const loaded = await loadConfig(file);
    if (!loaded.ok) throw new Error(formatProblems(loaded.problems, loaded.text));
    const options = { timeoutMs: 5_000, onPage: () => undefined };
    const detailOf = async (maxSales: number) => {
      const { routes } = await examineListings(loaded.config, { ...options, maxSales });
      return routes.find(({ key }) => key === "GET /weather")?.places[1]?.detail;
    };
    expect(await detailOf(1)).toContain("no sale of it among the newest 1 sales");
    expect(await detailOf(2)).toContain("no sale of it yet");
  });

  test("shows what the facilitator said of listing a route, whatever it lists", async () => {
    const buyer = await richBuyer(chain);
    const sell = async (path: string) => {
      const { receipt } = await present(url + path, await sign(buyer, url + path));
      expect(receipt).toMatchObject({ success: true });
    };
    try {
      catalogue.says = said({ status: "rejected", rejectedReason: "no \u001b[31mpicture" });
      await sell("/reports/a17?secret=1");
      catalogue.says = said({ status: "processing" });
      await sell("/weather");
    } finally {
      catalogue.says = null;
    }
    page([]);
    const { routes } = await report();
    const at = (key: string) => routes.find((each: { key: string }) => each.key === key).places[1];
    expect(at("GET /reports/:id")).toMatchObject({
      state: "rejected",
      said: { status: "rejected", reason: "no \ufffd[31mpicture" },
    });
    expect(at("GET /weather")).toMatchObject({ state: "missing", said: { status: "processing" } });
    expect(at("GET /weather").detail).toMatch(/a sale of it; it said of it: processing \(2\d{3}-/);
    expect(at("GET /cheap").said).toBeNull();
    const { stdout } = await runHere(["listing", file]);
    expect(stdout).toMatch(/rejected +127.*it said of it: rejected, no .*picture/);
    expect(stdout).not.toContain("\u001b");
    // Whoever may ask gets routes, and no URL that somebody bought.
    const told = await (await fetch(`${shop.adminUrl}/listing`)).text();
    expect(JSON.parse(told).words).toHaveLength(2);
    expect(told).not.toMatch(/a17|secret/);
  });

  test("says where what facilitators said is not known, and reads listings all the same", async () => {
    page(listing());
    const other = join(folder, "silent.yaml");
    const text = await readFile(file, "utf8");
    await writeFile(other, text.replace(/^admin: .*$/m, ""));
    const unasked = JSON.parse((await runHere(["listing", other, "--json"])).stdout);
    expect(unasked.saidUnknown).toContain("names no admin listener");
    expect(unasked.routes[1].places[1]).toMatchObject({ state: "listed", said: null });
    await writeFile(other, text.replace(/^admin: .*$/m, `admin: 127.0.0.1:${await freePort()}`));
    const { stdout } = await runHere(["listing", other]);
    expect(stdout).toContain("what facilitators said of listing is not known: its admin listener");
  });

  test("shows it to people without what a terminal would obey", async () => {
    page(listing({ maxAmountRequired: "\u001b[31m1" }));
    const { code, stdout } = await runHere(["listing", file]);
    expect(code).toBe(1);
    expect(stdout).not.toContain("\u001b");
    expect(stdout).toMatch(/GET \/weather\n {2}listed +own: listed with the present terms/);
    expect(stdout).toContain("4 priced routes are listed with their present terms");
  });

  test("says that the gateway does not answer, and that it lists nothing by its own choice", async () => {
    const text = await readFile(file, "utf8");
    const other = join(folder, "other.yaml");
    const at = (await freePort()).toString();
    const elsewhere = text.replaceAll(new URL(url).port, at);
    await writeFile(other, elsewhere);
    catalogue.list = () => ({ status: 404, body: {} });
    const silent = await runHere(["listing", other, "--json"]);
    expect(silent.code).toBe(1);
    expect(JSON.parse(silent.stdout).places[0]).toMatchObject({ state: "unreadable" });
    await writeFile(other, elsewhere.replace("listed: true", "listed: false"));
    const off = await runHere(["listing", other, "--json"]);
    expect(JSON.parse(off.stdout).routes[0].places[0]).toMatchObject({ state: "switched-off" });
  });

  test("refuses a file without priced routes, and a usage that it does not have", async () => {
    const other = join(folder, "free.yaml");
    await writeFile(other, shop.yaml("\n  GET /a: free"));
    expect((await runHere(["listing", other])).code).toBe(1);
    expect((await runHere(["listing"])).code).toBe(2);
    expect((await runHere(["listing", file, "--timeout", "soon"])).code).toBe(2);
  });
});
