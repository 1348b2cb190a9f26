/**
 * A public listener: Node's HTTP/1.1 server with its strict parser, every timeout on, and a drain that
 * ends by itself (protocol-independent limits of the front door).
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Gateway } from "./gateway.ts";
import { asksForWebSocket } from "./upgrade-engine.ts";

/** A request's head must be complete within this, milliseconds. */
const HEAD_TIMEOUT_MS = 15_000;
/** A whole request, body included, must be complete within this, milliseconds. */
const REQUEST_TIMEOUT_MS = 300_000;
/** Idle connections are kept longer than the usual load balancer's 60 s, so that it closes first. */
const KEEP_ALIVE_MS = 75_000;
/** How often the timeouts above are looked at, milliseconds. */
const SWEEP_MS = 5_000;
/** Header lines of a request at most. */
const MAX_HEADER_LINES = 100;
/** While draining, connections that became idle are closed this often, milliseconds. */
const DRAIN_SWEEP_MS = 100;

export interface ListenerOptions {
  /** Null: every interface. */
  readonly host: string | null;
  readonly port: number;
  /** Largest request head, bytes. */
  readonly headerBytes: number;
  /**
   * From here on each answer is the last one of its connection, and says so: a client that is told to come
   * back elsewhere never sends into a connection that is just being closed.
   */
  readonly retiring?: AbortSignal;
}

export class Listener {
  readonly #server: Server;
  readonly #options: ListenerOptions;
  /** Sockets that Node no longer counts as connections of the server, though it waits for them. */
  readonly #upgraded = new Set<Socket>();

  constructor(gateway: Gateway, options: ListenerOptions) {
    this.#options = options;
    this.#server = createServer({
      maxHeaderSize: options.headerBytes,
      headersTimeout: HEAD_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: SWEEP_MS,
      insecureHTTPParser: false,
      optimizeEmptyRequests: true,
      requireHostHeader: true,
      noDelay: true,
      // Other upgrades (h2c, which some HTTP clients offer with every request) are ignored, as RFC 9110
      // section 7.8 allows: the request is answered as if it had not asked.
      shouldUpgradeCallback: asksForWebSocket,
    });
    this.#server.maxHeadersCount = MAX_HEADER_LINES;
    options.retiring?.addEventListener("abort", () => {
      this.#server.prependListener("request", retire);
      this.#server.prependListener("checkContinue", retire);
    });
    this.#server.on("request", gateway.handleRequest);
    this.#server.on("checkContinue", gateway.handleContinue);
    this.#server.on("checkExpectation", gateway.handleRequest);
    this.#server.on("upgrade", (request, socket: Socket, head) => {
      this.#upgraded.add(socket);
      socket.once("close", () => this.#upgraded.delete(socket));
      gateway.handleUpgrade(request, socket, head);
    });
    this.#server.on("clientError", answerUnreadable);
  }

  /** Resolves with the address once connections are accepted; rejects when it cannot be had. */
  async open(): Promise<AddressInfo> {
    return listen(this.#server, this.#options);
  }

  /** Accepts nothing new and resolves when the last request is answered, or when the signal ends. */
  async drain(signal: AbortSignal): Promise<void> {
    const cut = (): void => {
      for (const socket of this.#upgraded) socket.destroy();
    };
    signal.addEventListener("abort", cut, { once: true });
    if (signal.aborted) cut();
    await drain(this.#server, signal);
    signal.removeEventListener("abort", cut);
  }
}

function retire(_request: IncomingMessage, response: ServerResponse): void {
  response.shouldKeepAlive = false;
}

/** Opens any HTTP server of this process. `host` null: every interface. */
export async function listen(
  server: Server,
  { host, port }: { readonly host: string | null; readonly port: number },
): Promise<AddressInfo> {
  const opened = Promise.withResolvers<void>();
  server.once("error", opened.reject);
  server.listen({ port, ...(host === null ? {} : { host }) }, opened.resolve);
  await opened.promise;
  server.off("error", opened.reject);
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("not a TCP listener");
  return address;
}

/** Closes any HTTP server of this process: requests in flight may finish until the signal ends. */
export async function drain(server: Server, signal: AbortSignal): Promise<void> {
  const closed = Promise.withResolvers<void>();
  server.close(() => closed.resolve());
  server.closeIdleConnections();
  const sweep = setInterval(() => server.closeIdleConnections(), DRAIN_SWEEP_MS);
  const giveUp = (): void => server.closeAllConnections();
  signal.addEventListener("abort", giveUp, { once: true });
  if (signal.aborted) giveUp();
  await closed.promise;
  clearInterval(sweep);
  signal.removeEventListener("abort", giveUp);
}

const UNREADABLE: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: "431 Request Header Fields Too Large",
  ERR_HTTP_REQUEST_TIMEOUT: "408 Request Timeout",
};

/** What the parser refused never became a request: one line, and the connection is over. */
function answerUnreadable(error: Error & { code?: string }, socket: Socket): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const status = UNREADABLE[error.code ?? ""] ?? "400 Bad Request";
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`, () => {
    socket.destroy();
  });
}
