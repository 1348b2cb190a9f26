import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { present, PURSE, richBuyer, sign } from "../../support/buyer.ts";
import type { Chain } from "../../support/chain.ts";
import { Site } from "../../support/serve.ts";
import {
  bothWorkersOf,
  Connection,
  connectTo,
  metricOf,
  startBackend,
  workerOf,
  startSeller,
  type Backend,
  type Seller,
} from "./stage.ts";

// Each of them starts and ends several processes.
vi.setConfig({ testTimeout: 120_000 });

let seller: Seller;
let chain: Chain;
let env: Seller["env"];
/** Larger than an answer that is kept: whoever presents the payment again gets nothing. */
const LARGE = "x".repeat(70_000);
const ROUTES = `  GET /weather: { price: $0.01, description: Weather }
  GET /large: { price: $0.01, description: Much, repeat: none }
  GET /who/*: free
  GET /health: free
`;

beforeAll(async () => {
  seller = await startSeller();
  ({ chain, env } = seller);
});

afterAll(() => chain.stop());

function yaml(backend: Backend): string {
  return seller.yaml(backend, ROUTES);
}

/** How the requests with a payment ended of which the operator's page tells, each with all of its stages. */
async function endingsOn(url: string): Promise<readonly string[]> {
  const items = (await (await fetch(url)).text()).split("<li id=");
  const presented = items.filter((item) => item.includes("from</dt>"));
  const stages = presented.map((item) => item.match(/<li class="(?:good|none)"><b>/g)?.length);
  expect(new Set(stages)).toEqual(new Set([5]));
  const settled = presented.filter((item) =>
    /settlement<\/b><span class="hidden-text">done/.test(item),
  );
  expect(settled).toHaveLength(2);
  return presented.map((item) => /class="end">([^<]*)/.exec(item)?.[1] ?? "").toSorted();
}

describe("two workers", () => {
  it("each sell, for one account and one ledger, and one gives the other's kept answers again", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const served = await site.serve(yaml(backend), env);
    await served.untilReady();
    const workers = await bothWorkersOf(served);
    using first = await connectTo(served, 1);
    using second = await connectTo(served, 2);
    const buyer = await richBuyer(chain);
    for (const [connection, other] of [
      [first, second],
      [second, first],
    ] as const) {
      const header = await sign(buyer, `${served.url}/weather`);
      expect(await connection.get("/weather", header)).toMatchObject({ status: 200, text: "fine" });
      expect(await other.get("/weather", header)).toMatchObject({ status: 200, text: "fine" });
    }
    expect(backend.seen.filter((path) => path === "/weather")).toHaveLength(2);
    for (const pid of workers.values()) {
      // The key of the account that pays for settlements is not theirs to know.
      expect(await readFile(`/proc/${pid}/environ`, "utf8")).not.toContain(
        seller.signer.privateKey,
      );
    }
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 20_000n);
    expect(await metricOf(served, "coinslot_replays_total", "/weather")).toBe(2);
    expect(await metricOf(served, "coinslot_settlements_total", "settled")).toBe(2);
    expect(await endingsOn(`${served.adminUrl}/payments`)).toEqual(
      ["kept answer given again (200)", "paid and delivered (200)"].flatMap((each) => [each, each]),
    );
    expect(await served.end("SIGTERM")).toBe(0);
  });

  it("take a payment once that comes 50 times at once over as many connections", async () => {
    await using backend = await startBackend((_request, response) => void response.end(LARGE));
    await using site = await Site.create();
    const served = await site.serve(yaml(backend), env);
    await served.untilReady();
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${served.url}/large`);
    const connections = Array.from({ length: 50 }, () => new Connection(served.url));
    try {
      // Opened before, so that both workers have them when the payments come.
      const workers = await Promise.all(connections.map((each) => workerOf(served, each)));
      expect(new Set(workers)).toEqual(new Set([1, 2]));
      const answers = await Promise.all(connections.map((each) => each.get("/large", header)));
      const statuses = answers.map(({ status }) => status);
      expect(statuses.filter((status) => status === 200)).toHaveLength(1);
      // Few of each worker wait for the one that is served.
      expect(statuses.filter((status) => status === 402).length).toBeGreaterThan(0);
      expect(statuses.filter((status) => status === 402 || status === 500)).toHaveLength(49);
    } finally {
      for (const each of connections) each[Symbol.dispose]();
    }
    expect(backend.seen.filter((path) => path === "/large")).toEqual(["/large"]);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    expect(await metricOf(served, "coinslot_submissions_total")).toBe(1);
    const sold = ["coinslot_http_requests_total", 'route="GET /large"', 'outcome="paid"'];
    expect(await metricOf(served, ...sold)).toBe(1);
    expect(await served.end("SIGTERM")).toBe(0);
  });

  it("have their connections spread over both by the system, and count together", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const served = await site.serve(yaml(backend), env);
    await served.untilReady();
    const taken = new Map([
      [1, 0],
      [2, 0],
    ]);
    for (let count = 0; count < 60; count += 1) {
      using connection = new Connection(served.url);
      const worker = await workerOf(served, connection);
      taken.set(worker, (taken.get(worker) ?? 0) + 1);
      await connection.get("/health");
    }
    // Fair draws are so far apart once in a hundred million times.
    expect(Math.min(...taken.values())).toBeGreaterThan(8);
    const counted = ["coinslot_http_requests_total", 'route="GET /health"', 'code="200"'];
    expect(await metricOf(served, ...counted)).toBe(60);
    const measured = ["coinslot_http_request_duration_seconds_count", 'route="GET /health"'];
    expect(await metricOf(served, ...measured)).toBe(60);
    expect(await metricOf(served, "coinslot_workers_listening")).toBe(2);
    const memory = await (await fetch(`${served.adminUrl}/metrics`)).text();
    expect(memory.match(/^process_resident_memory_bytes\{worker="[012]"\}/gm)).toHaveLength(3);
    expect(served.output().stderr).toContain("2 processes serve");
    const paid = await present(`${served.url}/weather`, "not a payment");
    expect(paid.status).toBe(400);
    expect(await served.end("SIGTERM")).toBe(0);
  });
});
