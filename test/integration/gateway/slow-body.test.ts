import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { answerOf, connectHttp2, openSecureShop, send2 } from "./listener/secure-stage.ts";
import { errorOf, head, openShop, type Shop, type ShopOptions } from "./shop.ts";
import { backend, RawClient, type Answer } from "./stage.ts";

/** Two or three sweeps. */
const IDLE_MS = 700;

async function shopOf(options: ShopOptions = {}): Promise<
  Shop & {
    /** Requests whose heads have reached the backend. */
    readonly asked: readonly IncomingMessage[];
  }
> {
  const asked: IncomingMessage[] = [];
  const origin = await backend((request, response) => {
    asked.push(request);
    request.on("error", () => {});
    if (request.url === "/free?early") response.writeHead(200).write("begun");
    request.resume().on("end", () => response.end("goods"));
  });
  return { ...(await openShop(origin, { bodyLimits: { idleMs: IDLE_MS }, ...options })), asked };
}

function upload(target: string, framing: string): string {
  return `POST ${target} HTTP/1.1\r\nHost: shop.example\r\n${framing}\r\n\r\n`;
}

/** Sends it again and again until the connection is over. */
function drip(client: RawClient, text: string): void {
  const timer = setInterval(() => client.socket.write(text), 100);
  const stop = (): void => clearInterval(timer);
  client.socket.once("close", stop);
  onTestFinished(stop);
}

function statusOf(text: string): string | undefined {
  return text.split("\r\n", 1)[0];
}

/** One answer as {@link errorOf} reads it. */
function answerIn(text: string): Answer {
  const [, body = ""] = text.split("\r\n\r\n");
  return {
    status: 0,
    phrase: "",
    rawHeaders: [],
    headers: {},
    rawTrailers: [],
    body: Buffer.from(body),
  };
}

describe("a request whose body", () => {
  test("stalls is answered 408 and its connection closed, however it is framed", async () => {
    const { port } = await shopOf();
    const stalled = [
      ["Content-Length: 10", ""],
      ["Content-Length: 10", "abc"],
      ["Content-Length: 1000000", ""],
      ["Content-Length: 1000000", "abc"],
      ["Transfer-Encoding: chunked", ""],
      ["Transfer-Encoding: chunked", "3\r\nabc\r\n"],
      ["Transfer-Encoding: chunked", "8\r\nabc"],
    ].map(([framing = "", part]) => new RawClient(port, upload("/free", framing) + part).closed);
    for (const { text } of await Promise.all(stalled)) {
      expect(statusOf(text)).toBe("HTTP/1.1 408 Request Timeout");
      expect(text).toContain("\r\nConnection: close\r\n");
      expect(errorOf(answerIn(text))).toContain("did not come in time");
    }
  });

  test("trickles is ended, too", async () => {
    const { port } = await shopOf();
    const trickling = [
      ["Content-Length: 1000", "a"],
      ["Content-Length: 1000000", "a"],
      ["Transfer-Encoding: chunked", "1\r\na\r\n"],
    ].map(([framing = "", part = ""]) => {
      const client = new RawClient(port, upload("/free", framing));
      drip(client, part);
      return client.closed;
    });
    for (const { text } of await Promise.all(trickling)) {
      expect(statusOf(text)).toBe("HTTP/1.1 408 Request Timeout");
    }
  });

  test("takes too long as a whole is ended, however fast it comes", async () => {
    const { port } = await shopOf({ bodyLimits: { idleMs: 10_000, totalMs: 1_000 } });
    const client = new RawClient(port, upload("/free", "Transfer-Encoding: chunked"));
    drip(client, `400\r\n${"a".repeat(1024)}\r\n`);
    expect(statusOf((await client.closed).text)).toBe("HTTP/1.1 408 Request Timeout");
  });

  test("stalls is counted as 408 and cancelled at the backend", async () => {
    const { port, asked, metrics } = await shopOf();
    const client = new RawClient(port, upload("/free", "Content-Length: 1000000"));
    client.socket.write("a".repeat(200_000));
    await expect.poll(() => asked.length).toBe(1);
    await client.closed;
    await expect.poll(() => asked[0]?.socket.destroyed).toBe(true);
    await expect
      .poll(() => metrics.registry.metrics())
      .toContain('coinslot_http_requests_total{route="/free",code="408",outcome="free"} 1');
  });

  test("stalls behind an answer that has begun cuts the answer", async () => {
    const { port } = await shopOf();
    const client = new RawClient(port, upload("/free?early", "Content-Length: 1000000"));
    client.socket.write("a".repeat(200_000));
    expect(statusOf(await client.until("begun"))).toBe("HTTP/1.1 200 OK");
    const { text } = await client.closed;
    expect(text).not.toContain("0\r\n\r\n");
    expect(text).not.toContain("408");
  });

  test("stays away behind a price does not hold its connection", async () => {
    const { port, asked } = await shopOf();
    const framings = ["Content-Length: 100", "Content-Length: 60000"];
    const waiting = framings.map((framing) => {
      const client = new RawClient(port, upload("/paid", framing));
      drip(client, "a");
      return client.closed;
    });
    for (const { text } of await Promise.all(waiting)) {
      expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 402"]);
    }
    expect(asked).toEqual([]);
  });

  test("comes in time is served, and the connection lives on", async () => {
    const { port } = await shopOf({ bodyLimits: { idleMs: 10_000 } });
    const client = new RawClient(port, upload("/free", "Content-Length: 6"));
    client.socket.write("abc");
    await pause(IDLE_MS);
    client.socket.write("def");
    await client.until("goods");
    client.socket.write(upload("/paid", "Content-Length: 6"));
    await client.until("402 Payment Required");
    client.socket.write(`abcdef${upload("/free", "Content-Length: 0")}`);
    await client.until('"error"');
    await expect.poll(async () => (await client.until("goods")).match(/goods/g)?.length).toBe(2);
  });

  test("waits for a settlement is not late", async () => {
    const shop = await shopOf();
    const { port, facilitator, asked } = shop;
    const settled = facilitator.onSettle;
    const chain = Promise.withResolvers<void>();
    facilitator.onSettle = async (...args) => {
      await chain.promise;
      return settled(...args);
    };
    const client = new RawClient(port, head("/paid", ["Content-Length: 3"], "POST"));
    await expect.poll(() => facilitator.settled.length).toBe(1);
    await pause(3 * IDLE_MS);
    expect(asked).toEqual([]);
    chain.resolve();
    client.socket.write("abc");
    expect(statusOf(await client.until("goods"))).toBe("HTTP/1.1 200 OK");
  });

  test("stalls after its payment was taken leaves the payment for another try", async () => {
    const shop = await shopOf();
    const { port, facilitator, asked } = shop;
    const stalled = new RawClient(port, head("/paid", ["Content-Length: 3"], "POST"));
    const { text } = await stalled.closed;
    expect(statusOf(text)).toBe("HTTP/1.1 408 Request Timeout");
    expect(text).toMatch(/^X-PAYMENT-RESPONSE: /m);
    expect(errorOf(answerIn(text))).toContain("send the same X-PAYMENT again");
    expect(asked).toEqual([]);
    const again = new RawClient(port, `${head("/paid", ["Content-Length: 3"], "POST")}abc`);
    expect(statusOf(await again.until("goods"))).toBe("HTTP/1.1 200 OK");
    expect(facilitator.settled).toHaveLength(1);
  });

  test("of HTTP/1.0 stalls behind an answer that has begun ends without looking complete", async () => {
    const { port } = await shopOf();
    const lines =
      "POST /free?early HTTP/1.0\r\nHost: shop.example\r\nContent-Length: 1000000\r\n\r\n";
    const client = new RawClient(port, lines + "a".repeat(200_000));
    await client.until("begun");
    expect((await client.closed).reset).toBe(true);
  });
});

describe("a request of HTTP/2 whose body", () => {
  test.each(["/free", "/paid"])(
    "stalls (%s) costs its stream and not its connection",
    async (path) => {
      const origin = await backend((request, response) => {
        request.on("error", () => {});
        request.resume().on("end", () => response.end("goods"));
      });
      const { port, shop } = await openSecureShop(origin, { bodyLimits: { idleMs: IDLE_MS } });
      const session = await connectHttp2(port);
      const stream = session.request(
        { ":method": "POST", ":path": path, ":authority": "shop.example" },
        { endStream: false },
      );
      stream.write("abc");
      const { status } = await answerOf(stream);
      expect(status).toBe(path === "/free" ? 408 : 402);
      expect(await send2(session)).toMatchObject({ status: 200 });
      await expect.poll(() => shop.gateway.work.inFlight).toBe(0);
    },
  );
});

test("a client that does not read our answers is given up after a while", async () => {
  const { gateway } = await shopOf();
  const server = createServer(gateway.handleRequest);
  const connected = once(server, "connection");
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  onTestFinished(() => drain(server, AbortSignal.abort()));
  const client = new RawClient(port);
  client.socket.pause();
  const [socket] = (await connected) as [Socket];
  const ask = upload("/paid", "Content-Length: 0").repeat(100);
  // Until no buffer on the way takes any more.
  const timer = setInterval(() => client.socket.write(ask), 5);
  onTestFinished(() => clearInterval(timer));
  await expect.poll(() => socket.writableLength, { timeout: 20_000 }).toBeGreaterThan(0);
  await expect.poll(() => socket.timeout).toBe(60_000);
});
