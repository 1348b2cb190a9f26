/**
 * One request and its answer, as the caller sees it: what it asks for, whom it is told to, and the means
 * to hold it or to give it up. The shape is that of undici's `dispatch`, so that one caller can use both.
 */
import type { Readable } from "node:stream";
import { H1Fault, asError } from "./fault.ts";

export interface RequestHead {
  /** Latin1, the empty line included. */
  readonly text: string;
  /** `counted`: a body of exactly {@link length} bytes. `none`: not one byte follows the head. */
  readonly framing: "none" | "counted" | "chunked";
  readonly length: number;
}

export interface H1Request {
  /** Written as it is: origin-form, latin1 without blanks and controls. */
  readonly path: string;
  readonly method: string;
  /** The value of Host; null, and the default: that of the origin. */
  readonly host?: string | null;
  /**
   * Raw `name, value` pairs, written as given and in their order. Host is written before them unless it is there;
   * Content-Length is judged and written anew; what belongs to the connection is refused (Connection,
   * Keep-Alive, Transfer-Encoding, Upgrade).
   */
  readonly headers: readonly string[];
  /** A stream is sent with the Content-Length of `headers`, exactly, or else chunked. It is destroyed. */
  readonly body: Buffer | Readable | null;
  /** Raw pairs sent behind a chunked body, asked for when the body has ended; without chunks there are none. */
  readonly trailers?: () => readonly string[];
  /** Says `Connection: close` and does not use the connection again. Default false. */
  readonly reset?: boolean;
  /**
   * Whether a request without a body may be sent once more, on a new connection, when the one that it was
   * sent on had been used before and ended without a byte of an answer. Default: whether its method is
   * safe. False for what must not be asked twice.
   */
  readonly idempotent?: boolean;
  /** Only on a connection that no request has used before. Default false. */
  readonly fresh?: boolean;
}

/** What the caller holds while the exchange runs; the same object for all calls of one exchange. */
export interface H1Controller {
  readonly aborted: boolean;
  readonly paused: boolean;
  readonly reason: Error | null;
  /** Raw `name, value` pairs of the answer; null before its head. */
  readonly rawHeaders: string[] | null;
  /** Raw pairs; null before the answer's end. */
  readonly rawTrailers: string[] | null;
  /** Cuts the connection; `onResponseError` is called with the reason. Nothing after the end. */
  abort(reason: Error): void;
  /** Stops reading. What has been read already is still handed on: one chunk, and the end, at most. */
  pause(): void;
  resume(): void;
}

/**
 * Told in this order; `onResponseError` may come at any place, also first, and is the last. What a method
 * throws aborts the exchange.
 */
export interface H1Handler {
  /** Once, just before the request is written. */
  onRequestStart(controller: H1Controller): void;
  /** The first byte of an answer has come, be it an interim one. */
  onResponseStarted?(): void;
  /** The head of an interim answer: 1xx but 101. */
  onInterim?(status: number, headers: readonly string[]): void;
  /** The head of the final answer; `headers` are its raw lines. */
  onResponseStart(
    controller: H1Controller,
    status: number,
    headers: string[],
    statusText: string,
  ): void;
  /** `chunk` is the handler's to keep. */
  onResponseData(controller: H1Controller, chunk: Buffer): void;
  onResponseEnd(controller: H1Controller, trailers: string[]): void;
  /** `error`: an `H1Fault`, or what the exchange was aborted with. */
  onResponseError(controller: H1Controller, error: Error): void;
}

/** Where an exchange is at the moment: in the queue, or on a connection. */
export interface Carrier {
  /** The exchange is given up: forget it, and cut whatever it runs on. */
  drop(): void;
  pause(): void;
  resume(): void;
}

/** RFC 9110 section 9.2.1. */
const SAFE_METHODS = new Set(["GET", "HEAD", "OPTIONS", "TRACE"]);

export class Exchange implements H1Controller {
  readonly request: H1Request;
  readonly head: RequestHead;
  readonly #handler: H1Handler;
  carrier: Carrier | null = null;
  rawHeaders: string[] | null = null;
  rawTrailers: string[] | null = null;
  #reason: Error | null = null;
  #isPaused = false;
  #isStarted = false;
  #isBegun = false;
  #isReplayed = false;
  #isOver = false;

  constructor(request: H1Request, head: RequestHead, handler: H1Handler) {
    this.request = request;
    this.head = head;
    this.#handler = handler;
    const { body } = request;
    // From the beginning, and for as long as the stream lives: it may fail while it waits, or afterwards.
    if (body !== null && !Buffer.isBuffer(body)) body.on("error", (error) => this.abort(error));
  }

  get aborted(): boolean {
    return this.#reason !== null;
  }

  get paused(): boolean {
    return this.#isPaused;
  }

  get reason(): Error | null {
    return this.#reason;
  }

  /** Nothing more will be told. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** A new connection only: the caller wants it, or an old one has just failed this request. */
  get needsFresh(): boolean {
    return this.#isReplayed || this.request.fresh === true;
  }

  /** A part of an answer has come. */
  get isBegun(): boolean {
    return this.#isBegun;
  }

  abort(reason: Error): void {
    if (this.#isOver) return;
    this.#reason = reason;
    const { carrier } = this;
    this.carrier = null;
    carrier?.drop();
    this.fail(reason);
  }

  pause(): void {
    if (this.#isPaused || this.#isOver) return;
    this.#isPaused = true;
    this.carrier?.pause();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.carrier?.resume();
  }

  /** On a connection, about to be written. False: it was given up meanwhile. */
  start(): boolean {
    if (!this.#isStarted) {
      this.#isStarted = true;
      try {
        this.#handler.onRequestStart(this);
      } catch (thrown) {
        this.abort(asError(thrown));
      }
    }
    const { body } = this.request;
    if (body !== null && !Buffer.isBuffer(body) && (body.destroyed || body.readableEnded)) {
      this.abort(new H1Fault("request", "The request body broke off before it was sent."));
    }
    return !this.#isOver;
  }

  begin(): void {
    if (this.#isBegun) return;
    this.#isBegun = true;
    this.#handler.onResponseStarted?.();
  }

  takeInterim(status: number, lines: readonly string[]): void {
    this.#handler.onInterim?.(status, lines);
  }

  takeHead(status: number, lines: string[], statusText: string): void {
    this.rawHeaders = lines;
    this.#handler.onResponseStart(this, status, lines, statusText);
  }

  takeData(chunk: Buffer): void {
    if (!this.#isOver) this.#handler.onResponseData(this, chunk);
  }

  finish(trailers: string[]): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.carrier = null;
    this.rawTrailers = trailers;
    try {
      this.#handler.onResponseEnd(this, trailers);
    } catch (thrown) {
      this.#handler.onResponseError(this, asError(thrown));
    }
  }

  /** Once; later failures are those of the connection alone. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.carrier = null;
    const { body } = this.request;
    if (body !== null && !Buffer.isBuffer(body)) body.destroy();
    this.#handler.onResponseError(this, error);
  }

  /**
   * Whether it may be sent again after a connection that had been used before ended (RFC 9112 section
   * 9.3.1, RFC 9110 section 9.2.2); says so once.
   */
  mayReplay(): boolean {
    const { method, idempotent = SAFE_METHODS.has(method) } = this.request;
    return idempotent && this.head.framing === "none" && this.mayMove();
  }

  /** Whether a request of which nothing has left yet may go to another connection; says so once. */
  mayMove(): boolean {
    if (this.#isReplayed || this.#isBegun || this.#isOver) return false;
    this.#isReplayed = true;
    return true;
  }
}
