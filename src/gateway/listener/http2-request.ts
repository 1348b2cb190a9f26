/** A request that came as an HTTP/2 stream, as the request path knows it. */
import { EventEmitter } from "node:events";
import type { ServerHttp2Stream } from "node:http2";
import type { InboundRequest } from "../message/inbound.ts";
import type { Http2Head } from "./http2-head.ts";
import { cutStream, type Http2StreamSocket } from "./http2-stream-socket.ts";

type Listener = Parameters<EventEmitter["on"]>[1];

export class Http2Request implements InboundRequest {
  readonly httpVersion = "2.0";
  readonly httpVersionMajor = 2;
  readonly httpVersionMinor = 0;
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: string[];
  readonly headers: Http2Head["headers"];
  readonly rawTrailers: string[] = [];
  readonly socket: Http2StreamSocket;
  readonly #stream: ServerHttp2Stream;
  readonly #events = new EventEmitter();
  readonly #hasBody: boolean;
  #isRead = false;
  #isComplete: boolean;
  /** The rest of the body is nobody's. */
  #isDropped = false;

  /** @param hasBody the body has not ended with the head */
  constructor(
    head: Http2Head,
    stream: ServerHttp2Stream,
    { socket, hasBody }: { readonly socket: Http2StreamSocket; readonly hasBody: boolean },
  ) {
    this.method = head.method;
    this.url = head.url;
    this.rawHeaders = head.rawHeaders;
    this.headers = head.headers;
    this.socket = socket;
    this.#stream = stream;
    this.#hasBody = hasBody;
    this.#isComplete = !hasBody;
    stream.once("close", () => this.#events.emit("close"));
    // A stream whose readable side nobody reads is closed by node with a reset, which is not wanted.
    if (!hasBody) stream.resume();
    else stream.on("trailers", (_trailers, _flags, raw) => this.rawTrailers.push(...raw));
  }

  get complete(): boolean {
    return this.#isComplete;
  }

  /** See {@link drop}. */
  get isDropped(): boolean {
    return this.#isDropped;
  }

  get destroyed(): boolean {
    return this.#stream.destroyed;
  }

  get readableFlowing(): boolean | null {
    return this.#stream.readableFlowing;
  }

  on(event: string, listener: Listener): this {
    this.#events.on(event, listener);
    if (event === "data") this.#read();
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

  pause(): this {
    if (!this.#isDropped) this.#stream.pause();
    return this;
  }

  resume(): this {
    this.#stream.resume();
    return this;
  }

  destroy(): this {
    if (!this.#isDropped) cutStream(this.#stream, "The request was given up.");
    return this;
  }

  /** The answer is complete: what may still come of the body is read and thrown away. */
  drop(): void {
    this.#isDropped = true;
    this.#stream.resume();
  }

  #read(): void {
    if (this.#isRead || !this.#hasBody) return;
    this.#isRead = true;
    const stream = this.#stream;
    stream.on("data", (chunk: Buffer) => {
      this.socket.bytesRead += chunk.length;
      if (!this.#isDropped) this.#events.emit("data", chunk);
    });
    stream.once("end", () => {
      // Node ends the readable side of a stream that was reset, too: such a body is a torn one.
      if (stream.closed || stream.aborted || this.#isDropped) return;
      this.#isComplete = true;
      this.#events.emit("end");
    });
  }
}
