/** Clients from many addresses that take and send hardly anything, while others ask for what they take at once. */
import { connect } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import {
  block,
  END_HEADERS,
  END_STREAM,
  frame,
  FRAME,
  requestLines,
} from "./listener/http2-wire.ts";
import { openSecureShop, PATIENT } from "./listener/secure-stage.ts";
import { openShop, type Shop } from "./shop.ts";
import { backend, RawClient, send } from "./stage.ts";

/** More than all buffers on the way hold. */
const LARGE = Buffer.alloc(16 * 1024 * 1024, "a");
const PLACES = 500;
/** Hundreds of clients, each of which has to stall for a while: a busy machine needs more than the usual time. */
const CROWDED = { timeout: 60_000 };
/** Of them those that are not kept for payments. */
const USABLE = 450;
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/** SETTINGS_INITIAL_WINDOW_SIZE = 0. */
const ZERO_WINDOW = Buffer.from([0, 4, 0, 0, 0, 0]);

async function largeBackend(): Promise<string> {
  return backend((request, response) => {
    response.on("error", () => {});
    if (request.url === "/free/large") response.end(LARGE);
    else request.resume().on("end", () => response.end("goods"));
  });
}

/** The address of a stranger; every one of 127.0.0.0/8 is this machine. */
const strange = (index: number): string => `127.1.${index >> 8}.${(index & 255) + 1}`;

/** A connection that asks so many times and gives its streams no window. */
async function askWithoutWindow(port: number, localAddress: string, times: number): Promise<void> {
  const place = { port, host: "127.0.0.1", localAddress, rejectUnauthorized: false };
  const socket: TLSSocket = connectTls({ ...place, ALPNProtocols: ["h2"] });
  socket.on("error", () => {});
  socket.on("data", () => {});
  onTestFinished(() => void socket.destroy());
  await new Promise((resolve) => socket.once("secureConnect", resolve));
  const head = block(requestLines("/free/large"));
  const asked = Array.from({ length: times }, (_, index) =>
    frame(FRAME.headers, END_HEADERS | END_STREAM, 2 * index + 1, head),
  );
  const settings = frame(FRAME.settings, 0, 0, ZERO_WINDOW);
  socket.write(Buffer.concat([Buffer.from(PREFACE), settings, ...asked]));
}

/** One request over HTTP/1.1 that sends or takes nothing further. */
function askOnce(port: number, localAddress: string, text: string): void {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  socket.on("error", () => {});
  socket.pause();
  socket.write(text);
  onTestFinished(() => void socket.destroy());
}

/** What twenty clients at once with an address of their own each are told. */
function twenty({ port }: Pick<Shop, "port">): Promise<readonly number[]> {
  const asked = Array.from({ length: 20 }, async (_, index) => {
    const localAddress = `127.2.0.${index + 1}`;
    return (await send(port, { path: "/free/goods", localAddress })).status;
  });
  return Promise.all(asked);
}

const ALL_SERVED = Array.from({ length: 20 }, () => 200);

/** So many are taken that nobody has a place without one that makes room. */
async function filled({ gateway }: Shop): Promise<void> {
  await expect.poll(() => gateway.work.places.taken, PATIENT).toBeGreaterThanOrEqual(USABLE - 3);
}

test(
  "200 addresses that give their HTTP/2 streams no window lock nobody out",
  CROWDED,
  async () => {
    const { shop, port } = await openSecureShop(await largeBackend(), { maxInFlight: PLACES });
    const strangers = Array.from({ length: 200 }, (_, index) => strange(index));
    await Promise.all(strangers.map((address) => askWithoutWindow(port, address, 5)));
    await filled(shop);
    await expect.poll(() => twenty(shop), CROWDED).toEqual(ALL_SERVED);
    expect(shop.gateway.work.places.evicted).toBeGreaterThan(0);
    expect(shop.gateway.work.places.total).toBe(PLACES);
  },
);

test(
  "nor do 200 that take nothing over HTTP/1.1, nor 200 that send nothing of a body",
  CROWDED,
  async () => {
    const shop = await openShop(await largeBackend(), { maxInFlight: PLACES });
    const take = "GET /free/large HTTP/1.1\r\nHost: shop.example\r\n\r\n";
    const give = "POST /free/goods HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 100\r\n\r\na";
    for (let index = 0; index < 200; index += 1) {
      const text = index % 2 === 0 ? take : give;
      for (let times = 0; times < 5; times += 1) askOnce(shop.port, strange(index), text);
    }
    await filled(shop);
    await expect.poll(() => twenty(shop), CROWDED).toEqual(ALL_SERVED);
  },
);

test(
  "one address that takes nothing keeps half of the places, and the others are served",
  CROWDED,
  async () => {
    const { shop, port } = await openSecureShop(await largeBackend(), { maxInFlight: PLACES });
    for (let times = 0; times < 10; times += 1) await askWithoutWindow(port, strange(1), 100);
    await expect.poll(() => shop.gateway.work.places.taken, PATIENT).toBe(USABLE / 2);
    await expect.poll(() => twenty(shop), CROWDED).toEqual(ALL_SERVED);
    expect(shop.gateway.work.places.evicted).toBe(0);
  },
);

test("an answer that is taken slower than its least rate is cut, though never silent for long", async () => {
  const origin = await largeBackend();
  const answerLimits = { graceMs: 1_000, bytesPerSecond: 64 * 1024 * 1024 };
  const shop = await openShop(origin, { answerLimits });
  const client = new RawClient(shop.port, "GET /free/large HTTP/1.1\r\nHost: shop.example\r\n\r\n");
  const { socket } = client;
  await client.until("aaa");
  socket.pause();
  const trickle = setInterval(() => socket.read(1), 20);
  onTestFinished(() => clearInterval(trickle));
  await expect.poll(() => shop.gateway.work.inFlight, PATIENT).toBe(0);
  socket.resume();
  expect(await client.closed).toMatchObject({ reset: true });
});

test("an answer that its backend sends slowly is not, though it once had to wait", async () => {
  const released = Promise.withResolvers<void>();
  const origin = await backend(async (_request, response) => {
    response.on("error", () => {});
    response.write(LARGE);
    await released.promise;
    response.end("last");
  });
  const answerLimits = { graceMs: 1_000, bytesPerSecond: 512 };
  const shop = await openShop(origin, { answerLimits });
  const ask = "GET /free/large HTTP/1.1\r\nHost: shop.example\r\n\r\n";
  const slow = new RawClient(shop.port, ask);
  await expect.poll(() => slow.socket.bytesRead, PATIENT).toBeGreaterThan(LARGE.length);
  const idle = new RawClient(shop.port, ask);
  await idle.until("aaa");
  idle.socket.pause();
  // The looks that cut this one have passed over the other, too.
  await expect.poll(() => shop.gateway.work.inFlight, PATIENT).toBe(1);
  released.resolve();
  expect(await slow.until("last")).toContain("last");
});
