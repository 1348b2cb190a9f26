import { gunzipSync, gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { backend, onHead, rawBackend, RawClient, send, stage } from "./stage.ts";

describe("an answer", () => {
  test.each([
    [200, "OK"],
    [201, "Created"],
    [202, "Whatever It Says"],
    [206, "Partial Content"],
    [299, ""],
    [301, "Moved Permanently"],
    [400, "Bad Request"],
    [404, "Not Found"],
    [418, "I'm a Teapot"],
    [429, "Too Many Requests"],
    [500, "Internal Server Error"],
    [503, "Service Unavailable"],
    [599, "Nobody Knows"],
  ])("of %i %s keeps status and phrase", async (status, phrase) => {
    const origin = await rawBackend((socket) => {
      onHead(socket, () => {
        socket.write(`HTTP/1.1 ${status} ${phrase}\r\nContent-Length: 2\r\n\r\nhi`);
      });
    });
    const { port, delivery } = await stage(origin);
    expect(await send(port)).toMatchObject({ status, phrase, body: Buffer.from("hi") });
    expect(await delivery()).toMatchObject({ kind: "delivered", status });
  });

  const framings: readonly (readonly [string, string, string, string])[] = [
    ["GET", "a length", "Content-Length: 5\r\n\r\nhello", "hello"],
    ["GET", "one chunk", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "hello"],
    [
      "GET",
      "chunks",
      "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
      "hello",
    ],
    ["GET", "the end of the connection", "Connection: close\r\n\r\nhello", "hello"],
    ["GET", "an empty length", "Content-Length: 0\r\n\r\n", ""],
    ["GET", "no chunk at all", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""],
    ["HEAD", "a length and no body", "Content-Length: 5\r\n\r\n", ""],
    ["HEAD", "chunks and no body", "Transfer-Encoding: chunked\r\n\r\n", ""],
  ];
  test.each(framings)("to %s framed by %s arrives whole", async (method, _, rest, body) => {
    const origin = await rawBackend((socket) => {
      onHead(socket, () => {
        socket.write(`HTTP/1.1 200 OK\r\n${rest}`);
        if (rest.includes("close")) socket.end();
      });
    });
    const { port, delivery } = await stage(origin);
    for (let round = 0; round < 2; round += 1) {
      const answer = await send(port, { method });
      expect(answer.body.toString()).toBe(body);
      if (rest.includes("Length: 5")) expect(answer.headers["content-length"]).toBe("5");
      expect(await delivery()).toMatchObject({ kind: "delivered", status: 200 });
    }
  });

  test.each([204, 304])("of %i has no body, and its connection lives on", async (status) => {
    const origin = await rawBackend((socket) => {
      onHead(socket, () => void socket.write(`HTTP/1.1 ${status} X\r\nETag: "a"\r\n\r\n`));
    });
    const { port } = await stage(origin);
    const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const client = new RawClient(
      port,
      get + get.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"),
    );
    const { text } = await client.closed;
    expect(text.match(new RegExp(`HTTP/1.1 ${status} X`, "g"))?.length).toBe(2);
    expect(text).not.toMatch(/transfer-encoding|content-length/i);
  });

  test("keeps names, order and repetition, and loses what is not the backend's to say", async () => {
    const origin = await rawBackend((socket) => {
      onHead(socket, () => {
        socket.write(
          "HTTP/1.1 200 OK\r\nDate: d\r\nSET-cookie: a=1\r\nSet-Cookie: b=2\r\nset-cookie: c=3\r\n" +
            "x-payment-response: forged\r\nX-402-Payer: forged\r\nCache-Control: public\r\n" +
            "Keep-Alive: timeout=5\r\nConnection: X-Hop\r\nX-Hop: 1\r\nVary: Accept\r\n" +
            "X-Caf\xe9: \xe9\r\nContent-Length: 2\r\n\r\nhi".replace("X-Caf\xe9", "X-Cafe"),
          "latin1",
        );
      });
    });
    const { port } = await stage(
      origin,
      {},
      {
        responseSet: ["X-PAYMENT-RESPONSE", "ours", "Cache-Control", "private, no-store"],
        responseAdded: ["Vary", "X-PAYMENT"],
      },
    );
    const { rawHeaders } = await send(port, { headers: ["Connection", "close"] });
    expect(rawHeaders).toEqual([
      "Date",
      "d",
      "SET-cookie",
      "a=1",
      "Set-Cookie",
      "b=2",
      "set-cookie",
      "c=3",
      "Vary",
      "Accept",
      "X-Cafe",
      "\xe9",
      "Content-Length",
      "2",
      "X-PAYMENT-RESPONSE",
      "ours",
      "Cache-Control",
      "private, no-store",
      "Vary",
      "X-PAYMENT",
      "Connection",
      "close",
    ]);
  });

  test("of 426 says which protocol it wants, and nothing else of the backend's connection", async () => {
    const origin = await rawBackend((socket) => {
      onHead(socket, () => {
        socket.write(
          "HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.0, HTTP/2.0\r\nupgrade: websocket\r\n" +
            "Connection: Upgrade, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 0\r\n\r\n",
        );
      });
    });
    const { port } = await stage(origin);
    const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const last = get.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    const { text } = await new RawClient(port, get + last).closed;
    const [first = "", second = ""] = text.split("\r\n\r\n");
    const lines = "Content-Length: 0\r\nUpgrade: TLS/1.0, HTTP/2.0, websocket\r\nConnection:";
    expect(first).toContain(`HTTP/1.1 426 Upgrade Required\r\n${lines} Upgrade`);
    expect(second).toContain(`HTTP/1.1 426 Upgrade Required\r\n${lines} close, Upgrade`);
    expect(text).not.toMatch(/x-hop|timeout=5/i);
    const kept = await stage(origin, {}, { removed: new Set(["upgrade"]) });
    expect((await send(kept.port)).headers).not.toHaveProperty("upgrade");
  });

  test("that is compressed or a byte range is not touched", async () => {
    const zipped = gzipSync("hello".repeat(5_000));
    const origin = await backend((request, response) => {
      expect(request.headers["accept-encoding"]).toBe("gzip");
      expect(request.headers.range).toBe("bytes=0-");
      response.writeHead(206, {
        "content-encoding": "gzip",
        "content-range": `bytes 0-${zipped.length - 1}/${zipped.length}`,
      });
      response.end(zipped);
    });
    const { port } = await stage(origin);
    const answer = await send(port, { headers: ["Accept-Encoding", "gzip", "Range", "bytes=0-"] });
    expect(answer.headers["content-range"]).toBe(`bytes 0-${zipped.length - 1}/${zipped.length}`);
    expect(gunzipSync(answer.body).length).toBe(25_000);
  });

  test("with trailers keeps them, reserved ones apart", async () => {
    const origin = await rawBackend((socket) => {
      onHead(socket, () => {
        socket.write("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n");
        socket.write("2\r\nhi\r\n0\r\nX-Sum: 7\r\nX-PAYMENT-RESPONSE: forged\r\n\r\n");
      });
    });
    const { port } = await stage(origin);
    const answer = await send(port, { headers: ["TE", "trailers"] });
    expect(answer.body.toString()).toBe("hi");
    expect(answer.rawTrailers).toEqual(["X-Sum", "7"]);
  });

  test("to an HTTP/1.0 client is not chunked and ends with its connection", async () => {
    const origin = await backend((_, response) => {
      response.write("he");
      response.end("llo");
    });
    const { port } = await stage(origin);
    const { text, reset } = await new RawClient(port, "GET / HTTP/1.0\r\n\r\n").closed;
    expect(reset).toBe(false);
    expect(text).not.toMatch(/transfer-encoding/i);
    expect(text.endsWith("\r\n\r\nhello")).toBe(true);
  });

  test("after 103 hints is the final one", async () => {
    const origin = await rawBackend((socket) => {
      onHead(socket, () => {
        socket.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
      });
    });
    const { port } = await stage(origin);
    const answer = await send(port);
    expect(answer).toMatchObject({ status: 200, body: Buffer.from("hi") });
    expect(answer.headers.link).toBeUndefined();
  });

  test("of events passes each one on before the next exists", async () => {
    const written: (() => void)[] = [];
    const { promise: opened, resolve: open } = Promise.withResolvers<void>();
    const origin = await backend((_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.flushHeaders();
      for (const event of ["one", "two"]) {
        written.push(() => void response.write(`data: ${event}\n\n`));
      }
      written.push(() => void response.end());
      open();
    });
    const { port, delivery } = await stage(origin);
    const client = new RawClient(port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await opened;
    expect(await client.until("\r\n\r\n")).toContain("text/event-stream");
    written[0]?.();
    expect(await client.until("one")).not.toContain("two");
    written[1]?.();
    await client.until("two");
    written[2]?.();
    await client.until("0\r\n\r\n");
    expect(await delivery()).toMatchObject({ kind: "delivered", status: 200 });
  });

  test("that comes before the end of the body is delivered", async () => {
    const origin = await backend((_, response) => {
      response.writeHead(403, { "content-length": "2" });
      response.end("no");
    });
    const { port, delivery } = await stage(origin);
    const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    const client = new RawClient(port, head);
    expect(await client.until("no")).toContain("403");
    expect(await delivery()).toMatchObject({ kind: "delivered", status: 403 });
    // The rest is read and thrown away, and the connection serves again.
    client.socket.write("5\r\nagain\r\n0\r\n\r\n");
    client.socket.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    expect((await client.closed).text.match(/HTTP\/1.1 403/g)?.length).toBe(2);
  });

  test("larger than what its client reads waits in the backend, and not for ever", async () => {
    let written = 0;
    const { promise: cancelled, resolve: cancel } = Promise.withResolvers<void>();
    const part = Buffer.alloc(1024 * 1024);
    const origin = await backend((_, response) => {
      const more = (): void => {
        do written += 1;
        while (written < 256 && response.write(part));
      };
      response.on("drain", more).on("close", cancel);
      more();
    });
    const { port, delivery, exchanges } = await stage(origin, { answerIdleMs: 200 });
    const client = new RawClient(port);
    client.socket.pause();
    client.socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(await delivery()).toEqual({ kind: "abandoned", status: 200, sent: true });
    await cancelled;
    expect(written).toBeLessThan(64);
    expect(exchanges[0]?.response.writableLength).toBeLessThan(1024 * 1024);
  });
});
