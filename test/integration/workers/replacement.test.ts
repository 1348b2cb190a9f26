import { once } from "node:events";
import { createServer } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { writeFile } from "node:fs/promises";
import {
  startIdleFacilitator,
  type ScriptedFacilitator,
} from "../../support/scripted-facilitator.ts";
import { runCoinslot, Site, type Served } from "../../support/serve.ts";
import {
  bothWorkersOf,
  COMES_TRUE,
  Connection,
  isAlive,
  logOf,
  metricOf,
  startBackend,
  workersOf,
} from "./stage.ts";

// Each of them starts and ends several processes.
vi.setConfig({ testTimeout: 120_000 });

let facilitator: ScriptedFacilitator;
beforeAll(async () => {
  facilitator = await startIdleFacilitator();
});
afterAll(() => facilitator.close());

function yaml(backend: { readonly url: string }, delay = "0s"): string {
  return `
upstream: ${backend.url}
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: ${facilitator.url}
unmatched: deny
workers: 2
shutdown: { within: 10s, delay: ${delay} }
routes:
  GET /weather: { price: $0.01, description: Weather }
  GET /health: free
`;
}

/**
 * Requests without a pause until it is stopped, most of them on new connections: some always wait to be
 * accepted, and are reset when what they wait in is closed.
 */
class Load {
  readonly failures: string[] = [];
  free = 0;
  challenged = 0;
  #isStopped = false;
  readonly #loops: readonly Promise<void>[];

  constructor(served: Served) {
    const kept = Array.from({ length: 6 }, () => this.#keep(new Connection(served.url)));
    const fresh = Array.from({ length: 32 }, () => this.#renew(served.url));
    this.#loops = [...kept, ...fresh];
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#loops);
  }

  async #keep(connection: Connection): Promise<void> {
    while (!this.#isStopped) await this.#ask(connection);
    connection[Symbol.dispose]();
  }

  async #renew(url: string): Promise<void> {
    while (!this.#isStopped) {
      using connection = new Connection(url);
      await this.#ask(connection);
    }
  }

  async #ask(connection: Connection): Promise<void> {
    try {
      const free = await connection.get("/health");
      if (free.status === 200 && free.text === "fine") this.free += 1;
      else this.failures.push(`GET /health: ${free.status}`);
      const priced = await connection.get("/weather");
      if (priced.status === 402) this.challenged += 1;
      else this.failures.push(`GET /weather: ${priced.status}`);
    } catch (cause) {
      this.failures.push(String(cause));
    }
  }
}

function times(served: Served, said: string): number {
  return logOf(served).filter(({ msg }) => msg === said).length;
}

describe("SIGHUP", () => {
  it("replaces both workers under load, and not one request fails or is forgotten", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const served = await site.serve(yaml(backend), {});
    await served.untilReady();
    const before = [...(await bothWorkersOf(served)).values()];
    const load = new Load(served);
    for (let round = 1; round <= 2; round += 1) {
      process.kill(served.pid, "SIGHUP");
      await expect
        .poll(() => times(served, "all workers were replaced"), { ...COMES_TRUE, timeout: 60_000 })
        .toBe(round);
    }
    await load.stop();
    expect(load.failures).toEqual([]);
    expect(load.free).toBeGreaterThan(0);
    const after = [...workersOf(served).values()];
    expect(after.filter((pid) => before.includes(pid))).toEqual([]);
    expect(before.filter(isAlive)).toEqual([]);
    // What the workers counted that are gone is counted still.
    const requests = "coinslot_http_requests_total";
    expect(await metricOf(served, requests, 'route="GET /health"')).toBe(load.free);
    expect(await metricOf(served, requests, 'route="GET /weather"')).toBe(load.challenged);
    expect(await metricOf(served, "coinslot_worker_deaths_total")).toBe(0);
    expect(await served.end("SIGTERM")).toBe(0);
  });
});

describe("SIGTERM", () => {
  it("turns readiness red, answers until the load balancer has gone, and drops no request", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const served = await site.serve(yaml(backend, "3s"), {});
    await served.untilReady();
    const load = new Load(served);
    while (load.free < 50) await turn();
    const workers = [...(await bothWorkersOf(served)).values()];
    const ended = served.end("SIGTERM");
    await served.untilReady(503);
    await load.stop();
    expect(load.failures).toEqual([]);
    expect(await ended).toBe(0);
    expect(workers.filter(isAlive)).toEqual([]);
  });

  it("to the whole group, as a supervisor sends it, is for the first process to obey", async () => {
    const release = Promise.withResolvers<void>();
    await using backend = await startBackend((_request, response) => {
      response.write("first half, ");
      void release.promise.then(() => response.end("second half"));
    });
    await using site = await Site.create();
    const served = await site.serve(yaml(backend), {});
    await served.untilReady();
    using connection = new Connection(served.url);
    const streaming = connection.get("/health");
    await expect.poll(() => backend.seen.length, COMES_TRUE).toBe(1);
    for (const pid of (await bothWorkersOf(served)).values()) process.kill(pid, "SIGTERM");
    const ended = served.end("SIGTERM");
    await expect.poll(() => fetch(served.url).catch(() => "refused"), COMES_TRUE).toBe("refused");
    release.resolve();
    expect(await streaming).toMatchObject({ status: 200, text: "first half, second half" });
    expect(await ended).toBe(0);
  });
});

describe("an address that cannot be had", () => {
  it("is told once, and nothing is started", async () => {
    await using site = await Site.create();
    const squatter = createServer().listen(site.port, "127.0.0.1");
    await once(squatter, "listening");
    try {
      const served = await site.serve(yaml({ url: "http://127.0.0.1:9" }), {});
      expect(await served.ended).toBe(1);
      const said = served.output().stderr.match(/EADDRINUSE/g) ?? [];
      expect(said).toHaveLength(1);
    } finally {
      squatter.close();
    }
  });

  it("is also one that another gateway shares among its workers", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const served = await site.serve(yaml(backend), {});
    await served.untilReady();
    const file = `${site.folder}/other.yaml`;
    const own = `listen: 127.0.0.1:${site.port}\npublicUrl: ${served.url}\nstore: sqlite:${site.folder}/other.db\n`;
    await writeFile(file, own + yaml(backend));
    const { code, stderr } = await runCoinslot(["serve", file]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("EADDRINUSE")]);
    expect(await served.end("SIGTERM")).toBe(0);
  });
});
