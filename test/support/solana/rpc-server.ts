/** The node's listeners: JSON-RPC over HTTP, and subscriptions over a websocket on the same or the next port. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer, type WebSocket } from "ws";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import type { Dispatch } from "./rpc-dispatch.ts";
import type { Subscriptions } from "./subscriptions.ts";

/** Agave's largest request body, bytes. */
const MAX_BODY_BYTES = 50 * 1024;
/** Control methods carry whole programs and accounts. */
const MAX_CONTROL_BODY_BYTES = 16 * 1024 * 1024;
/** Pairs of neighbouring ports tried until one is free. */
const MAX_PORT_TRIES = 20;
const HOST = "127.0.0.1";

export type WebsocketPlace = "same-port" | "next-port" | "none";
/**
 * `silent`: takes subscriptions and never notifies. `closed`: closes each connection as soon as it is
 * open. `refused`: answers the upgrade with 503.
 */
export type WebsocketMode = "normal" | "silent" | "closed" | "refused";

export class RpcServer {
  readonly #dispatch: Dispatch;
  readonly #subscriptions: Subscriptions;
  readonly #http: Server;
  /** The same as `#http` where the websocket is on the same port. */
  readonly #upgrades: Server | null;
  readonly #websockets = new WebSocketServer({ noServer: true, maxPayload: MAX_BODY_BYTES });
  #mode: WebsocketMode = "normal";

  constructor(dispatch: Dispatch, subscriptions: Subscriptions, websocket: WebsocketPlace) {
    this.#dispatch = dispatch;
    this.#subscriptions = subscriptions;
    this.#http = createServer((request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
    this.#upgrades = websocket === "none" ? null : this.#http;
    if (websocket === "next-port") this.#upgrades = createServer(refusePlain);
    this.#upgrades?.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head));
  }

  /** Resolves with the port of HTTP and, where there is one, of the websocket. */
  async open(port: number): Promise<{ readonly http: number; readonly websocket: number | null }> {
    for (let tried = 1; ; tried += 1) {
      const { port: http } = await listen(this.#http, { host: HOST, port });
      if (this.#upgrades === null) return { http, websocket: null };
      if (this.#upgrades === this.#http) return { http, websocket: http };
      try {
        await listen(this.#upgrades, { host: HOST, port: http + 1 });
        return { http, websocket: http + 1 };
      } catch (cause) {
        await drain(this.#http, AbortSignal.abort());
        if (port !== 0 || tried >= MAX_PORT_TRIES) throw cause;
      }
    }
  }

  setMode(mode: WebsocketMode): void {
    this.#mode = mode;
    this.#subscriptions.setSilent(mode === "silent");
    if (mode === "closed" || mode === "refused") this.disconnect();
  }

  /** Ends every open websocket connection, as a node that goes down does. */
  disconnect(): void {
    for (const client of this.#websockets.clients) client.terminate();
  }

  async close(): Promise<void> {
    this.disconnect();
    const servers = new Set([this.#http, this.#upgrades]);
    for (const server of servers) {
      if (server?.listening === true) await drain(server, AbortSignal.abort());
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const refusal = refuse(request);
    if (refusal !== null) return end(response, refusal);
    const body = await readBody(request);
    if (body === null) return end(response, { status: 413, text: "" });
    const reply = await this.#dispatch.answer(body);
    if (reply === null) response.destroy();
    else end(response, reply, "application/json; charset=utf-8");
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => socket.destroy());
    if (this.#mode === "refused") {
      socket.end(
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
      );
      return;
    }
    this.#websockets.handleUpgrade(request, socket, head, (client: WebSocket) => {
      if (this.#mode === "closed") client.close();
      else this.#subscriptions.attach(client);
    });
  }
}

interface PlainReply {
  readonly status: number;
  readonly text: string;
}

function refuse(request: IncomingMessage): PlainReply | null {
  if (request.method === "GET" && request.url === "/health") return { status: 200, text: "ok" };
  if (request.method !== "POST") {
    const text = "Used HTTP Method is not allowed. POST or OPTIONS is required\n";
    return { status: 405, text };
  }
  if (request.headers["content-type"]?.startsWith("application/json") === true) return null;
  const words =
    "Supplied content type is not allowed. Content-Type: application/json is required\n";
  return { status: 415, text: words };
}

function refusePlain(_: IncomingMessage, response: ServerResponse): void {
  end(response, { status: 426, text: "" });
}

function end(response: ServerResponse, { status, text }: PlainReply, type = "text/plain"): void {
  if (response.destroyed) return;
  response.writeHead(status, { "Content-Type": type });
  response.end(text);
}

/** Null when it is larger than a node takes. */
async function readBody(request: IncomingMessage): Promise<string | null> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request) {
    const bytes = Buffer.from(part);
    size += bytes.length;
    if (size <= MAX_CONTROL_BODY_BYTES) parts.push(bytes);
  }
  const text = Buffer.concat(parts).toString("utf8");
  if (size <= MAX_BODY_BYTES) return text;
  return size <= MAX_CONTROL_BODY_BYTES && /"method":\s*"svm_/.test(text) ? text : null;
}
