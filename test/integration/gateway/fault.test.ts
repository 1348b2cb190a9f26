import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { backend, onHead, rawBackend, RawClient, send, stage } from "./stage.ts";

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/** An origin where nothing listens. */
async function nobody(): Promise<string> {
  const { createServer } = await import("node:net");
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => void server.close(resolve));
  return `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
}

describe("a backend that is not there", () => {
  test.each(["GET", "POST"])("never saw the %s", async (method) => {
    const { port, delivery } = await stage(await nobody());
    expect(await send(port, { method })).toMatchObject({ status: 502 });
    expect(await delivery()).toMatchObject({
      kind: "unanswered",
      status: 502,
      reason: "connect",
      sent: false,
      detail: expect.stringContaining("ECONNREFUSED"),
    });
  });
});

describe("a client that leaves", () => {
  test("before the head cancels the request to the backend", async () => {
    const arrived = Promise.withResolvers<void>();
    const cancelled = Promise.withResolvers<void>();
    const origin = await backend((_, response) => {
      response.once("close", cancelled.resolve);
      arrived.resolve();
    });
    const { port, delivery } = await stage(origin);
    const client = new RawClient(port, get);
    await arrived.promise;
    client.socket.destroy();
    await cancelled.promise;
    expect(await delivery()).toEqual({ kind: "abandoned", status: null, sent: true });
  });

  test("in the middle of the answer cancels the request to the backend", async () => {
    const cancelled = Promise.withResolvers<void>();
    const origin = await backend((_, response) => {
      response.once("close", cancelled.resolve);
      response.write("first");
    });
    const { port, delivery } = await stage(origin);
    const client = new RawClient(port, get);
    await client.until("first");
    client.socket.destroy();
    await cancelled.promise;
    expect(await delivery()).toEqual({ kind: "abandoned", status: 200, sent: true });
  });

  test.each([
    ["small", "Content-Length: 10"],
    ["large", "Content-Length: 1000000"],
    ["chunked", "Transfer-Encoding: chunked"],
  ])("in the middle of a %s body leaves no half request that looks whole", async (size, line) => {
    const aborted = Promise.withResolvers<boolean>();
    const begun = Promise.withResolvers<void>();
    const origin = await backend((request) => {
      request.on("data", () => begun.resolve());
      request.on("error", () => {});
      request.on("close", () => aborted.resolve(!request.complete));
    });
    const { port, delivery, exchanges } = await stage(origin);
    const client = new RawClient(port, `POST / HTTP/1.1\r\nHost: a\r\n${line}\r\n\r\n5\r\nab`);
    // A small body is read whole first: the backend never hears of it.
    if (size === "small") await client.until("").then(() => new Promise(setImmediate));
    else await begun.promise;
    while (exchanges.length === 0) await new Promise(setImmediate);
    client.socket.destroy();
    if (size !== "small") expect(await aborted.promise).toBe(true);
    const sent = size !== "small";
    expect(await delivery()).toEqual({ kind: "abandoned", status: null, sent });
  });
});

describe("a backend that dies in the middle of its answer", () => {
  test.each<[string, string, string]>([
    ["HTTP/1.1", "a length", "Content-Length: 100\r\n\r\npart"],
    ["HTTP/1.1", "chunks", "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"],
    ["HTTP/1.1", "half a chunk", "Transfer-Encoding: chunked\r\n\r\n40\r\npart"],
    ["HTTP/1.0", "a length", "Content-Length: 100\r\n\r\npart"],
    ["HTTP/1.0", "chunks", "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"],
  ])("breaks the connection of an %s client (%s)", async (version, _, rest) => {
    const sockets: Socket[] = [];
    const origin = await rawBackend((socket) => {
      sockets.push(socket);
      onHead(socket, () => void socket.write(`HTTP/1.1 200 OK\r\n${rest}`));
    });
    for (const end of ["destroy", "resetAndDestroy"] as const) {
      const { port, delivery } = await stage(origin);
      const client = new RawClient(port, `GET / ${version}\r\nHost: a\r\n\r\n`);
      await client.until("part");
      sockets.at(-1)?.[end]();
      const { text, reset } = await client.closed;
      expect(text.endsWith("0\r\n\r\n")).toBe(false);
      if (version === "HTTP/1.0" && !/length/i.test(rest)) expect(reset).toBe(true);
      expect(await delivery()).toMatchObject({ kind: "broken", status: 200 });
    }
  });

  test("is an error for a client library", async () => {
    const origin = await backend((_, response) => {
      response.write("part");
      setImmediate(() => response.destroy());
    });
    const { port } = await stage(origin);
    await expect(send(port)).rejects.toThrow(/aborted|hang up|ECONNRESET/);
  });

  test("or stalls there, is given up", async () => {
    const origin = await backend((_, response) => void response.write("part"));
    const { port, delivery } = await stage(origin, { idleTimeoutMs: 100 });
    await expect(send(port)).rejects.toThrow(/aborted|hang up|ECONNRESET/);
    expect(await delivery()).toMatchObject({
      kind: "broken",
      status: 200,
      detail: expect.stringMatching(/timeout/i),
    });
  });
});

describe("a backend that does not answer", () => {
  test("in time is a 504, once and without a second try", async () => {
    let requests = 0;
    const origin = await backend(() => {
      requests += 1;
    });
    const { port, delivery } = await stage(origin, { responseTimeoutMs: 100 });
    expect(await send(port)).toMatchObject({ status: 504 });
    expect(await delivery()).toMatchObject({ reason: "timeout", status: 504, sent: true });
    expect(requests).toBe(1);
  });

  test.each<[string, string]>([
    ["nothing", ""],
    ["half a status line", "HTTP/1.1 20"],
    ["half a head", "HTTP/1.1 200 OK\r\nContent-Le"],
    ["no final answer", "HTTP/1.1 103 Early Hints\r\n\r\n"],
  ])("but sends %s and closes is a 502", async (_, text) => {
    const origin = await rawBackend((socket) => onHead(socket, () => void socket.end(text)));
    const { port, delivery } = await stage(origin);
    expect(await send(port)).toMatchObject({ status: 502 });
    expect(await delivery()).toMatchObject({ reason: "broken", status: 502, sent: true });
  });

  test.each<[string, string]>([
    ["another protocol", "SSH-2.0-OpenSSH_9.2\r\n"],
    ["HTTP/0.9", "<html>hello</html>"],
    ["HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["no status", "HTTP/1.1 OK\r\n\r\n"],
    ["two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi"],
    ["length and chunks", ok.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n")],
    ["a length that is none", "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nhi"],
    ["a NUL in a value", "HTTP/1.1 200 OK\r\nA: b\0c\r\nContent-Length: 2\r\n\r\nhi"],
    ["a bare CR in a value", "HTTP/1.1 200 OK\r\nA: b\rc\r\nContent-Length: 2\r\n\r\nhi"],
    ["a name with a blank", "HTTP/1.1 200 OK\r\nA b: c\r\nContent-Length: 2\r\n\r\nhi"],
    ["too large a head", `HTTP/1.1 200 OK\r\nA: ${"a".repeat(70_000)}\r\n\r\n`],
    [
      "a switch nobody asked for",
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
  ])("as HTTP but with %s is a 502", async (_, text) => {
    const origin = await rawBackend((socket) => {
      onHead(socket, () => void socket.write(text, "latin1"));
    });
    const { port, delivery } = await stage(origin);
    expect(await send(port)).toMatchObject({ status: 502 });
    expect(await delivery()).toMatchObject({ kind: "unanswered", status: 502, sent: true });
    expect((await send(port)).status).toBe(502);
  });

  test("with more than it announced does not feed the next request", async () => {
    const forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
    const origin = await rawBackend((socket, number) => {
      onHead(socket, () => void socket.write(number === 1 ? ok + forged : ok));
    });
    const { port } = await stage(origin);
    expect((await send(port)).body.toString()).toBe("hi");
    expect((await send(port)).body.toString()).toBe("hi");
  });
});

/** Answers once on each connection and closes it when the next request is already on its way. */
function racing(heads: string[], lastGood = Number.POSITIVE_INFINITY): Promise<string> {
  return rawBackend((socket, number) => {
    let requests = 0;
    onHead(socket, (head) => {
      requests += 1;
      heads.push(`${number}: ${head.split("\r\n")[0]}`);
      if (requests > 1 || number > lastGood) socket.resetAndDestroy();
      else socket.write(head.startsWith("HEAD") ? ok.slice(0, -2) : ok);
    });
  });
}

describe("a kept connection that dies as it is reused", () => {
  test.each(["GET", "HEAD", "OPTIONS"])(
    "does not fail a %s: it is sent once more",
    async (method) => {
      const heads: string[] = [];
      const { port, delivery } = await stage(await racing(heads));
      for (const path of ["/1", "/2"]) {
        expect(await send(port, { method, path })).toMatchObject({ status: 200 });
        expect(await delivery()).toMatchObject({ kind: "delivered" });
      }
      expect(heads).toEqual([
        `1: ${method} /1 HTTP/1.1`,
        `1: ${method} /2 HTTP/1.1`,
        `2: ${method} /2 HTTP/1.1`,
      ]);
    },
  );

  test.each<[string, string[]]>([
    ["POST", []],
    ["DELETE", []],
    ["PUT", ["Content-Length", "2"]],
    ["GET", ["Content-Length", "2"]],
  ])("fails a %s: it may have had its effect", async (method, headers) => {
    const heads: string[] = [];
    const { port, delivery } = await stage(await racing(heads));
    expect((await send(port)).status).toBe(200);
    await delivery();
    const body = headers.length > 0 ? ["hi"] : [];
    expect(await send(port, { method, headers, body })).toMatchObject({ status: 502 });
    expect(await delivery()).toMatchObject({ reason: "broken", sent: true });
    expect(heads.length).toBe(2);
  });

  test("fails the request after one more try", async () => {
    const heads: string[] = [];
    const { port, delivery } = await stage(await racing(heads, 1));
    expect((await send(port)).status).toBe(200);
    await delivery();
    expect((await send(port)).status).toBe(502);
    expect(await delivery()).toMatchObject({ kind: "unanswered", reason: "broken" });
    expect(heads.length).toBe(3);
  });

  test("is not tried again when a part of an answer came", async () => {
    let heads = 0;
    const origin = await rawBackend((socket) => {
      let requests = 0;
      onHead(socket, () => {
        heads += 1;
        requests += 1;
        if (requests === 1) socket.write(ok);
        else socket.end("HTTP/1.1 2");
      });
    });
    const { port } = await stage(origin);
    expect((await send(port)).status).toBe(200);
    expect((await send(port)).status).toBe(502);
    expect(heads).toBe(2);
  });
});

describe("a request body over the limit", () => {
  const limits = { bodyLimitBytes: 100_000 };

  test("that says so is refused before the backend hears of it", async () => {
    let requests = 0;
    const origin = await backend((_, response) => {
      requests += 1;
      response.end();
    });
    const { port, delivery } = await stage(origin, limits);
    const head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100001\r\n\r\n";
    expect(await new RawClient(port, head).until("too-large")).toContain("413");
    expect(await delivery()).toMatchObject({ status: 413, reason: "too-large", sent: false });
    expect(requests).toBe(0);
  });

  test("that does not say so is cut off, and the backend sees no end of it", async () => {
    const complete = Promise.withResolvers<boolean>();
    const origin = await backend((request) => {
      request.on("error", () => {}).resume();
      request.on("close", () => complete.resolve(request.complete));
    });
    const { port, delivery } = await stage(origin, limits);
    const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    const client = new RawClient(
      port,
      `${head}${(60_000).toString(16)}\r\n${"a".repeat(60_000)}\r\n`,
    );
    client.socket.write(`${(60_000).toString(16)}\r\n${"a".repeat(60_000)}\r\n`);
    expect(await client.until("too-large")).toContain("413");
    expect(await delivery()).toMatchObject({ status: 413, reason: "too-large", sent: true });
    expect(await complete.promise).toBe(false);
  });

  test.each([100_000, 65_536, 65_537])("is not one of %i bytes", async (length) => {
    const origin = await backend((request, response) => void request.pipe(response));
    const { port } = await stage(origin, limits);
    const body = [Buffer.alloc(length, "a")];
    for (const headers of [[], ["Content-Length", String(length)]]) {
      const answer = await send(port, { method: "POST", headers, body });
      expect(answer).toMatchObject({ status: 200 });
      expect(answer.body.length).toBe(length);
    }
  });
});

describe("a 402 of the backend's own", () => {
  const requirements = JSON.stringify({ x402Version: 1, error: "pay", accepts: [] });

  test("that is x402 is passed on", async () => {
    const origin = await backend((_, response) => {
      response.writeHead(402, { "content-type": "application/json" });
      response.end(requirements);
    });
    const { port, delivery } = await stage(origin);
    const answer = await send(port);
    expect(answer).toMatchObject({ status: 402, body: Buffer.from(requirements) });
    expect(await delivery()).toMatchObject({ kind: "delivered", status: 402 });
  });

  test.each<[string, string]>([
    ["nothing", ""],
    ["HTML", "<h1>Payment Required</h1>"],
    ["JSON of another kind", '{"error":"quota"}'],
    ["null", "null"],
    ["a list", "[]"],
    ["no accepts", '{"x402Version":1}'],
    ["a version that is no number", '{"x402Version":"1","accepts":[]}'],
    ["accepts that are no list", '{"x402Version":1,"accepts":{}}'],
    ["more than a client would read", `{"x402Version":1,"accepts":["${"a".repeat(70_000)}"]}`],
  ])("that holds %s is a 502", async (_, body) => {
    const origin = await backend((__, response) => {
      response.statusCode = 402;
      response.end(body);
    });
    const { port, delivery } = await stage(origin);
    expect(await send(port)).toMatchObject({ status: 502 });
    expect(await delivery()).toMatchObject({ reason: "foreign-402", sent: true });
    // The connection and the engine are as good as before.
    expect(await send(port)).toMatchObject({ status: 502 });
  });

  test("to a HEAD is passed on: there is nothing to judge", async () => {
    const origin = await backend((_, response) => {
      response.statusCode = 402;
      response.end("no");
    });
    const { port } = await stage(origin);
    expect(await send(port, { method: "HEAD" })).toMatchObject({ status: 402 });
  });
});

describe("an engine that is closed", () => {
  test("lets requests finish and takes no more", async () => {
    const begun = Promise.withResolvers<() => void>();
    const origin = await backend((_, response) => begun.resolve(() => response.end("done")));
    const { port, engine, delivery } = await stage(origin);
    const running = send(port);
    const finish = await begun.promise;
    const closed = engine.close(new AbortController().signal);
    expect((await send(port)).status).toBe(502);
    finish();
    expect((await running).body.toString()).toBe("done");
    await closed;
    expect(await delivery()).toMatchObject({ kind: "delivered" });
    expect(await delivery()).toMatchObject({ kind: "unanswered", reason: "connect", sent: false });
  });

  test("cuts what still runs when its time is over", async () => {
    const origin = await backend((_, response) => void response.write("part"));
    const { port, engine, delivery } = await stage(origin);
    const client = new RawClient(port, get);
    await client.until("part");
    await engine.close(AbortSignal.abort());
    expect(await delivery()).toMatchObject({ kind: "broken" });
    await client.closed;
  });
});
