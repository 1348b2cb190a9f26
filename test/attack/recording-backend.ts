/**
 * A backend that records every byte and takes everything: whatever looks like a request is answered with
 * 200, whatever does not is kept. `/free/ws…` switches to WebSocket when asked; nothing else ever does.
 * Its answers carry what a hostile backend would forge, so that it can be seen not to reach a client.
 */
import { createHash } from "node:crypto";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import type { Step } from "./dialogue.ts";
import { cutRequests, valuesOf, type ReadRequest } from "./framing.ts";

/** Names a request of the backend in its answer. */
export const SEEN_HEADER = "x-seen";
/** What the targets of the harness' own requests begin with. */
export const PROBE = "/free/probe";
/** What no answer may bring to a client. */
export const FORGED = "forged-by-the-backend";

/** What outranks Cache-Control for one cache or another; it may cross where nothing is sold. */
export const STEERING = ["CDN-Cache-Control", "Surrogate-Control", "X-Accel-Expires", "Expires"];

/** What is said of payments, which is ours to say. */
export const RECEIPTS = [
  "X-PAYMENT-RESPONSE",
  "PAYMENT-RESPONSE",
  "PAYMENT-REQUIRED",
  "EXTENSION-RESPONSES",
];

const FORGERIES = [
  ...RECEIPTS.map((name) => `${name}: ${FORGED}`),
  `X-402-Payer: ${FORGED}`,
  `Proxy-Authenticate: ${FORGED}`,
  `X-Hop: ${FORGED}`,
  ...STEERING.map((name) => `${name}: max-age=600`),
  "Connection: X-Hop",
].join("\r\n");
const ACCEPT_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** Bytes of one connection that are kept; a case that sends more is a mistake of the case. */
const MAX_RECORDED_BYTES = 4 * 1024 * 1024;

interface Connection {
  bytes: string;
  /** How many bytes have been answered. */
  answered: number;
  /** Where the bytes of a switched connection begin; undefined before. */
  tunnelFrom: number | undefined;
  isClosed: boolean;
  /** Its answer has begun before the request was whole. */
  hasBegun: boolean;
}

interface Seen {
  count: number;
  script: readonly Step[] | undefined;
  /** Scripts that are being played. */
  readonly playing: Set<Promise<void>>;
}

/** How long is waited for scripts to end, milliseconds: some go on for as long as they are listened to. */
const PLAYED_MS = 1_000;

/** What arrived on one connection within a time. */
export interface Arrived {
  readonly bytes: string;
  /** Behind a switch, which the gateway only relays. */
  readonly tunnelled: string;
}

/** A moment in the record. */
export type Moment = readonly number[];

export class RecordingBackend implements AsyncDisposable {
  readonly url: string;
  readonly #server: ReturnType<typeof createServer>;
  readonly #connections: Connection[];
  readonly #sockets: Set<Socket>;
  readonly #seen: Seen;

  private constructor(parts: {
    server: ReturnType<typeof createServer>;
    connections: Connection[];
    sockets: Set<Socket>;
    seen: Seen;
  }) {
    this.#server = parts.server;
    this.#connections = parts.connections;
    this.#sockets = parts.sockets;
    this.#seen = parts.seen;
    const { port } = parts.server.address() as AddressInfo;
    this.url = `http://127.0.0.1:${port}`;
  }

  static async start(): Promise<RecordingBackend> {
    const connections: Connection[] = [];
    const sockets = new Set<Socket>();
    const seen: Seen = { count: 0, script: undefined, playing: new Set() };
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      const connection: Connection = {
        bytes: "",
        answered: 0,
        tunnelFrom: undefined,
        isClosed: false,
        hasBegun: false,
      };
      connections.push(connection);
      sockets.add(socket);
      socket.on("error", () => socket.destroy());
      socket.once("close", () => {
        connection.isClosed = true;
        sockets.delete(socket);
      });
      socket.on("end", () => socket.end());
      socket.on("data", (chunk) => {
        if (connection.bytes.length > MAX_RECORDED_BYTES) return;
        connection.bytes += chunk.toString("latin1");
        answerAll(socket, connection, seen);
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new RecordingBackend({ server, connections, sockets, seen });
  }

  /** Requests answered so far. */
  get seen(): number {
    return this.#seen.count;
  }

  /** What is answered from here on to anything but a probe; undefined: goods. */
  play(script: readonly Step[] | undefined): void {
    this.#seen.script = script;
  }

  /** Until no script is played any more: the end of a connection would come in the middle of the next case. */
  async played(): Promise<void> {
    const patience = new AbortController();
    const timeout = pause(PLAYED_MS, undefined, { signal: patience.signal }).catch(() => undefined);
    await Promise.race([Promise.all(this.#seen.playing), timeout]);
    patience.abort();
  }

  now(): Moment {
    return this.#connections.map(({ bytes }) => bytes.length);
  }

  /** What arrived since, connection by connection; connections without news are left out. */
  since(moment: Moment): readonly Arrived[] {
    return this.#connections
      .map(({ bytes, tunnelFrom = bytes.length }, index) => {
        const from = moment[index] ?? 0;
        return {
          bytes: bytes.slice(from, Math.max(from, tunnelFrom)),
          tunnelled: bytes.slice(Math.max(from, tunnelFrom)),
        };
      })
      .filter(({ bytes, tunnelled }) => bytes !== "" || tunnelled !== "");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}

/** Answers each request that is complete, once. */
function answerAll(socket: Socket, connection: Connection, seen: Seen): void {
  if (connection.tunnelFrom !== undefined) {
    socket.write(connection.bytes.slice(connection.answered), "latin1");
    connection.answered = connection.bytes.length;
    return;
  }
  const { requests, partial } = cutRequests(connection.bytes.slice(connection.answered));
  // A hostile backend does not wait for the whole of a request.
  if (connection.hasBegun || answerBadly(socket, seen, partial)) {
    connection.hasBegun = true;
    return;
  }
  for (const request of requests) {
    seen.count += 1;
    connection.answered += request.head.length + request.body.length;
    if (answerBadly(socket, seen, request)) return;
    if (wantsSwitch(request)) {
      connection.tunnelFrom = connection.answered;
      socket.write(switching(request, seen.count), "latin1");
      return answerAll(socket, connection, seen);
    }
    socket.write(plainAnswer(request, seen.count), "latin1");
    const closes = valuesOf(request.lines, "connection").some((value) => /close/i.test(value));
    if (closes) socket.end();
  }
}

/** True: there is a script, and it is played now. */
function answerBadly(
  socket: Socket,
  { script, playing }: Seen,
  request: ReadRequest | undefined,
): boolean {
  if (script === undefined || request === undefined) return false;
  if (request.target.includes(PROBE)) return false;
  const performing = perform(socket, script).finally(() => playing.delete(performing));
  playing.add(performing);
  return true;
}

/** A hostile backend: whatever it says, whenever it likes. */
async function perform(socket: Socket, script: readonly Step[]): Promise<void> {
  for (const step of script) {
    if (socket.destroyed) return;
    if (step.kind === "send") socket.write(step.bytes, "latin1");
    else if (step.kind === "pause") await pause(step.ms);
    else if (step.kind === "end") socket.end();
    else if (step.kind === "reset") socket.resetAndDestroy();
    else if (step.kind === "drip") {
      while (!socket.destroyed) {
        socket.write(step.bytes, "latin1");
        await pause(step.everyMs);
      }
    }
  }
  // The other side has noticed then.
  const isOver = script.some(({ kind }) => kind === "end" || kind === "reset");
  if (isOver && !socket.destroyed) await once(socket, "close").catch(() => undefined);
}

function wantsSwitch({ method, target, lines }: ReadRequest): boolean {
  const upgrade = valuesOf(lines, "upgrade").some((value) => /websocket/i.test(value));
  return method === "GET" && target.includes("/free/ws") && upgrade;
}

function switching({ lines }: ReadRequest, count: number): string {
  const [key = ""] = valuesOf(lines, "sec-websocket-key");
  const accept = createHash("sha1").update(`${key}${ACCEPT_GUID}`).digest("base64");
  return (
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
    `X-Seen: ${count}\r\n${FORGERIES}\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`
  );
}

function plainAnswer({ method, target }: ReadRequest, count: number): string {
  const body = `goods ${count}: ${method} ${target}\n`;
  const head = `HTTP/1.1 200 OK\r\nX-Seen: ${count}\r\n${FORGERIES}\r\nContent-Type: text/plain\r\n`;
  return `${head}Content-Length: ${body.length}\r\n\r\n${method === "HEAD" ? "" : body}`;
}

/** Whether the probe came on a connection that had brought something else. */
export function isProbeBeside(arrived: readonly Arrived[], target: string): boolean {
  const line = `GET ${target} HTTP/1.1\r\n`;
  return arrived.some(({ bytes }) => bytes.includes(line) && !bytes.startsWith(line));
}

/** The probe is the harness' own; whatever else is in its bytes is not. */
export function withoutProbe(arrived: readonly Arrived[], target: string): readonly Arrived[] {
  return arrived
    .map(({ bytes, tunnelled }) => {
      const from = bytes.lastIndexOf(`GET ${target} HTTP/1.1\r\n`);
      const end = from === -1 ? -1 : bytes.indexOf("\r\n\r\n", from) + 4;
      return { bytes: from === -1 ? bytes : bytes.slice(0, from) + bytes.slice(end), tunnelled };
    })
    .filter(({ bytes, tunnelled }) => bytes !== "" || tunnelled !== "");
}
