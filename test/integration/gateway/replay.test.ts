import { once } from "node:events";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { gunzipSync, gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { MAX_REPLAYS, MAX_STORED_BODY_BYTES, REPLAY_MS } from "../../../src/ledger/ledger.ts";
import { VERSIONS } from "../../support/buyer.ts";
import { MemoryLedger, MemoryStore } from "../../support/memory-ledger.ts";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import { ManualTime } from "../../unit/gateway/manual-time.ts";
import { buy, errorOf, head, openShop, receiptOf, type Shop } from "./shop.ts";
import { backend, onHead, rawBackend, RawClient, type Sent } from "./stage.ts";

const PRIVATE = "private, no-store";

/** A shop whose backend answers so; `asked` counts the requests that reached it. */
async function shopOf(
  handler: RequestListener,
): Promise<Shop & { readonly asked: readonly IncomingMessage[] }> {
  const asked: IncomingMessage[] = [];
  const origin = await backend((request, response) => {
    asked.push(request);
    handler(request, response);
  });
  return { ...(await openShop(origin)), asked };
}

/** Leaves in the middle of the answer to that request, once `mark` has come. */
async function leaveAt(shop: Shop, mark: string, text = head()): Promise<void> {
  const client = new RawClient(shop.port, text);
  await client.until(mark);
  client.socket.destroy();
  await once(client.socket, "close");
}

describe("a buyer who leaves in the middle of", () => {
  test("a small answer finds it when it comes again; the backend is asked once", async () => {
    const begun = Promise.withResolvers<ServerResponse>();
    const shop = await shopOf((_request, response) => {
      response.writeHead(200, { "Content-Type": "text/plain", "Content-Length": 10 });
      response.write("first");
      begun.resolve(response);
    });
    await leaveAt(shop, "first");
    const again = buy(shop);
    (await begun.promise).end(" then");
    const answer = await again;
    expect(answer).toMatchObject({ status: 200, body: Buffer.from("first then") });
    expect(answer.headers).toMatchObject({
      "content-type": "text/plain",
      "cache-control": PRIVATE,
      vary: "X-PAYMENT",
    });
    expect(receiptOf(answer)).toMatchObject({ success: true });
    expect(shop.asked).toHaveLength(1);
    expect(shop.facilitator.settled).toHaveLength(1);
  });

  test("a large answer is served anew", async () => {
    const large = "a".repeat(MAX_STORED_BODY_BYTES + 1);
    const shop = await shopOf((_request, response) => {
      if (shop.asked.length > 1) response.end(large);
      else response.writeHead(200, { "Content-Length": large.length }).write("first");
    });
    await leaveAt(shop, "first");
    const answer = await buy(shop);
    expect(answer.body.toString()).toBe(large);
    expect(shop.asked).toHaveLength(2);
    expect(await buy(shop)).toMatchObject({ status: 402 });
  });

  test("events cancels them, and gets new ones", async () => {
    const cancelled = Promise.withResolvers<void>();
    const shop = await shopOf((_request, response) => {
      response.once("close", cancelled.resolve);
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write("data: first\n\n");
      if (shop.asked.length > 1) response.end();
    });
    await leaveAt(shop, "first");
    await cancelled.promise;
    expect(await buy(shop)).toMatchObject({ status: 200 });
    expect(shop.asked).toHaveLength(2);
    expect(await buy(shop)).toMatchObject({ status: 402 });
  });

  test("its settlement spends no attempt", async () => {
    const shop = await shopOf((_request, response) => void response.end("hi"));
    const settling = Promise.withResolvers<void>();
    const { onSettle } = shop.facilitator;
    shop.facilitator.onSettle = async (...values) => {
      await settling.promise;
      return onSettle(...values);
    };
    const client = new RawClient(shop.port, head());
    while (shop.facilitator.settled.length === 0) await new Promise(setImmediate);
    client.socket.destroy();
    await once(client.socket, "close");
    settling.resolve();
    const patience = AbortSignal.timeout(5_000);
    await shop.gateway.work.drain(patience);
    expect(patience.aborted).toBe(false);
    expect(shop.asked).toHaveLength(0);
    const [payment] = await shop.ledger.books.list({ limit: 1 });
    expect(payment).toMatchObject({ state: "SETTLED", attempts: 0 });
    expect(await buy(shop)).toMatchObject({ status: 200 });
  });

  test("its own body spends no attempt, since the backend heard nothing", async () => {
    const shop = await shopOf((_request, response) => void response.end("hi"));
    const client = new RawClient(shop.port, head("/", ["Content-Length: 10"], "POST"));
    while (shop.facilitator.settled.length === 0) await new Promise(setImmediate);
    client.socket.destroy();
    await shop.gateway.work.drain(AbortSignal.timeout(5_000));
    const [payment] = await shop.ledger.books.list({ limit: 1 });
    expect(payment).toMatchObject({ state: "SETTLED", attempts: 0 });
    expect(shop.asked).toHaveLength(0);
  });
});

describe("a payer who left in the middle of an answer, and signs a new payment", () => {
  /** The answers to two requests with the body `one` are kept, and nobody has got them. */
  async function owing(): Promise<{ readonly shop: Shop; readonly bodies: readonly string[] }> {
    const bodies: string[] = [];
    const begun = [1, 2].map(() => Promise.withResolvers<ServerResponse>());
    const shop = await shopOf(async (request, response) => {
      bodies.push((await request.toArray()).join(""));
      const open = begun[bodies.length - 1];
      if (open === undefined) return void response.end(`for ${bodies.at(-1)}`);
      response.writeHead(200, { "Content-Length": 10 }).write("first");
      open.resolve(response);
    });
    const { paymentPayload } = examplePayment(9).request;
    const owed = async (): Promise<number> =>
      (await shop.ledger.recall(paymentPayload, { binding: "POST /", target: "/" })).owed.length;
    const clients = [1, 2].map((number) => {
      return new RawClient(shop.port, `${head("/", ["Content-Length: 3"], "POST", { number })}one`);
    });
    // Not one after the other: the second would be the proof for the first.
    await Promise.all(clients.map((client) => client.until("first")));
    for (const { socket } of clients) socket.destroy();
    while ((await owed()) < 2) await new Promise(setImmediate);
    for (const { promise } of begun) (await promise).end(" then");
    await shop.gateway.work.drain(AbortSignal.timeout(5_000));
    return { shop, bodies };
  }

  test.each([
    ["another body", ["two"], "for two"],
    ["another body without a length", ["tw", "o"], "for two"],
    ["a body that is too large to be kept", ["2".repeat(1024 * 1024 + 1)], "for 2"],
  ])("pays for %s, which reaches the backend", async (_, body, begins) => {
    const { shop, bodies } = await owing();
    const [first = ""] = body;
    const isWhole = body.length === 1;
    const headers = isWhole ? ["Content-Length", String(first.length)] : [];
    const answer = await buy(shop, { method: "POST", body, headers }, 3);
    expect(answer.body.toString().startsWith(begins)).toBe(true);
    expect(bodies.at(-1)).toBe(body.join(""));
    expect(shop.facilitator.settled).toHaveLength(3);
  });

  test("gets the kept answer for the same body, and pays for another one behind it", async () => {
    const { shop, bodies } = await owing();
    const asked = { method: "POST", headers: ["Content-Length", "3"] };
    for (const number of [3, 4]) {
      const answer = await buy(shop, { ...asked, body: ["one"] }, number);
      expect(answer).toMatchObject({ status: 200, body: Buffer.from("first then") });
    }
    expect(shop.facilitator.settled).toHaveLength(2);
    const answer = await buy(shop, { ...asked, body: ["two"] }, 5);
    expect(answer.body.toString()).toBe("for two");
    expect(bodies).toEqual(["one", "one", "two"]);
  });
});

describe("an answer that was sold", () => {
  test("is given three times more to the identical request, then the payment is used", async () => {
    const shop = await shopOf((_request, response) => void response.end("hi"));
    for (let round = 0; round <= MAX_REPLAYS; round += 1) {
      expect(await buy(shop, { path: "/a?b=c" })).toMatchObject({
        status: 200,
        body: Buffer.from("hi"),
      });
    }
    const last = await buy(shop, { path: "/a?b=c" });
    expect(last.status).toBe(402);
    expect(errorOf(last)).toMatch(/^invalid_transaction_state: /);
    expect(shop.asked).toHaveLength(1);
    const text = await shop.metrics.registry.metrics();
    expect(text).toContain(
      'coinslot_http_requests_total{route="/*",code="200",outcome="replayed"} 3',
    );
    expect(text).toContain('coinslot_replays_total{route="/*"} 3');
  });

  test("is not given to another query or body, and is not used up by them", async () => {
    const shop = await shopOf((request, response) => {
      request.resume().on("end", () => response.end("hi"));
    });
    const same = { method: "POST", path: "/a?b=c", body: ["one", "two"] };
    expect(await buy(shop, same)).toMatchObject({ status: 200 });
    for (const other of [
      { ...same, path: "/a?b=d" },
      { ...same, path: "/a" },
      { ...same, body: ["three"] },
      { ...same, body: [] },
    ]) {
      const answer = await buy(shop, other);
      expect(answer.status).toBe(402);
      expect(errorOf(answer)).toMatch(/^invalid_transaction_state: /);
    }
    // The same bytes in another framing are the same body.
    for (const headers of [[], ["Content-Length", "6"]]) {
      expect(await buy(shop, { ...same, headers, body: ["onetwo"] })).toMatchObject({
        status: 200,
      });
    }
    expect(shop.asked).toHaveLength(1);
  });

  test.each(
    VERSIONS.flatMap((version) => [
      { name: "Range", value: "bytes=0-0", status: 206, version },
      { name: "If-None-Match", value: '"tag"', status: 304, version },
    ]),
  )("is, where $name asked for it, for that alone (version $version)", async (each) => {
    const { name, value, status, version } = each;
    const buyIt = (shop: Shop, sent: Sent = {}, number = 1) => buy(shop, sent, number, version);
    const shop = await shopOf(({ headers }, response) => {
      const isPart = headers[name.toLowerCase()] === value;
      response.writeHead(isPart ? status : 200).end(isPart ? undefined : "all of it");
    });
    const part = { headers: [name, value] };
    for (let round = 0; round < 2; round += 1)
      expect(await buyIt(shop, part)).toMatchObject({ status });
    expect(await buyIt(shop)).toMatchObject({ status: 402 });
    expect(await buyIt(shop, { headers: [name, "another"] })).toMatchObject({ status: 402 });
    const whole = await buyIt(shop, {}, 2);
    expect(whole).toMatchObject({ status: 200, body: Buffer.from("all of it") });
    // Who has the whole has the part.
    const after = name === "Range" ? { status: 200, body: whole.body } : { status: 402 };
    expect(await buyIt(shop, part, 2)).toMatchObject(after);
    expect(shop.asked).toHaveLength(2);
  });

  test("is not looked for behind a body that is too large to read", async () => {
    const shop = await shopOf((request, response) => {
      request.resume().on("end", () => response.end("hi"));
    });
    expect(await buy(shop, { method: "POST", body: ["one"] })).toMatchObject({ status: 200 });
    const client = new RawClient(shop.port, head("/", ["Content-Length: 10485761"], "POST"));
    expect(await client.until("\r\n\r\n")).toMatch(/^HTTP\/1\.1 402 /);
    const chunked = new RawClient(shop.port, head("/", ["Transfer-Encoding: chunked"], "POST"));
    const mib = `100000\r\n${"a".repeat(0x100000)}\r\n`;
    for (let count = 0; count < 11; count += 1) chunked.socket.write(mib);
    expect(await chunked.until("\r\n\r\n")).toMatch(/^HTTP\/1\.1 402 /);
  });

  test.each(VERSIONS)("is given behind Expect: 100-continue too (version %i)", async (version) => {
    const shop = await shopOf((request, response) => {
      request.resume().on("end", () => response.end("hi"));
    });
    expect(await buy(shop, { method: "POST", body: ["one"] }, 1, version)).toMatchObject({
      status: 200,
    });
    const lines = ["Expect: 100-continue", "Content-Length: 3"];
    const client = new RawClient(shop.port, head("/", lines, "POST", { version }));
    await client.until("100 Continue");
    client.socket.write("one");
    expect(await client.until("\r\n\r\nhi")).toContain("HTTP/1.1 200 OK");
  });

  test("is forgotten after ten minutes", async () => {
    const time = new ManualTime();
    const origin = await backend((_request, response) => void response.end("hi"));
    const shop = await openShop(origin, { time });
    expect(await buy(shop)).toMatchObject({ status: 200 });
    await time.advance(REPLAY_MS - 1);
    expect(await buy(shop)).toMatchObject({ status: 200 });
    await time.advance(1);
    expect(await buy(shop)).toMatchObject({ status: 402 });
  });

  test.each(VERSIONS)("is never given to an upgrade (version %i)", async (version) => {
    const shop = await shopOf((_request, response) => void response.end("hi"));
    expect(await buy(shop, {}, 1, version)).toMatchObject({ status: 200 });
    const lines = [
      "Connection: Upgrade",
      "Upgrade: websocket",
      "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    const { text } = await new RawClient(shop.port, head("/", lines, "GET", { version })).closed;
    expect(text).toMatch(/^HTTP\/1\.1 402 /);
    expect(await buy(shop, {}, 1, version)).toMatchObject({ status: 200 });
  });

  test("names the origin that asks now", async () => {
    const origin = await backend((_request, response) => void response.end("hi"));
    const shop = await openShop(origin, {
      cors: new Set(["https://a.example", "https://b.example"]),
    });
    for (const page of ["https://a.example", "https://b.example"]) {
      const { headers } = await buy(shop, { headers: ["Origin", page] });
      expect(headers["access-control-allow-origin"]).toBe(page);
      expect(headers["access-control-expose-headers"]).toBe(
        "PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, Retry-After, ETag, Content-Range, Content-Disposition, Link, X-402-Charged, X-402-Credits, X-402-Usage, RateLimit, RateLimit-Policy",
      );
    }
  });
});

describe("a kept answer is a correct message:", () => {
  const chunks = "2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nX-Sum: 7\r\n\r\n";
  test.each<[string, { method: string; rest: string; body: string; line: RegExp }]>([
    [
      "one in chunks, with trailers",
      {
        method: "GET",
        rest: `200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`,
        body: "hello",
        line: /\r\nContent-Length: 5\r\n/,
      },
    ],
    [
      "one with a length",
      {
        method: "GET",
        rest: "200 OK\r\nContent-Length: 5\r\n\r\nhello",
        body: "hello",
        line: /\r\nContent-Length: 5\r\n/,
      },
    ],
    [
      "one that its connection ended",
      {
        method: "GET",
        rest: "201 Created\r\nConnection: close\r\n\r\nhello",
        body: "hello",
        line: /\r\nContent-Length: 5\r\n/,
      },
    ],
    [
      "an empty one",
      {
        method: "GET",
        rest: "200 OK\r\nContent-Length: 0\r\n\r\n",
        body: "",
        line: /\r\nContent-Length: 0\r\n/,
      },
    ],
    [
      "one to HEAD",
      {
        method: "HEAD",
        rest: "200 OK\r\nContent-Length: 70000\r\n\r\n",
        body: "",
        line: /\r\nContent-Length: 70000\r\n/,
      },
    ],
    [
      "one to HEAD in chunks",
      {
        method: "HEAD",
        rest: "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        body: "",
        line: /^(?![\s\S]*Content-Length)/,
      },
    ],
    [
      "204",
      {
        method: "GET",
        rest: "204 No Content\r\n\r\n",
        body: "",
        line: /^(?![\s\S]*Content-Length)/,
      },
    ],
    [
      "304",
      {
        method: "GET",
        rest: '304 Not Modified\r\nETag: "a"\r\n\r\n',
        body: "",
        line: /\r\nETag: "a"\r\n/,
      },
    ],
    [
      "a redirect to another host",
      {
        method: "GET",
        rest: "302 Found\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n",
        body: "",
        line: /\r\nLocation: http:\/\/elsewhere.example\/\r\n/,
      },
    ],
    [
      "several lines of one name, without the buyer's session",
      {
        method: "GET",
        rest: "200 OK\r\nSet-Cookie: a=1\r\nLink: </a>\r\nLink: </b>\r\nContent-Length: 0\r\n\r\n",
        body: "",
        line: /^(?![^]*Set-Cookie)[^]*\r\nLink: <\/a>\r\nLink: <\/b>\r\n/,
      },
    ],
  ])("%s", async (_name, { method, rest, body, line }) => {
    let asked = 0;
    const origin = await rawBackend((socket) => {
      onHead(socket, () => {
        asked += 1;
        socket.write(`HTTP/1.1 ${rest}`);
        if (rest.includes("close")) socket.end();
      });
    });
    const shop = await openShop(origin);
    // A HEAD uses a payment up where nothing else is sold there.
    const path = method === "HEAD" ? "/head" : "/";
    const status = Number(rest.slice(0, 3));
    expect(await buy(shop, { method, path })).toMatchObject({ status, body: Buffer.from(body) });
    // Two on one connection: nothing of the first may be left over for the second.
    const client = new RawClient(shop.port, head(path, [], method));
    await client.until("\r\n\r\n");
    client.socket.write(head(path, ["Connection: close"], method));
    const { text } = await client.closed;
    const [, first = "", second = ""] = text.split("HTTP/1.1 ");
    for (const replay of [first, second]) {
      expect(replay.startsWith(String(status))).toBe(true);
      expect(replay.split("\r\n\r\n")[1]).toBe(body);
      expect(replay.split("\r\n\r\n")[0]).not.toMatch(/transfer-encoding|trailer/i);
      expect(replay).toMatch(line);
      expect(replay).toContain(`Cache-Control: ${PRIVATE}\r\n`);
      expect(replay).toMatch(/X-PAYMENT-RESPONSE: \S+\r\n/);
    }
    expect(asked).toBe(1);
  });

  test("one that is compressed", async () => {
    const zipped = gzipSync("hello".repeat(1_000));
    const shop = await shopOf((_request, response) => {
      response.writeHead(200, { "Content-Encoding": "gzip" }).end(zipped);
    });
    for (let round = 0; round < 2; round += 1) {
      const { headers, body } = await buy(shop);
      expect(headers["content-encoding"]).toBe("gzip");
      expect(gunzipSync(body).toString()).toBe("hello".repeat(1_000));
    }
    expect(shop.asked).toHaveLength(1);
  });
});

describe("two gateways on one ledger", () => {
  test("sell a payment once, and the other gives the kept answer", async () => {
    const store = new MemoryStore();
    const time = new ManualTime();
    const begun = Promise.withResolvers<ServerResponse>();
    let asked = 0;
    const origin = await backend((_request, response) => {
      asked += 1;
      begun.resolve(response);
    });
    const [one, two] = [
      await openShop(origin, { time, ledger: new MemoryLedger({ store, time, life: "one" }) }),
      await openShop(origin, { time, ledger: new MemoryLedger({ store, time, life: "two" }) }),
    ];
    const first = buy(one);
    const response = await begun.promise;
    const second = buy(two);
    while (two.gateway.work.inFlight === 0) await new Promise(setImmediate);
    response.end("once");
    for (const answer of [await first, await second]) {
      expect(answer).toMatchObject({ status: 200, body: Buffer.from("once") });
      expect(receiptOf(answer)).toMatchObject({ success: true });
    }
    expect(asked).toBe(1);
    expect(one.facilitator.settled.length + two.facilitator.settled.length).toBe(1);
  });
});
