/** `coinslot listing`: what listings say, compared with the file and with what was sold. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { start, type Running } from "../../../src/app.ts";
import { formatProblems, loadConfig } from "../../../src/config/config.ts";
import { present, richBuyer, sign } from "../../support/buyer.ts";
import { startCatalogue, type Catalogue } from "../../support/catalogue.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freePort } from "../../support/free-port.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import { runHere } from "./run-here.ts";

const ROUTES = `
  GET /weather: { price: $0.03, description: Weather, mimeType: application/json }
  GET /cheap: { price: $0.01, description: The cheapest }
  GET /reports/:id: { price: $0.25, description: A report }
  GET /hidden: { price: $0.001, description: Not listed, discoverable: false }
`;

let chain: Chain;
let facilitator: RunningGateway;
let catalogue: Catalogue;
let folder: string;
let file: string;
let url: string;
let running: Running;

/** Of `/cheap` one answer is sold. */
beforeAll(async () => {
  chain = await startChain();
  facilitator = await startGateway({ chain });
  catalogue = await startCatalogue(facilitator.facilitatorUrl);
  folder = await mkdtemp(join(tmpdir(), "coinslot-listing-"));
  file = join(folder, "gateway.yaml");
  url = `http://127.0.0.1:${await freePort()}`;
  await writeFile(file, yaml(ROUTES));
  const loaded = await loadConfig(file);
  if (!loaded.ok) throw new Error(formatProblems(loaded.problems, loaded.text));
  running = await start(loaded.config, "test");
  const buyer = await richBuyer(chain);
  const { receipt } = await present(`${url}/cheap`, await sign(buyer, `${url}/cheap`));
  expect(receipt).toMatchObject({ success: true });
});

afterAll(async () => {
  await running.close();
  await catalogue.close();
  await facilitator[Symbol.asyncDispose]();
  await chain.stop();
  await rm(folder, { recursive: true, force: true });
});

function yaml(routes: string): string {
  return `
listen: 127.0.0.1:${new URL(url).port}
publicUrl: ${url}
upstream: ${facilitator.adminUrl}
payTo: "${facilitator.payee}"
accept: [${chain.network.name}]
facilitator: { remote: [{ url: "${catalogue.url}" }] }
unmatched: deny
store: sqlite:${folder}/ledger.db
logging: { level: silent }
discovery: { listed: true }
routes: ${routes}
`;
}

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
    expect(cheap.detail).toContain(`as payee, it is ${facilitator.payee} now`);
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
    const foreign = { resource: "https://shop.example/x", accepts: [] };
    catalogue.list = () => {
      pages += 1;
      const body = { items: Array.from({ length: 50 }, () => foreign), pagination: { total: 1e9 } };
      return { status: 200, body };
    };
    const { places, routes } = await report();
    expect(pages).toBe(200);
    expect(places[1]).toMatchObject({ entries: 10_000, total: 1e9 });
    expect(routes[1].places[1]).toMatchObject({ state: "missing" });
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
    await writeFile(other, yaml("\n  GET /a: free"));
    expect((await runHere(["listing", other])).code).toBe(1);
    expect((await runHere(["listing"])).code).toBe(2);
    expect((await runHere(["listing", file, "--timeout", "soon"])).code).toBe(2);
  });
});
