/** Servers of MCP behind a route that is free, for the official clients of both SDKs: what they do past the gateway they do through it. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import { breakable } from "../../support/mcp/breakable.ts";
import { connectSdk, connectWeb, type Connect, type McpClient } from "../../support/mcp/clients.ts";
import { McpStage, type McpStageOptions } from "../../support/mcp/stage.ts";

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

const SERVERS: Readonly<Record<string, McpStageOptions>> = {
  "sessions, streams": {},
  "sessions, JSON": { json: true },
  "requests, streams where there is something to tell": { serves: "requests" },
  "requests, JSON": { serves: "requests", json: true },
};

/** A stage and a gateway before it. */
async function open(
  options: McpStageOptions = {},
): Promise<AsyncDisposable & { stage: McpStage; gateway: RunningGateway; url: string }> {
  await using opening = new AsyncDisposableStack();
  const stage = opening.use(await McpStage.open(options));
  const gateway = opening.use(
    await startGateway({
      chain,
      upstreamUrl: stage.origin,
      routes: "{ /mcp: free }",
    }),
  );
  const owned = opening.move();
  const url = `${gateway.url}/mcp`;
  return { stage, gateway, url, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const said = ({ content }: Awaited<ReturnType<McpClient["call"]>>) => content[0]?.text;

describe.each(Object.entries(SERVERS))("a server of %s", (_, options) => {
  test.each(Object.entries(CLIENTS))("lists, calls and reads for %s", async (__, connect) => {
    await using shop = await open(options);
    const told = async (url: string) => {
      await using client = await connect(url);
      const tools = await client.list();
      const echoed = await client.call("echo", { text: "hé" });
      const failed = await client.call("fail");
      const contents = await client.read("test://static-text");
      const big = await client.call("big", { letters: 300_000 });
      const { revision } = client;
      return { tools, echoed, failed, contents, big: said(big)?.length, revision };
    };
    const through = await told(shop.url);
    expect(through.echoed.content).toEqual([{ type: "text", text: "hé" }]);
    expect(through.failed.isError).toBe(true);
    expect(through.big).toBe(300_000);
    expect(through).toEqual(await told(`${shop.stage.origin}/mcp`));
  });
});

describe("streams", () => {
  test.each(Object.entries(CLIENTS))(
    "tell %s how far a call is before it has ended",
    async (_, connect) => {
      for (const serves of ["sessions", "requests"] as const) {
        await using shop = await open({ serves });
        await using client = await connect(shop.url);
        shop.stage.workshop.hold();
        const half = Promise.withResolvers<void>();
        const calling = client.call(
          "hold",
          {},
          { onProgress: (done) => done === 1 && half.resolve() },
        );
        await half.promise;
        shop.stage.workshop.release();
        expect(said(await calling)).toBe("released");
      }
    },
  );

  test.each(Object.entries(CLIENTS))("end as %s cancels its call", async (_, connect) => {
    for (const serves of ["sessions", "requests"] as const) {
      await using shop = await open({ serves });
      await using client = await connect(shop.url);
      const { workshop } = shop.stage;
      workshop.hold();
      const cancelling = new AbortController();
      const calling = client.call("hold", {}, { signal: cancelling.signal, onProgress: () => {} });
      calling.catch(() => {});
      await workshop.until(() => workshop.count("hold") === 1);
      cancelling.abort();
      await expect(calling).rejects.toThrow();
      // A revision without sessions has no other sign than the end of the request.
      if (serves === "sessions" || client.revision === "2026-07-28") {
        await workshop.until(() => workshop.cancelled === 1);
      }
      expect(said(await client.call("echo", { text: "on" }))).toBe("on");
    }
  });

  test.each(Object.entries(CLIENTS))(
    "that a server ends are taken up by %s",
    async (_, connect) => {
      await using shop = await open();
      await using client = await connect(shop.url);
      const { workshop } = shop.stage;
      workshop.hold();
      const asked: string[] = [];
      shop.stage.onRequest = (method) => {
        asked.push(method);
        if (method === "GET" && workshop.count("cut") === 1) workshop.release();
      };
      expect(said(await client.call("cut", {}, { onProgress: () => {} }))).toBe("resumed");
      expect(asked).toContain("GET");
      expect(workshop.count("cut")).toBe(1);
    },
  );

  test.each(Object.entries(CLIENTS))(
    "whose connection breaks on the way are taken up by %s",
    async (_, connect) => {
      await using shop = await open();
      const { workshop } = shop.stage;
      workshop.hold();
      const breaking = breakable();
      await using client = await connect(shop.url, { fetch: breaking.fetch });
      const half = Promise.withResolvers<void>();
      const calling = client.call("hold", {}, { onProgress: () => half.resolve() });
      await half.promise;
      breaking.break();
      await breaking.resumed;
      workshop.release();
      expect(said(await calling)).toBe("released");
      expect(workshop.count("hold")).toBe(1);
    },
  );
});

describe("sessions", () => {
  test.each(Object.entries(CLIENTS))("are told, kept and ended by %s", async (_, connect) => {
    await using shop = await open();
    await using client = await connect(shop.url);
    await using other = await connect(shop.url);
    expect(client.sessionId).toMatch(/^[0-9a-f-]{36}$/);
    expect(other.sessionId).not.toBe(client.sessionId);
    expect(shop.stage.sessions).toBe(2);
    const { sessionId = "" } = client;
    await client.terminate();
    expect(shop.stage.sessions).toBe(1);
    const headers = {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "Mcp-Session-Id": sessionId,
    };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
    const late = await fetch(shop.url, { method: "POST", headers, body });
    expect(late.status).toBe(404);
    expect(said(await other.call("echo", { text: "on" }))).toBe("on");
  });

  test.each(Object.entries(CLIENTS))(
    "that a restart has forgotten are refused to %s, who begins another",
    async (_, connect) => {
      await using shop = await open();
      await using client = await connect(shop.url);
      const { workshop } = shop.stage;
      workshop.hold();
      const calling = client.call("hold");
      calling.catch(() => {});
      await workshop.until(() => workshop.count("hold") === 1);
      await shop.stage.crash();
      await expect(fetch(shop.url, { method: "POST" })).resolves.toMatchObject({ status: 502 });
      await shop.stage.start();
      await expect(client.call("echo", { text: "on" })).rejects.toThrow(/Session not found/);
      await using again = await connect(shop.url);
      expect(said(await again.call("echo", { text: "on" }))).toBe("on");
    },
  );
});

describe("the revision without sessions", () => {
  test("goes on behind a restart as if nothing were", async () => {
    await using shop = await open({ serves: "requests" });
    await using client = await connectWeb()(shop.url);
    expect(client.revision).toBe("2026-07-28");
    expect(client.sessionId).toBeUndefined();
    await shop.stage.crash();
    await shop.stage.start();
    expect(said(await client.call("echo", { text: "on" }))).toBe("on");
  });

  test("asks its user on the way", async () => {
    await using shop = await open({ serves: "requests" });
    const answer = { username: "ada", email: "ada@example.org" };
    await using client = await connectWeb()(shop.url, { answer });
    const result = await client.call("test_elicitation", { message: "Who are you?" });
    expect(said(result)).toContain("action=accept");
    expect(said(result)).toContain("ada@example.org");
  });

  test("is told in header lines what the body says, and they arrive", async () => {
    await using shop = await open({ serves: "requests" });
    await using client = await connectWeb()(shop.url);
    const lines: unknown[] = [];
    shop.stage.onRequest = (_, headers) => lines.push(headers["mcp-method"], headers["mcp-name"]);
    await client.call("quote", { ticker: "XYZ" });
    expect(lines).toEqual(["tools/call", "quote"]);
  });
});
