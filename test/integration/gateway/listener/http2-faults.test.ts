/** HTTP/2 exchanges that break: each on its own, and never so that half an answer looks like a whole one. */
import type { Socket } from "node:net";
import { constants } from "node:http2";
import { describe, expect, test } from "vitest";
import { backend, onHead, rawBackend } from "../stage.ts";
import { END_STREAM, FRAME, requestLines, WireClient, frame } from "./http2-wire.ts";
import { answerOf, begin, connectHttp2, openSecureShop, send2, PATIENT } from "./secure-stage.ts";

const { NGHTTP2_CANCEL, NGHTTP2_INTERNAL_ERROR, NGHTTP2_NO_ERROR } = constants;

const MIB = 1024 * 1024;

describe("a backend that dies in the middle of its answer", () => {
  test.each([
    ["a length", "Content-Length: 100\r\n\r\npart"],
    ["a length and no part of the body", "Content-Length: 100\r\n\r\n"],
    ["chunks", "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"],
    ["half a chunk", "Transfer-Encoding: chunked\r\n\r\n40\r\npart"],
    ["a last chunk without its end", "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n0\r\n"],
    ["a large part", `Content-Length: 1000000\r\n\r\n${"x".repeat(300_000)}`],
  ])("(%s) breaks that stream with an error, and no other", async (_name, rest) => {
    const sockets: Socket[] = [];
    const origin = await rawBackend((socket) => {
      onHead(socket, (head) => {
        if (head.startsWith("GET /free/other")) {
          socket.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        } else {
          sockets.push(socket);
          socket.write(`HTTP/1.1 200 OK\r\n${rest}`);
        }
      });
    });
    for (const end of ["end", "destroy", "resetAndDestroy"] as const) {
      const { port } = await openSecureShop(origin);
      const client = await WireClient.open(port);
      client.widen(MIB);
      client.request(1, requestLines());
      expect(await client.outcome(1)).toBe("200");
      sockets.at(-1)?.[end]();
      expect(await client.resetOf(1)).toBe(NGHTTP2_INTERNAL_ERROR);
      const whole = client.frames.filter(
        ({ type, flags, stream }) => stream === 1 && type < 2 && flags % 2 === END_STREAM,
      );
      expect(whole).toEqual([]);
      client.request(3, requestLines("/free/other"));
      expect(await client.outcome(3)).toBe("200");
    }
  });

  test("is an error for a client library", async () => {
    const origin = await backend((_, response) => {
      response.write("part");
      setImmediate(() => response.destroy());
    });
    const { port } = await openSecureShop(origin);
    const answer = await send2(await connectHttp2(port));
    expect(answer.rstCode).toBe(NGHTTP2_INTERNAL_ERROR);
  });

  test("before its head is a 502, and a backend that says nothing a 504", async () => {
    const silent = await rawBackend((socket) => {
      onHead(socket, (head) => {
        if (head.startsWith("GET /free/dead")) socket.destroy();
      });
    });
    const { port } = await openSecureShop(silent, { upstream: { responseTimeoutMs: 300 } });
    const session = await connectHttp2(port);
    expect((await send2(session, { path: "/free/dead" })).status).toBe(502);
    expect((await send2(session)).status).toBe(504);
  });

  test("often does not count against its clients", async () => {
    const origin = await rawBackend((socket) => {
      onHead(socket, (head) => {
        if (head.startsWith("GET /free/other")) {
          socket.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        } else socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart");
      });
    });
    const { port } = await openSecureShop(origin);
    const session = await connectHttp2(port);
    for (let round = 0; round < 10; round += 1) {
      const answers = Array.from({ length: 30 }, () => send2(session));
      const codes = (await Promise.all(answers)).map(({ rstCode }) => rstCode);
      expect(new Set(codes)).toEqual(new Set([NGHTTP2_INTERNAL_ERROR]));
    }
    expect((await send2(session, { path: "/free/other" })).status).toBe(200);
  });
});

describe("a client", () => {
  test.each([NGHTTP2_NO_ERROR, NGHTTP2_CANCEL])(
    "that resets its stream with code %s cancels the request to the backend",
    async (code) => {
      const { promise: cancelled, resolve: cancel } = Promise.withResolvers<void>();
      const origin = await backend((_, response) => {
        response.on("close", cancel);
        response.write("part");
      });
      const { port, shop } = await openSecureShop(origin);
      const stream = begin(await connectHttp2(port));
      stream.on("error", () => {});
      await new Promise<void>((resolve) => void stream.once("data", () => resolve()));
      stream.close(code);
      await cancelled;
      await expect.poll(() => shop.gateway.work.inFlight, PATIENT).toBe(0);
    },
  );

  test("that loses its connection cancels all of its requests", async () => {
    let open = 0;
    const origin = await backend((_, response) => {
      open += 1;
      response.on("close", () => {
        open -= 1;
      });
      response.write("part");
    });
    const { port, shop } = await openSecureShop(origin);
    const session = await connectHttp2(port);
    const streams = Array.from({ length: 10 }, () => begin(session));
    for (const stream of streams) stream.on("error", () => {});
    await Promise.all(
      streams.map((stream) => new Promise<void>((got) => void stream.once("data", () => got()))),
    );
    expect(open).toBe(10);
    session.destroy();
    await expect.poll(() => open, PATIENT).toBe(0);
    await expect.poll(() => shop.gateway.work.inFlight, PATIENT).toBe(0);
  });

  test("that cancels downloads for long is still served on its connection", async () => {
    const part = Buffer.alloc(400_000);
    const origin = await backend((_, response) => {
      response.on("error", () => {});
      response.write(part);
    });
    const { port, shop } = await openSecureShop(origin);
    const client = await WireClient.open(port);
    const cancel = Buffer.from([0, 0, 0, NGHTTP2_CANCEL]);
    for (let stream = 1; stream < 360; stream += 4) {
      client.request(stream, requestLines());
      client.request(stream + 2, requestLines());
      expect(await client.outcome(stream)).toBe("200");
      expect(await client.outcome(stream + 2)).toBe("200");
      client.send(frame(FRAME.reset, 0, stream, cancel), frame(FRAME.reset, 0, stream + 2, cancel));
      await expect.poll(() => shop.gateway.work.inFlight, { interval: 1, ...PATIENT }).toBe(0);
    }
    client.request(361, requestLines("/priced"));
    expect(await client.outcome(361)).toBe("402");
  });

  test("that does not read its answer makes the backend wait, and not for ever", async () => {
    let written = 0;
    const { promise: cancelled, resolve: cancel } = Promise.withResolvers<void>();
    const part = Buffer.alloc(MIB);
    const origin = await backend((_, response) => {
      const more = (): void => {
        do written += 1;
        while (written < 256 && response.write(part));
      };
      response
        .on("drain", more)
        .on("close", cancel)
        .on("error", () => {});
      more();
    });
    const { port } = await openSecureShop(origin, { upstream: { answerIdleMs: 200 } });
    const client = await WireClient.open(port);
    client.request(1, requestLines());
    await cancelled;
    expect(written).toBeLessThan(64);
    expect(await client.resetOf(1)).not.toBe(NGHTTP2_NO_ERROR);
    client.request(3, requestLines("/priced"));
    expect(await client.outcome(3)).toBe("402");
  });

  test("that keeps other streams moving does not hold one for ever", async () => {
    const over = new AbortController();
    const origin = await backend((request, response) => {
      if (request.url === "/free/small") return void response.end("small");
      response.on("close", () => over.abort()).on("error", () => {});
      response.write(Buffer.alloc(10 * MIB));
    });
    const { port } = await openSecureShop(origin, { upstream: { answerIdleMs: 500 } });
    const client = await WireClient.open(port);
    const more = Buffer.alloc(4);
    more.writeUInt32BE(MIB);
    // Room on the connection, and none on the stream.
    client.send(frame(FRAME.windowUpdate, 0, 0, more));
    client.request(1, requestLines());
    expect(await client.outcome(1)).toBe("200");
    for (let stream = 3; !over.signal.aborted; stream += 2) {
      client.request(stream, requestLines("/free/small"));
      expect(await client.outcome(stream)).toBe("200");
    }
    expect(await client.resetOf(1)).not.toBe(NGHTTP2_NO_ERROR);
  });
});

test("an upload waits for a backend that does not read it, and holds little of it", async () => {
  const { promise: isReading, resolve: read } = Promise.withResolvers<void>();
  let received = 0;
  const take = (chunk: Buffer): void => {
    received += chunk.length;
  };
  const origin = await backend((request, response) => {
    void isReading.then(() => request.on("data", take).on("end", () => response.end("done")));
  });
  const size = 64 * MIB;
  const { port } = await openSecureShop(origin, { upstream: { bodyLimitBytes: size } });
  const session = await connectHttp2(port);
  const head = { ":method": "POST", ":path": "/free", ":authority": "shop.example" };
  const stream = session.request(head, { endStream: false });
  const part = Buffer.alloc(64 * 1024);
  let sent = 0;
  const more = (): void => {
    while (sent < size && stream.write(part)) sent += part.length;
  };
  let isStalled = Promise.withResolvers<void>();
  let timer = setTimeout(() => isStalled.resolve(), 500);
  stream.on("drain", () => {
    sent += part.length;
    clearTimeout(timer);
    timer = setTimeout(() => isStalled.resolve(), 500);
    more();
    if (sent >= size) stream.end();
  });
  more();
  await isStalled.promise;
  // What the sockets of the machine hold, and our windows.
  expect(sent).toBeLessThan(24 * MIB);
  read();
  expect((await answerOf(stream)).body.toString()).toBe("done");
  expect(received).toBeGreaterThanOrEqual(size);
});
