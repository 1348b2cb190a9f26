/**
 * What the request path knows of a client's request and of the answer to it: the narrow part of node's
 * `IncomingMessage` and `ServerResponse` that it uses. Node's own classes fit as they are; a request that
 * came over HTTP/2 brings an adapter of the same shape.
 */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Of an event that says nothing but that it happened. */
type Told = (...facts: unknown[]) => void;

const NOTES = Symbol("what is noted of a connection");
const KEPT_BODY = Symbol("the body of a request that was read before its time");
const ASKED = Symbol("what a request asks for, whatever its bytes are");

/** What is noted of a client's connection, by whoever learns it and for whoever asks, for as long as it lives. */
export class ConnectionNotes {
  /** Its last answer is given or on its way: nothing behind that is read (RFC 9112 section 9.6). */
  isEnding = false;
  /** It ends behind what it is owed: node tells of what it cannot read with each piece of it. */
  isEndingBehind = false;
  /** The request by which the operator's page tells it from others; null: none of it was shown there. */
  firstRequest: string | null = null;
  /** It was given up because its client took nothing of an answer: it is not one that has left. */
  isUnread = false;
  /** It has switched, and its backend is there. */
  isTunnel = false;
  /** Answers that are owed on it, in their order; null where nobody keeps that. */
  owed: ServerResponse[] | null = null;
  /** Ends the watch of its last answer (`reset.ts`). */
  endWatch: (() => void) | null = null;
  /** What TLS runs on. */
  beneath: Socket | null = null;
  /** A tunnel that is reserved for its sale, and of whose places (`upgrade-engine.ts`). */
  reservation: { readonly places: object; readonly leave: () => void } | null = null;
}

export function notesOf(socket: InboundSocket): ConnectionNotes {
  return (socket[NOTES] ??= new ConnectionNotes());
}

/** For the next who reads the request's body; null: not a byte was read. */
export function keepBody(request: InboundRequest, body: Buffer | null): void {
  request[KEPT_BODY] = body;
}

/** Undefined: nobody has kept it. */
export function keptBody(request: InboundRequest): Buffer | null | undefined {
  return request[KEPT_BODY];
}

/** Requests of the same hash ask for the same, whatever else is in their bodies. */
export function noteAsked(request: InboundRequest, hash: string): void {
  request[ASKED] = hash;
}

/** Undefined: what is in its body is all that is known of it. */
export function askedOf(request: Pick<InboundRequest, typeof ASKED>): string | undefined {
  return request[ASKED];
}

/**
 * Where a request came from, and what keeps its client waiting. Of HTTP/1.1 it is the connection's socket; of
 * HTTP/2 it stands for one stream, so that nothing that is done here touches the other requests of the
 * connection.
 */
export interface InboundSocket {
  /** Undefined once the connection is gone. */
  readonly remoteAddress?: string | undefined;
  /** There, and true, only on a TLS connection. */
  readonly encrypted?: boolean;
  /** Of a stream of HTTP/2: the socket of its connection. */
  readonly beneath?: InboundSocket;
  readonly destroyed: boolean;
  /** Bytes received: it grows while a body comes, whoever reads it. */
  readonly bytesRead: number;
  /** Bytes that the client has not taken yet. */
  readonly writableLength: number;
  /** Bytes that the client has taken; not there where node's own socket tells it (`answer-watch.ts`). */
  readonly bytesTaken?: number;
  /** What {@link setTimeout} was last given, milliseconds; 0 or undefined: none. */
  readonly timeout?: number | undefined;
  /** Gives the client up after so many milliseconds without a byte moving; 0: never. */
  setTimeout(ms: number): unknown;
  /** Ends without any sign of completeness: a TCP reset, or RST_STREAM with an error. */
  resetAndDestroy(): unknown;
  destroy(): unknown;
  /** See {@link notesOf}. */
  [NOTES]?: ConnectionNotes;
}

/** A request with its head read. The body comes as `data` events, and `end` once it is complete. */
export interface InboundRequest {
  readonly method?: string | undefined;
  /** The request target, as received. */
  readonly url?: string | undefined;
  /** `1.0`, `1.1` or `2.0`. */
  readonly httpVersion: string;
  readonly httpVersionMajor: number;
  readonly httpVersionMinor: number;
  /**
   * Raw `name, value` pairs in their order. Of HTTP/2: Host stands for `:authority`, cookies are one line, and
   * a body without Content-Length has `transfer-encoding: chunked`, as the HTTP/1.1 request that it would be.
   */
  readonly rawHeaders: string[];
  readonly headers: IncomingHttpHeaders;
  /** Why it is refused, where it is not us who leave out of it what must not cross. */
  readonly nameProblem?: string | null;
  /** Raw pairs; empty before `end`. */
  readonly rawTrailers: string[];
  /** The body, and its trailers, have been received whole. */
  readonly complete: boolean;
  readonly socket: InboundSocket;
  readonly destroyed: boolean;
  /** True while the body is being read; else nobody wants it yet, or it comes too fast. */
  readonly readableFlowing: boolean | null;
  on(event: "data", listener: (chunk: Buffer) => void): unknown;
  on(event: "end" | "close", listener: Told): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  once(event: "end" | "close", listener: Told): unknown;
  off(event: "data", listener: (chunk: Buffer) => void): unknown;
  off(event: "end" | "close", listener: Told): unknown;
  pause(): unknown;
  resume(): unknown;
  destroy(): unknown;
  /** See {@link keepBody}. */
  [KEPT_BODY]?: Buffer | null;
  /** See {@link noteAsked}. */
  [ASKED]?: string;
}

/** The answer to a request: one head, then body, then perhaps trailers. */
export interface InboundResponse {
  readonly headersSent: boolean;
  /** False: it is the last one of its connection. Not there where one connection carries many at a time. */
  readonly shouldKeepAlive?: boolean;
  readonly destroyed: boolean;
  /** All of the answer has been handed to the operating system. */
  readonly writableFinished: boolean;
  readonly writableEnded: boolean;
  readonly writableLength: number;
  /**
   * @param lines raw `name, value` pairs
   * @throws Error when they cannot be written as HTTP; nothing has been written then
   */
  writeHead(status: number, lines: string[]): unknown;
  writeHead(status: number, phrase: string, lines: string[]): unknown;
  /** 100 (Continue). */
  writeContinue(): unknown;
  /**
   * An interim answer, before the head. Node has it for HTTP/1.1 since 24.18.
   * @param lines raw `name, value` pairs
   * @throws Error when they cannot be written as HTTP; nothing has been written then
   */
  writeInformation?(status: number, lines: string[]): unknown;
  flushHeaders(): unknown;
  /**
   * False: wait for `drain`.
   * @param done called at most once, when nobody needs the chunk's memory any more, or with an error
   */
  write(chunk: Uint8Array, done?: (error?: Error | null) => void): boolean;
  /** Before {@link end}. */
  addTrailers(pairs: readonly [string, string][]): unknown;
  end(): unknown;
  end(chunk: Uint8Array | string | undefined): unknown;
  end(chunk: string, encoding: BufferEncoding): unknown;
  /** Breaks the answer off, so that it never looks complete. */
  destroy(): unknown;
  /** It is over, sent whole or not; told once. */
  on(event: "close", listener: Told): unknown;
  once(event: "close" | "drain" | "finish", listener: Told): unknown;
  off(event: "close" | "drain" | "finish", listener: Told): unknown;
}
