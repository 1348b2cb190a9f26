/** Who may be connected where all connections are taken: over TLS, for both protocols, and in the clear. */
import { once } from "node:events";
import { connect as connectHttp2, type ClientHttp2Session, type Settings } from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Gateway } from "../../../../src/gateway/gateway.ts";
import { MANY, UNPLACED_MS } from "../../../../src/gateway/listener/connection-table.ts";
import { Listener } from "../../../../src/gateway/listener/listener.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import { openShop, stickAnswers } from "../shop.ts";
import { backend, onHead, rawBackend } from "../stage.ts";
import { openSecureShop, PATIENT } from "./secure-stage.ts";

/** Of these one address keeps one where all are taken, and one is ended at a time. */
const MOST = 8;
const STRANGER = "127.0.0.66";

const REQUEST = "GET /free HTTP/1.1\r\nHost: a\r\n\r\n";
const WAITING = "GET /free/wait HTTP/1.1\r\nHost: a\r\n\r\n";

const HANDSHAKE =
  "GET /free/socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const SWITCHED =
  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/** Answers at once, but for `/free/wait`, which it never does, and calls `onWaiting`. */
async function origin(onWaiting = (): void => undefined): Promise<string> {
  return backend((request, response) => {
    if (request.url?.endsWith("wait")) onWaiting();
    else response.end("hello");
  });
}

interface Plain {
  readonly port: number;
  readonly log: readonly string[];
  readonly gateway: Gateway;
}

async function openPlain(onWaiting?: () => void): Promise<Plain> {
  return openPlainAt(await origin(onWaiting));
}

async function openPlainAt(target: string): Promise<Plain> {
  const { gateway } = await openShop(target);
  const log: string[] = [];
  const destination = { write: (line: string) => void log.push(line) };
  const listener = new Listener(gateway, {
    host: "127.0.0.1",
    port: 0,
    headerBytes: 16_384,
    maxConnections: MOST,
    logger: createLogger({ level: "info", format: "json", destination }),
  });
  const { port } = await listener.open();
  onTestFinished(() => listener.drain(AbortSignal.abort()));
  return { port, log, gateway };
}

class Peer {
  readonly socket: Socket;
  readonly connected: Promise<boolean>;
  #text = "";
  isClosed = false;

  constructor(socket: Socket, event: "connect" | "secureConnect") {
    this.socket = socket;
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => {});
    socket.on("data", (chunk) => (this.#text += chunk.toString("latin1")));
    this.connected = new Promise((resolve) => {
      socket.once(event, () => resolve(true)).once("close", () => resolve(false));
    });
    socket.once("close", () => (this.isClosed = true));
  }

  get answers(): number {
    return this.#text.split("HTTP/1.1 200").length - 1;
  }

  /** Whether it is answered. */
  async ask(): Promise<boolean> {
    const before = this.answers;
    this.socket.write(REQUEST);
    await expect.poll(() => this.isClosed || this.answers > before, PATIENT).toBe(true);
    return this.answers > before;
  }
}

async function plainPeer(port: number, localAddress = "127.0.0.1"): Promise<Peer> {
  const peer = new Peer(connectTcp({ port, host: "127.0.0.1", localAddress }), "connect");
  await peer.connected;
  return peer;
}

async function fill(port: number, count: number, localAddress: string): Promise<readonly Peer[]> {
  const peers: Peer[] = [];
  for (let index = 0; index < count; index += 1) {
    const peer = await plainPeer(port, localAddress);
    expect(await peer.ask()).toBe(true);
    peers.push(peer);
  }
  return peers;
}

const open = (peers: readonly Peer[]): number => peers.filter(({ isClosed }) => !isClosed).length;

test("a stranger's idle connections make room, the longest idle first", async () => {
  const { port, log } = await openPlain();
  const strangers = await fill(port, MOST, STRANGER);
  // The first is the last to have asked.
  expect(await strangers[0]?.ask()).toBe(true);
  const buyer = await plainPeer(port);
  expect(await buyer.ask()).toBe(true);
  await expect.poll(() => strangers[1]?.isClosed, PATIENT).toBe(true);
  expect(open(strangers)).toBe(MOST - 1);
  expect(await strangers[0]?.ask()).toBe(true);
  expect(log.filter((line) => line.includes("make room for new ones"))).toHaveLength(1);
});

test("those of an address with more than its share go before those that are idle longer", async () => {
  const { port } = await openPlain();
  const [buyer] = await fill(port, 1, "127.0.0.1");
  const strangers = await fill(port, 3 * MOST, STRANGER);
  expect(buyer?.isClosed).toBe(false);
  expect(await buyer?.ask()).toBe(true);
  await expect.poll(() => open(strangers), PATIENT).toBe(MOST - 1);
});

test("what has a request under way is not ended for a new one, which is turned away", async () => {
  let waiting = 0;
  const { port, log } = await openPlain(() => void (waiting += 1));
  const busy = await Promise.all(
    Array.from({ length: MOST }, async () => {
      const peer = await plainPeer(port, STRANGER);
      peer.socket.write(WAITING);
      return peer;
    }),
  );
  await expect.poll(() => waiting, PATIENT).toBe(MOST);
  const clock = vi.spyOn(performance, "now");
  onTestFinished(() => clock.mockRestore());
  clock.mockReturnValue(performance.now() + UNPLACED_MS + 1);
  const late = await plainPeer(port);
  await expect.poll(() => late.isClosed, PATIENT).toBe(true);
  expect(open(busy)).toBe(MOST);
  expect(log.filter((line) => line.includes("with a request on each"))).toHaveLength(1);
  busy[0]?.socket.destroy();
  await expect
    .poll(async () => {
      const next = await plainPeer(port);
      return next.ask();
    }, PATIENT)
    .toBe(true);
});

test("over TLS handshakes that are not made and idle sessions of HTTP/2 make room, too", async () => {
  const { port } = await openSecureShop(await origin(), { listener: { maxConnections: MOST } });
  const session = await sessionFrom(port, STRANGER);
  expect(await statusOf(session, "/free")).toBe(200);
  const working = await sessionFrom(port, STRANGER);
  const waiting = working.request({ ":path": "/free/wait" }).on("error", () => {});
  await new Promise((resolve) => working.ping(resolve));
  const silent = await fillSilent(port, MOST - 2);
  for (const gone of [session, ...silent]) {
    const buyer = new Peer(
      connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false }),
      "secureConnect",
    );
    expect(await buyer.connected).toBe(true);
    expect(await buyer.ask()).toBe(true);
    await expect.poll(() => isGone(gone), PATIENT).toBe(true);
    buyer.socket.write(WAITING);
  }
  expect(waiting.destroyed).toBe(false);
  expect(working.destroyed).toBe(false);
});

/** A session on which so much is under way that a new connection finds nothing idle. */
type Busy = (port: number, localAddress: string) => Promise<ClientHttp2Session>;

/** Of a method without a body, with no word whether one comes. */
const undecided: Busy = async (port, localAddress) => {
  const session = await sessionFrom(port, localAddress);
  session.request({ ":path": "/free" }, { endStream: false }).on("error", () => {});
  await new Promise((resolve) => session.ping(resolve));
  return session;
};

/** An answer of ours of which nothing is taken. */
const unread: Busy = async (port, localAddress) => {
  const session = await sessionFrom(port, localAddress, UNREAD);
  await leaveUnread(session);
  return session;
};

const UNREAD = { initialWindowSize: 0 };

async function leaveUnread(session: ClientHttp2Session): Promise<void> {
  const stream = session.request({ ":path": "/" }).on("error", () => {});
  await once(stream, "response");
}

test.each([
  ["that are no requests yet", undecided, 0],
  ["that are answered and not read", unread, UNPLACED_MS],
])("streams %s hold no connection, whoever has them", async (_name, busy, afterMs) => {
  const { port } = await openSecureShop(await origin(), { listener: { maxConnections: MOST } });
  // One that waits for its backend has a place, and nobody has more than its share.
  const working = await sessionFrom(port, "127.0.0.50");
  const waiting = working.request({ ":path": "/free/wait" }).on("error", () => {});
  await new Promise((resolve) => working.ping(resolve));
  const sessions: ClientHttp2Session[] = [];
  for (let index = 1; index < MOST; index += 1)
    sessions.push(await busy(port, `127.0.0.${50 + index}`));
  const clock = vi.spyOn(performance, "now");
  onTestFinished(() => clock.mockRestore());
  const now = performance.now() + afterMs + 1;
  clock.mockReturnValue(now);
  const buyer = await tlsPeer(port);
  expect(await buyer.ask()).toBe(true);
  await expect.poll(() => sessions.map((each) => each.destroyed), PATIENT).toContain(true);
  expect(sessions.findIndex((each) => each.destroyed)).toBe(0);
  expect(waiting.destroyed).toBe(false);
});

test("what has no place is not ended before it has had its time, nor before what is idle", async () => {
  const { port } = await openSecureShop(await origin(), { listener: { maxConnections: MOST } });
  const sessions: ClientHttp2Session[] = [];
  for (let index = 0; index < MOST; index += 1) {
    sessions.push(await sessionFrom(port, STRANGER, UNREAD));
  }
  const clock = vi.spyOn(performance, "now");
  onTestFinished(() => clock.mockRestore());
  let now = performance.now() + UNPLACED_MS + 1;
  clock.mockReturnValue(now);
  for (const session of sessions) await leaveUnread(session);
  const late = await tlsPeer(port);
  expect(await late.connected).toBe(false);
  expect(sessions.filter((each) => each.destroyed)).toEqual([]);
  now += UNPLACED_MS + 1;
  clock.mockReturnValue(now);
  const buyer = await tlsPeer(port);
  expect(await buyer.ask()).toBe(true);
  clock.mockReturnValue(now + UNPLACED_MS + 1);
  // The buyer is idle since, and the strangers are not.
  const next = await tlsPeer(port, "127.0.0.2");
  expect(await next.ask()).toBe(true);
  await expect.poll(() => buyer.isClosed, PATIENT).toBe(true);
  expect(sessions.filter((each) => each.destroyed)).toHaveLength(1);
});

test("a tunnel has no place, and is not ended for new connections", async () => {
  const target = await rawBackend((socket) => {
    onHead(socket, () => socket.write(SWITCHED));
  });
  const { port } = await openPlainAt(target);
  const tunnels: Peer[] = [];
  for (let index = 0; index < MOST; index += 1) {
    const peer = await plainPeer(port, STRANGER);
    peer.socket.write(HANDSHAKE);
    await once(peer.socket, "data");
    tunnels.push(peer);
  }
  const clock = vi.spyOn(performance, "now");
  onTestFinished(() => clock.mockRestore());
  clock.mockReturnValue(performance.now() + UNPLACED_MS + 1);
  const late = await plainPeer(port);
  await expect.poll(() => late.isClosed, PATIENT).toBe(true);
  expect(open(tunnels)).toBe(MOST);
});

test("a handshake that is refused, and whose answer is not read, holds no connection", async () => {
  const { port, gateway } = await openPlain();
  stickAnswers(gateway);
  const strangers: Peer[] = [];
  for (let index = 0; index < MOST; index += 1) {
    const peer = await plainPeer(port, STRANGER);
    peer.socket.write(HANDSHAKE.replace("Version: 13", "Version: 12"));
    await once(peer.socket, "data");
    peer.socket.pause();
    strangers.push(peer);
  }
  const clock = vi.spyOn(performance, "now");
  onTestFinished(() => clock.mockRestore());
  clock.mockReturnValue(performance.now() + UNPLACED_MS + 1);
  const buyer = await plainPeer(port);
  expect(await buyer.ask()).toBe(true);
});

async function tlsPeer(port: number, localAddress = "127.0.0.1"): Promise<Peer> {
  const raw = connectTcp({ port, host: "127.0.0.1", localAddress });
  const peer = new Peer(connectTls({ socket: raw, rejectUnauthorized: false }), "secureConnect");
  // Where it is turned away, TLS has nobody to tell.
  raw.on("error", () => {});
  return peer;
}

function isGone(peer: Peer | ClientHttp2Session): boolean {
  return peer instanceof Peer ? peer.isClosed : peer.destroyed;
}

async function fillSilent(port: number, count: number): Promise<readonly Peer[]> {
  const peers: Peer[] = [];
  for (let index = 0; index < count; index += 1) peers.push(await plainPeer(port, STRANGER));
  return peers;
}

async function sessionFrom(
  port: number,
  localAddress: string,
  settings: Settings = {},
): Promise<ClientHttp2Session> {
  const raw = connectTcp({ port, host: "127.0.0.1", localAddress });
  const socket = connectTls({ socket: raw, rejectUnauthorized: false, ALPNProtocols: ["h2"] });
  const session = connectHttp2(`https://127.0.0.1:${port}`, {
    createConnection: () => socket,
    settings,
  });
  session.on("error", () => {});
  onTestFinished(() => session.destroy());
  await new Promise<void>((resolve) => session.once("connect", () => resolve()));
  return session;
}

async function statusOf(session: ClientHttp2Session, path: string): Promise<number> {
  const stream = session.request({ ":path": path });
  return new Promise((resolve, reject) => {
    stream.once("error", reject);
    stream.once("response", (headers) => resolve(Number(headers[":status"])));
    stream.resume();
  });
}

test("an address with many HTTP/2 connections has few streams on each further one", async () => {
  const { port } = await openSecureShop(await origin());
  const open = async (localAddress: string): Promise<number | undefined> => {
    const options = { rejectUnauthorized: false, localAddress };
    const session = connectHttp2(`https://127.0.0.1:${port}`, options);
    onTestFinished(() => session.destroy());
    await once(session, "remoteSettings");
    return session.remoteSettings.maxConcurrentStreams;
  };
  const told: unknown[] = [];
  for (let count = 0; count <= MANY; count += 1) told.push(await open(STRANGER));
  expect(new Set(told.slice(0, MANY))).toEqual(new Set([100]));
  expect(told.at(-1)).toBe(10);
  expect(await open("127.0.0.67")).toBe(100);
});
