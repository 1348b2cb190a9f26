import { createServer, type AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { ChainError } from "../../../src/mechanism/mechanism.ts";
import {
  openRpc,
  RpcAnswerTooLarge,
  RpcRefusal,
  type Rpc,
  type RpcOptions,
} from "../../../src/mechanism/rpc.ts";
import {
  startScriptedNode,
  type RpcReply,
  type ScriptedNode,
} from "../../support/scripted-node.ts";

const never = new AbortController().signal;
const open: { close(): Promise<void> }[] = [];

afterEach(async () => {
  for (const part of open.splice(0)) await part.close();
});

async function connect(
  answer: Parameters<typeof startScriptedNode>[0],
  options: RpcOptions & { url?: (base: string) => string } = {},
): Promise<{ node: ScriptedNode; rpc: Rpc; observed: string[] }> {
  const node = await startScriptedNode(answer);
  const observed: string[] = [];
  const rpc = openRpc(options.url?.(node.url) ?? node.url, {
    observer: (method, durationMs, outcome) => {
      expect(durationMs).toBeGreaterThan(0);
      observed.push(`${method} ${outcome}`);
    },
    ...options,
  });
  open.push(rpc, node);
  return { node, rpc, observed };
}

async function failure(call: Promise<unknown>): Promise<ChainError> {
  const error: unknown = await call.then(
    (value) => new Error(`answered ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ChainError);
  return error as ChainError;
}

function status(code: number, body: string, headers: Record<string, string> = {}): RpcReply {
  return { raw: (response) => response.writeHead(code, headers).end(body) };
}

describe("an RPC call", () => {
  test("sends method and parameters as JSON-RPC 2.0 and answers the result", async () => {
    const { node, rpc, observed } = await connect(({ params }) => ({ result: params }));
    expect(await rpc.call("eth_call", [{ to: "0x01" }, "pending"], never)).toEqual([
      { to: "0x01" },
      "pending",
    ]);
    expect(node.questions).toEqual([
      { jsonrpc: "2.0", id: 1, method: "eth_call", params: [{ to: "0x01" }, "pending"] },
    ]);
    expect(observed).toEqual(["eth_call ok"]);
  });

  test("answers a null result as null", async () => {
    const { rpc } = await connect(() => ({ result: null }));
    expect(await rpc.call("eth_getTransactionReceipt", ["0x00"], never)).toBeNull();
  });

  test("reads an answer that begins with a byte order mark", async () => {
    const { rpc } = await connect(() =>
      status(200, '\ufeff{"jsonrpc":"2.0","id":1,"result":"0x1"}'),
    );
    expect(await rpc.call("eth_chainId", [], never)).toBe("0x1");
  });

  test("keeps many concurrent calls apart", async () => {
    const { node, rpc } = await connect(({ params }) => ({ result: params[0] }), {
      maxConnections: 4,
    });
    const calls = Array.from({ length: 40 }, (_, index) => rpc.call("echo", [index], never));
    expect(await Promise.all(calls)).toEqual(Array.from({ length: 40 }, (_, index) => index));
    expect(node.connections()).toBeLessThanOrEqual(4);
  });

  test("surfaces the node's error with code, message and revert data", async () => {
    const error = { code: 3, message: "execution reverted", data: "0x08c379a0" };
    const { rpc, observed } = await connect(() => ({ error }));
    const refusal = await failure(rpc.call("eth_call", [], never));
    expect(refusal).toBeInstanceOf(RpcRefusal);
    expect(refusal).toMatchObject({
      code: "CHAIN_ANSWER",
      rpcCode: 3,
      rpcMessage: "execution reverted",
      data: "0x08c379a0",
    });
    expect(observed).toEqual(["eth_call refused"]);
  });

  test("reads a JSON-RPC error out of an HTTP error status", async () => {
    const body = '{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"rate limited"}}';
    const { rpc } = await connect(() => status(429, body));
    expect(await failure(rpc.call("eth_chainId", [], never))).toMatchObject({ rpcCode: -32_005 });
  });

  test.each([
    ["an HTTP error without JSON", status(503, "<html>down</html>"), "HTTP status 503"],
    ["a body that is not JSON", status(200, "hello"), "not JSON-RPC"],
    ["an empty body", status(200, ""), "not JSON-RPC"],
    ["an array", status(200, "[]"), "not JSON-RPC"],
    ["another id", status(200, '{"jsonrpc":"2.0","id":99,"result":"0x1"}'), "not JSON-RPC"],
    ["a missing result", status(200, '{"jsonrpc":"2.0","id":1}'), "not JSON-RPC"],
    ["another JSON-RPC version", status(200, '{"id":1,"result":"0x1"}'), "not JSON-RPC"],
  ])("refuses %s", async (_title, reply, message) => {
    const { rpc, observed } = await connect(() => reply);
    const error = await failure(rpc.call("eth_chainId", [], never));
    expect(error.code).toBe("CHAIN_ANSWER");
    expect(error.message).toContain(message);
    expect(observed).toEqual(["eth_chainId malformed"]);
  });

  test("does not follow redirects", async () => {
    const target = await startScriptedNode(() => ({ result: "0x1" }));
    open.push(target);
    const { rpc } = await connect(() => status(307, "", { location: target.url }));
    const error = await failure(rpc.call("eth_chainId", [], never));
    expect(error.message).toContain("redirects are not followed");
    expect(target.questions).toEqual([]);
  });

  test("refuses an answer above the size limit", async () => {
    const { rpc, observed } = await connect(() => ({ result: "x".repeat(5_000) }), {
      maxAnswerBytes: 4_096,
    });
    const error = await failure(rpc.call("eth_getLogs", [], never));
    expect(error).toBeInstanceOf(RpcAnswerTooLarge);
    expect(error.code).toBe("CHAIN_ANSWER");
    expect(observed).toEqual(["eth_getLogs malformed"]);
  });

  test("gives up after the time limit, body included", async () => {
    const { rpc, observed } = await connect(
      () => ({ raw: (response) => response.writeHead(200).write("{") }),
      { timeoutMs: 60 },
    );
    const error = await failure(rpc.call("eth_call", [], never));
    expect(error.code).toBe("CHAIN_TIMEOUT");
    expect(error.message).toContain("60 ms");
    expect(observed).toEqual(["eth_call timeout"]);
  });

  test("the time limit covers the wait for a free connection", async () => {
    const { rpc } = await connect(() => ({ raw: () => undefined }), {
      timeoutMs: 60,
      maxConnections: 1,
    });
    const calls = [1, 2, 3].map((index) => failure(rpc.call("eth_call", [index], never)));
    for (const call of calls) expect((await call).code).toBe("CHAIN_TIMEOUT");
  });

  test("ends at once when its caller gives up", async () => {
    const abort = new AbortController();
    const { rpc } = await connect(() => {
      abort.abort();
      return { raw: () => undefined };
    });
    const error = await failure(rpc.call("eth_call", [], abort.signal));
    expect(error.code).toBe("CHAIN_TIMEOUT");
    expect(error.message).toContain("abandoned");
  });

  test("asks nothing when its caller has given up before", async () => {
    const { node, rpc } = await connect(() => ({ result: "0x1" }));
    expect((await failure(rpc.call("eth_call", [], AbortSignal.abort()))).code).toBe(
      "CHAIN_TIMEOUT",
    );
    expect(node.questions).toEqual([]);
  });

  test("is repeated once when the node had closed the kept-alive connection", async () => {
    let broken = 0;
    const { node, rpc, observed } = await connect(({ params }) => {
      if (params[0] === "first" || broken > 0) return { result: params[0] };
      broken += 1;
      return { raw: (_response, request) => request.socket.destroy() };
    });
    expect(await rpc.call("echo", ["first"], never)).toBe("first");
    expect(await rpc.call("echo", ["second"], never)).toBe("second");
    expect(node.questions.map(({ params }) => params[0])).toEqual(["first", "second", "second"]);
    expect(observed).toEqual(["echo ok", "echo unreachable", "echo ok"]);
  });

  test("is repeated on a new connection when the node had closed all that were kept alive", async () => {
    let waiting: (() => void)[] = [];
    const { node, rpc, observed } = await connect(({ id, params }, { socket }) => {
      if (params[0] === "late") {
        const isKept = kept.has(socket);
        return isKept ? { raw: () => socket.resetAndDestroy() } : { result: params[0] };
      }
      kept.add(socket);
      const body = JSON.stringify({ jsonrpc: "2.0", id, result: params[0] });
      return {
        raw: (response) => {
          waiting.push(() => response.end(body));
          if (waiting.length < 3) return;
          for (const answer of waiting) answer();
          waiting = [];
        },
      };
    });
    const kept = new Set<unknown>();
    await Promise.all([1, 2, 3].map((index) => rpc.call("echo", [index], never)));
    expect(node.connections()).toBe(3);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(await rpc.call("echo", ["late"], never)).toBe("late");
    expect(node.connections()).toBe(4);
    expect(observed.slice(3)).toEqual(["echo unreachable", "echo ok"]);
  });

  test.each(["destroy", "resetAndDestroy"] as const)(
    "is repeated once when the node breaks off a handshake (%s)",
    async (end) => {
      let handshakes = 0;
      const server = createServer((socket) => {
        handshakes += 1;
        socket.on("error", () => undefined);
        socket.once("data", () => socket[end]());
      });
      await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as AddressInfo;
      const rpc = openRpc(`https://127.0.0.1:${port}/`);
      open.push(rpc, { close: () => new Promise((resolve) => void server.close(() => resolve())) });
      expect((await failure(rpc.call("eth_chainId", [], never))).code).toBe("CHAIN_UNREACHABLE");
      expect(handshakes).toBe(2);
    },
  );

  test("fails when the connection breaks a second time", async () => {
    const { node, rpc } = await connect(() => ({
      raw: (_response, request) => request.socket.destroy(),
    }));
    expect((await failure(rpc.call("echo", [], never))).code).toBe("CHAIN_UNREACHABLE");
    expect(node.questions).toHaveLength(2);
  });

  test("is not repeated when the node cannot be reached at all", async () => {
    const { node, rpc, observed } = await connect(() => ({ result: "0x1" }));
    await node.close();
    expect((await failure(rpc.call("eth_chainId", [], never))).code).toBe("CHAIN_UNREACHABLE");
    expect(observed).toEqual(["eth_chainId unreachable"]);
  });
});

test("an RPC endpoint is asked for an answer that is not packed", async () => {
  let accepted: unknown;
  const { rpc } = await connect((_question, request) => {
    accepted = request.headers["accept-encoding"];
    return { result: "0x1" };
  });
  await rpc.call("eth_chainId", [], never);
  expect(accepted).toBe("identity");
});

function secretUrl(base: string): string {
  return `${base.replace("http://", "http://user:passw0rd@")}/v3/0123456789abcdef0123?apikey=topsecret`;
}

describe("an RPC endpoint's secrets", () => {
  test("are sent: credentials as a header, path and query as they are", async () => {
    let seen: unknown;
    const { rpc } = await connect(
      (_question, request) => {
        seen = { url: request.url, authorization: request.headers.authorization };
        return { result: "0x1" };
      },
      { url: secretUrl },
    );
    await rpc.call("eth_chainId", [], never);
    expect(seen).toEqual({
      url: "/v3/0123456789abcdef0123?apikey=topsecret",
      authorization: `Basic ${Buffer.from("user:passw0rd").toString("base64")}`,
    });
    expect(rpc.host).toMatch(/^127\.0\.0\.1:\d+$/);
  });

  test("appear in no error, even when the node repeats them", async () => {
    const said = "key 0123456789abcdef0123 or topsecret of user:passw0rd is over its limit";
    const replies: RpcReply[] = [
      { error: { code: -32_001, message: said } },
      status(401, said),
      status(200, said),
    ];
    for (const reply of replies) {
      const { rpc } = await connect(() => reply, { url: secretUrl });
      const error = await failure(rpc.call("eth_chainId", [], never));
      const shown = `${error.stack} ${JSON.stringify(error)} ${String(error.cause)}`;
      expect(shown).not.toMatch(/passw0rd|topsecret|0123456789abcdef0123/);
      expect(shown).toContain(rpc.host);
    }
  });

  test.each(["", "localhost:8545", "ws://localhost:8545", "file:///etc/passwd"])(
    "%j is not an endpoint",
    (url) => {
      expect(() => openRpc(url)).toThrow(TypeError);
    },
  );
});
