/**
 * What undici does not say of its HTTP/2 streams, and does not do with them: whether an answer was ended or only
 * its stream, the trailers of a request, and to tell the backend what was given up. All need the stream itself, which
 * undici opens by calling `request` of Node's session, in the turn in which it says that it starts; so that method is
 * wrapped, once for each session, before its first stream. Over HTTP/1.1 nothing here does anything.
 */
import { subscribe } from "node:diagnostics_channel";
import {
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type OutgoingHttpHeaders,
} from "node:http2";
import type { H1Request } from "../../http1/exchange.ts";

type Trailers = H1Request["trailers"];

/**
 * Whether an answer was ended, or only its stream. Node tells the same of both, but for the order of two things: the
 * end of an answer reaches its stream while that is open, and a reset closes the stream before it ends what can be
 * read of it.
 */
export class OpenedStream {
  readonly #trailers: Trailers;
  #stream: ClientHttp2Stream | null = null;
  #isAnswerEnded = false;

  constructor(trailers: Trailers) {
    this.#trailers = trailers;
  }

  /** The code with which the answer was broken off; null: it was not, or it came over HTTP/1.1. */
  get resetCode(): number | null {
    if (this.#stream === null) return null;
    const { rstCode } = this.#stream;
    return rstCode === 0 && this.#isAnswerEnded ? null : rstCode;
  }

  /** Opens the stream; where there may be trailers, it ends with them. */
  open(
    request: ClientHttp2Session["request"],
    ...[headers, options]: Requested
  ): ClientHttp2Stream {
    const trailers = this.#trailers;
    if (trailers === undefined) return this.#watch(request(headers, options));
    const stream = request(headers, { ...options, waitForTrailers: true });
    stream.once("wantTrailers", () => sendTrailers(stream, trailers));
    return this.#watch(stream);
  }

  /** The answer is over: what the backend has not got of the body it does not want, and its place is another's. */
  dropBody(): void {
    if (this.#stream?.writableEnded === false) this.#stream.close();
  }

  #watch(stream: ClientHttp2Stream): ClientHttp2Stream {
    this.#stream = stream;
    cancelFirst(stream);
    const push = stream.push.bind(stream);
    stream.push = (chunk: unknown, encoding?: BufferEncoding) => {
      if (chunk === null && !stream.closed) this.#isAnswerEnded = true;
      return push(chunk, encoding);
    };
    return stream;
  }
}

type Requested = Parameters<ClientHttp2Session["request"]>;

/** The exchange whose HTTP/2 stream is being opened: of the process, since undici tells it all of its sessions at once. */
let starting: OpenedStream | null = null;

/** The stream that undici opens in this turn is this one's. */
export function awaitStream(opened: OpenedStream): void {
  starting = opened;
  queueMicrotask(forgetStarting);
}

function forgetStarting(): void {
  starting = null;
}

/** Told by undici before it sends anything on a new connection. */
subscribe("undici:client:connected", (message) => {
  const session = sessionOf(message);
  if (session === undefined) return;
  const request = session.request.bind(session);
  session.request = (...requested) => {
    const opened = starting;
    starting = null;
    return opened === null ? request(...requested) : opened.open(request, ...requested);
  };
});

/** Undici keeps the session at its socket, under a symbol of its own. */
function sessionOf(message: unknown): ClientHttp2Session | undefined {
  const socket: unknown = isObject(message) ? message["socket"] : undefined;
  if (!isObject(socket) || socket["alpnProtocol"] !== "h2") return undefined;
  const values = Object.getOwnPropertySymbols(socket).map((symbol) => socket[symbol]);
  return values.find(isSession);
}

function isSession(value: unknown): value is ClientHttp2Session {
  return isObject(value) && typeof value["request"] === "function" && "remoteSettings" in value;
}

function isObject(value: unknown): value is Record<string | symbol, unknown> {
  return typeof value === "object" && value !== null;
}

/**
 * The backend is told of what is given up, or it would keep the stream, and count it, for as long as the connection
 * lives. Undici does not see to that: when it closes a stream whose body has not ended, whoever writes the body
 * destroys it before Node has sent the reset; and its code is 0, for which Node waits until the body has been taken.
 */
function cancelFirst(stream: ClientHttp2Stream): void {
  const close = stream.close.bind(stream);
  const destroy = stream.destroy.bind(stream);
  stream.close = (code = constants.NGHTTP2_CANCEL, told) => {
    stream.destroy = () => stream;
    close(code, told);
    // Not before: where a frame is being read, the reset leaves when it has been.
    setImmediate(destroy);
  };
}

/** What cannot be written ends the request: without its trailers it would be another one. */
function sendTrailers(stream: ClientHttp2Stream, trailers: () => readonly string[]): void {
  try {
    stream.sendTrailers(joined(trailers()));
  } catch (error) {
    stream.emit("error", error);
  }
}

/** A name that comes several times is one line, as undici has it in heads: Node refuses some names twice. */
function joined(lines: readonly string[]): OutgoingHttpHeaders {
  const headers: Record<string, string> = Object.create(null);
  for (let index = 0; index < lines.length; index += 2) {
    const name = (lines[index] ?? "").toLowerCase();
    const value = lines[index + 1] ?? "";
    const before = headers[name];
    headers[name] = before === undefined ? value : `${before}, ${value}`;
  }
  return headers;
}
