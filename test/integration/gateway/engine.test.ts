/** What the two engines have in common beside carrying bytes: what is sent again, and what is not passed on. */
import { describe, expect, test } from "vitest";
import type { Delivery, UpstreamExchange } from "../../../src/gateway/upstream/upstream.ts";
import { UNSTORED_SALE as sale } from "../../support/sale.ts";
import { front, nobody, target } from "./engine-stage.ts";
import { backend, onHead, rawBackend, RawClient, send } from "./stage.ts";

const engines = [
  ["our own client", "http1"],
  ["undici", "h2"],
] as const;
type Protocol = (typeof engines)[number][1];

const RETRY_ON = new Set([502, 503, 504]);

/** Answers everything with the status; `seen` has what arrived, by connection. */
async function moody(status: number, body = "moody") {
  const seen: string[] = [];
  const connections = new Set<unknown>();
  const origin = await backend((request, response) => {
    connections.add(request.socket);
    let received = "";
    request.on("data", (chunk: Buffer) => (received += chunk.toString("latin1")));
    request.on("end", () => {
      seen.push(`${request.method} ${received.length}`);
      response.statusCode = status;
      response.end(body);
    });
  });
  return { origin, seen, connections };
}

/** Forwards to the first; to the second when that did not answer. */
async function firstOrSecond(
  first: string,
  second: string,
  {
    declined = null,
    protocol,
  }: Pick<UpstreamExchange, "declined"> & { readonly protocol: Protocol },
) {
  const [one, two] = [target(first, { protocol }), target(second, { protocol })];
  const deliveries: Delivery[] = [];
  const begun: string[] = [];
  const port = await front(async (exchange) => {
    const begin = (): void => void begun.push(exchange.target);
    const delivery = await one.forward({ ...exchange, begin, declined });
    deliveries.push(delivery);
    if (delivery.kind !== "unanswered") return;
    const again = await two.forward({ ...exchange, begin });
    deliveries.push(again);
    if (again.kind === "unanswered") exchange.response.destroy();
  });
  return { port, deliveries, begun, engines: [one, two] };
}

describe.each(engines)("through %s", (_, protocol) => {
  test.each([
    ["GET", 0],
    ["POST", 10],
    ["POST", 65_536],
    ["PUT", 3_000_000],
  ])("a %s with %i bytes goes elsewhere from where nobody is", async (method, length) => {
    const there = await moody(200);
    const { port, deliveries } = await firstOrSecond(await nobody(), there.origin, { protocol });
    const body = length === 0 ? [] : [Buffer.alloc(length, "b")];
    const headers = length === 0 ? [] : ["Content-Length", String(length)];
    expect((await send(port, { method, headers, body })).status).toBe(200);
    expect(there.seen).toEqual([`${method} ${length}`]);
    const failed = { kind: "unanswered", reason: "connect", sent: false, retriable: true };
    expect(deliveries).toMatchObject([failed, { kind: "delivered", status: 200 }]);
  });

  test("chunks of which nothing has been read go elsewhere, too", async () => {
    const there = await moody(200);
    const { port } = await firstOrSecond(await nobody(), there.origin, { protocol });
    expect((await send(port, { method: "POST", body: ["ab", "cd"] })).status).toBe(200);
    expect(there.seen).toEqual(["POST 4"]);
  });

  test.each([10, 1_000_000])("a body of %i bytes is asked for once", async (length) => {
    const there = await moody(200);
    const { port, begun } = await firstOrSecond(await nobody(), there.origin, { protocol });
    const headers = ["Content-Length", String(length)];
    const body = [Buffer.alloc(length)];
    expect((await send(port, { method: "POST", path: "/1", headers, body })).status).toBe(200);
    expect(begun).toEqual(["/1"]);
  });

  test.each([
    ["GET", 0],
    ["POST", 20_000],
  ])("a declined answer to a %s leaves the request for another try", async (method, length) => {
    const [tired, there] = [await moody(503), await moody(200, "there")];
    const options = { declined: RETRY_ON, protocol };
    const {
      port,
      deliveries,
      engines: both,
    } = await firstOrSecond(tired.origin, there.origin, options);
    const body = length === 0 ? [] : [Buffer.alloc(length, "b")];
    const headers = length === 0 ? [] : ["Content-Length", String(length)];
    for (let times = 0; times < 3; times += 1) {
      const answer = await send(port, { method, headers, body });
      expect(answer.body.toString()).toBe("there");
    }
    const declined = { kind: "unanswered", reason: "declined", status: 503, sent: true };
    expect(deliveries[0]).toMatchObject({ ...declined, retriable: true });
    expect(tired.seen).toEqual(Array.from({ length: 3 }, () => `${method} ${length}`));
    expect(there.seen).toEqual(tired.seen);
    // A small answer that nobody wants is no reason to give its connection up.
    expect(tired.connections.size).toBe(1);
    expect(both.map(({ active }) => active)).toEqual([0, 0]);
  });

  test("a large declined answer is not read to its end", async () => {
    const closed = Promise.withResolvers<void>();
    const endless = await backend((_request, response) => {
      response.statusCode = 502;
      response.once("close", closed.resolve);
      const write = (): void => {
        while (!response.destroyed && response.write("a".repeat(10_000)));
      };
      response.on("drain", write);
      write();
    });
    const there = await moody(200);
    const { port } = await firstOrSecond(endless, there.origin, { declined: RETRY_ON, protocol });
    expect((await send(port)).status).toBe(200);
    await closed.promise;
  });

  test.each([
    ["that is not on the list", 500, {}],
    ["that the list may not have", 429, { declined: new Set([429]) }],
    ["to what was paid for", 503, { declined: RETRY_ON, sale }],
  ])("an answer %s is passed on", async (_what, status, fields) => {
    const there = await moody(status);
    const engine = target(there.origin, { protocol });
    const port = await front((exchange) =>
      engine.forward({ ...exchange, declined: RETRY_ON, ...fields }),
    );
    expect(await send(port)).toMatchObject({ status, body: Buffer.from("moody") });
  });

  test("an answer to a body that is gone is passed on, though it would be declined", async () => {
    const there = await moody(503);
    const engine = target(there.origin, { protocol });
    const port = await front((exchange) => engine.forward({ ...exchange, declined: RETRY_ON }));
    expect((await send(port, { method: "POST", body: ["ab", "cd"] })).status).toBe(503);
  });

  test("a request that broke in the middle of its streamed body cannot be sent again", async () => {
    const origin = await rawBackend((socket) => {
      onHead(socket, () => void setTimeout(() => socket.resetAndDestroy(), 5));
    });
    const engine = target(origin, { protocol });
    const delivery = Promise.withResolvers<Delivery>();
    const port = await front(async (exchange) => {
      delivery.resolve(await engine.forward(exchange));
      exchange.response.destroy();
    });
    const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    const client = new RawClient(port, `${head}2\r\nab\r\n`);
    await client.closed;
    expect(await delivery.promise).toMatchObject({ kind: "unanswered", retriable: false });
  });

  test("Host says what it is told to, else the target's own name", async () => {
    const hosts: string[] = [];
    const origin = await backend((request, response) => {
      const { rawHeaders } = request;
      for (let at = 0; at < rawHeaders.length; at += 2) {
        if (rawHeaders[at]?.toLowerCase() === "host") hosts.push(rawHeaders[at + 1] ?? "");
      }
      response.end();
    });
    const engine = target(origin, { protocol });
    for (const host of [null, "shop.example:81"]) {
      const port = await front((exchange) => engine.forward({ ...exchange, host }));
      await send(port);
    }
    expect(hosts).toEqual([new URL(origin).host, "shop.example:81"]);
  });

  test("lines that are removed or replaced do not cross", async () => {
    const origin = await backend((request, response) => {
      response.end(JSON.stringify(request.rawHeaders.map((text) => text.toLowerCase())));
    });
    const engine = target(origin, { protocol });
    const port = await front((exchange) =>
      engine.forward({
        ...exchange,
        removed: new Set(["x-secret"]),
        requestHeaders: ["X-Api-Key", "ours"],
      }),
    );
    const headers = ["X-SECRET", "1", "x-api-key", "theirs", "X-Else", "2"];
    const lines = String((await send(port, { headers })).body);
    expect(lines).not.toMatch(/x-secret|theirs/);
    expect(lines).toContain('"x-else","2"');
    expect(lines).toContain('"x-api-key","ours"');
  });
});

describe("our own client", () => {
  test.each([
    ["gzip, chunked", "5\r\nhello\r\n0\r\n\r\n"],
    ["chunked, chunked", "5\r\nhello\r\n0\r\n\r\n"],
    ["identity", "hello"],
    ["xchunked", "5\r\nhello\r\n0\r\n\r\n"],
  ])("takes no answer with Transfer-Encoding: %s", async (coding, body) => {
    const origin = await rawBackend((socket) => {
      onHead(socket, () => {
        socket.end(`HTTP/1.1 200 OK\r\nTransfer-Encoding: ${coding}\r\n\r\n${body}`);
      });
    });
    const engine = target(origin);
    const delivery = Promise.withResolvers<Delivery>();
    const port = await front(async (exchange) => {
      delivery.resolve(await engine.forward(exchange));
      exchange.response.writeHead(502, []);
      exchange.response.end();
    });
    expect((await send(port)).status).toBe(502);
    expect(await delivery.promise).toMatchObject({ kind: "unanswered", reason: "malformed" });
  });

  test.each(["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"])(
    "reads past %j, and the connection serves again",
    async (interim) => {
      let connections = 0;
      const origin = await rawBackend((socket) => {
        connections += 1;
        onHead(socket, () => {
          socket.write(`${interim}${interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi`);
        });
      });
      const engine = target(origin);
      const port = await front((exchange) => engine.forward(exchange));
      for (let times = 0; times < 3; times += 1) {
        expect(await send(port)).toMatchObject({ status: 200, body: Buffer.from("hi") });
      }
      expect(connections).toBe(1);
    },
  );
});

describe("the trailers of a request", () => {
  test("cross behind its chunks, without what belongs to a head", async () => {
    const origin = await backend((request, response) => {
      request.resume().on("end", () => response.end(JSON.stringify(request.rawTrailers)));
    });
    const engine = target(origin);
    const port = await front((exchange) =>
      engine.forward({
        ...exchange,
        requestHeaders: ["X-Api-Key", "ours"],
        removed: new Set(["x-gone"]),
      }),
    );
    const trailers = [
      "X-Sum: 7",
      "Authorization: Bearer theirs",
      "X-402-Payer: forged",
      "X-Api-Key: theirs",
      "X-Gone: 1",
      "If-Match: 1",
      "X_Under: 1",
      "x-sum: 8",
    ].join("\r\n");
    const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (const chunks of ["2\r\nab\r\n", ""]) {
      const client = new RawClient(port, `${head}${chunks}0\r\n${trailers}\r\n\r\n`);
      expect(await client.until("]")).toContain('["X-Sum","7","x-sum","8"]');
      client.socket.destroy();
    }
  });
});
