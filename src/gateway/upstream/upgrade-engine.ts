/**
 * WebSocket handshakes to the backend, through http-proxy-3's `ws()`, which splices the two sockets. What
 * else it would do is taken out of its hands, because it does it wrongly for a gateway:
 * - It parses and rewrites the path. Here the request line is the canonical target, byte for byte.
 * - It copies the client's headers. Here they are the filtered lines.
 * - It relays the backend's headers, receipts included. Here it sees them filtered.
 * - It relays a refusal without backpressure. Here a refusal is read under a limit and answered whole.
 * - It lets switched sockets live and idle for ever. Here a tunnel has two deadlines (`tunnels.ts`).
 * - It checks a certificate against the name that the client wrote into Host. Here it is the target's name.
 */
import type { Unanswered } from "../../http/unanswered.ts";
import { valueOf } from "../message/field-values.ts";
import { STATUS_CODES } from "node:http";
import type { ClientRequest, IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { Agent } from "node:https";
import { isIP, type Socket } from "node:net";
import { createProxyServer } from "http-proxy-3";
import {
  addMissing,
  framingProblem,
  requestLines,
  responseLines,
  upgradeRequiredLines,
} from "../message/field-lines.ts";
import { notesOf } from "../message/inbound.ts";
import { UNREAD_MS } from "../message/unread.ts";
import { Gathered } from "../../http1/gathered.ts";
import type { UpstreamHealth } from "./upstream-health.ts";
import { TunnelPlaces } from "./tunnel-places.ts";
import { Tunnels } from "./tunnels.ts";
import type { Delivery, Switching, TargetOptions, UpgradeExchange } from "./upstream.ts";

export type Upgrade =
  | { readonly kind: "websocket" }
  | {
      readonly kind: "refused";
      readonly status: 400 | 426;
      readonly detail: string;
      /** Header lines that the answer carries. */
      readonly lines: readonly string[];
    };

/**
 * False: the request is served as if it had not asked (RFC 9110 section 7.8), as clients that offer h2c
 * expect. For the server's `shouldUpgradeCallback`.
 */
export function asksForWebSocket(request: IncomingMessage): boolean {
  return request.headers.upgrade?.toLowerCase() === "websocket";
}

/**
 * Whether a handshake may go to the backend. Everything after it is a tunnel that nobody looks into, so a
 * backend must not be able to read it as anything but the handshake that was judged.
 *
 * @param head what the client sent behind the handshake: nothing, as it has no 101 yet.
 */
export function readUpgrade(request: IncomingMessage, head: Buffer): Upgrade {
  const { headers, method } = request;
  if (method !== "GET") return refused("A WebSocket handshake is a GET.");
  if (!asksForWebSocket(request)) return refused("The only Upgrade taken is websocket.");
  if (request.httpVersion !== "1.1") return refused("A WebSocket handshake is HTTP/1.1.");
  // Node's client would send its head at once, before the lines and the path are ours.
  if (headers.expect !== undefined) return refused("A WebSocket handshake has no Expect.");
  const framing = framingProblem(request);
  if (framing !== null) return refused(framing);
  const length = headers["content-length"] ?? "0";
  if (length !== "0" || headers["transfer-encoding"] !== undefined || head.length > 0) {
    return refused("A WebSocket handshake has no body, and nothing follows it unanswered.");
  }
  return readVersion(request);
}

function readVersion({ headers }: IncomingMessage): Upgrade {
  // Node joins repeated lines with commas, so that a second version or key fails these too.
  if (headers["sec-websocket-version"] !== "13") {
    return { ...refused("The WebSocket version taken is 13."), status: 426, lines: versionLines };
  }
  const key = headers["sec-websocket-key"] ?? "";
  return /^[\w+/-]{22}==$/.test(key)
    ? { kind: "websocket" }
    : refused("Sec-WebSocket-Key is not 16 bytes of base64.");
}

/** RFC 6455 section 4.4: the refusal names the version that would be taken. */
const versionLines = ["Upgrade", "websocket", "Sec-WebSocket-Version", "13"];

function refused(detail: string): Extract<Upgrade, { kind: "refused" }> {
  return { kind: "refused", status: 400, detail, lines: [] };
}

/** Bytes of the body of a refused handshake at most. */
const refusalLimit = 64 * 1024;
const SWITCHED = 101;

/** Where handshakes go, and what becomes of the connections that they switch. */
interface Place {
  readonly options: TargetOptions;
  readonly url: URL;
  /** For TLS; null for a target without. */
  readonly agent: Agent | null;
  readonly tunnels: Tunnels;
}

function letGo(socket: Socket): void {
  const notes = notesOf(socket);
  notes.reservation?.leave();
  notes.reservation = null;
}

export class UpgradeEngine {
  readonly #place: Place;
  readonly #options: TargetOptions;
  readonly #health: UpstreamHealth;
  readonly #sockets = new Set<Socket>();
  readonly #places: TunnelPlaces;
  #closed = false;

  constructor(options: TargetOptions, health: UpstreamHealth) {
    const url = new URL(options.origin);
    const agent = url.protocol === "https:" ? openAgent(url, options) : null;
    this.#place = { options, url, agent, tunnels: new Tunnels(options) };
    this.#options = options;
    this.#places = new TunnelPlaces(options.upgrades);
    this.#health = health;
  }

  /** Handshakes on their way, and switched connections. */
  get active(): number {
    return this.#sockets.size;
  }

  /**
   * What {@link upgrade} would refuse of a sale without asking the backend. Null: it has a tunnel reserved until it is
   * switched, here or elsewhere, or over.
   */
  refusal({ socket, address }: Switching): Unanswered | null {
    const notes = notesOf(socket);
    const { places, leave } = notes.reservation ?? {};
    if (this.#closed) return this.#saturated();
    // Of who has left nobody would hear that it is over.
    if (places === this.#places || socket.destroyed) return null;
    leave?.();
    const reserved = this.#places.reserve(address);
    if (reserved === undefined) return this.#saturated();
    if (leave === undefined) socket.once("close", () => letGo(socket));
    notes.reservation = { places: this.#places, leave: reserved };
    return null;
  }

  #saturated(): Unanswered {
    const detail = this.#closed
      ? "No connection is switched any more."
      : `All ${this.#options.upgrades} switched connections to ${this.#options.origin} are in use.`;
    return {
      kind: "unanswered",
      status: 503,
      reason: "saturated",
      detail,
      sent: false,
      retriable: true,
    };
  }

  #enter({ client, sale, socket }: UpgradeExchange): (() => void) | undefined {
    if (this.#closed) return undefined;
    if (notesOf(socket).reservation?.places === this.#places) letGo(socket);
    const { tunnels } = this.#place;
    const sinceMs = performance.now();
    return this.#places.enter(client.address, sale !== null, {
      get silentMs() {
        return tunnels.silentMs(socket) ?? performance.now() - sinceMs;
      },
      evict: () => void socket.destroy(),
    });
  }

  /** Never rejects. `exchange.request` is one that `readUpgrade` accepted. */
  async upgrade(exchange: UpgradeExchange): Promise<Delivery> {
    const { socket } = exchange;
    const leave = this.#enter(exchange);
    if (leave === undefined) return this.#saturated();
    this.#sockets.add(socket);
    const end = (): void => {
      this.#sockets.delete(socket);
      leave();
    };
    socket.once("close", end);
    const delivery = await new Promise<Delivery>((resolve) => {
      new Upgrading(exchange, this.#place, resolve).start();
    });
    if (delivery.kind === "delivered") {
      this.#health.succeeded();
      letGo(socket);
    } else end();
    if (delivery.kind === "unanswered" && delivery.reason === "connect") this.#health.failed();
    return delivery;
  }

  /** Lets switched connections live until `signal` aborts; then they are cut. */
  async close(signal: AbortSignal): Promise<void> {
    this.#closed = true;
    const closing = [...this.#sockets].map((socket) => closed(socket, signal));
    await Promise.all(closing);
  }
}

/** One connection for each handshake. */
function openAgent({ hostname }: URL, { tls = {} }: TargetOptions): Agent {
  const { ca, cert, key, serverName } = tls;
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  return new Agent({
    keepAlive: false,
    // Always given: Node would take it from Host, which is not ours yet when it connects.
    servername: serverName ?? (isIP(host) === 0 ? host : ""),
    ALPNProtocols: ["http/1.1"],
    minVersion: "TLSv1.2",
    rejectUnauthorized: true,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  });
}

function closed(socket: Socket, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const cut = (): void => void socket.destroy();
    socket.once("close", () => {
      signal.removeEventListener("abort", cut);
      resolve();
    });
    if (signal.aborted || socket.destroyed) cut();
    else signal.addEventListener("abort", cut, { once: true });
    if (socket.closed) resolve();
  });
}

/** One handshake, from the client's to the backend's 101, its refusal, or its absence. */
class Upgrading {
  readonly #exchange: UpgradeExchange;
  readonly #place: Place;
  readonly #resolve: (delivery: Delivery) => void;
  readonly #startedAt = performance.now();
  #deadline: NodeJS.Timeout | undefined;
  #sent = false;
  #settled = false;

  constructor(exchange: UpgradeExchange, place: Place, resolve: (delivery: Delivery) => void) {
    this.#exchange = exchange;
    this.#place = place;
    this.#resolve = resolve;
  }

  start(): void {
    const { request, socket } = this.#exchange;
    if (socket.destroyed || socket.remoteAddress === undefined) return this.#abandon();
    const outgoing = this.#connect(request, socket);
    if (outgoing === null) return this.#fail("malformed", "The handshake was not understood.");
    // Called before anything can have been answered: ws() has only just sent its request.
    outgoing.removeAllListeners("response").removeAllListeners("error");
    outgoing.on("response", (answer) => this.#decline(outgoing, answer));
    outgoing.on("error", (error) => this.#fail(this.#sent ? "broken" : "connect", error.message));
    outgoing.on("socket", (upstream) => {
      upstream.once("connect", () => {
        this.#sent = true;
      });
    });
    socket.once("end", this.#leave);
    socket.once("close", () => {
      this.#abandon();
      outgoing.destroy();
    });
    this.#deadline = setTimeout(() => {
      this.#fail("timeout", "The backend did not answer the handshake in time.");
      outgoing.destroy();
    }, this.#place.options.responseTimeoutMs);
  }

  /** Runs `ws()` with our request line and header lines; null when it refused the request. */
  #connect(request: IncomingMessage, socket: Socket): ClientRequest | null {
    const { url, agent, options } = this.#place;
    const proxy = createProxyServer({
      target: url,
      ...(agent === null ? {} : { agent }),
      // Together: neither the client's nor the target's path is looked at.
      toProxy: true,
      ignorePath: true,
      prependPath: false,
      connectTimeout: options.connectTimeoutMs,
    });
    let outgoing: ClientRequest | null = null;
    // Errors of either socket after the switch: both are closed already, and there is nobody to tell.
    proxy.on("error", () => {});
    proxy.once("proxyReqWs", (created) => {
      this.#prepare(created);
      created.once("upgrade", (answer, upstream) => this.#switch(answer, upstream));
      outgoing = created;
    });
    proxy.ws(request, socket, Buffer.alloc(0), () => {});
    return outgoing;
  }

  #prepare(outgoing: ClientRequest): void {
    const { target, host, sale } = this.#exchange;
    for (const name of outgoing.getHeaderNames()) outgoing.removeHeader(name);
    outgoing.path = target;
    outgoing.setHeader("Host", host ?? this.#place.url.host);
    const { lines } = requestLines(this.#exchange);
    if (sale !== null) addMissing(lines, ["Idempotency-Key", sale.idempotencyKey]);
    for (let index = 0; index < lines.length; index += 2) {
      outgoing.appendHeader(lines[index] ?? "", lines[index + 1] ?? "");
    }
    outgoing.setHeader("Connection", "Upgrade");
    outgoing.setHeader("Upgrade", "websocket");
  }

  /** Runs before `ws()` relays the 101 with what `answer.headers` holds then. */
  #switch(answer: IncomingMessage, upstream: Socket): void {
    const { socket, responseSet, responseAdded, removed, sale, judge } = this.#exchange;
    if (sale === null) judge?.(SWITCHED, answer.rawHeaders);
    const lines = responseLines(answer.rawHeaders, responseSet, responseAdded, removed);
    Object.assign(answer, { headers: switchingHeaders(lines) });
    this.#place.tunnels.open(socket, upstream);
    socket.once("close", () => upstream.destroySoon());
    const upstreamMs = performance.now() - this.#startedAt;
    this.#settle({ kind: "delivered", status: SWITCHED, upstreamMs });
  }

  /** The backend answered with something else than 101: its answer, whole, then the end. */
  #decline(outgoing: ClientRequest, answer: IncomingMessage): void {
    const { socket, responseSet, responseAdded, removed, sale, judge } = this.#exchange;
    const status = answer.statusCode ?? 502;
    const upstreamMs = performance.now() - this.#startedAt;
    const body = new Gathered();
    answer.on("data", (chunk: Buffer) => {
      body.add(chunk);
      if (body.length <= refusalLimit) return;
      this.#fail("malformed", `The refusal of the handshake is over ${refusalLimit} bytes.`);
      outgoing.destroy();
    });
    answer.on("error", (error) => this.#fail("broken", error.message));
    answer.on("end", async () => {
      // As for any other request: a client that has it may try again at once, at another process.
      if (sale === null) judge?.(status, answer.rawHeaders);
      else if (sale.judge(status, answer.rawHeaders) !== "goods") await sale.refused();
      if (this.#settled) return;
      this.#settle({ kind: "delivered", status, upstreamMs });
      const lines = responseLines(answer.rawHeaders, responseSet, responseAdded, removed);
      if (status === 426) lines.push(...upgradeRequiredLines(answer.rawHeaders, true, removed));
      if (sale !== null && status >= 500) addMissing(lines, sale.failureLines);
      writeAnswer(socket, { status, lines, body: body.whole() });
    });
  }

  #fail(reason: "connect" | "timeout" | "broken" | "malformed", message: string): void {
    const status = reason === "timeout" ? 504 : 502;
    const detail = `${this.#place.options.origin}: ${message}`;
    const { retriable, sent } = { retriable: true, sent: this.#sent };
    this.#settle({ kind: "unanswered", status, reason, detail, sent, retriable });
  }

  #abandon(): void {
    this.#settle({ kind: "abandoned", status: null, sent: this.#sent });
  }

  /** A client that ends its side before it has its answer is gone; behind a 101, it is the tunnel's affair. */
  readonly #leave = (): void => void this.#exchange.socket.destroy();

  #settle(delivery: Delivery): void {
    clearTimeout(this.#deadline);
    this.#exchange.socket.off("end", this.#leave);
    if (this.#settled) return;
    this.#settled = true;
    this.#resolve(delivery);
  }
}

function switchingHeaders(lines: readonly string[]): OutgoingHttpHeaders {
  const headers: Record<string, string[]> = { Connection: ["Upgrade"], Upgrade: ["websocket"] };
  for (let index = 0; index < lines.length; index += 2) {
    const name = lines[index] ?? "";
    (headers[name] ??= []).push(lines[index + 1] ?? "");
  }
  return headers;
}

interface SocketAnswer {
  readonly status: number;
  /** Raw `name, value` pairs, without framing. */
  readonly lines: readonly string[];
  readonly body: Buffer;
}

/** A complete answer on the bare socket of a handshake; the connection ends with it. */
function writeAnswer(socket: Socket, { status, lines, body }: SocketAnswer): void {
  socket.on("error", () => socket.destroy());
  // From here on its tunnel is for sale, and node, which has handed the socket over, ends no client that takes nothing.
  letGo(socket);
  socket.setTimeout(UNREAD_MS, () => socket.destroy());
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n`;
  for (let index = 0; index < lines.length; index += 2) {
    const name = lines[index] ?? "";
    if (!framing.has(name.toLowerCase())) head += `${name}: ${lines[index + 1] ?? ""}\r\n`;
  }
  // RFC 9110 section 7.8: who sends Upgrade names it here as well.
  const connection = valueOf(lines, "upgrade") === undefined ? "close" : "close, Upgrade";
  head += `Connection: ${connection}\r\nContent-Length: ${body.length}\r\n\r\n`;
  socket.write(head, "latin1");
  socket.end(body);
  socket.destroySoon();
}

const framing = new Set(["connection", "content-length", "transfer-encoding"]);

/** {@link writeAnswer} with a JSON text, or with nothing. */
export function answerOn(
  socket: Socket,
  answer: {
    readonly status: number;
    readonly lines: readonly string[];
    readonly body: string | null;
    /** Media type of the body; default: JSON. */
    readonly type?: string;
  },
): void {
  const { status, body, type = "application/json" } = answer;
  const lines = body === null ? answer.lines : [...answer.lines, "Content-Type", type];
  writeAnswer(socket, { status, lines, body: Buffer.from(body ?? "") });
}
