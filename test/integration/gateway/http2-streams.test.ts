/** The streams of a target over HTTP/2: the trailers of a request, and what the backend hears of what is given up. */
import type { ServerHttp2Stream } from "node:http2";
import { connect, createServer as createTcpServer, type AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { front as openPublicSide, target as openEngine } from "./engine-stage.ts";
import { front, originOf, target, tls, type OnStream } from "./http2-target-stage.ts";
import { RawClient, send, stage } from "./stage.ts";

/** What a backend hears behind a body, as its answer. */
const tellTrailers: OnStream = (stream, headers) => {
  let heard: readonly string[] = [];
  let bytes = 0;
  stream.on("trailers", (_trailers, _flags, raw) => {
    heard = raw;
  });
  stream.on("data", (chunk: Buffer) => (bytes += chunk.length));
  stream.on("end", () => {
    if (stream.destroyed) return;
    stream.respond({ ":status": 200 });
    stream.end(JSON.stringify({ announced: headers.trailer ?? null, bytes, heard }));
  });
};

const CHUNKED =
  "POST / HTTP/1.1\r\nHost: a\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n";

/** What of them is heard by the backend, behind so many bytes. */
async function heardOf(port: number, bytes: number, trailers: readonly string[]): Promise<unknown> {
  const chunk = bytes === 0 ? "" : `${bytes.toString(16)}\r\n${"x".repeat(bytes)}\r\n`;
  const lines = trailers.map((line) => `${line}\r\n`).join("");
  const client = new RawClient(port, `${CHUNKED}${chunk}0\r\n${lines}\r\n`);
  const text = await client.until("}");
  client.socket.destroy();
  return JSON.parse(/\{.*\}/.exec(text)?.[0] ?? "");
}

describe("the trailers of a request over HTTP/2", () => {
  test.each([0, 2, 200_000])("cross behind %i bytes, from the first stream on", async (bytes) => {
    const { origin, sessions } = await target(tellTrailers);
    const { port } = await front(origin);
    for (let times = 0; times < 3; times += 1) {
      expect(await heardOf(port, bytes, ["X-Sum: 7"])).toEqual({
        announced: null,
        bytes,
        heard: ["x-sum", "7"],
      });
    }
    expect(sessions.length).toBe(1);
  });

  test("are judged as those over HTTP/1.1 are", async () => {
    const { origin } = await target(tellTrailers);
    const own = { requestHeaders: ["X-Api-Key", "ours"], removed: new Set(["x-gone"]) };
    const { port } = await front(origin, own);
    const trailers = [
      "X-Sum: 7",
      "Authorization: Bearer theirs",
      "X-402-Payer: forged",
      "X.402.Payer: forged",
      "X-Real-IP: forged",
      "X-Api-Key: theirs",
      "X-Gone: 1",
      "If-Match: 1",
      "Connection: close",
      "TE: trailers",
    ];
    expect(await heardOf(port, 2, trailers)).toMatchObject({ heard: ["x-sum", "7"] });
  });

  test("may come twice, also those that Node takes once only", async () => {
    const { origin } = await target(tellTrailers);
    const { port } = await front(origin);
    const trailers = ["ETag: a", "X-Sum: 7", "etag: b", "__proto__: c"];
    const heard = await heardOf(port, 2, trailers);
    expect(heard).toMatchObject({ heard: ["etag", "a, b", "x-sum", "7"] });
  });

  test("are none where the request has none", async () => {
    const { origin } = await target(tellTrailers);
    const { port } = await front(origin);
    expect(await heardOf(port, 2, [])).toMatchObject({ bytes: 2, heard: [] });
    expect(await heardOf(port, 0, ["TE: trailers"])).toMatchObject({ bytes: 0, heard: [] });
  });

  test("cross behind a body of known length, which only HTTP/2 has", async () => {
    const { origin } = await target(tellTrailers);
    const engine = openEngine(origin, { protocol: "h2", tls });
    const rawTrailers = ["x-sum", "7"];
    const port = await openPublicSide((exchange) => {
      const request = Object.assign(Object.create(exchange.request), {
        httpVersionMajor: 2,
        rawTrailers,
      });
      return engine.forward({ ...exchange, request });
    });
    const sent = { method: "POST", headers: ["Content-Length", "2"], body: ["hi"] };
    const { body } = await send(port, sent);
    expect(JSON.parse(body.toString())).toMatchObject({ bytes: 2, heard: ["x-sum", "7"] });
  });

  test("that cannot be written end their request, and nothing else", async () => {
    const { origin, sessions } = await target(tellTrailers);
    const { port, engine } = await front(origin);
    expect(await heardOf(port, 2, ["X-Sum: 7"])).toMatchObject({ heard: ["x-sum", "7"] });
    const bad = await openPublicSide(async (exchange) => {
      const request = Object.create(exchange.request, {
        rawTrailers: {
          get: () => {
            throw new Error("torn");
          },
        },
      });
      const delivery = await engine.forward({ ...exchange, request });
      exchange.response.end(JSON.stringify(delivery));
    });
    const { body } = await send(bad, { method: "POST", body: ["a", "b"] });
    expect(JSON.parse(body.toString())).toMatchObject({ kind: "unanswered", status: 502 });
    expect(await heardOf(port, 2, ["X-Sum: 8"])).toMatchObject({ heard: ["x-sum", "8"] });
    expect(sessions.length).toBe(1);
  });

  test("go to a new connection where the last one takes nothing more", async () => {
    const { origin, sessions } = await target((stream, headers) => {
      tellTrailers(stream, headers);
      if (sessions.length === 1) stream.session?.goaway(0);
    });
    const { port } = await front(origin);
    for (const sum of ["1", "2", "3"]) {
      expect(await heardOf(port, 2, [`X-Sum: ${sum}`])).toMatchObject({ heard: ["x-sum", sum] });
    }
    expect(sessions.length).toBe(2);
  });
});

/** Hears with which code its stream is closed, and what else arrives; `act` may answer. */
async function abandoned(act: (stream: ServerHttp2Stream) => unknown = () => {}) {
  const begun = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<number>();
  const trailers: unknown[] = [];
  const { origin, sessions } = await target((stream) => {
    act(stream);
    stream.on("trailers", (lines) => trailers.push(lines));
    stream.on("data", () => begun.resolve());
    // Node closes a stream of which not all was read later than it hears of its end.
    for (const event of ["aborted", "close"]) {
      stream.on(event, () => closed.resolve(stream.rstCode));
    }
  });
  const isOpen = () => sessions.length === 1 && sessions[0]?.destroyed === false;
  return { origin, begun: begun.promise, closed: closed.promise, trailers, isOpen };
}

const LONG = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nhi";
const CANCEL = 8;
/** What a backend of node's says of a body that is shorter than it was said to be. */
const PROTOCOL_ERROR = 1;

describe("a stream that is given up is closed at the backend while its connection lives", () => {
  test.each([
    ["in chunks", `${CHUNKED}2\r\nhi\r\n`, CANCEL],
    ["of known length", LONG, PROTOCOL_ERROR],
  ])("where the client leaves in the middle of its body %s", async (_, text, code) => {
    const { origin, begun, closed, trailers, isOpen } = await abandoned();
    const { port, delivery } = await front(origin);
    const client = new RawClient(port, text);
    await begun;
    client.socket.destroy();
    expect(await closed).toBe(code);
    expect(isOpen()).toBe(true);
    expect(await delivery()).toMatchObject({ kind: "abandoned" });
    expect(trailers).toEqual([]);
  });

  test("where the backend takes nothing of a body that is whole", async () => {
    const arrived = Promise.withResolvers<void>();
    const { origin, closed, isOpen } = await abandoned((stream) => {
      arrived.resolve();
      stream.pause();
    });
    const { port } = await front(origin);
    // Read whole before it is sent, and one byte larger than the window.
    const length = 64 * 1024;
    const head = `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`;
    const client = new RawClient(port, head + "x".repeat(length));
    await arrived.promise;
    client.socket.destroy();
    expect(await closed).toBe(CANCEL);
    expect(isOpen()).toBe(true);
  });

  test("where the body is larger than it may be", async () => {
    const { origin, closed, isOpen } = await abandoned();
    const { port } = await stage(origin, { protocol: "h2", tls, bodyLimitBytes: 3 });
    const client = new RawClient(port, `${CHUNKED}2\r\nhi\r\n2\r\nho\r\n`);
    expect(await client.until("too-large")).toMatch(/^HTTP\/1\.1 413 /);
    expect(await closed).toBeGreaterThan(0);
    expect(isOpen()).toBe(true);
  });

  test.each([`${CHUNKED}2\r\nhi\r\n`, LONG])(
    "where the answer is complete before the body: %j",
    async (text) => {
      const { origin, closed, isOpen } = await abandoned((stream) => {
        stream.respond({ ":status": 200, "content-length": 5 });
        stream.end("early");
      });
      const { port, delivery } = await front(origin);
      const client = new RawClient(port, text);
      await client.until("early");
      expect(await delivery()).toMatchObject({ kind: "delivered", status: 200 });
      expect(await closed).toBe(text === LONG ? PROTOCOL_ERROR : CANCEL);
      expect(isOpen()).toBe(true);
    },
  );

  test("or never opened, where the client leaves before there is a connection", async () => {
    const seen: unknown[] = [];
    const { server } = await target((_stream, headers) => seen.push(headers[":path"]));
    const connected = Promise.withResolvers<() => void>();
    const slow = createTcpServer((socket) => {
      const { port } = server.address() as AddressInfo;
      const inner = connect(port, "127.0.0.1");
      for (const end of [socket, inner]) end.on("error", () => {});
      socket.on("close", () => inner.destroy());
      connected.resolve(() => void socket.pipe(inner).pipe(socket));
    });
    await new Promise<void>((resolve) => void slow.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void slow.close());
    const { port, delivery } = await front(originOf(slow));
    const client = new RawClient(port, `${CHUNKED}2\r\nhi\r\n`);
    const goOn = await connected.promise;
    client.socket.destroy();
    expect(await delivery()).toMatchObject({ kind: "abandoned", sent: false });
    goOn();
    // Behind it on the same connection: whatever was to come of the other has come.
    const answered = send(port, { path: "/next" });
    await expect.poll(() => seen).toEqual(["/next"]);
    void answered.catch(() => {});
  });

  test("where the answer is refused as it comes", async () => {
    const { origin, closed, isOpen } = await abandoned((stream) => {
      stream.respond({ ":status": 402 });
      stream.write("x".repeat(300_000));
    });
    const { port } = await front(origin);
    const client = new RawClient(port, `${CHUNKED}2\r\nhi\r\n`);
    expect(await client.until("foreign-402")).toMatch(/^HTTP\/1\.1 502 /);
    expect(await closed).toBe(CANCEL);
    expect(isOpen()).toBe(true);
  });
});
