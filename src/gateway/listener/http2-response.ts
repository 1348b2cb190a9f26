/** The answer to a request that came as an HTTP/2 stream, as the request path knows it. */
import { EventEmitter } from "node:events";
import { validateHeaderName, validateHeaderValue } from "node:http";
import type { ServerHttp2Stream } from "node:http2";
import type { InboundResponse } from "../message/inbound.ts";
import { isUpload, type Http2Lingering } from "./http2-lingering.ts";
import type { Http2Request } from "./http2-request.ts";
import { cutStream, releaseStream } from "./http2-stream-socket.ts";
import type { UnreadSession } from "./unread-answers.ts";

/** A client that takes nothing of the rest of a complete answer is given up after this, milliseconds. */
const STALL_MS = 60_000;
/** Of bytes that several answers share so many are queued for each of them at a time. */
const PIECE_BYTES = 16 * 1024;

/** What is sold, or leads to it, is told as it comes. */
const LEAST_REFUSAL = 400;

/** RFC 9113 section 8.2.2: they belong to a connection of HTTP/1.1. */
const CONNECTION_LINES = new Set([
  "connection",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
]);
/** Statuses whose answers have no body, and end with their head. */
const BODYLESS = new Set([204, 205, 304]);

type Listener = Parameters<EventEmitter["on"]>[1];

/** What of a connection its answers need. */
interface Ground {
  readonly unread: UnreadSession;
  readonly lingering: Http2Lingering;
  /** The answer is given, and its request counts no more. */
  readonly onHeld: () => void;
}

export class Http2Response implements InboundResponse {
  readonly #stream: ServerHttp2Stream;
  readonly #request: Http2Request;
  readonly #ground: Ground;
  readonly #events = new EventEmitter();
  #headersSent = false;
  #hasBody = true;
  #isEnded = false;
  #isFinished = false;
  /** Bytes were thrown away. */
  #isTorn = false;
  /** The stream is closed, and nobody has been told. */
  #isClosed = false;
  /** Chunks that are not yet with the operating system. */
  #unwritten = 0;
  #awaitsTrailers = false;
  #trailers: Record<string, string[]> | null = null;
  /** What may be held until its upload is over, where all of the answer is there before anything else happens. */
  #head: readonly string[] | null = null;

  constructor(stream: ServerHttp2Stream, request: Http2Request, ground: Ground) {
    this.#stream = stream;
    this.#request = request;
    this.#ground = ground;
    stream.on("drain", () => this.#events.emit("drain"));
    // The stream of a whole answer is closed before it is known whether its last bytes got away.
    stream.once("close", () => {
      this.#isClosed = true;
      this.#tellClosed();
    });
  }

  get headersSent(): boolean {
    return this.#headersSent || this.#stream.headersSent;
  }

  get destroyed(): boolean {
    return this.#request.socket.destroyed;
  }

  get writableFinished(): boolean {
    return this.#isFinished;
  }

  get writableEnded(): boolean {
    return this.#isEnded;
  }

  get writableLength(): number {
    return this.#stream.bufferSize;
  }

  writeHead(status: number, lines: string[]): this;
  writeHead(status: number, phrase: string, lines: string[]): this;
  /** The reason phrase has no place in HTTP/2. */
  writeHead(status: number, phrase: string | string[], lines: string[] = []): this {
    if (this.headersSent) throw new Error("The head of this answer has been written already.");
    const head = outgoingHead(status, typeof phrase === "string" ? lines : phrase);
    if (this.destroyed) {
      this.#headersSent = true;
      return this;
    }
    this.#hasBody = !BODYLESS.has(status) && this.#request.method !== "HEAD";
    const waitForTrailers = this.#hasBody && !head.hasLength;
    if (status >= LEAST_REFUSAL && !waitForTrailers && this.#isUploading) {
      this.#headersSent = true;
      this.#head = head.lines;
      setImmediate(() => this.#sendHead());
      return this;
    }
    this.#stream.respond(head.lines, { waitForTrailers });
    this.#headersSent = true;
    this.#awaitsTrailers = waitForTrailers;
    if (waitForTrailers) this.#stream.once("wantTrailers", () => this.#endWithTrailers());
    return this;
  }

  get #isUploading(): boolean {
    return !this.#request.complete && isUpload(this.#request.headers);
  }

  /** Where it was not held. */
  #sendHead(): void {
    if (this.#head === null || this.#stream.destroyed || this.#stream.closed) return;
    const lines = this.#head;
    this.#head = null;
    this.#stream.respond([...lines]);
  }

  writeContinue(): this {
    const { destroyed, closed } = this.#stream;
    if (!destroyed && !closed && !this.headersSent)
      this.#stream.additionalHeaders({ ":status": 100 });
    return this;
  }

  writeInformation(status: number, lines: string[]): this {
    const head = outgoingHead(status, lines);
    const { destroyed, closed } = this.#stream;
    if (destroyed || closed || this.headersSent) return this;
    this.#stream.additionalHeaders(grouped(head.lines));
    return this;
  }

  /** The head is on its way as soon as it is written. */
  flushHeaders(): this {
    return this;
  }

  write(chunk: Uint8Array): boolean {
    if (!this.#isWritable()) return true;
    this.#sendHead();
    this.#unwritten += 1;
    this.#request.socket.bytesGiven += chunk.length;
    return this.#stream.write(chunk, this.#onWritten);
  }

  addTrailers(pairs: readonly [string, string][]): this {
    // A backend chooses the names: none of them is an object's own.
    const trailers: Record<string, string[]> = Object.create(null);
    for (const [written, value] of pairs) {
      const name = written.toLowerCase();
      validateHeaderName(name);
      validateHeaderValue(name, value);
      if (!CONNECTION_LINES.has(name)) (trailers[name] ??= []).push(withoutMargins(value));
    }
    this.#trailers = trailers;
    return this;
  }

  end(chunk?: Uint8Array | string, encoding: BufferEncoding = "utf8"): this {
    if (this.#isEnded) return this;
    const stream = this.#stream;
    const hasChunk = chunk !== undefined && chunk.length > 0 && this.#isWritable();
    this.#isEnded = true;
    if (this.destroyed) return this;
    const give = (): void => {
      const { socket } = this.#request;
      if (socket.timeout === 0) socket.setTimeout(STALL_MS);
      if (hasChunk && typeof chunk !== "string") this.#endWith(chunk);
      else {
        if (hasChunk) this.#queue(chunk, encoding);
        stream.end();
      }
    };
    if (this.#head !== null) {
      this.#hold(this.#head, hasChunk ? Buffer.byteLength(chunk, encoding) : 0, give);
      return this;
    }
    give();
    if (!this.#awaitsTrailers && this.#unwritten === 0) setImmediate(() => this.#finish());
    return this;
  }

  /** It is over for whoever gave it: what may happen to it from here on is between us and its client. */
  #hold(head: readonly string[], bytes: number, give: () => void): void {
    const { unread, lingering, onHeld } = this.#ground;
    const stream = this.#stream;
    const { socket } = this.#request;
    this.#head = null;
    let isHeld = true;
    const leave = (): void => {
      if (isHeld) unread.taken(bytes);
      isHeld = false;
    };
    unread.queued(bytes);
    stream.once("close", leave);
    this.#request.drop();
    socket.setTimeout(0);
    lingering.hold(stream, socket.remoteAddress, () => {
      leave();
      stream.respond([...head]);
      give();
      setImmediate(releaseStream, stream);
    });
    setImmediate(() => {
      this.#isFinished = true;
      this.#events.emit("finish");
    });
    onHeld();
  }

  /** In pieces, each as the one before is taken: what many clients do not take is in memory once. */
  #endWith(bytes: Uint8Array): void {
    const [piece, rest] = [bytes.subarray(0, PIECE_BYTES), bytes.subarray(PIECE_BYTES)];
    if (rest.length === 0) {
      this.#queue(piece);
      this.#stream.end();
    } else this.#queue(piece, undefined, () => this.#endWith(rest));
  }

  /** `then`: what follows once it is taken. */
  #queue(chunk: Uint8Array | string, encoding: BufferEncoding = "utf8", then?: () => void): void {
    const bytes = Buffer.byteLength(chunk, encoding);
    const { unread } = this.#ground;
    unread.queued(bytes);
    this.#unwritten += 1;
    this.#request.socket.bytesGiven += bytes;
    this.#stream.write(chunk, encoding, (error) => {
      unread.taken(bytes);
      if (!error && !this.destroyed) then?.();
      this.#onWritten(error);
    });
  }

  destroy(): this {
    if (!this.#isFinished) cutStream(this.#stream, "The answer was broken off.");
    return this;
  }

  on(event: string, listener: Listener): this {
    this.#events.on(event, listener);
    return this;
  }

  once(event: string, listener: Listener): this {
    this.#events.once(event, listener);
    return this;
  }

  off(event: string, listener: Listener): this {
    this.#events.off(event, listener);
    return this;
  }

  #isWritable(): boolean {
    return this.#hasBody && !this.#isEnded && !this.#stream.writableEnded && !this.destroyed;
  }

  /**
   * Not the stream's `finish`: node destroys a stream as soon as both of its sides have ended, with the last
   * bytes still on their way, and then there is none.
   */
  readonly #onWritten = (error?: Error | null): void => {
    this.#unwritten -= 1;
    this.#request.socket.moved();
    if (error) this.#isTorn = true;
    else if (this.#unwritten === 0) this.#finish();
    if (this.#isClosed) this.#tellClosed();
  };

  #tellClosed(): void {
    const isLeaving = this.#isEnded && this.#stream.rstCode === 0 && !this.#isTorn;
    if (isLeaving && this.#unwritten > 0) return;
    this.#isClosed = false;
    if (this.#unwritten === 0) this.#finish();
    this.#events.emit("close");
  }

  #endWithTrailers(): void {
    const stream = this.#stream;
    if (stream.destroyed || stream.closed) return;
    stream.sendTrailers(this.#trailers ?? {});
    this.#awaitsTrailers = false;
    if (this.#unwritten === 0) setImmediate(() => this.#finish());
  }

  #finish(): void {
    if (this.#isFinished || !this.#isEnded || this.#awaitsTrailers) return;
    if (this.#stream.rstCode !== 0 || this.#isTorn) return;
    this.#isFinished = true;
    this.#request.drop();
    this.#events.emit("finish");
    if (!this.#request.complete) setImmediate(releaseStream, this.#stream);
  }
}

interface OutgoingHead {
  readonly lines: string[];
  /** There is a Content-Length, so that no trailers can follow. */
  readonly hasLength: boolean;
}

/** @throws Error for lines that cannot be written: nghttp2 does not look at them, so that a NUL would end one. */
function outgoingHead(status: number, lines: readonly string[]): OutgoingHead {
  const head = [":status", String(status)];
  let hasLength = false;
  for (let index = 0; index < lines.length; index += 2) {
    const name = (lines[index] ?? "").toLowerCase();
    const value = lines[index + 1] ?? "";
    validateHeaderName(name);
    validateHeaderValue(name, value);
    if (CONNECTION_LINES.has(name)) continue;
    if (name === "content-length") {
      // Clients refuse it where there can be no body (RFC 9110 section 8.6).
      if (status === 204 || status === 205) continue;
      hasLength = true;
    }
    head.push(name, withoutMargins(value));
  }
  return { lines: head, hasLength };
}

/** Each name once, with all of its values; a backend chooses the names: none of them is an object's own. */
function grouped(lines: readonly string[]): Record<string, string[]> {
  const fields: Record<string, string[]> = Object.create(null);
  for (let index = 0; index < lines.length; index += 2) {
    (fields[lines[index] ?? ""] ??= []).push(lines[index + 1] ?? "");
  }
  return fields;
}

/** RFC 9113 section 8.2.1: a value that begins or ends with a blank is malformed. */
function withoutMargins(value: string): string {
  return /^[\t ]|[\t ]$/.test(value) ? value.replace(/^[\t ]+|[\t ]+$/g, "") : value;
}
