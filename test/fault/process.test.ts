import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Agent, fetch as fetchFrom } from "undici";
import { WebSocket, WebSocketServer } from "ws";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { present, PURSE, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { freshAccount } from "../support/payer.ts";
import { startPostgres, type PostgresServer } from "../support/postgres.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { runCoinslot, Site } from "../support/serve.ts";
import { pendingOn } from "../support/stranger.ts";

let chain: Chain;
const signer = freshAccount();
const payee = freshAccount();
const env = { SIGNER: signer.privateKey };

beforeAll(async () => {
  chain = await startChain();
  await chain.fund(signer.address, 0n, 10n ** 18n);
});
afterAll(() => chain.stop());

interface Backend extends AsyncDisposable {
  readonly url: string;
  readonly seen: string[];
}

async function startBackend(handler: RequestListener): Promise<Backend> {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    seen.push(request.url ?? "");
    handler(request, response);
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    [Symbol.asyncDispose]: () => drain(server, AbortSignal.timeout(1_000)),
  };
}

function yaml(
  backend: { readonly url: string },
  rpcUrl = chain.rpcUrl,
  network = "base-sepolia",
): string {
  return `
upstream: ${backend.url}
payTo: "${payee.address}"
accept: [${network}]
facilitator:
  embedded:
    networks:
      ${network}: { rpc: ["${rpcUrl}"], signers: [env:SIGNER] }
unmatched: deny
shutdown: 5s
routes:
  GET /weather: { price: $0.01, description: Weather }
  GET /slow: { price: $0.01, description: Slow }
  GET /health: free
`;
}

describe("kill -9", () => {
  it("between broadcast and receipt loses nothing: the next life settles it with nobody asking", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const first = await site.serve(yaml(backend), env);
    await first.untilReady();
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${first.url}/weather`);
    await chain.rpc("evm_setAutomine", [false]);
    try {
      const lost = present(`${first.url}/weather`, header).catch(() => "lost");
      while (Object(await chain.rpc("txpool_status")).pending === "0x0") await turn();
      await first.end("SIGKILL");
      expect(await lost).toBe("lost");
      expect(backend.seen).toEqual([]);
      // The node forgets it too: only the bytes in the ledger can bring the settlement back.
      await chain.rpc("anvil_dropAllTransactions");
    } finally {
      await chain.rpc("evm_setAutomine", [true]);
    }
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);

    const second = await site.serve(yaml(backend), env);
    await second.untilReady();
    while ((await chain.balanceOf(buyer.address)) === PURSE) await turn();
    expect(backend.seen).toEqual([]);
    const answer = await present(`${second.url}/weather`, header);
    expect(answer).toMatchObject({ status: 200, text: "fine", receipt: { success: true } });
    expect(await present(`${second.url}/weather`, header)).toMatchObject({
      status: 200,
      text: "fine",
    });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    expect(backend.seen).toEqual(["/weather"]);
    expect(await second.end("SIGTERM")).toBe(0);
  });
});

/** What somebody at another address gets for a payment that he has read from the chain. */
async function steal(url: string, header: string): Promise<{ status: number; text: string }> {
  const dispatcher = new Agent({ localAddress: "127.0.0.2" });
  try {
    const answer = await fetchFrom(url, { headers: { "X-PAYMENT": header }, dispatcher });
    return { status: answer.status, text: await answer.text() };
  } finally {
    await dispatcher.destroy();
  }
}

describe("kill -9 before a payment is signed again", { timeout: 60_000 }, () => {
  let postgres: PostgresServer;
  beforeAll(async () => {
    postgres = await startPostgres();
  });
  afterAll(() => postgres.stop());

  it.each([
    ["SQLite", async () => ({})],
    ["PostgreSQL", async () => ({ store: await postgres.database() })],
  ] as const)("that everybody has seen is its buyer's (%s)", async (_name, options) => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create(await options());
    await using proxy = await startRpcProxy(chain.rpcUrl);
    const first = await site.serve(yaml(backend, proxy.url), env);
    await first.untilReady();
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${first.url}/weather`);
    await chain.rpc("evm_setAutomine", [false]);
    const lost = present(`${first.url}/weather`, header).catch(() => "lost");
    while ((await pendingOn(chain)) === 0) await turn();
    // Its account nonce goes to another transaction, so that it has to be signed again. That is judged first.
    const judged = proxy.inject({
      method: "eth_call",
      when: ({ params }) => params[1] === "pending",
      hold: true,
    });
    await chain.rpc("anvil_dropAllTransactions");
    await chain.rpc("evm_setAutomine", [true]);
    await chain.rpc("anvil_impersonateAccount", [signer.address]);
    await chain.rpc("eth_sendTransaction", [{ from: signer.address, to: payee.address }]);
    await judged.hit();
    await first.end("SIGKILL");
    expect(await lost).toBe("lost");
    judged.lift();

    const second = await site.serve(yaml(backend, proxy.url), env);
    await second.untilReady();
    const stolen = await steal(`${second.url}/weather`, header);
    expect(stolen).toMatchObject({ status: 409, text: expect.stringContaining("sent it first") });
    expect(backend.seen).toEqual([]);
    const answer = await present(`${second.url}/weather`, header);
    expect(answer).toMatchObject({ status: 200, text: "fine", receipt: { success: true } });
    expect(backend.seen).toEqual(["/weather"]);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
  });
});

describe("SIGTERM", () => {
  it("finishes the answers in flight, accepts nothing new, and exits 0", async () => {
    const release = Promise.withResolvers<void>();
    await using backend = await startBackend((_request, response) => {
      response.write("first half, ");
      void release.promise.then(() => response.end("second half"));
    });
    await using site = await Site.create();
    const served = await site.serve(yaml(backend), env);
    await served.untilReady();
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${served.url}/slow`);
    const streaming = await fetch(`${served.url}/slow`, { headers: { "X-PAYMENT": header } });
    expect(streaming.status).toBe(200);
    const ended = served.end("SIGTERM");
    await expect.poll(() => fetch(`${served.url}/health`).catch(() => "refused")).toBe("refused");
    release.resolve();
    expect(await streaming.text()).toBe("first half, second half");
    expect(await ended).toBe(0);
  });
});

describe("an open WebSocket", () => {
  it("is cut when the time for a shutdown is up, and the process ends", async () => {
    const server = createServer();
    const sockets = new WebSocketServer({ server });
    sockets.on("connection", (socket) => socket.send("welcome"));
    const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
    try {
      await using site = await Site.create();
      const backend = { url: `http://127.0.0.1:${port}` };
      const text = yaml(backend).replace("shutdown: 5s", "shutdown: 500ms");
      const served = await site.serve(text.replace("/health", "/socket"), env);
      await served.untilReady();
      const socket = new WebSocket(`${served.url.replace("http", "ws")}/socket`);
      await once(socket, "message");
      const cut = once(socket, "close");
      expect(await served.end("SIGTERM")).toBe(0);
      await cut;
    } finally {
      for (const client of sockets.clients) client.terminate();
      await drain(server, AbortSignal.timeout(1_000));
    }
  });
});

describe("a second process", () => {
  it("on the same ledger is refused: it would deliver the first one's payments again", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const first = await site.serve(yaml(backend), env);
    await first.untilReady();
    const second = await site.serve(yaml(backend), env);
    expect(await second.ended).toBe(1);
    expect(second.output().stderr).toContain("another process");
    expect((await fetch(`${first.url}/health`)).status).toBe(200);
    expect(await first.end("SIGTERM")).toBe(0);
  });
});

describe("a node", () => {
  it("of another chain leaves the start to go on, with its network closed, and a line in the log that says why", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const served = await site.serve(yaml(backend, chain.rpcUrl, "polygon-amoy"), env);
    expect(await served.untilReady()).toBe("ready\n- polygon-amoy: closed (chain)\n");
    expect((await fetch(`${served.url}/health`)).status).toBe(200);
    expect((await fetch(`${served.url}/weather`)).status).toBe(503);
    expect(await served.end("SIGTERM")).toBe(0);
    const lines = served
      .output()
      .stdout.split("\n")
      .filter((line) => line.includes("is closed"));
    expect(lines.map((line): unknown => JSON.parse(line))).toMatchObject([
      {
        level: "error",
        network: "polygon-amoy",
        reason: "chain",
        msg: expect.stringMatching(/network is closed: .*80002/),
      },
      { level: "error", msg: expect.stringContaining("a route answers 503") },
    ]);
  });

  it("that cannot be reached, where nothing else can be served, turns readiness red until it can", async () => {
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    await using proxy = await startRpcProxy(chain.rpcUrl);
    await proxy.down();
    const sold = yaml(backend, proxy.url).replace(/^.*: free\n/gm, "");
    const served = await site.serve(sold, env);
    expect(await served.untilReady(503, 15_000)).toMatch(/^not ready\n- (?:starting|nothing can)/);
    const question = async () => (await fetch(`${served.url}/weather`)).status;
    await expect.poll(question, { timeout: 15_000 }).toBe(503);
    const readiness = async () => (await fetch(`${served.adminUrl}/readyz`)).text();
    expect(await readiness()).toBe(
      "not ready\n- nothing can be served\n- base-sepolia: closed (rpc)\n",
    );
    await proxy.up();
    expect(await served.untilReady()).toBe("ready\n- base-sepolia: open\n");
    const buyer = await richBuyer(chain);
    await expect.poll(question, { timeout: 5_000 }).toBe(402);
    const header = await sign(buyer, `${served.url}/weather`);
    expect((await present(`${served.url}/weather`, header)).status).toBe(200);
    expect(await served.end("SIGTERM")).toBe(0);
  });
});

describe("the command line", () => {
  it("check accepts a shipped file with exit code 0", async () => {
    const { code, stdout } = await runCoinslot(["check", "config/minimal.yaml"]);
    expect([code, stdout]).toEqual([0, expect.stringContaining("config/minimal.yaml: ok")]);
  });

  it("check and serve refuse a file with a typing error, at its place, with exit codes of their own", async () => {
    await using site = await Site.create();
    const { writeFile } = await import("node:fs/promises");
    const file = `${site.folder}/typo.yaml`;
    await writeFile(file, "upstreem: http://localhost:3000\nroutes:\n  GET /a: $0.01\n");
    for (const [command, exitCode] of [
      ["check", 1],
      ["serve", 78],
    ] as const) {
      const { code, stderr } = await runCoinslot([command, file]);
      expect(code).toBe(exitCode);
      expect(stderr).toContain(`${file}:1:1: error:`);
      expect(stderr).toContain('did you mean "upstream"?');
    }
  });

  it("wrong usage is exit code 2, help and version are 0", async () => {
    expect((await runCoinslot(["serve"])).code).toBe(2);
    expect((await runCoinslot(["nonsense"])).code).toBe(2);
    expect(await runCoinslot(["--version"])).toMatchObject({ code: 0, stdout: "0.1.0\n" });
    expect((await runCoinslot(["--help"])).code).toBe(0);
  });
});
