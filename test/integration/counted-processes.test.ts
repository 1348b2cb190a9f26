/** What is counted, where several processes give it, and where one of them is killed. */
import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import type { RequestListener } from "node:http";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { present, richBuyer, sign } from "../support/buyer.ts";
import type { Chain } from "../support/chain.ts";
import type { FreshAccount } from "../support/payer.ts";
import { Site, type Served } from "../support/serve.ts";
import { openSessionAt } from "../support/sign-in.ts";
import {
  bothWorkersOf,
  COMES_TRUE,
  connectTo,
  startBackend,
  startSeller,
  type Connection,
  type Seller,
} from "./workers/stage.ts";

// Each of them starts and ends several processes.
vi.setConfig({ testTimeout: 120_000 });

const TIMES = 8;
const ROUTES = `  GET /papers/*: { price: $0.01, description: A paper, grants: { for: 24h, times: ${TIMES} } }
  GET /tried/*: { price: $0.01, description: Tried, free: ${TIMES}/d by address }
  GET /who/*: free
`;

let seller: Seller;
let chain: Chain;

beforeAll(async () => {
  seller = await startSeller();
  ({ chain } = seller);
});

afterAll(() => chain.stop());

async function sessionOf({ url }: Served, buyer: FreshAccount) {
  return { [SESSION_HEADER]: await openSessionAt(url, buyer) };
}

async function buy(served: Served): Promise<Record<string, string>> {
  const buyer = await richBuyer(chain);
  const url = `${served.url}/papers/first`;
  expect((await present(url, await sign(buyer, url))).status).toBe(200);
  return sessionOf(served, buyer);
}

/** How many of so many requests on each of these connections, in turns, are answered. */
async function answered(
  connections: readonly Connection[],
  path: string,
  headers: Record<string, string> = {},
): Promise<number> {
  const asked = Array.from({ length: TIMES + 4 }, async (_, index) => {
    const connection = connections[index % connections.length];
    return connection?.get(`${path}/${index}`, headers);
  });
  const answers = await Promise.all(asked);
  const statuses = answers.map((answer) => answer?.status);
  expect(new Set(statuses)).toEqual(new Set([200, 402]));
  return statuses.filter((status) => status === 200).length;
}

describe("two workers", () => {
  it("give together as much as was paid for, and as is free, and no more", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const served = await site.serve(seller.yaml(backend, ROUTES), seller.env);
    await served.untilReady();
    await bothWorkersOf(served);
    using first = await connectTo(served, 1);
    using second = await connectTo(served, 2);
    const session = await buy(served);
    expect(await answered([first, second], "/papers", session)).toBe(TIMES);
    expect(await answered([first, second], "/tried")).toBe(TIMES);
    expect(await served.end("SIGTERM")).toBe(0);
  });
});

describe("kill -9", () => {
  it("gives back what was in flight, and nothing of what was used and written", async () => {
    const begun = Promise.withResolvers<void>();
    let isHeld = false;
    const backendOf: RequestListener = (request, response) => {
      response.on("error", () => undefined);
      if (isHeld && request.url?.startsWith("/papers")) begun.resolve();
      else response.end("fine");
    };
    await using backend = await startBackend(backendOf);
    await using site = await Site.create();
    const yaml = seller.yaml(backend, ROUTES).replace("workers: 2", "workers: 1");
    const killed = await site.serve(yaml, seller.env);
    await killed.untilReady();
    const session = await buy(killed);
    const asks = (served: Served, path: string) =>
      fetch(`${served.url}/papers/${path}`, { headers: session });
    for (const path of ["1", "2", "3"]) expect((await asks(killed, path)).status).toBe(200);
    using ledger = new Ledger(join(site.folder, "ledger.db"));
    await expect.poll(() => ledger.left("uses/%"), COMES_TRUE).toBe(TIMES - 3);
    isHeld = true;
    const lost = asks(killed, "4").catch(() => "lost");
    await begun.promise;
    await killed.end("SIGKILL");
    expect(await lost).toBe("lost");
    isHeld = false;
    const again = await site.launch(seller.env);
    await again.untilReady();
    const statuses: number[] = [];
    for (let times = 0; times < TIMES; times += 1) {
      statuses.push((await asks(again, String(times))).status);
    }
    expect(statuses).toEqual([200, 200, 200, 200, 200, 402, 402, 402]);
    expect(await again.end("SIGTERM")).toBe(0);
  });
});

/** The pots of a store, read from outside. */
class Ledger implements Disposable {
  readonly #database: DatabaseSync;

  constructor(path: string) {
    this.#database = new DatabaseSync(path, { readOnly: true });
  }

  left(pot: string): number {
    const sum = "SELECT sum(CAST(free AS INTEGER) + CAST(leased AS INTEGER)) AS whole FROM pots";
    return Number(this.#database.prepare(`${sum} WHERE name LIKE ?`).get(pot)?.["whole"]);
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }
}
