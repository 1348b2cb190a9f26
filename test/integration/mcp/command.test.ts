/** A server that reads and writes by its standard streams, sold as any backend: a process for each session. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import { connectSdk, connectWeb, type Connect } from "../../support/mcp/clients.ts";
import { gone, said, selfOf, stdioCommand, type StdioKind } from "../../support/mcp/stdio.ts";

let chain: Chain;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain[Symbol.asyncDispose]());

const CLIENTS: Readonly<Record<string, Connect>> = {
  "@modelcontextprotocol/sdk 1.32.2": connectSdk,
  "@modelcontextprotocol/client 2.4.0": connectWeb(),
  "@modelcontextprotocol/client 2.4.0 as one of before": connectWeb("legacy"),
};

/** Tests ask for others. */
const TRUSTED = "trustedProxies: [127.0.0.1]";

/** A gateway before the program. @param more YAML of `command` besides. @param file of the whole file */
function open(kind: StdioKind, more = "", file = ""): Promise<RunningGateway> {
  const run = JSON.stringify(stdioCommand(kind));
  return startGateway({
    chain,
    upstream: `{ command: { run: ${run}${more} } }`,
    routes: "{ /mcp: free }",
    more: file,
  });
}

describe.each(["sdk", "web"] as const)("a program of the SDK %s", (kind) => {
  test.each(Object.entries(CLIENTS))("lists, calls and reads for %s", async (_, connect) => {
    await using gateway = await open(kind);
    await using client = await connect(`${gateway.url}/mcp`);
    const tools = await client.list();
    expect(tools.map(({ name }) => name)).toContain("echo");
    expect(said(await client.call("echo", { text: "hé" }))).toBe("hé");
    expect((await client.call("fail")).isError).toBe(true);
    expect(said(await client.call("big", { letters: 300_000 }))).toHaveLength(300_000);
    expect(await client.read("test://static-text")).toMatchObject([{ mimeType: "text/plain" }]);
    const progress: number[] = [];
    await client.call(
      "test_tool_with_progress",
      {},
      { onProgress: (done) => void progress.push(done) },
    );
    expect(progress).toEqual([0, 50, 100]);
    const isNew = kind === "web" && connect === CLIENTS["@modelcontextprotocol/client 2.4.0"];
    expect(client.revision).toBe(isNew ? "2026-07-28" : "2025-11-25");
  });
});

describe("a process", () => {
  test("has its own environment and none of the gateway's", async () => {
    process.env["COINSLOT_TEST_KEY"] = "secret";
    await using gateway = await open("sdk", ", env: { GREETING: hello }");
    await using client = await connectSdk(`${gateway.url}/mcp`);
    const { env } = await selfOf(client);
    delete process.env["COINSLOT_TEST_KEY"];
    const { PATH, GREETING, ...rest } = env;
    expect({ PATH, GREETING }).toEqual({ PATH: process.env["PATH"], GREETING: "hello" });
    expect(Object.keys(rest)).toEqual([]);
  });

  test.each(Object.entries(CLIENTS).slice(0, 2))(
    "is one session's alone for %s, or one caller's",
    async (_, connect) => {
      await using gateway = await open("web");
      await using one = await connect(`${gateway.url}/mcp`);
      await using other = await connect(`${gateway.url}/mcp`);
      const [first, second] = [await selfOf(one), await selfOf(other)];
      expect(first.pid === second.pid).toBe(one.sessionId === undefined);
      expect(await selfOf(one)).toMatchObject({ pid: first.pid });
    },
  );

  test("ends with its session", async () => {
    await using gateway = await open("sdk");
    await using client = await connectSdk(`${gateway.url}/mcp`);
    const { pid } = await selfOf(client);
    await client.terminate();
    await gone(pid);
  });

  test.each(Object.entries(CLIENTS).slice(0, 2))(
    "that crashes ends the call of %s with an error that says so, and the next session has another",
    async (_, connect) => {
      await using gateway = await open("web");
      await using client = await connect(`${gateway.url}/mcp`);
      const { pid } = await selfOf(client);
      const held = client.call("hold").catch(String);
      await expect(client.call("crash")).rejects.toThrow(/has ended with code 3/);
      expect(await held).toMatch(/has ended with code 3/);
      if (client.sessionId !== undefined) {
        await expect(client.call("echo", { text: "on" })).rejects.toThrow(/has ended with code 3/);
      }
      await using again = await connect(`${gateway.url}/mcp`);
      expect((await selfOf(again)).pid).not.toBe(pid);
    },
  );

  test("that is killed ends what it was asked", async () => {
    await using gateway = await open("sdk");
    await using client = await connectSdk(`${gateway.url}/mcp`);
    const { pid } = await selfOf(client);
    const half = Promise.withResolvers<void>();
    const held = client.call("hold", {}, { onProgress: () => half.resolve() }).catch(String);
    await half.promise;
    process.kill(pid, "SIGKILL");
    expect(await held).toMatch(/SIGKILL has ended it/);
  });

  test("that says much is heard, and what it says is no message", async () => {
    await using gateway = await open("sdk");
    await using client = await connectSdk(`${gateway.url}/mcp`);
    expect(said(await client.call("babble"))).toBe("said");
    expect(said(await client.call("echo", { text: "on" }))).toBe("on");
  });

  test("that takes too much memory is ended, and its call hears why", async () => {
    await using gateway = await open("sdk", ", memory: 300MiB");
    await using client = await connectSdk(`${gateway.url}/mcp`);
    await expect(client.call("hoard")).rejects.toThrow(/bytes of memory/);
  });

  test("says and hears no message that is larger than one may be", async () => {
    await using gateway = await open("sdk", ", message: 100KiB");
    await using client = await connectSdk(`${gateway.url}/mcp`);
    await expect(client.call("echo", { text: "x".repeat(102_400) })).rejects.toThrow(/102400/);
    expect(said(await client.call("echo", { text: "on" }))).toBe("on");
    await expect(client.call("big", { letters: 102_400 })).rejects.toThrow(/more than 102400/);
  });

  test("that nobody asks anything is ended, and the next request hears why", async () => {
    await using gateway = await open("sdk", ", idle: 1s");
    await using client = await connectSdk(`${gateway.url}/mcp`);
    const { pid } = await selfOf(client);
    await gone(pid);
    await expect(client.call("self")).rejects.toThrow(/nothing was asked for too long/);
  });

  test("is ended when it has lived as long as one may, busy or not", async () => {
    await using gateway = await open("sdk", ", life: 2s");
    await using client = await connectSdk(`${gateway.url}/mcp`);
    await expect(client.call("hold")).rejects.toThrow(/as long as one may/);
  });

  test("that cannot be started, or ends at once, is not started again and again", async () => {
    await using gateway = await startGateway({
      chain,
      upstream: "{ command: [/nowhere/server] }",
      routes: "{ /mcp: free }",
    });
    await expect(connectSdk(`${gateway.url}/mcp`)).rejects.toThrow(/cannot be started/);
    const again = await initialize(gateway.url);
    expect(again.status).toBe(503);
    expect(Number(again.headers.get("Retry-After"))).toBeGreaterThan(0);
    expect(await again.text()).toContain("ends as soon as it is started");
  });
});

describe("strangers", () => {
  test("who open a thousand sessions have their share, and others get one", async () => {
    await using gateway = await open("sdk", ", processes: 3, perClient: 2", TRUSTED);
    const statuses = await Promise.all(
      Array.from({ length: 1_000 }, () => opened(gateway.url, "203.0.113.1")),
    );
    expect(statuses.filter((status) => status === 200)).toHaveLength(2);
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
    expect(await opened(gateway.url, "203.0.113.2")).toBe(200);
    // All are taken, and none has been silent for long.
    expect(await opened(gateway.url, "203.0.113.3")).toBe(503);
  });

  test("get nothing without a session, for a batch, or for what is no message", async () => {
    await using gateway = await open("sdk");
    const post = async (body: string, headers: Readonly<Record<string, string>> = {}) => {
      const response = await fetch(`${gateway.url}/mcp`, {
        method: "POST",
        headers: { ...HEADERS, ...headers },
        body,
      });
      await response.text();
      return response.status;
    };
    const list = { jsonrpc: "2.0", id: 1, method: "tools/list" };
    expect(await post(JSON.stringify(list))).toBe(400);
    const begun = await initialize(gateway.url);
    await begun.text();
    const session = { "Mcp-Session-Id": begun.headers.get("mcp-session-id") ?? "" };
    expect(await post(JSON.stringify(list), session)).toBe(200);
    expect(await post(JSON.stringify([list, { ...list, id: 2 }]), session)).toBe(400);
    expect(await post("{")).toBe(400);
    expect(await post("[".repeat(100_000))).toBe(400);
    // What writes it to the program would call itself for each level.
    const nested = (levels: number): string => {
      const deep = "[".repeat(levels) + "]".repeat(levels);
      return INITIALIZE.replace('"params":{', `"params":{"_meta":{"deep":${deep}},`);
    };
    expect(await post(nested(300))).toBe(400);
    expect(await post(nested(200))).toBe(200);
    // What checks it looks at each, while everybody else waits.
    const many = (values: number): string =>
      INITIALIZE.replace('"params":{', `"params":{"_meta":{"many":[${"0,".repeat(values)}0]},`);
    expect(await post(many(16_384))).toBe(400);
    expect(await post(many(16_000))).toBe(200);
    expect(await post(JSON.stringify(list), { "Mcp-Session-Id": "somebody's" })).toBe(404);
    expect(await post(INITIALIZE, { "Content-Type": "text/plain" })).toBe(415);
  });
});

const HEADERS = {
  "Content-Type": "application/json",
  Accept: "application/json, text/event-stream",
};
const INITIALIZE = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "stranger", version: "1" },
  },
});

/** The first request of a session. */
function initialize(url: string, from?: string): Promise<Response> {
  const headers = from === undefined ? HEADERS : { ...HEADERS, "X-Forwarded-For": from };
  return fetch(`${url}/mcp`, { method: "POST", headers, body: INITIALIZE });
}

/** How a session's first request is answered to somebody at that address. */
async function opened(url: string, from: string): Promise<number> {
  const { status, body } = await initialize(url, from);
  await body?.cancel();
  return status;
}
