/**
 * Node's HTTP/1.1 server, plain or behind TLS, with its strict parser and every timeout on, and the order of
 * answers on one connection: each in its turn, and none behind the last.
 */
import {
  createServer,
  type IncomingMessage,
  type Server as PlainServer,
  type ServerResponse,
} from "node:http";
import type { Server as SecureServer } from "node:https";
import type { Socket } from "node:net";
import type { Gateway } from "../gateway.ts";
import { noteUnread } from "../message/unread.ts";
import { asksForWebSocket } from "../upstream/upgrade-engine.ts";
import { endConnection, isEnding } from "../visitor.ts";
import type { ConnectionTable } from "./connection-table.ts";
import { MAX_HEADER_LINES } from "./http2-head.ts";

/** A request's head must be complete within this, milliseconds. */
export const HEAD_TIMEOUT_MS = 15_000;
/**
 * A whole request, body included, must be complete within this, milliseconds: no shorter than what a
 * configuration may allow for a body (`BodyWatch`), which is what ends those that stall or trickle.
 */
export const REQUEST_TIMEOUT_MS = 86_400_000;
/** Idle connections are kept longer than the usual load balancer's 60 s, so that it closes first. */
export const KEEP_ALIVE_MS = 75_000;
/** How often the timeouts above are looked at, milliseconds. */
export const SWEEP_MS = 5_000;

export type HttpServer = PlainServer | SecureServer;
export type { SecureServer };

/** What all public servers have in common. */
export function serverOptions(headerBytes: number) {
  return {
    maxHeaderSize: headerBytes,
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
  };
}

export function createPlainServer(headerBytes: number): PlainServer {
  return createServer(serverOptions(headerBytes));
}

/** Connections that somebody has to end. */
export interface Connections {
  /** All of them. */
  readonly table: ConnectionTable;
  /** Node no longer counts them as connections of the server, though it waits for them. */
  readonly upgraded: Set<Socket>;
  /** An answer to HTTP/1.0 is under way. */
  readonly old: Set<Socket>;
}

/** Hands the server's requests to the gateway, and collects the connections that {@link Connections} names. */
export function serveHttp1(server: HttpServer, gateway: Gateway, connections: Connections): void {
  const { upgraded, table } = connections;
  server.maxHeadersCount = MAX_HEADER_LINES;
  server.on("request", inTurn(gateway.handleRequest, connections));
  server.on("checkContinue", inTurn(gateway.handleContinue, connections));
  server.on("checkExpectation", inTurn(gateway.handleRequest, connections));
  server.on("timeout", onTimeout);
  const upgrade = (request: IncomingMessage, socket: Socket, head: Buffer): void => {
    if (endsBehind(socket)) return;
    upgraded.add(socket);
    // Whatever becomes of it, it is no connection of ours to give to others.
    table.of(socket)?.begin();
    socket.once("close", () => upgraded.delete(socket));
    gateway.handleUpgrade(request, socket, head);
  };
  server.on("upgrade", upgrade);
  server.on("connect", upgrade);
  server.on("clientError", answerUnreadable);
}

/** From here on each answer is the last one of its connection, and says so. */
export function retireHttp1(server: HttpServer): void {
  server.prependListener("request", retire);
  server.prependListener("checkContinue", retire);
  server.prependListener("checkExpectation", retire);
}

/** Answers that are owed on each connection, in their order. */
const owed = new WeakMap<Socket, ServerResponse[]>();

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** Nothing is read behind the last answer of a connection. */
function inTurn(handle: Handler, { table, old }: Connections): Handler {
  return (request, response) => {
    const { socket, headers } = request;
    if (isEnding(socket)) return;
    const connection = table.of(socket);
    connection?.begin();
    const answers = owed.get(socket) ?? beginOwing(socket);
    answers.push(response);
    if (request.httpVersion === "1.0") old.add(socket);
    response.once("close", () => {
      answers.splice(answers.indexOf(response), 1);
      if (answers.length === 0) old.delete(socket);
      connection?.end();
    });
    // Node drops what came with an upgrade that is not taken: whatever comes next may be half a request.
    if (headers.upgrade !== undefined && /\bupgrade\b/i.test(headers.connection ?? "")) {
      response.shouldKeepAlive = false;
      endConnection(socket);
    }
    handle(request, response);
  };
}

function beginOwing(socket: Socket): ServerResponse[] {
  const answers: ServerResponse[] = [];
  owed.set(socket, answers);
  socket.prependListener("end", onLeft);
  return answers;
}

/**
 * A client that ends its side has left (`decisions/0029`). Node ends ours then, in order and behind whatever was
 * written: an answer in its middle would look complete where nothing but the connection's end marks its own.
 */
function onLeft(this: Socket): void {
  const answer = currentAnswer(this);
  if (answer !== undefined && answer.headersSent && !answer.writableEnded) this.resetAndDestroy();
}

/** Nothing has moved for so long as the socket allows. */
function onTimeout(socket: Socket): void {
  const answer = currentAnswer(socket);
  // It is the client that waits, for an answer behind one that it took late.
  if (answer !== undefined && socket.writableLength === 0) return;
  if (answer !== undefined) noteUnread(socket);
  breakOff(socket);
}

/** Ends a connection at once: by a reset where an answer is in its middle, which must not look complete. */
export function breakOff(socket: Socket): void {
  if (currentAnswer(socket)?.headersSent === true) socket.resetAndDestroy();
  else socket.destroy();
}

/** The one whose turn it is, whole or in part still with us. */
function currentAnswer(socket: Socket): ServerResponse | undefined {
  return owed.get(socket)?.find(({ writableFinished }) => !writableFinished);
}

/**
 * True when the connection ends behind answers that are owed for earlier requests: an answer before them would
 * be taken for theirs.
 */
function endsBehind(socket: Socket): boolean {
  const answers = owed.get(socket) ?? [];
  // Of a request whose body is unreadable, the refusal is the answer.
  const earlier = answers.findLast(({ req }) => req.complete);
  const wasEnding = isEnding(socket);
  endConnection(socket);
  if (earlier === undefined) {
    if (wasEnding) socket.destroySoon();
    return wasEnding;
  }
  socket.on("error", () => socket.destroy());
  earlier.once("close", () => socket.destroySoon());
  return true;
}

function retire(_request: IncomingMessage, response: ServerResponse): void {
  response.shouldKeepAlive = false;
}

const UNREADABLE: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: "431 Request Header Fields Too Large",
  ERR_HTTP_REQUEST_TIMEOUT: "408 Request Timeout",
};

/** What the parser refused never became a request: one line, and the connection is over. */
function answerUnreadable(error: Error & { code?: string }, socket: Socket): void {
  if (endsBehind(socket)) return;
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const status = UNREADABLE[error.code ?? ""] ?? "400 Bad Request";
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`, () => {
    socket.destroy();
  });
}
