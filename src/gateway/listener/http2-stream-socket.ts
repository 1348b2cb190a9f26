/**
 * One HTTP/2 stream in the place that the connection's socket has for HTTP/1.1. It keeps its own time: node's
 * timeout of a stream looks at what the whole connection has sent.
 */
import type { ServerHttp2Stream } from "node:http2";
import { notesOf, type InboundSocket } from "../message/inbound.ts";

export class Http2StreamSocket implements InboundSocket {
  readonly encrypted = true;
  readonly beneath: InboundSocket;
  /** Bytes of the body; counted by the request. */
  bytesRead = 0;
  /** Bytes of the answer's body that were written; counted by the response. */
  bytesGiven = 0;
  readonly #stream: ServerHttp2Stream;
  readonly #remoteAddress: string | undefined;
  #timeout = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    stream: ServerHttp2Stream,
    {
      socket,
      remoteAddress,
    }: { readonly socket: InboundSocket; readonly remoteAddress: string | undefined },
  ) {
    this.#stream = stream;
    this.beneath = socket;
    this.#remoteAddress = remoteAddress;
    stream.once("close", () => clearTimeout(this.#timer));
  }

  /** The client has taken a part of the answer. */
  moved(): void {
    this.#timer?.refresh();
  }

  get remoteAddress(): string | undefined {
    return this.destroyed ? undefined : this.#remoteAddress;
  }

  get destroyed(): boolean {
    return this.#stream.destroyed || this.#stream.closed;
  }

  get writableLength(): number {
    return this.#stream.bufferSize;
  }

  /** In whole chunks: how much of one is on its way is not known. */
  get bytesTaken(): number {
    return this.bytesGiven - this.#stream.bufferSize;
  }

  get timeout(): number {
    return this.#timeout;
  }

  setTimeout(ms: number): void {
    clearTimeout(this.#timer);
    this.#timeout = ms;
    if (ms === 0 || this.destroyed) return;
    this.#timer = setTimeout(() => {
      notesOf(this).isUnread = true;
      cutStream(this.#stream, "Nothing moved in time.");
    }, ms);
    this.#timer.unref();
  }

  resetAndDestroy(): void {
    cutStream(this.#stream, "The answer was broken off.");
  }

  destroy(): void {
    cutStream(this.#stream, "The answer was broken off.");
  }
}

/**
 * Ends a stream with RST_STREAM and an error code. Never `stream.close(code)`: where nothing is waiting to be
 * written, that one ends the writable side first, and the client reads a clean end before the reset.
 */
export function cutStream(stream: ServerHttp2Stream, reason: string): void {
  if (!stream.destroyed) stream.destroy(new Error(reason));
}

/** How often it is looked whether the end of an answer has left, milliseconds. */
const LEAVING_MS = 20;

/**
 * For an answer that is complete while its request is not: the client need not send the rest (RFC 9113 section
 * 8.1). Not before the end of the answer has left, which the reset would overtake.
 */
export function releaseStream(stream: ServerHttp2Stream): void {
  if (stream.destroyed || stream.closed) return;
  if (stream.state.localClose === 1) stream.close();
  else setTimeout(() => releaseStream(stream), LEAVING_MS).unref();
}
