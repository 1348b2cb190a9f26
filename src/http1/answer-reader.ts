/**
 * One answer after another from the bytes of a connection (RFC 9112 section 6.3 says how long each is). It
 * knows nothing of sockets: bytes go in by {@link AnswerReader.take}, parts of answers come out at the sink.
 */
import { checkBeginning, parseHead, type AnswerHead } from "./answer-head.ts";
import { ChunkDecoder } from "./chunks.ts";
import { H1Fault, MAX_INTERIM_ANSWERS, malformed } from "./fault.ts";

/** Called from within `take` and `end`; may call `stop`. */
export interface AnswerSink {
  /** An interim head (1xx but 101), which the final one follows. */
  onInterim?(head: AnswerHead): void;
  /** The final head. */
  onHead(head: AnswerHead): void;
  /** At least one byte. Not written to again, and nobody else's. */
  onData(chunk: Buffer): void;
  /** `trailers`: raw `name, value` pairs. */
  onEnd(trailers: string[]): void;
}

type Stage =
  /** Nothing is awaited. */
  | "over"
  | "head"
  /** A body that has its length. */
  | "counted"
  | "chunked"
  /** A body that ends with the connection. */
  | "until-close";

/** A head is looked for in so many bytes first: what follows it need not be made text. */
const FIRST_LOOK_BYTES = 1024;
const HEAD_END = "\r\n\r\n";
/** The part of a body that comes with its head is copied up to this size. */
const MAX_COPIED_BYTES = 4 * 1024;

export class AnswerReader {
  readonly #sink: AnswerSink;
  readonly #headLimit: number;
  #stage: Stage = "over";
  #isToHead = false;
  /** The beginning of a head whose end has not come, as latin1. */
  #partial = "";
  #headBytes = 0;
  #interims = 0;
  /** How far the last read buffer has been used. */
  #at = 0;
  /** Bytes of a counted body that are still to come. */
  #left = 0;
  #chunks: ChunkDecoder | null = null;
  #isReusable = true;

  /** @param headLimit bytes of a head at most, those of interim answers before it included */
  constructor(sink: AnswerSink, headLimit: number) {
    this.#sink = sink;
    this.#headLimit = headLimit;
  }

  /** From here on the bytes are those of an answer to `method`. */
  begin(method: string): void {
    this.#stage = "head";
    this.#isToHead = method === "HEAD";
    this.#headBytes = 0;
    this.#interims = 0;
  }

  /** The rest of the answer is not wanted. */
  stop(): void {
    this.#stage = "over";
    this.#isReusable = false;
    this.#chunks = null;
  }

  /** The next bytes belong to a body: the buffer that holds them is handed on. */
  get isInBody(): boolean {
    return this.#stage !== "head" && this.#stage !== "over";
  }

  /** Bytes of the body that are still to come where that is known, else Infinity. */
  get bytesLeft(): number {
    return this.#stage === "counted" ? this.#left : Number.POSITIVE_INFINITY;
  }

  /** Whether another answer may follow the last one on this connection. */
  get isReusable(): boolean {
    return this.#isReusable;
  }

  /**
   * Reads `buffer[0, length)`. What of it is handed to the sink becomes the sink's; the rest is the caller's
   * again afterwards.
   * @throws H1Fault `malformed`
   */
  take(buffer: Buffer, length: number): void {
    if (this.isInBody) return this.#takeBody(buffer, length);
    if (this.#stage === "over") {
      this.#isReusable = false;
      return;
    }
    const head = this.#takeHead(buffer, length);
    if (head === null) return;
    const at = this.#at;
    this.#beginBody(head);
    const count = Math.min(length - at, this.bytesLeft);
    if (at + count < length) this.#isReusable = false;
    const rest = count > 0 ? restOf(buffer, at, count) : null;
    this.#sink.onHead(head);
    if (!this.isInBody) return;
    if (rest !== null) this.#takeBody(rest, count);
    else if (this.bytesLeft === 0) this.#finish([]);
  }

  /**
   * The connection has ended in order.
   * @throws H1Fault `broken` when the answer has not
   */
  end(): void {
    if (this.#stage === "over") return;
    if (this.#stage !== "until-close") {
      const part = this.#stage === "head" ? "head" : "body";
      throw new H1Fault("broken", `The backend closed the connection within the answer's ${part}.`);
    }
    this.#finish([]);
  }

  /** The final head, once it is complete; then {@link #at} is where it ends. */
  #takeHead(buffer: Buffer, length: number): AnswerHead | null {
    this.#at = 0;
    for (;;) {
      const head = this.#nextHead(buffer, length);
      if (head === null || head.status >= 200) return head;
      if (head.status === 101) {
        throw malformed("switch", "The backend switched protocols, which nobody asked for.");
      }
      this.#interims += 1;
      if (this.#interims > MAX_INTERIM_ANSWERS) {
        throw malformed("interim-count", `More than ${MAX_INTERIM_ANSWERS} interim answers came.`);
      }
      this.#sink.onInterim?.(head);
      if (this.#stage === "over") return null;
    }
  }

  #nextHead(buffer: Buffer, length: number): AnswerHead | null {
    const before = this.#partial.length;
    const first = Math.min(length, this.#at + FIRST_LOOK_BYTES);
    let text = this.#partial + buffer.toString("latin1", this.#at, first);
    let end = text.indexOf(HEAD_END, Math.max(0, before - HEAD_END.length));
    if (end === -1 && first < length) {
      text = this.#partial + buffer.toString("latin1", this.#at, length);
      end = text.indexOf(HEAD_END, Math.max(0, before - HEAD_END.length));
    }
    const size = end === -1 ? text.length : end + HEAD_END.length;
    if (this.#headBytes + size > this.#headLimit) {
      throw malformed("size", `The answer's head is larger than ${this.#headLimit} bytes.`);
    }
    if (end === -1) {
      checkBeginning(text);
      this.#partial = text;
      return null;
    }
    this.#partial = "";
    this.#headBytes += size;
    this.#at += size - before;
    return parseHead(text, end);
  }

  #beginBody({ status, contentLength, isChunked, isPersistent }: AnswerHead): void {
    this.#isReusable = isPersistent;
    this.#chunks = null;
    this.#left = 0;
    this.#stage = "counted";
    if (this.#isToHead) return;
    if (status === 204 || status === 304) {
      // A backend that announces a body here may send one, which would be read as the next answer.
      if (isChunked || (contentLength ?? 0) > 0) this.#isReusable = false;
    } else if (isChunked) {
      this.#stage = "chunked";
      this.#chunks = new ChunkDecoder();
    } else if (contentLength !== null) {
      this.#left = contentLength;
    } else {
      this.#stage = "until-close";
      this.#isReusable = false;
    }
  }

  #takeBody(buffer: Buffer, length: number): void {
    if (this.#chunks !== null) return this.#takeChunks(this.#chunks, buffer, length);
    const count = Math.min(length, this.bytesLeft);
    if (count < length) this.#isReusable = false;
    if (this.#stage === "counted") this.#left -= count;
    this.#hand(buffer, count);
    if (this.bytesLeft === 0) this.#finish([]);
  }

  #takeChunks(chunks: ChunkDecoder, buffer: Buffer, length: number): void {
    const count = chunks.decode(buffer, 0, length);
    if (chunks.isOver && chunks.at < length) this.#isReusable = false;
    if (count > 0) this.#hand(buffer, count);
    if (chunks.isOver && this.isInBody) this.#finish(chunks.trailers);
  }

  #hand(buffer: Buffer, count: number): void {
    this.#sink.onData(count === buffer.length ? buffer : buffer.subarray(0, count));
  }

  #finish(trailers: string[]): void {
    this.#stage = "over";
    this.#chunks = null;
    this.#sink.onEnd(trailers);
  }
}

/** What came behind a head: a copy where that costs less than to keep the whole buffer for it. */
function restOf(buffer: Buffer, start: number, count: number): Buffer {
  if (count > MAX_COPIED_BYTES) return buffer.subarray(start, start + count);
  // About half the price of `Buffer.from(buffer.subarray(...))`.
  const copy = Buffer.allocUnsafe(count);
  buffer.copy(copy, 0, start, start + count);
  return copy;
}
