/** A new configuration while the gateway runs: from a file, a signal and a request, whole or not at all. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { Agent, createServer, request as httpRequest, type ClientRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { start } from "../../src/app.ts";
import { formatProblems, parseConfig, type ParseResult } from "../../src/config/config.ts";
import { present, PURSE, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { freshAccount } from "../support/payer.ts";
import { startIdleFacilitator } from "../support/scripted-facilitator.ts";
import { runCoinslot, Site, type Served } from "../support/serve.ts";
import { metricOf } from "./workers/stage.ts";

// Processes are started and ended.
vi.setConfig({ testTimeout: 120_000 });

let chain: Chain;
const signer = freshAccount();
const env = { SIGNER: signer.privateKey };
const payee = freshAccount().address;
/** How long a change of the file may take to be served, milliseconds. */
const SOON = { timeout: 30_000, interval: 50 };

beforeAll(async () => {
  chain = await startChain();
  await chain.fund(signer.address, 0n, 10n ** 18n);
});

afterAll(() => chain.stop());

const GENERATIONS = "coinslot_config_generations_total ";

interface Backend extends AsyncDisposable {
  readonly url: string;
  connections(): Promise<number>;
}

async function startBackend(text = "sold"): Promise<Backend> {
  const server = createServer((_request, response) => void response.end(text));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    connections: () => promisify(server.getConnections.bind(server))(),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

interface Written {
  readonly price?: string;
  readonly upstream: string;
  readonly more?: string;
  readonly paidTo?: string;
}

function yaml({ price = "$0.01", upstream, more = "", paidTo = payee }: Written): string {
  return `
upstream: ${upstream}
payTo: "${paidTo}"
accept: [base-sepolia]
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
unmatched: deny
${more}
routes:
  GET /weather: { price: ${price}, description: Weather }
  GET /health: free
`;
}

async function askedFor(served: Served): Promise<string> {
  const answer = await fetch(`${served.url}/weather`);
  const body = Object(await answer.json());
  return String(body.accepts?.[0]?.maxAmountRequired);
}

async function reload(
  served: Served,
  query = "",
): Promise<{ status: number; body: Record<string, unknown> }> {
  const answer = await fetch(`${served.adminUrl}/-/reload${query}`, { method: "POST" });
  return { status: answer.status, body: Object(await answer.json()) };
}

describe.each([1, 2])("a gateway of %i workers", (workers) => {
  const more = `workers: ${workers}\nshutdown: 5s`;

  it("asks for the new price, and takes the old one from whoever was asked for it", async () => {
    await using backend = await startBackend();
    await using site = await Site.create();
    const served = await site.serve(yaml({ upstream: backend.url, more }), env);
    await served.untilReady();
    const buyer = await richBuyer(chain);
    const quoted = await sign(buyer, `${served.url}/weather`);
    expect(await askedFor(served)).toBe("10000");

    await site.write(yaml({ upstream: backend.url, price: "$0.03", more }));
    await expect.poll(() => askedFor(served), SOON).toBe("30000");
    expect((await present(`${served.url}/weather`, quoted)).status).toBe(200);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);

    const dearer = await sign(buyer, `${served.url}/weather`);
    await site.write(yaml({ upstream: backend.url, price: "$0.02", more }));
    await expect.poll(() => askedFor(served), SOON).toBe("20000");
    expect((await present(`${served.url}/weather`, dearer)).status).toBe(200);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 40_000n);
    expect(await served.end("SIGTERM")).toBe(0);
  });

  it("takes a payment in the version in which it was asked for, though that is switched off", async () => {
    await using backend = await startBackend();
    await using site = await Site.create();
    const served = await site.serve(yaml({ upstream: backend.url, more }), env);
    await served.untilReady();
    const buyer = await richBuyer(chain);
    const quoted = await sign(buyer, `${served.url}/weather`);
    const newer = `${more}\nprotocol: { v1: false }`;
    await site.write(yaml({ upstream: backend.url, more: newer }));
    await expect.poll(() => askedFor(served), SOON).toBe("undefined");
    expect((await present(`${served.url}/weather`, quoted)).status).toBe(200);
    expect((await present(`${served.url}/weather`, quoted)).status).toBe(200);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    expect(await served.end("SIGTERM")).toBe(0);
  });

  it("goes on as it was when the file has an error, and says where", async () => {
    await using backend = await startBackend();
    await using site = await Site.create();
    const served = await site.serve(yaml({ upstream: backend.url, more }), env);
    await served.untilReady();
    await site.write(yaml({ upstream: backend.url, price: "$0.0O", more }));
    const refused = await reload(served);
    expect(refused.status).toBe(422);
    expect(refused.body).toMatchObject({ reloaded: false });
    expect(refused.body["problems"]).toContainEqual(
      expect.objectContaining({ severity: "error", line: expect.any(Number), file: site.file }),
    );
    expect(await askedFor(served)).toBe("10000");
    await expect.poll(() => served.output().stdout, SOON).toContain("^^^");

    await site.write(yaml({ upstream: backend.url, price: "$0.05", more }));
    expect(await reload(served)).toMatchObject({ status: 200, body: { reloaded: true } });
    expect(await askedFor(served)).toBe("50000");
    expect(await served.end("SIGTERM")).toBe(0);
  });
});

describe("a reload", () => {
  it("says what changes, dry or not, and counts only what is taken up", async () => {
    await using backend = await startBackend();
    await using site = await Site.create();
    const served = await site.serve(yaml({ upstream: backend.url }), env);
    await served.untilReady();
    const changes = [
      { key: "cors", before: "off", after: "any" },
      { key: "routes.GET /weather.price", before: "$0.01", after: "$0.04" },
    ];
    const text = yaml({ upstream: backend.url, price: "$0.04", more: "cors: true" });
    // Neither by itself: the file says so once it is in use.
    await site.write(yaml({ upstream: backend.url, more: "watch: false" }));
    await expect.poll(() => served.output().stdout, SOON).toContain('"key":"watch"');
    await site.write(`${text}watch: false\n`);
    using ledger = new DatabaseSync(site.store.slice("sqlite:".length), { readOnly: true });
    const terms = () => ledger.prepare("SELECT * FROM route_terms").all();
    const [before, dry] = [terms(), await reload(served, "?dry-run")];
    expect(dry).toMatchObject({
      status: 200,
      body: { reloaded: false, wouldReload: true, changes },
    });
    expect(await runCoinslot(["reload", site.file, "--dry-run"])).toMatchObject({
      code: 0,
      stdout: `cors: off -> any
routes.GET /weather.price: $0.01 -> $0.04
would be reloaded; nothing has changed
`,
    });
    expect([await askedFor(served), await metricOf(served, GENERATIONS)]).toEqual(["10000", 2]);
    expect(terms()).toEqual(before);
    const taken = await reload(served);
    expect(taken).toMatchObject({ status: 200, body: { reloaded: true, changes } });
    expect([await askedFor(served), await metricOf(served, GENERATIONS)]).toEqual(["40000", 3]);
    const hash = createHash("sha256")
      .update(await readFile(site.file))
      .digest("hex");
    expect(hash.startsWith(String(taken.body["hash"]))).toBe(true);
    expect(
      await metricOf(served, `coinslot_config_info{hash="${String(taken.body["hash"])}"}`),
    ).toBe(1);
    const said = served.output().stdout.split("\n");
    const line = said.find((each) => each.includes("$0.04"));
    expect(JSON.parse(line ?? "")).toMatchObject({
      msg: "the configuration was reloaded",
      changes,
    });
    expect(await served.end("SIGTERM")).toBe(0);
  });

  it("is refused where a priced route would be free or the file ends early, until that is meant", async () => {
    await using backend = await startBackend();
    await using site = await Site.create();
    const whole = yaml({ upstream: backend.url }).replace("deny", "free");
    const served = await site.serve(whole, env);
    await served.untilReady();
    const cut = whole.replace("GET /weather", "GET /others");
    for (const [text, codes] of [
      [cut, ["unpriced-route"]],
      [whole.replace(/ {2}GET \/health.*\n/, ""), ["cut-file"]],
      [whole.replace("$0.01", "$0.02").trimEnd(), ["cut-file"]],
    ] as const) {
      await site.write(text);
      // By itself, by a signal and by the command: nobody there says that it is meant.
      process.kill(served.pid, "SIGHUP");
      const { status, body } = await reload(served);
      expect({ status, problems: body["problems"] }).toMatchObject({
        status: 422,
        problems: expect.arrayContaining(codes.map((code) => expect.objectContaining({ code }))),
      });
      const dry = await runCoinslot(["reload", site.file, "--dry-run"]);
      expect([dry.code, dry.stderr.includes("coinslot reload FILE --allow-free")]).toEqual([
        1,
        true,
      ]);
      expect([await askedFor(served), await metricOf(served, GENERATIONS)]).toEqual(["10000", 1]);
    }
    await site.write(cut);
    const meant = await runCoinslot(["reload", site.file, "--allow-free"]);
    expect(meant).toMatchObject({ code: 0, stdout: expect.stringContaining("reloaded\n") });
    expect((await fetch(`${served.url}/weather`)).status).toBe(200);
    expect(await served.end("SIGTERM")).toBe(0);
  });

  it("is taken up when a file changes that it includes, and not while that is being written", async () => {
    await using backend = await startBackend();
    await using site = await Site.create();
    const more = join(site.folder, "more.yaml");
    const write = (price: string, end = "  GET /last: free\n"): Promise<void> =>
      writeFile(more, `routes:\n  GET /more: { price: ${price}, description: More }\n${end}`);
    await write("$0.03");
    const served = await site.serve(
      yaml({ upstream: backend.url, more: "include: more.yaml" }),
      env,
    );
    await served.untilReady();
    const asked = async (): Promise<unknown> => {
      const answer = await fetch(`${served.url}/more`);
      const { accepts } = Object(await answer.json());
      return accepts?.[0]?.maxAmountRequired;
    };
    expect(await asked()).toBe("30000");
    await write("$0.05");
    await expect.poll(asked, SOON).toBe("50000");
    for (const [text, code] of [
      ["", "bad-file"],
      ["routes:\n  GET /more: { price: $0.05, description: More }\n", "cut-file"],
    ] as const) {
      await writeFile(more, text);
      expect((await reload(served)).body["problems"]).toMatchObject(
        expect.arrayContaining([expect.objectContaining({ code })]),
      );
      expect(await asked()).toBe("50000");
    }
    // One that is begun to be included, and mended there.
    const other = join(site.folder, "other.yaml");
    await writeFile(other, "routes:\n  GET /other: { price: much, description: Other }\n");
    await write("$0.05");
    await site.write(yaml({ upstream: backend.url, more: "include: [more.yaml, other.yaml]" }));
    expect((await reload(served)).status).toBe(422);
    await writeFile(other, "routes:\n  GET /other: { price: $0.06, description: Other }\n");
    await expect.poll(async () => (await fetch(`${served.url}/other`)).status, SOON).toBe(402);
    expect(await served.end("SIGTERM")).toBe(0);
  });

  it("comes by SIGHUP, too, and by a link that is turned as Kubernetes does", async () => {
    await using backend = await startBackend();
    await using site = await Site.create();
    const served = await site.serve(yaml({ upstream: "${UPSTREAM}" }), {
      ...env,
      UPSTREAM: backend.url,
    });
    await served.untilReady();
    process.kill(served.pid, "SIGHUP");
    await expect.poll(() => served.output().stdout, SOON).toContain("SIGHUP");
    const [one, two] = [join(site.folder, "..one.yaml"), join(site.folder, "..two.yaml")];
    for (const [target, price, asked] of [
      [one, "$0.07", "70000"],
      [two, "$0.08", "80000"],
    ] as const) {
      await writeFile(target, (await site.head()) + yaml({ upstream: backend.url, price }));
      await symlink(target, `${site.file}.next`);
      await rename(`${site.file}.next`, site.file);
      await expect.poll(() => askedFor(served), SOON).toBe(asked);
    }
    expect(await served.end("SIGTERM")).toBe(0);
  });

  it("is refused where only a restart can make the change, and says which key it is", async () => {
    await using backend = await startBackend();
    await using site = await Site.create();
    const served = await site.serve(yaml({ upstream: backend.url }), env);
    await served.untilReady();
    for (const [change, ...path] of [
      [{ more: "workers: 2" }, "workers"],
      [{ more: "limits: { header: 20KiB }" }, "limits", "header"],
    ] as const) {
      await site.write(yaml({ upstream: backend.url, price: "$0.09", ...change }));
      const { status, body } = await reload(served);
      expect({ status, problems: body["problems"] }).toMatchObject({
        status: 422,
        problems: [{ code: "needs-restart", path }],
      });
      expect(await askedFor(served)).toBe("10000");
    }
    expect(await served.end("SIGTERM")).toBe(0);
  });

  it("is not to be asked for by a page in a browser, nor by GET", async () => {
    await using backend = await startBackend();
    await using site = await Site.create();
    const served = await site.serve(yaml({ upstream: backend.url }), env);
    await served.untilReady();
    const headers = { origin: "http://evil.example" };
    const url = `${served.adminUrl}/-/reload`;
    expect((await fetch(url, { method: "POST", headers })).status).toBe(403);
    expect((await fetch(url)).status).toBe(405);
    expect(await served.end("SIGTERM")).toBe(0);
  });

  it("is refused while the gateway starts", async () => {
    await using backend = await startBackend();
    const silent = createServer(() => undefined);
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    try {
      const { port } = silent.address() as AddressInfo;
      await using site = await Site.create();
      const text = yaml({ upstream: backend.url }).replace(
        chain.rpcUrl,
        `http://127.0.0.1:${port}`,
      );
      const served = await site.serve(text, env);
      await expect.poll(() => reload(served).catch(() => null), SOON).not.toBeNull();
      const { status, body } = await reload(served);
      expect(status).toBe(422);
      expect(body.problems).toContainEqual(
        expect.objectContaining({ message: "the gateway is starting" }),
      );
      await served.end("SIGKILL");
    } finally {
      silent.closeAllConnections();
      silent.close();
    }
  });

  it("twice leaves a request that began before both of them the backend that it goes to", async () => {
    await using backend = await startBackend();
    await using other = await startBackend("sold elsewhere");
    const folder = await mkdtemp(join(tmpdir(), "coinslot-reload-"));
    let [upstream, price] = [backend.url, "$0.01"];
    const load = async (): Promise<ParseResult> => {
      const text = `
listen: 127.0.0.1:0
publicUrl: http://localhost:8402
admin: 127.0.0.1:0
upstream: ${upstream}
payTo: "${payee}"
accept: [base-sepolia]
facilitator: http://127.0.0.1:9
unmatched: deny
store: sqlite:${folder}/ledger.db
logging: { level: silent }
routes:
  GET /weather: ${price}
  POST /note: free
`;
      return parseConfig(text, { file: "test.yaml", env: {}, readFile: () => "" });
    };
    const first = await load();
    if (!first.ok) throw new Error(formatProblems(first.problems, first.text));
    const running = await start(first.config, "test", { load });
    const { port } = running.addresses.gateway[0] ?? { port: 0 };
    const note = (): { asking: ClientRequest; answered: Promise<string> } => {
      const headers = { "content-length": 4 };
      const to = { host: "127.0.0.1", port, path: "/note", method: "POST", agent: false, headers };
      const asking = httpRequest(to);
      const answered = once(asking, "response").then(async ([answer]) => {
        return `${answer.statusCode} ${Buffer.concat(await answer.toArray()).toString()}`;
      });
      return { asking, answered };
    };
    const old = note();
    old.asking.write("no");
    // Its head is there before the next request's.
    const before = note();
    before.asking.end("note");
    expect(await before.answered).toBe("200 sold");
    price = "$0.02";
    expect(await running.reload("POST /-/reload")).toMatchObject({ reloaded: true });
    upstream = other.url;
    expect(await running.reload("POST /-/reload")).toMatchObject({ reloaded: true });
    const after = note();
    after.asking.end("note");
    expect(await after.answered).toBe("200 sold elsewhere");
    // One that it never asks waits for nobody.
    upstream = backend.url;
    expect(await running.reload("POST /-/reload")).toMatchObject({ reloaded: true });
    await expect.poll(() => other.connections()).toBe(0);
    old.asking.end("te");
    expect(await old.answered).toBe("200 sold");
    await running.close();
    await rm(folder, { recursive: true, force: true });
  });

  it("happens 200 times under load, and no request fails and nothing is left behind", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    await using backend = await startBackend();
    await using other = await startBackend("sold elsewhere");
    await using facilitator = await startIdleFacilitator();
    const folder = await mkdtemp(join(tmpdir(), "coinslot-reload-"));
    let text = "";
    const write = (round: number): void => {
      const upstream = round % 3 === 0 ? other.url : backend.url;
      text = `
listen: 127.0.0.1:0
publicUrl: http://localhost:8402
admin: 127.0.0.1:0
upstreams: { default: { targets: ["${upstream}"], headers: { set: { X-Round: "${round}" } } } }
payTo: "${payee}"
accept: [base-sepolia]
facilitator: ${facilitator.url}
unmatched: deny
store: sqlite:${folder}/ledger.db
logging: { level: silent }
routes:
  GET /weather: $0.0${1 + (round % 9)}
  GET /health: free
`;
    };
    const load = async (): Promise<ParseResult> =>
      parseConfig(text, { file: "test.yaml", env: {}, readFile: () => "" });
    write(0);
    const first = await load();
    if (!first.ok) throw new Error(formatProblems(first.problems, first.text));
    const running = await start(first.config, "test", { load });
    const { port } = running.addresses.gateway[0] ?? { port: 0 };
    const agent = new Agent({ keepAlive: true, maxSockets: 16 });
    const get = (path: string): Promise<number> =>
      new Promise((resolve, reject) => {
        const asking = httpRequest({ agent, host: "127.0.0.1", port, path }, (answer) => {
          answer.resume().on("end", () => resolve(answer.statusCode ?? 0));
        });
        asking.on("error", reject).end();
      });
    const over = new AbortController();
    const statuses = new Map<number, number>();
    const asking = Array.from({ length: 16 }, async (_, index) => {
      const path = index % 2 === 0 ? "/health" : "/weather";
      while (!over.signal.aborted) {
        const status = await get(path);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    });
    const heaps: number[] = [];
    for (let round = 1; round <= 200; round += 1) {
      write(round);
      const { reloaded, problems } = await running.reload("POST /-/reload");
      expect({ round, reloaded, problems }).toMatchObject({ reloaded: true });
      if (round % 20 !== 0) continue;
      collect();
      heaps.push(process.memoryUsage().heapUsed);
    }
    over.abort();
    await Promise.all(asking);
    agent.destroy();
    await running.close();
    await rm(folder, { recursive: true, force: true });
    expect(new Set(statuses.keys())).toEqual(new Set([200, 402]));
    expect(Math.min(...statuses.values())).toBeGreaterThan(200);
    // Prices of the last 64 configurations are remembered; from then on nothing is added.
    const settled = heaps.slice(4);
    expect(Math.min(...settled.slice(-2)) / Math.min(...settled.slice(0, 2))).toBeLessThan(1.15);
  });
});
