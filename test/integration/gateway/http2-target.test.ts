/** A target over HTTP/2: what is the same for the client as over HTTP/1.1, and what a shared connection must not do. */
import { createServer as createSecureHttpServer } from "node:https";
import {
  createServer as createPlainServer,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import { connect, type AddressInfo } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { UNSTORED_SALE as sale } from "../../support/sale.ts";
import { front as openPublicSide, target as openEngine } from "./engine-stage.ts";
import { front, identity, originOf, target, tls, type OnStream } from "./http2-target-stage.ts";
import { RawClient, send } from "./stage.ts";

const echo: OnStream = (stream, headers) => {
  stream.respond({ ":status": 200, "x-method": headers[":method"] });
  stream.pipe(stream);
};

/** Resets stream 1 with the code while its answer is on the way, as nginx, Envoy and others do it. */
async function resetting(code: number, length: string): Promise<string> {
  const plain = createPlainServer();
  plain.on("stream", (stream) => {
    stream.on("error", () => {});
    stream.respond({ ":status": 200, ...(length === "" ? {} : { "content-length": length }) });
    stream.write("part");
  });
  await new Promise<void>((resolve) => void plain.listen(0, "127.0.0.1", resolve));
  const reset = Buffer.from([0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, code]);
  const server = createTlsServer({ ...identity, ALPNProtocols: ["h2"] }, (socket) => {
    const inner = connect((plain.address() as AddressInfo).port, "127.0.0.1");
    for (const end of [socket, inner]) end.on("error", () => {});
    socket.on("close", () => inner.destroy());
    inner.on("data", (chunk) => {
      socket.write(chunk);
      if (!chunk.includes("part")) return;
      // Byte by byte, as a network may cut it.
      setTimeout(() => {
        for (const byte of reset) setImmediate(() => socket.write(Buffer.of(byte)));
      }, 20);
    });
    socket.pipe(inner);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    plain.close();
  });
  return originOf(server);
}

/** What a backend saw whose connection dies under every request but the first. */
async function dying(method: string, passage: Parameters<typeof front>[1] = {}): Promise<string[]> {
  const seen: string[] = [];
  const { origin } = await target((stream, headers) => {
    seen.push(String(headers[":path"]));
    if (headers[":path"] === "/1") stream.respond({ ":status": 200 }, { endStream: true });
    else stream.session?.socket.destroy();
  });
  const { port } = await front(origin, passage);
  expect((await send(port, { path: "/1" })).status).toBe(200);
  expect((await send(port, { method, path: "/2" })).status).toBe(502);
  return seen;
}

describe("a request over HTTP/2", () => {
  test.each([
    ["GET", 0],
    ["POST", 1],
    ["PUT", 20_000],
    ["POST", 3_000_000],
  ])("%s with %i bytes arrives, and so does its answer", async (method, length) => {
    const { origin } = await target(echo);
    const { port, delivery } = await front(origin);
    const sent = Buffer.alloc(length, "0123456789abcdef!");
    for (const headers of [["Content-Length", String(length)], []]) {
      const answer = await send(port, { method, headers, body: length === 0 ? [] : [sent] });
      expect(answer.body.equals(sent)).toBe(true);
      expect(answer).toMatchObject({ status: 200, phrase: "OK" });
      expect(answer.headers["x-method"]).toBe(method);
      expect(await delivery()).toMatchObject({ kind: "delivered", status: 200 });
    }
  });

  test("has its lines, whatever their spelling, and never ends the connection of others", async () => {
    const seen: IncomingHttpHeaders[] = [];
    const { origin, sessions } = await target((stream, headers) => {
      seen.push(headers);
      stream.respond({ ":status": 204 }, { endStream: true });
    });
    const { port } = await front(origin);
    const twice = ["Content-Type", "a", "content-type", "b", "X-Two", "1", "x-two", "2"];
    const headers = [
      ...twice,
      "Cookie",
      "a=1",
      "cookie",
      "b=2",
      "Connection",
      "X-Hop",
      "X-Hop",
      "1",
    ];
    expect((await send(port, { headers })).status).toBe(204);
    expect((await send(port)).status).toBe(204);
    expect(sessions.length).toBe(1);
    expect(seen[0]).toMatchObject({ "x-two": "1, 2", cookie: "a=1; b=2" });
    expect(seen[0]).not.toHaveProperty("x-hop");
  });

  test("may name any host: it is neither asked of TLS nor worth a connection", async () => {
    const hosts: (string | undefined)[] = [];
    const { origin, sessions } = await target((stream, headers) => {
      hosts.push(headers[":authority"]);
      stream.respond({ ":status": 200 }, { endStream: true });
    });
    const engine = openEngine(origin, { protocol: "h2", tls });
    for (const host of ["one.example", "two.example:8443", null]) {
      const port = await openPublicSide((exchange) => engine.forward({ ...exchange, host }));
      expect((await send(port)).status).toBe(200);
    }
    expect(hosts).toEqual(["one.example", "two.example:8443", new URL(origin).host]);
    expect(sessions.length).toBe(1);
  });

  test("shares its connection with many others, sales among them", async () => {
    const waiting: ServerHttp2Stream[] = [];
    const { origin, sessions } = await target((stream) => {
      waiting.push(stream);
      if (waiting.length < 50) return;
      for (const each of waiting) each.respond({ ":status": 200 }, { endStream: true });
    });
    const { port, engine } = await front(origin, { sale });
    const answers = Array.from({ length: 50 }, () =>
      send(port, { headers: ["Connection", "close"] }),
    );
    expect((await Promise.all(answers)).every(({ status }) => status === 200)).toBe(true);
    expect(sessions.length).toBe(1);
    expect(engine.active).toBe(0);
  });

  test("is HTTP/1.1 where the target offers nothing else", async () => {
    const server = createSecureHttpServer(identity, (request, response) => {
      response.end(request.httpVersion);
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = await front(originOf(server));
    expect((await send(port)).body.toString()).toBe("1.1");
  });
});

describe("an answer over HTTP/2", () => {
  test("keeps its lines apart, and its trailers, without what is forged", async () => {
    const { origin } = await target((stream) => {
      stream.additionalHeaders({ ":status": 103, link: "</a>" });
      const lines = { "set-cookie": ["a=1", "b=2"], "x-payment-response": "forged", "x-one": "1" };
      stream.respond({ ":status": 201, ...lines }, { waitForTrailers: true });
      stream.on("wantTrailers", () => {
        stream.sendTrailers({ "x-sum": "7", "x-payment-response": "forged" });
      });
      stream.end("hi");
    });
    const { port } = await front(origin);
    const answer = await send(port);
    expect(answer).toMatchObject({ status: 201, phrase: "Created", rawTrailers: ["x-sum", "7"] });
    expect(answer.headers["set-cookie"]).toEqual(["a=1", "b=2"]);
    expect(answer.headers).not.toHaveProperty("x-payment-response");
    expect(answer.body.toString()).toBe("hi");
  });

  test.each([
    ["HEAD", 200],
    ["GET", 204],
    ["GET", 304],
  ])("to %s with %i has no body", async (method, status) => {
    const { origin } = await target((stream) => {
      stream.respond({ ":status": status, etag: '"1"' }, { endStream: true });
    });
    const { port } = await front(origin);
    expect(await send(port, { method })).toMatchObject({ status, body: Buffer.alloc(0) });
  });

  test("is passed on as it comes", async () => {
    const streams: ServerHttp2Stream[] = [];
    const { origin } = await target((stream) => {
      streams.push(stream);
      stream.respond({ ":status": 200, "content-type": "text/event-stream" });
      stream.write("data: 1\n\n");
    });
    const { port } = await front(origin);
    const client = new RawClient(port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await client.until("data: 1\n\n");
    streams[0]?.write("data: 2\n\n");
    await client.until("data: 2\n\n");
  });

  test("is cancelled when its client leaves, alone", async () => {
    const left = Promise.withResolvers<number>();
    const { origin, sessions } = await target((stream) => {
      stream.respond({ ":status": 200 });
      stream.write("part");
      stream.on("close", () => left.resolve(stream.rstCode));
    });
    const { port, delivery } = await front(origin);
    const client = new RawClient(port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await client.until("part");
    client.socket.destroy();
    await left.promise;
    expect(await delivery()).toMatchObject({ kind: "abandoned", status: 200 });
    expect(sessions[0]?.destroyed).toBe(false);
  });

  test.each<[string, (stream: ServerHttp2Stream) => unknown]>([
    ["its stream fails", (stream) => stream.destroy(new Error("failed"))],
    ["its connection dies", (stream) => stream.session?.socket.destroy()],
  ])("is cut when %s in its middle", async (_, end) => {
    const { origin } = await target((stream) => {
      stream.respond({ ":status": 200 });
      stream.write("part");
      setTimeout(() => end(stream), 20);
    });
    const { port, delivery } = await front(origin);
    await expect(send(port)).rejects.toThrow(/aborted|hang up|ECONNRESET/);
    expect(await delivery()).toMatchObject({ kind: "broken", status: 200 });
  });
});

describe("an answer that breaks off", () => {
  test.each([
    [0, ""],
    [0, "100"],
    [2, ""],
    [2, "100"],
    [5, ""],
    [7, ""],
    [8, ""],
    [8, "100"],
    [11, ""],
  ])("with code %i never looks complete (length %j)", async (code, length) => {
    const { port, delivery } = await front(await resetting(code, length));
    await expect(send(port)).rejects.toThrow(/aborted|hang up|ECONNRESET/);
    expect(await delivery()).toMatchObject({ kind: "broken", status: 200 });
  });
});

describe("an answer that is whole", () => {
  test("is so though its client takes it later", async () => {
    const { origin } = await target((stream) => {
      stream.respond({ ":status": 200 });
      stream.end(Buffer.alloc(200_000, "a"));
    });
    const { port, delivery } = await front(origin);
    const client = new RawClient(port, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 100));
    client.socket.resume();
    expect((await client.closed).text).toMatch(/\r\n0\r\n\r\n$/);
    expect(await delivery()).toMatchObject({ kind: "delivered", status: 200 });
  });

  test("is so though the rest of the request is not wanted, which a reset with code 0 says", async () => {
    const { origin } = await target((stream) => {
      stream.respond({ ":status": 200 });
      stream.end("early");
      stream.on("finish", () => setTimeout(() => stream.close(0), 20));
    });
    const { port, delivery } = await front(origin);
    const client = new RawClient(
      port,
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nsome",
    );
    expect(await client.until("0\r\n\r\n")).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*early/);
    expect(await delivery()).toMatchObject({ kind: "delivered", status: 200 });
  });
});

describe("a connection that ends under a request", () => {
  test("fails a POST, which is not sent again", async () => {
    expect(await dying("POST")).toEqual(["/1", "/2"]);
  });

  test("fails a GET after one more try, and what was paid for without one", async () => {
    expect(await dying("GET")).toEqual(["/1", "/2", "/2"]);
    expect(await dying("GET", { sale })).toEqual(["/1", "/2"]);
  });

  test("in order, before it has looked at the request, fails nothing", async () => {
    let isFirst = true;
    const { origin, sessions } = await target((stream, headers) => {
      if (headers[":path"] === "/2" && isFirst) {
        isFirst = false;
        // GOAWAY with the stream before: this one was not processed.
        stream.session?.goaway(0, (stream.id ?? 2) - 2);
        return;
      }
      stream.respond({ ":status": 200 }, { endStream: true });
    });
    const { port } = await front(origin, { sale });
    expect((await send(port, { path: "/1" })).status).toBe(200);
    const post = { method: "POST", path: "/2", headers: ["Content-Length", "2"], body: ["hi"] };
    expect((await send(port, post)).status).toBe(200);
    expect(sessions.length).toBe(2);
  });
});
