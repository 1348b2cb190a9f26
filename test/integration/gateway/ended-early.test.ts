/**
 * Connections that end before their answers do, and clients that end their side while they wait. To HTTP/1.0 the
 * end of the connection is that of the answer, so that a cut must not look like one, over TLS least of all.
 */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { openSecureShop, type SecureShop } from "./listener/secure-stage.ts";
import { head } from "./shop.ts";
import { backend } from "./stage.ts";

const TRANSPORTS = ["TCP", "TLS"] as const;
type Transport = (typeof TRANSPORTS)[number];

/** More than all buffers on the way hold. */
const LARGE = Buffer.alloc(32 * 1024 * 1024, "a");

/** What its connection was and how it ended. */
interface Ending {
  readonly text: string;
  readonly wasReset: boolean;
}

class Client {
  readonly socket: Socket;
  #text = "";
  readonly ended: Promise<Ending>;

  constructor({ shop, port }: SecureShop, transport: Transport, text: string) {
    const place = { host: "127.0.0.1", allowHalfOpen: true };
    this.socket =
      transport === "TCP"
        ? connectTcp({ ...place, port: shop.port })
        : connectTls({ ...place, port, rejectUnauthorized: false });
    let wasReset = false;
    this.socket.on("error", () => (wasReset = true));
    this.socket.on("data", (chunk) => (this.#text += chunk.toString("latin1")));
    this.socket.on("end", () => void this.socket.end());
    this.ended = new Promise((resolve) => {
      this.socket.once("close", () => resolve({ text: this.#text, wasReset }));
    });
    this.socket.write(text);
    onTestFinished(() => void this.socket.destroy());
  }

  async until(mark: string): Promise<void> {
    await expect.poll(() => this.#text.slice(0, 10_000), { timeout: 10_000 }).toContain(mark);
  }

  /** Takes no more from the first of the answer on: by the event, since all of it may be here before the next look. */
  async stops(): Promise<void> {
    await once(this.socket, "data");
    this.socket.pause();
  }
}

const ask = (path: string, version = "1.0"): string =>
  `GET ${path} HTTP/${version}\r\nHost: shop.example\r\n\r\n`;

interface Stage extends SecureShop {
  /** Answers that have begun, or wait for their beginning. */
  readonly answers: ServerResponse[];
  /** Those whose connection to the backend was cut. */
  readonly cancelled: ServerResponse[];
}

/** `/free/part` begins an answer without a length, `/free/large` gives all of it, others are not answered. */
async function open(options: Parameters<typeof openSecureShop>[1] = {}): Promise<Stage> {
  const answers: ServerResponse[] = [];
  const cancelled: ServerResponse[] = [];
  const origin = await backend((request, response) => {
    answers.push(response);
    response.on("close", () => {
      if (!response.writableFinished) cancelled.push(response);
    });
    if (request.url?.endsWith("/part") === true) response.write("part");
    if (request.url?.endsWith("/large") === true) response.end(LARGE);
  });
  return { ...(await openSecureShop(origin, options)), answers, cancelled };
}

describe.each(TRANSPORTS)("an answer to HTTP/1.0 over %s", (transport) => {
  test("that is whole ends in order", async () => {
    const stage = await open();
    const client = new Client(stage, transport, ask("/free/part"));
    await client.until("part");
    stage.answers[0]?.end(" and end");
    const { text, wasReset } = await client.ended;
    expect(wasReset).toBe(false);
    expect(text).toMatch(/\r\n\r\npart and end$/);
    expect(text).not.toMatch(/content-length|transfer-encoding/i);
  });

  test("whose backend dies is reset", async () => {
    const stage = await open();
    const client = new Client(stage, transport, ask("/free/part"));
    await client.until("part");
    stage.answers[0]?.destroy();
    expect(await client.ended).toMatchObject({ wasReset: true });
  });

  test("is reset when its client ends its side in the middle, and the backend told", async () => {
    const stage = await open();
    const client = new Client(stage, transport, ask("/free/part"));
    await client.until("part");
    client.socket.end();
    expect(await client.ended).toMatchObject({ wasReset: true });
    await expect.poll(() => stage.cancelled.length).toBe(1);
  });

  test("is reset when the time to drain is over", async () => {
    const listener = { tls: null };
    const stage = transport === "TCP" ? await open({ listener }) : await open();
    const place =
      transport === "TCP" ? { ...stage, shop: { ...stage.shop, port: stage.port } } : stage;
    const client = new Client(place, transport, ask("/free/part"));
    await client.until("part");
    await stage.listener.drain(AbortSignal.timeout(50));
    expect(await client.ended).toMatchObject({ wasReset: true });
  });

  test("is reset when its client takes nothing of it", async () => {
    const stage = await open({ upstream: { answerIdleMs: 300 } });
    const client = new Client(stage, transport, ask("/free/large"));
    await client.stops();
    await expect.poll(() => stage.shop.gateway.work.inFlight, { timeout: 10_000 }).toBe(0);
    client.socket.resume();
    const { text, wasReset } = await client.ended;
    expect(wasReset).toBe(true);
    expect(text.length).toBeLessThan(LARGE.length);
  });
});

describe.each(TRANSPORTS)("a client that ends its side over %s", (transport) => {
  test("while the backend works has left: the backend is told, and nothing is answered", async () => {
    const stage = await open();
    const client = new Client(stage, transport, ask("/free/wait", "1.1"));
    await expect.poll(() => stage.answers.length).toBe(1);
    client.socket.end();
    await expect.poll(() => stage.cancelled.length).toBe(1);
    expect(await client.ended).toEqual({ text: "", wasReset: false });
    await expect
      .poll(() => stage.shop.metrics.registry.metrics())
      .toContain('coinslot_http_requests_total{route="/free",code="499",outcome="free"} 1');
  });

  test("while its payment settles has left: the payment buys when it is sent again", async () => {
    const stage = await open();
    const { facilitator, gateway } = stage.shop;
    const chain = Promise.withResolvers<void>();
    const settled = facilitator.onSettle;
    facilitator.onSettle = async (...args) => {
      await chain.promise;
      return settled(...args);
    };
    const client = new Client(stage, transport, head("/paid/part"));
    await expect.poll(() => facilitator.settled.length).toBe(1);
    client.socket.end();
    expect(await client.ended).toEqual({ text: "", wasReset: false });
    chain.resolve();
    await expect.poll(() => gateway.work.inFlight).toBe(0);
    expect(stage.answers).toEqual([]);
    const again = new Client(stage, transport, head("/paid/part"));
    await again.until("part");
    expect(facilitator.settled).toHaveLength(1);
  });

  test("behind a request that we answer ourselves gets that answer", async () => {
    const client = new Client(await open(), transport, ask("/paid", "1.1"));
    client.socket.end();
    const { text, wasReset } = await client.ended;
    expect(text).toMatch(/^HTTP\/1\.1 402 [^]*"accepts"[^]*\}$/);
    expect(wasReset).toBe(false);
  });

  test("when all of its answer is on the way gets all of it", async () => {
    const stage = await open();
    const client = new Client(stage, transport, ask("/free/part"));
    await client.until("part");
    client.socket.pause();
    stage.answers[0]?.end(LARGE.subarray(0, 64 * 1024));
    await expect.poll(() => stage.answers[0]?.writableFinished).toBe(true);
    await new Promise((resolve) => setTimeout(resolve, 50));
    client.socket.end();
    client.socket.resume();
    const { text, wasReset } = await client.ended;
    expect(wasReset).toBe(false);
    expect(text.length).toBeGreaterThan(64 * 1024);
  });
});
