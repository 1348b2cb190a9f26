/** What a client that speaks HTTP/2 gets is what one that speaks HTTP/1.1 gets. */
import { hash, randomBytes } from "node:crypto";
import { constants } from "node:http2";
import { Readable } from "node:stream";
import { Agent, request as undiciRequest } from "undici";
import { describe, expect, onTestFinished, test } from "vitest";
import { backend, onHead, rawBackend } from "../stage.ts";
import { answerOf, begin, connectHttp2, openSecureShop, send2, PATIENT } from "./secure-stage.ts";
import { linesOf, telling, type Seen } from "./telling.ts";

test("426 has no Upgrade over HTTP/2, which has no upgrades", async () => {
  const origin = await rawBackend((socket) => {
    onHead(socket, () => {
      socket.write(
        "HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n",
      );
    });
  });
  const { port } = await openSecureShop(origin);
  const { status, headers } = await send2(await connectHttp2(port));
  expect(status).toBe(426);
  expect(headers).not.toHaveProperty("upgrade");
  expect(headers).not.toHaveProperty("connection");
});

describe("a request", () => {
  test("reaches the backend as the HTTP/1.1 request that it is", async () => {
    const seen: Seen[] = [];
    const { port } = await openSecureShop(await telling(seen));
    const session = await connectHttp2(port);
    const answer = await send2(session, {
      method: "POST",
      path: "/free/a?b=%2F&c",
      headers: { "X-One": ["1", "2"], cookie: ["a=1", "b=2"], "x-forwarded-for": "6.6.6.6" },
      body: ["some ", "text"],
    });
    expect(answer).toMatchObject({ status: 200, rstCode: 0 });
    expect(answer.body.toString()).toBe("hello");
    const [{ method, url, rawHeaders, body, complete } = { rawHeaders: [] }] = seen;
    expect({ method, url, body, complete }).toEqual({
      method: "POST",
      url: "/free/a?b=%2F&c",
      body: "some text",
      complete: true,
    });
    expect(linesOf(rawHeaders, "x-one")).toEqual(["1", "2"]);
    expect(linesOf(rawHeaders, "cookie")).toEqual(["a=1; b=2"]);
    expect(linesOf(rawHeaders, "x-forwarded-for")).toEqual(["127.0.0.1"]);
    expect(linesOf(rawHeaders, "x-forwarded-proto")).toEqual(["https"]);
    expect(linesOf(rawHeaders, "x-forwarded-host")).toEqual(["shop.example"]);
    expect(rawHeaders.filter((text) => text.startsWith(":"))).toEqual([]);
  });

  test.each(["GET", "HEAD", "OPTIONS", "DELETE"])(
    "with %s whose stream ends with an empty frame has no body",
    async (method) => {
      const seen: Seen[] = [];
      const { port } = await openSecureShop(await telling(seen));
      const session = await connectHttp2(port);
      const stream = session.request(
        { ":method": method, ":path": "/free", ":authority": "shop.example" },
        { endStream: false },
      );
      stream.end();
      expect((await answerOf(stream)).status).toBe(200);
      const [{ rawHeaders } = { rawHeaders: [] }] = seen;
      expect(linesOf(rawHeaders, "transfer-encoding")).toEqual([]);
    },
  );

  test.each(["GET", "DELETE", "OPTIONS"])(
    "with %s and a body of unknown length is refused, as over HTTP/1.1",
    async (method) => {
      const seen: Seen[] = [];
      const { port } = await openSecureShop(await telling(seen));
      const session = await connectHttp2(port);
      const stream = session.request(
        { ":method": method, ":path": "/free", ":authority": "shop.example" },
        { endStream: false },
      );
      stream.end("body");
      expect((await answerOf(stream)).status).toBe(400);
      expect((await send2(session)).status).toBe(200);
      expect(seen).toHaveLength(1);
    },
  );

  test("whose trailers follow its body hands them on", async () => {
    const seen: Seen[] = [];
    const { port } = await openSecureShop(await telling(seen));
    const session = await connectHttp2(port);
    await send2(session, {
      method: "POST",
      body: ["a", "b"],
      trailers: { "x-digest": "abc", "x-payment": "no" },
    });
    const [{ rawTrailers, body } = { rawTrailers: [] }] = seen;
    expect(body).toBe("ab");
    expect(linesOf(rawTrailers, "x-digest")).toEqual(["abc"]);
    expect(linesOf(rawTrailers, "x-payment")).toEqual([]);
  });

  test("waits for 100 (Continue) and gets it when it is taken, and not when it is unpaid", async () => {
    const seen: Seen[] = [];
    const { port } = await openSecureShop(await telling(seen));
    const session = await connectHttp2(port);
    const ask = (path: string) => {
      const headers = {
        ":method": "POST",
        ":path": path,
        ":authority": "a",
        expect: "100-continue",
      };
      return session.request(headers, { endStream: false });
    };
    const free = ask("/free");
    await new Promise<void>((resolve) => void free.once("continue", resolve));
    free.end("now");
    expect((await answerOf(free)).status).toBe(200);
    expect(seen[0]?.body).toBe("now");

    const unpaid = ask("/priced");
    let isContinued = false;
    unpaid.once("continue", () => {
      isContinued = true;
    });
    expect((await answerOf(unpaid)).status).toBe(402);
    expect(isContinued).toBe(false);
    expect(seen).toHaveLength(1);
  });

  test("that is answered before its body has come is not asked for the rest", async () => {
    const seen: Seen[] = [];
    const { port } = await openSecureShop(await telling(seen));
    const session = await connectHttp2(port);
    const stream = session.request(
      { ":method": "POST", ":path": "/priced", ":authority": "shop.example" },
      { endStream: false },
    );
    stream.write(Buffer.alloc(10_000));
    const answer = await answerOf(stream);
    expect(answer).toMatchObject({ status: 402, rstCode: constants.NGHTTP2_NO_ERROR });
    expect(JSON.parse(answer.body.toString())).toMatchObject({ x402Version: 1 });
    expect((await send2(session)).status).toBe(200);
    expect(session.destroyed).toBe(false);
  });

  test("with a body over the limit is a 413, and the connection lives", async () => {
    const seen: Seen[] = [];
    const upstream = { bodyLimitBytes: 100_000 };
    const { port } = await openSecureShop(await telling(seen), { upstream });
    const session = await connectHttp2(port);
    const known = session.request(
      { ":method": "POST", ":path": "/free", ":authority": "a", "content-length": "100001" },
      { endStream: false },
    );
    expect((await answerOf(known)).status).toBe(413);
    const stream = begin(session, { method: "POST", body: [Buffer.alloc(150_000)] });
    expect((await answerOf(stream)).status).toBe(413);
    expect((await send2(session)).status).toBe(200);
  });
});

describe("an answer", () => {
  test.each([200, 201, 204, 205, 301, 304, 404, 418, 500, 503])(
    "with status %s crosses with its lines",
    async (status) => {
      const origin = await backend((_, response) => {
        response.writeHead(status, ["Set-Cookie", "a=1", "Set-Cookie", "b=2", "ETag", '"x"']);
        response.end();
      });
      const { port } = await openSecureShop(origin);
      const answer = await send2(await connectHttp2(port));
      expect(answer).toMatchObject({ status, rstCode: 0 });
      expect(linesOf(answer.rawHeaders, "set-cookie")).toEqual(["a=1", "b=2"]);
      expect(answer.headers.etag).toBe('"x"');
      expect(answer.body).toHaveLength(0);
    },
  );

  test("keeps lines that come twice, bytes beyond ASCII, and nothing of the backend's connection", async () => {
    const origin = await backend((_, response) => {
      response.sendDate = false;
      const twice = ["X-A", "1", "x-a", "2", "Content-Type", "text/a", "Content-Type", "text/b"];
      const connection = ["Connection", "close, X-Hop", "X-Hop", "1", "Keep-Alive", "timeout=5"];
      response.writeHead(200, [...twice, ...connection, "X-Latin", "caf\u00e9"]);
      response.end("x");
    });
    const { port } = await openSecureShop(origin);
    const { rawHeaders } = await send2(await connectHttp2(port));
    expect(linesOf(rawHeaders, "x-a")).toEqual(["1", "2"]);
    expect(linesOf(rawHeaders, "content-type")).toEqual(["text/a", "text/b"]);
    expect(linesOf(rawHeaders, "x-latin")).toEqual(["caf\u00e9"]);
    for (const name of ["connection", "keep-alive", "x-hop", "transfer-encoding"]) {
      expect(linesOf(rawHeaders, name)).toEqual([]);
    }
  });

  test("to HEAD has the lines and no body", async () => {
    const origin = await backend((request, response) => {
      response.writeHead(200, { "content-length": 1234, "x-method": request.method ?? "" });
      response.end();
    });
    const { port } = await openSecureShop(origin);
    const session = await connectHttp2(port);
    const answer = await send2(session, { method: "HEAD" });
    expect(answer).toMatchObject({ status: 200, rstCode: 0 });
    expect(answer.headers).toMatchObject({ "content-length": "1234", "x-method": "HEAD" });
    expect(answer.body).toHaveLength(0);
    const unpaid = await send2(session, { method: "HEAD", path: "/priced" });
    expect(unpaid.status).toBe(402);
    expect(Number(unpaid.headers["content-length"])).toBeGreaterThan(100);
  });

  test("with a large head, and one with trailers, crosses", async () => {
    const long = "v".repeat(60_000);
    const origin = await backend((_, response) => {
      response.writeHead(200, { "x-long": long, trailer: "x-sum" });
      response.write("body");
      response.addTrailers({ "X-Sum": "42" });
      response.end();
    });
    const { port } = await openSecureShop(origin, { upstream: { headLimitBytes: 65_536 } });
    const answer = await send2(await connectHttp2(port));
    expect(answer.headers["x-long"]).toHaveLength(60_000);
    expect(answer.body.toString()).toBe("body");
    expect(answer.trailers).toMatchObject({ "x-sum": "42" });
  });

  test("has no trailers that HTTP/2 does not know, and any others", async () => {
    const names = [
      "HTTP2-Settings",
      "Connection",
      "Keep-Alive",
      "__proto__",
      "constructor",
      "X-Sum",
    ];
    const trailers = names.map((name) => `${name}: 1\r\n`).join("");
    const origin = await rawBackend((socket) => {
      onHead(socket, () => {
        socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        socket.write(`4\r\nbody\r\n0\r\n${trailers}\r\n`);
      });
    });
    const { port } = await openSecureShop(origin);
    const answer = await send2(await connectHttp2(port));
    expect(answer).toMatchObject({ status: 200, rstCode: 0 });
    expect(answer.trailers).toMatchObject({ "x-sum": "1", constructor: "1" });
    expect(Object.keys(answer.trailers ?? {})).not.toContain("http2-settings");
  });

  test("that has no body and is chunked ends", async () => {
    const origin = await backend((_, response) => {
      response.writeHead(200, { "transfer-encoding": "chunked" });
      response.end();
    });
    const { port } = await openSecureShop(origin);
    expect(await send2(await connectHttp2(port))).toMatchObject({ status: 200, rstCode: 0 });
  });

  test("comes part by part, as the backend sends it", async () => {
    const { promise: isRead, resolve } = Promise.withResolvers<void>();
    const origin = await backend((_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write("data: 1\n\n");
      void isRead.then(() => response.end("data: 2\n\n"));
    });
    const { port } = await openSecureShop(origin);
    const stream = begin(await connectHttp2(port));
    const answer = answerOf(stream);
    const first = await new Promise<string>((got) => {
      stream.once("data", (chunk: Buffer) => got(chunk.toString()));
    });
    expect(first).toBe("data: 1\n\n");
    resolve();
    expect((await answer).rstCode).toBe(0);
  });
});

describe("a connection", () => {
  test("carries a hundred requests at a time", async () => {
    const { port, shop } = await openSecureShop(await telling([]));
    const session = await connectHttp2(port);
    const sent = Array.from({ length: 300 }, (_, index) =>
      send2(session, { method: "POST", path: `/free/${index}`, body: [`${index}`] }),
    );
    const answers = await Promise.all(sent);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    await expect.poll(() => shop.gateway.work.inFlight, PATIENT).toBe(0);
  });

  test("serves undici", async () => {
    const { port } = await openSecureShop(await telling([]));
    const dispatcher = new Agent({ allowH2: true, connect: { rejectUnauthorized: false } });
    onTestFinished(() => dispatcher.destroy());
    const url = `https://127.0.0.1:${port}/free`;
    const { statusCode, body } = await undiciRequest(url, {
      dispatcher,
      method: "POST",
      body: "a",
    });
    expect(statusCode).toBe(200);
    expect(await body.text()).toBe("hello");
    const unpaid = await undiciRequest(`https://127.0.0.1:${port}/x`, { dispatcher });
    expect(unpaid.statusCode).toBe(402);
    await unpaid.body.dump();
  });
});

const PART = 64 * 1024;

test("50 MB go up and come down unchanged", async () => {
  const body = randomBytes(50 * 1024 * 1024);
  const origin = await backend((request, response) => {
    response.writeHead(200);
    request.pipe(response);
  });
  const { port } = await openSecureShop(origin, { upstream: { bodyLimitBytes: body.length } });
  const session = await connectHttp2(port);
  const head = { ":method": "POST", ":path": "/free", ":authority": "shop.example" };
  const stream = session.request(head, { endStream: false });
  const parts = Array.from({ length: 800 }, (_, index) =>
    body.subarray(index * PART, (index + 1) * PART),
  );
  Readable.from(parts).pipe(stream);
  const answer = await answerOf(stream);
  expect(answer.rstCode).toBe(0);
  expect(hash("sha256", answer.body)).toBe(hash("sha256", body));
});
