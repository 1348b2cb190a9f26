/** What is counted, where two gateways with one PostgreSQL give it: never more of it over both, also where one of them is killed. */
import type { ServerResponse } from "node:http";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { present, richBuyer, sign } from "../support/buyer.ts";
import { PUBLIC_URL } from "../support/gateway.ts";
import { startPostgres, type PostgresServer } from "../support/postgres.ts";
import { Site, type Served } from "../support/serve.ts";
import { openSessionAt } from "../support/sign-in.ts";
import {
  COMES_TRUE,
  startBackend,
  startSeller,
  type Backend,
  type Seller,
} from "./workers/stage.ts";

// Each of them starts and ends several processes.
vi.setConfig({ testTimeout: 120_000 });

const TIMES = 8;
const ROUTES = `  GET /papers/*: { price: $0.01, description: A paper, grants: { for: 24h, times: ${TIMES} } }
  GET /books/*: { price: $0.02, description: A book }
  GET /tried/*: { price: $0.01, description: Tried, free: ${TIMES}/d by address }
  GET /known/*: { price: $0.01, description: Known, free: ${TIMES}/d by payer }
`;
const PASSES = `passes: { books: { price: $0.03, routes: [GET /books/*], for: 24h, times: ${TIMES} } }\n`;
/** What is bought first, where that is what is counted, and where it is then had. */
const WAYS = [
  { way: "a purchase with times", bought: "/papers/first", path: "/papers" },
  { way: "a pass with times", bought: "/.x402/passes/books", path: "/books" },
  { way: "what is free of a payer", bought: "/papers/first", path: "/known" },
  { way: "what is free of an address", bought: null, path: "/tried" },
] as const;

let seller: Seller;
let postgres: PostgresServer;

beforeAll(async () => {
  [seller, postgres] = await Promise.all([startSeller(), startPostgres()]);
});

afterAll(async () => {
  await postgres.stop();
  await seller.chain.stop();
});

interface ReplicaOptions {
  readonly database: PostgresServer;
  /** Of each. */
  readonly workers: number;
}

/** Two gateways that are one site, each a process of its own. */
class Replicas implements AsyncDisposable {
  readonly #closing = new AsyncDisposableStack();
  readonly store: string;
  readonly sites: readonly Site[];
  readonly served: Served[] = [];

  private constructor(store: string, sites: readonly Site[]) {
    this.store = store;
    this.sites = sites;
    for (const site of sites) this.#closing.use(site);
  }

  static async start(
    backend: Pick<Backend, "url">,
    { database = postgres, workers = 1 }: Partial<ReplicaOptions> = {},
  ): Promise<Replicas> {
    const store = await database.database();
    const told = { store, publicUrl: PUBLIC_URL };
    const replicas = new Replicas(store, [await Site.create(told), await Site.create(told)]);
    const yaml = (PASSES + seller.yaml(backend, ROUTES)).replace(
      "workers: 2",
      `workers: ${workers}`,
    );
    for (const site of replicas.sites) replicas.served.push(await site.serve(yaml, seller.env));
    await Promise.all(replicas.served.map((each) => each.untilReady()));
    return replicas;
  }

  /** Buys that, and the header by which it is had; of null nothing, and none. */
  async buyerOf(bought: string | null): Promise<Record<string, string>> {
    if (bought === null) return {};
    const buyer = await richBuyer(seller.chain);
    const [{ url } = { url: "" }] = this.served;
    const paid = await present(url + bought, await sign(buyer, url + bought));
    expect(paid.status).toBe(200);
    return { [SESSION_HEADER]: await openSessionAt(url, buyer) };
  }

  /** What is left in all pots of a kind, leased or not. */
  async left(): Promise<number> {
    const client = new Client({ connectionString: this.store });
    await client.connect();
    try {
      const { rows } = await client.query(
        "SELECT coalesce(sum(free + leased), -1) AS whole FROM coinslot.pots",
      );
      return Number(rows[0]?.whole);
    } finally {
      await client.end();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#closing.disposeAsync();
  }
}

async function statusOf(served: Served | undefined, path: string, headers: Record<string, string>) {
  const answer = await fetch(`${served?.url}${path}`, { headers });
  await answer.text();
  return answer.status;
}

describe.each(WAYS)("$way", ({ bought, path }) => {
  it("is given by both together as often as it is good for, all at once", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using replicas = await Replicas.start(backend);
    const headers = await replicas.buyerOf(bought);
    const before = backend.seen.length;
    const asked = Array.from({ length: 3 * TIMES }, (_, index) =>
      statusOf(replicas.served[index % 2], `${path}/${index}`, headers),
    );
    const statuses = await Promise.all(asked);
    expect(new Set(statuses)).toEqual(new Set([200, 402]));
    expect(statuses.filter((status) => status === 200).length).toBe(TIMES);
    expect(backend.seen.length - before).toBe(TIMES);
    // Nor later, by either of them.
    for (const served of replicas.served) {
      expect(await statusOf(served, `${path}/late`, headers)).toBe(402);
    }
    const codes = await Promise.all(replicas.served.map((each) => each.end("SIGTERM")));
    expect(codes).toEqual([0, 0]);
  });

  it("is given no oftener where one of them is killed: only what was in flight is there again", async () => {
    const held: ServerResponse[] = [];
    await using backend = await startBackend((request, response) => {
      response.on("error", () => undefined);
      if (request.url?.endsWith("/held")) held.push(response);
      else response.end("fine");
    });
    await using replicas = await Replicas.start(backend);
    const [killed, other] = replicas.served;
    const headers = await replicas.buyerOf(bought);
    const both = [killed, other, killed, other];
    const first = await Promise.all(
      both.map((served, index) => statusOf(served, `${path}/${index}`, headers)),
    );
    expect(first).toEqual([200, 200, 200, 200]);
    await expect.poll(() => replicas.left(), COMES_TRUE).toBe(TIMES - 4);

    // Two are in flight, and the other one is asked for all that it has, while the process goes.
    const lost = [1, 2].map(() =>
      statusOf(killed, `${path}/held`, headers).catch(() => "lost" as const),
    );
    await expect.poll(() => held.length, COMES_TRUE).toBe(2);
    const meanwhile = Array.from({ length: TIMES }, (_, index) =>
      statusOf(other, `${path}/meanwhile-${index}`, headers),
    );
    await killed?.end("SIGKILL");
    expect(await Promise.all(lost)).toEqual(["lost", "lost"]);
    let given = (await Promise.all(meanwhile)).filter((status) => status === 200).length;
    expect(given).toBeLessThanOrEqual(TIMES - 4);
    // What the dead one had is free once it is known that it is.
    const ask = async (): Promise<number> => {
      if ((await statusOf(other, `${path}/later`, headers)) === 200) given += 1;
      return given;
    };
    await expect.poll(ask, COMES_TRUE).toBe(TIMES - 4);
    const again = await replicas.sites[0]?.launch(seller.env);
    await again?.untilReady();
    for (const served of [again, other, again, other]) {
      expect(await statusOf(served, `${path}/late`, headers)).toBe(402);
    }
    await expect.poll(() => replicas.left(), COMES_TRUE).toBe(0);
    expect([await again?.end("SIGTERM"), await other?.end("SIGTERM")]).toEqual([0, 0]);
  });
});

describe("a database that goes and comes again", () => {
  it("has nothing given twice, nor lost, nor asked for again, by two gateways of two workers each", async () => {
    await using own = await startPostgres();
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using replicas = await Replicas.start(backend, { database: own, workers: 2 });
    const headers = await replicas.buyerOf("/papers/first");
    const before = backend.seen.length;
    const statuses: number[] = [];
    const ask = async (index: number): Promise<void> => {
      const path = `/papers/${index}`;
      statuses.push(await statusOf(replicas.served[index % 2], path, headers));
    };
    const given = () => statuses.filter((status) => status === 200).length;
    await Promise.all([0, 1].map(ask));
    expect(given()).toBe(2);
    // Fewer than are left: whatever becomes of them, some are left afterwards.
    const whileItGoes = Promise.all([2, 3, 4, 5].map(ask));
    await own.crash();
    await whileItGoes;
    await Promise.all([6, 7].map(ask));
    await own.start();
    let next = 0;
    const goOn = async (): Promise<number> => {
      if (given() < TIMES) await ask((next += 1));
      return given();
    };
    await expect.poll(goOn, COMES_TRUE).toBe(TIMES);
    expect(backend.seen.length - before).toBe(TIMES);
    // Nobody was asked to pay for what he still had, nor was there an answer of another kind.
    expect(statuses.filter((status) => ![200, 500, 503].includes(status))).toEqual([]);
    for (const served of replicas.served) {
      await served.untilReady();
      expect(await statusOf(served, "/papers/late", headers)).toBe(402);
    }
    expect(backend.seen.length - before).toBe(TIMES);
    const codes = await Promise.all(replicas.served.map((each) => each.end("SIGTERM")));
    expect(codes).toEqual([0, 0]);
  });
});
