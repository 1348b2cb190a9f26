/**
 * The order of answers on one connection of HTTP/1.1: each in its turn, so many at a time, and none behind the last.
 */
import type { HttpServer } from "./http-server.ts";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { notesOf } from "../message/inbound.ts";
import { hasRequestBody } from "../message/request-body.ts";
import { asksForWebSocket } from "../upstream/upgrade-engine.ts";
import type { ConnectionTable } from "./connection-table.ts";
import { Lingering } from "./lingering.ts";

/**
 * Answers that are owed on one connection: the last of them ends it, and what was sent behind its request is for the
 * client to send again on another (RFC 9112 section 9.3.2).
 */
export const MAX_OWED_ANSWERS = 32;

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

export interface Handlers {
  readonly serve: Handler;
  /** For who waits to be told that its body may come; default: node tells it at once. */
  readonly serveContinue?: Handler;
}

interface Connections {
  readonly table: ConnectionTable;
  /** Gets those with an answer to HTTP/1.0 under way. */
  readonly old?: Set<Socket>;
}

/** To be called before `boundConnections`, which hands the server's listeners each connection in its turn. */
export function answerInTurn(
  server: HttpServer,
  { serve, serveContinue }: Handlers,
  connections: Connections,
): void {
  server.on("connection", beginOwing);
  server.on("secureConnection", beginOwing);
  const told = { ...connections, lingering: new Lingering(server) };
  server.on("request", inTurn(serve, told));
  server.on("checkExpectation", inTurn(serve, told));
  if (serveContinue !== undefined) server.on("checkContinue", inTurn(serveContinue, told));
  server.on("timeout", onTimeout);
  server.on("clientError", answerUnreadable);
}

/** Nothing is read behind the last answer of a connection. */
function inTurn(
  handle: Handler,
  { table, old, lingering }: Connections & { readonly lingering: Lingering },
): Handler {
  return (request, response) => {
    const { socket, headers } = request;
    const connection = table.of(socket);
    const since = connection?.begin() ?? 0;
    const answers = notesOf(socket).owed ?? [];
    answers.push(response);
    if (answers.length === MAX_OWED_ANSWERS) endWith(response, socket);
    if (request.httpVersion === "1.0") old?.add(socket);
    response.on("close", () => {
      if (answers[0] === response) answers.shift();
      else answers.splice(answers.indexOf(response), 1);
      if (answers.length === 0) old?.delete(socket);
      connection?.end(since);
      // Broken off before its turn: node would leave the client waiting for the rest of it.
      const isWaiting = response.socket === null && !response.writableFinished;
      if (isWaiting) response.once("socket", () => socket.destroy());
    });
    if (hasRequestBody(request)) lingering.await(request, response);
    // Node drops what came with an upgrade that is not taken: whatever comes next may be half a request.
    if (headers.upgrade !== undefined && /\bupgrade\b/i.test(headers.connection ?? "")) {
      endWith(response, socket);
    }
    handle(request, response);
  };
}

/** The answer is the connection's last, and says so. */
function endWith(response: ServerResponse, socket: Socket): void {
  response.shouldKeepAlive = false;
  notesOf(socket).isEnding = true;
}

/** Of node's parser: hears each request as its head is complete. */
interface Parser {
  onIncoming: (request: Incoming, keepAlive: boolean) => number;
}

interface Incoming extends IncomingMessage {
  /** True of CONNECT and of what names an Upgrade: node hands the socket over when all is read. */
  upgrade: boolean;
}

/** Of a connection that node has begun to serve; others, as those of HTTP/2 and what TLS runs on, have no parser. */
function beginOwing(socket: Socket): void {
  const parser: Parser | null | undefined = Reflect.get(socket, "parser");
  if (parser == null) return;
  notesOf(socket).owed = [];
  socket.prependListener("end", onLeft);
  stopBehindLast(socket, parser);
}

/** Tells it to look no further, as at an upgrade. */
const STOP = 2;

/**
 * Node reads all requests of a chunk at once, some two thousand, and keeps an answer for each until those before it
 * are sent: behind the last one of a connection none is read. It has no door for that but this one.
 */
function stopBehindLast(socket: Socket, parser: Parser): void {
  const { onIncoming } = parser;
  const notes = notesOf(socket);
  parser.onIncoming = (request, keepAlive) => {
    // Whose socket is handed over, node tells its answers neither that it drains nor that it closes.
    if (isSwitching(request) && currentAnswer(socket) !== undefined) endsBehind(socket);
    if (notes.isEnding) {
      request.upgrade = false;
      return STOP;
    }
    const told = onIncoming(request, keepAlive);
    // Node has answered that itself, and closes behind it.
    if (request.headers.host === undefined && request.httpVersion === "1.1") notes.isEnding = true;
    return told;
  };
}

function isSwitching(request: Incoming): boolean {
  return request.upgrade && (request.method === "CONNECT" || asksForWebSocket(request));
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
  if (answer !== undefined) notesOf(socket).isUnread = true;
  breakOff(socket);
}

/** Ends a connection at once: by a reset where an answer is in its middle, which must not look complete. */
export function breakOff(socket: Socket): void {
  if (currentAnswer(socket)?.headersSent === true) socket.resetAndDestroy();
  else socket.destroy();
}

/** The one whose turn it is, whole or in part still with us. */
function currentAnswer(socket: Socket): ServerResponse | undefined {
  return notesOf(socket).owed?.find(({ writableFinished }) => !writableFinished);
}

/**
 * True when the connection ends behind answers that are owed for earlier requests: an answer before them would
 * be taken for theirs.
 */
function endsBehind(socket: Socket): boolean {
  const notes = notesOf(socket);
  // Of a request whose body is unreadable, the refusal is the answer.
  const earlier = notes.owed?.findLast(({ req }) => req.complete);
  const wasEnding = notes.isEnding;
  notes.isEnding = true;
  if (earlier === undefined) {
    if (wasEnding) socket.destroySoon();
    return wasEnding;
  }
  if (notes.isEndingBehind) return true;
  notes.isEndingBehind = true;
  socket.on("error", () => socket.destroy());
  earlier.once("close", () => socket.destroySoon());
  return true;
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
