import { setImmediate as turn } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { PURSE, richBuyer, sign } from "../../support/buyer.ts";
import type { Chain } from "../../support/chain.ts";
import { Site } from "../../support/serve.ts";
import {
  bothWorkersOf,
  COMES_TRUE,
  connectTo,
  isAlive,
  kill,
  logOf,
  metricOf,
  startBackend,
  startSeller,
  workersOf,
  type Backend,
  type Seller,
} from "./stage.ts";

// Each of them starts and ends several processes.
vi.setConfig({ testTimeout: 120_000 });

/** Three questions without an answer, on a busy machine. */
const HANGS = { timeout: 40_000, interval: 100 };

let seller: Seller;
let chain: Chain;
let env: Seller["env"];
const ROUTES = `  GET /weather: { price: $0.01, description: Weather }
  GET /slow: { price: $0.01, description: Slow }
  GET /stream: free
  GET /who/*: free
`;

beforeAll(async () => {
  seller = await startSeller();
  ({ chain, env } = seller);
});

afterAll(() => chain.stop());

function yaml(backend: Backend): string {
  return seller.yaml(backend, ROUTES);
}

describe("kill -9 of a worker", () => {
  it("in the middle of a settlement loses nothing: it goes on, and the other worker delivers it", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const served = await site.serve(yaml(backend), env);
    await served.untilReady();
    const killed = (await bothWorkersOf(served)).get(1);
    using first = await connectTo(served, 1);
    using second = await connectTo(served, 2);
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${served.url}/weather`);
    await chain.rpc("evm_setAutomine", [false]);
    try {
      const lost = first.get("/weather", header).catch(() => "lost");
      while (Object(await chain.rpc("txpool_status")).pending === "0x0") await turn();
      kill(killed);
      expect(await lost).toBe("lost");
      expect(await second.get("/stream")).toMatchObject({ status: 200 });
    } finally {
      await chain.rpc("evm_setAutomine", [true]);
      await chain.mine();
    }
    const answer = await second.get("/weather", header);
    expect(answer).toMatchObject({ status: 200, text: "fine" });
    expect(backend.seen.filter((path) => path === "/weather")).toEqual(["/weather"]);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    expect(await metricOf(served, "coinslot_submissions_total")).toBe(1);
    await expect.poll(() => workersOf(served).get(1), COMES_TRUE).not.toBe(killed);
    expect(await metricOf(served, "coinslot_worker_deaths_total")).toBe(1);
    expect(await served.end("SIGTERM")).toBe(0);
  });

  it("in the middle of a delivery frees it at once: the same payment is delivered by the other", async () => {
    const held = Promise.withResolvers<void>();
    await using backend = await startBackend((incoming, response) => {
      if (
        incoming.url === "/slow" &&
        backend.seen.filter((path) => path === "/slow").length === 1
      ) {
        held.resolve();
        response.on("error", () => undefined);
      } else response.end("fine");
    });
    await using site = await Site.create();
    const served = await site.serve(yaml(backend), env);
    await served.untilReady();
    using first = await connectTo(served, 1);
    using second = await connectTo(served, 2);
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${served.url}/slow`);
    const lost = first.get("/slow", header).catch(() => "lost");
    await held.promise;
    kill((await bothWorkersOf(served)).get(1));
    expect(await lost).toBe("lost");
    expect(await second.get("/slow", header)).toMatchObject({ status: 200, text: "fine" });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    await expect
      .poll(() => logOf(served).map(({ msg }) => msg), COMES_TRUE)
      .toContain("payments that a dead worker held are free again");
    expect(await served.end("SIGTERM")).toBe(0);
  });

  it("again and again ends the process, with the reason", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const served = await site.serve(yaml(backend), env);
    await served.untilReady();
    const killed = new Set<number>();
    while (!served.output().stderr.includes("gives up")) {
      const pid = workersOf(served).get(1);
      if (pid !== undefined && !killed.has(pid) && isAlive(pid)) {
        killed.add(pid);
        kill(pid);
      }
      await turn();
    }
    expect(await served.ended).toBe(1);
    expect(killed.size).toBe(5);
    expect(served.output().stderr).toContain(
      "worker 1 died 5 times in a row, the last time by SIGKILL",
    );
    expect([...workersOf(served).values()].filter(isAlive)).toEqual([]);
  });
});

describe("a worker that hangs", () => {
  it("is killed and followed by another; the other worker serves meanwhile", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const served = await site.serve(yaml(backend), env);
    await served.untilReady();
    const hanging = (await bothWorkersOf(served)).get(1) ?? 0;
    using second = await connectTo(served, 2);
    process.kill(hanging, "SIGSTOP");
    expect(await second.get("/stream")).toMatchObject({ status: 200 });
    await expect.poll(() => isAlive(hanging), HANGS).toBe(false);
    await expect.poll(() => workersOf(served).get(1), COMES_TRUE).not.toBe(hanging);
    expect(logOf(served)).toContainEqual(
      expect.objectContaining({ msg: "a worker hangs; it is killed", worker: 1, pid: hanging }),
    );
    using first = await connectTo(served, 1);
    expect(await first.get("/stream")).toMatchObject({ status: 200 });
    expect(await served.end("SIGTERM")).toBe(0);
  });
});

describe("kill -9 of the first process", () => {
  it("ends the workers when they have finished what is in flight", async () => {
    const release = Promise.withResolvers<void>();
    await using backend = await startBackend((incoming, response) => {
      if (incoming.url !== "/stream") return void response.end("fine");
      response.write("first half, ");
      void release.promise.then(() => response.end("second half"));
    });
    await using site = await Site.create();
    const served = await site.serve(yaml(backend), env);
    await served.untilReady();
    using connection = await connectTo(served, 1);
    const streaming = await connection.head("/stream");
    const workers = [...(await bothWorkersOf(served)).values()];
    kill(served.pid);
    await expect.poll(() => fetch(served.url).catch(() => "refused"), COMES_TRUE).toBe("refused");
    release.resolve();
    let body = "";
    for await (const chunk of streaming) body += String(chunk);
    expect(body).toBe("first half, second half");
    await expect.poll(() => workers.filter(isAlive), COMES_TRUE).toEqual([]);
    await served.ended;
    // Nobody holds the address or the ledger: the next life begins at once.
    const next = await site.serve(yaml(backend), env);
    await next.untilReady();
    expect(await next.end("SIGTERM")).toBe(0);
  });
});
