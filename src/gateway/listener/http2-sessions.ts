/**
 * The HTTP/2 connections of one listener: how each is opened and what it may cost, which handler gets a stream,
 * and how all of them end. Their TLS sockets come from the listener, which has agreed on `h2` with the client.
 */
import {
  constants,
  performServerHandshake,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { TLSSocket } from "node:tls";
import type { Gateway } from "../gateway.ts";
import type { Work } from "../work.ts";
import type { HeldConnection } from "./connection-table.ts";
import { markChunked, MAX_HEADER_LINES, readHttp2Head, type HeadFault } from "./http2-head.ts";
import { Http2Lingering } from "./http2-lingering.ts";
import { Http2Request } from "./http2-request.ts";
import { Http2Response } from "./http2-response.ts";
import { cutStream, Http2StreamSocket, releaseStream } from "./http2-stream-socket.ts";
import { MAX_UNREAD_PARTS, unreadParts } from "../message/unread-parts.ts";
import { Turns } from "../turns.ts";
import { UnreadAnswers, type UnreadSession } from "./unread-answers.ts";

/** Requests at the same time on one connection. */
const MAX_STREAMS = 100;
/**
 * The same for connections that begin while nearly all places are taken ({@link Work.isPressed}), and for those of
 * an address that has many: what it may ask at once would grow with each of them.
 */
const MAX_STREAMS_PRESSED = 10;
/** Crumbs of cookies are lines of their own until they are joined. */
const MAX_COOKIE_CRUMBS = 180;
/** `:method`, `:scheme`, `:authority` and `:path`. */
const PSEUDO_LINES = 4;
/** Bytes of a request's body that a client may send before they are read, for one stream. */
const STREAM_WINDOW_BYTES = 128 * 1024;
/** The same for a connection, so that a few uploads that wait do not hold up the others. */
const SESSION_WINDOW_BYTES = 4 * 1024 * 1024;
/** Bytes of an answer's head at most; a backend's is smaller ({@link TargetOptions}). */
const MAX_ANSWER_HEAD_BYTES = 128 * 1024;
/**
 * Node counts what is queued for a client, and never takes off again what a cancelled stream had queued: a limit
 * that means anything would close connections whose clients cancel downloads. The queues are bounded here, by
 * the streams of a connection and what each may have unsent, and by {@link UnreadAnswers}.
 */
const SESSION_MEMORY_MB = 1_000_000;
/** Frames that are not HTTP/2, on one connection. */
const MAX_INVALID_FRAMES = 100;
/** Entries of one SETTINGS frame; there are seven settings. */
const MAX_SETTINGS = 32;
/** Streams of a connection that its client may take back at once, and how many more in each second. */
const RESET_BURST = 200;
const RESETS_PER_SECOND = 20;

/** RFC 9110 section 9.3: what they ask for is said by their head. */
const BODYLESS_METHODS = new Set(["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"]);

const CALMED = new Error("more is unread than may be");
const TOO_LATE = "The request was not complete in time.";

export interface SessionLimits {
  /** Largest request head, bytes, as RFC 9113 section 6.5.2 counts them. */
  readonly headerBytes: number;
  /** So long a connection waits for its first request, and a request to say whether it has a body; milliseconds. */
  readonly headMs: number;
  /** A whole request, body included, must be complete within this, milliseconds. */
  readonly requestMs: number;
  /** A connection without a request is kept so long, milliseconds. */
  readonly idleMs: number;
  /** How often those are looked at, milliseconds. */
  readonly sweepMs: number;
}

type Handlers = Pick<Gateway, "handleRequest" | "handleContinue"> & {
  readonly work: Pick<Work, "isPressed">;
};

/** What is known of one connection. */
interface SessionState {
  readonly session: ServerHttp2Session;
  readonly connection: HeldConnection | undefined;
  readonly unread: UnreadSession;
  readonly socket: TLSSocket;
  readonly remoteAddress: string | undefined;
  readonly streams: Set<OpenStream>;
  /** Since when there has been no stream; `performance.now()`. */
  idleSince: number;
  hasServed: boolean;
}

/** A request that has come and whose stream is not closed. */
interface OpenStream {
  readonly stream: ServerHttp2Stream;
  readonly since: number;
  request: Http2Request | null;
  /** Since when it counts for its connection: once it is a request. */
  begunAt?: number | undefined;
}

interface HeaderLines {
  readonly headers: IncomingHttpHeaders;
  readonly raw: readonly string[];
}

export class Http2Sessions {
  readonly #handlers: Handlers;
  readonly #limits: SessionLimits;
  readonly #sessions = new Map<ServerHttp2Session, SessionState>();
  readonly #unread = new UnreadAnswers();
  readonly #lingering = new Http2Lingering();
  readonly #turns = new Turns();
  readonly #sweep: NodeJS.Timeout;
  #isRetiring = false;

  constructor(handlers: Handlers, limits: SessionLimits) {
    this.#handlers = handlers;
    this.#limits = limits;
    this.#sweep = setInterval(() => this.#onSweep(), limits.sweepMs);
    this.#sweep.unref();
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Takes a connection over whose TLS handshake has agreed on `h2`. */
  accept(socket: TLSSocket, connection?: HeldConnection): void {
    if (socket.destroyed) return;
    const { remoteAddress } = socket;
    const areFew = this.#handlers.work.isPressed || connection?.isOneOfMany === true;
    const streams = areFew ? MAX_STREAMS_PRESSED : MAX_STREAMS;
    const options = sessionOptions(this.#limits.headerBytes, streams);
    const session = performServerHandshake(socket, options);
    const unread = this.#unread.open(() => {
      session.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM);
    });
    const state: SessionState = {
      session,
      connection,
      unread,
      socket,
      remoteAddress,
      streams: new Set(),
      idleSince: performance.now(),
      hasServed: false,
    };
    this.#sessions.set(session, state);
    if (!session.destroyed) session.setLocalWindowSize(SESSION_WINDOW_BYTES);
    // Node destroys the session of an error; there is nobody to tell.
    session.on("error", () => {});
    session.once("close", () => {
      this.#sessions.delete(session);
      this.#unread.close(unread);
    });
    session.on("stream", (stream, headers, _flags, raw) => {
      this.#onStream(state, stream, { headers, raw });
    });
  }

  /** From here on each connection ends with the requests that it has, and says so (GOAWAY). */
  retire(): void {
    this.#isRetiring = true;
    for (const { session, hasServed, streams } of this.#sessions.values()) {
      if (hasServed || streams.size > 0) session.close();
    }
  }

  /** Ends each connection once its requests are answered. */
  close(): void {
    this.#isRetiring = true;
    this.#lingering.close();
    for (const session of this.#sessions.keys()) session.close();
  }

  /** Ends every connection, whatever is under way on it. */
  destroy(): void {
    clearInterval(this.#sweep);
    for (const session of this.#sessions.keys()) session.destroy();
  }

  #onStream(state: SessionState, stream: ServerHttp2Stream, lines: HeaderLines): void {
    const open: OpenStream = { stream, since: performance.now(), request: null };
    state.streams.add(open);
    state.hasServed = true;
    stream.on("error", () => {});
    limitParts(stream);
    stream.once("close", () => {
      state.streams.delete(open);
      endOf(open, state);
      if (state.streams.size === 0) state.idleSince = performance.now();
    });
    if (this.#isRetiring) state.session.close();
    // What comes behind its head is bounded, and its trailers are heard, once it is served.
    if (!stream.endAfterHeaders) return this.#serve(state, open, lines);
    this.#turns.take(state.streams.size - 1, () => {
      const isOver = stream.closed || stream.destroyed || stream.headersSent;
      if (!isOver) this.#serve(state, open, lines);
    });
  }

  #serve(state: SessionState, open: OpenStream, { headers, raw }: HeaderLines): void {
    const { stream } = open;
    if (state.unread.isFull) return calm(stream);
    const head = readHttp2Head(headers, raw);
    if (!head.ok) {
      refuseStream(stream, head.error);
      return;
    }
    const { method, headers: fields } = head.value;
    const hasBody = !stream.endAfterHeaders;
    const serve = (isEmpty: boolean): void => {
      const socket = new Http2StreamSocket(stream, state);
      const request = new Http2Request(head.value, stream, { socket, hasBody: !isEmpty });
      open.request = request;
      // Before that it is no request yet: whoever leaves it at that only holds a connection.
      open.begunAt = state.connection?.begin();
      const response = new Http2Response(stream, request, {
        unread: state.unread,
        lingering: this.#lingering,
        onHeld: () => endOf(open, state),
      });
      const expects = fields.expect?.toLowerCase() === "100-continue";
      if (expects && !isEmpty) this.#handlers.handleContinue(request, response);
      else this.#handlers.handleRequest(request, response);
    };
    if (hasBody && fields["content-length"] === undefined) {
      if (BODYLESS_METHODS.has(method)) return decideBody(stream, head.value, serve);
      markChunked(head.value);
    }
    serve(!hasBody);
  }

  #onSweep(): void {
    const now = performance.now();
    const { headMs, idleMs, requestMs } = this.#limits;
    for (const { session, streams, idleSince, hasServed } of this.#sessions.values()) {
      const limit = hasServed ? idleMs : headMs;
      if (streams.size === 0 && now - idleSince > limit) {
        // One that has been told before and still stands does not take the hint.
        if (session.closed) session.destroy();
        else session.close();
      }
      for (const { stream, since, request } of streams) {
        const isLate = now - since > (request === null ? headMs : requestMs);
        if (!isLate || request?.complete === true || request?.isDropped === true) continue;
        if (request === null) refuseStream(stream, { status: 408, detail: TOO_LATE });
        else cutStream(stream, TOO_LATE);
      }
    }
  }
}

/** It counts for its connection no more. */
function endOf(open: OpenStream, { connection }: SessionState): void {
  if (open.begunAt !== undefined) connection?.end(open.begunAt);
  open.begunAt = undefined;
}

function sessionOptions(headerBytes: number, maxConcurrentStreams: number) {
  return {
    settings: {
      maxConcurrentStreams,
      maxHeaderListSize: headerBytes,
      initialWindowSize: STREAM_WINDOW_BYTES,
    },
    maxHeaderListPairs: MAX_HEADER_LINES + MAX_COOKIE_CRUMBS + PSEUDO_LINES,
    maxSendHeaderBlockLength: MAX_ANSWER_HEAD_BYTES,
    maxSessionMemory: SESSION_MEMORY_MB,
    maxSessionInvalidFrames: MAX_INVALID_FRAMES,
    maxSettings: MAX_SETTINGS,
    streamResetBurst: RESET_BURST,
    streamResetRate: RESETS_PER_SECOND,
    // What a backend says twice is passed on twice, as over HTTP/1.1.
    strictSingleValueFields: false,
  };
}

/**
 * Some clients end each request with an empty DATA frame. Of a method that has no body most of the time it is
 * waited for, so that such a request is not taken for one with a body.
 */
function decideBody(
  stream: ServerHttp2Stream,
  head: Parameters<typeof markChunked>[0],
  serve: (isEmpty: boolean) => void,
): void {
  const onData = (chunk: Buffer): void => {
    stream.off("end", onEnd);
    stream.pause();
    stream.unshift(chunk);
    if (stream.headersSent) return;
    // Where the framing is judged, such a body is refused.
    markChunked(head);
    serve(false);
  };
  const onEnd = (): void => {
    stream.off("data", onData);
    if (!stream.closed && !stream.headersSent) serve(true);
  };
  stream.once("data", onData);
  stream.once("end", onEnd);
}

/** A body in single bytes, which waits for its reader, is cut: it would take a hundred times what it is. */
function limitParts(stream: ServerHttp2Stream): void {
  const push = stream.push.bind(stream);
  stream.push = (...part: Parameters<typeof push>) => {
    if (unreadParts(stream) < MAX_UNREAD_PARTS) return push(...part);
    calm(stream);
    return false;
  };
}

function calm(stream: ServerHttp2Stream): void {
  stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  // Else node makes an error for each.
  stream.destroy(CALMED);
}

function refuseStream(stream: ServerHttp2Stream, { status, detail }: HeadFault): void {
  if (stream.destroyed || stream.closed || stream.headersSent) return;
  const body = JSON.stringify({ error: detail });
  stream.respond({
    ":status": status,
    "cache-control": "no-store",
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  });
  stream.end(body);
  stream.resume();
  setImmediate(releaseStream, stream);
}
