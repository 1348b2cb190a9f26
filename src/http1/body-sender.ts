/**
 * Sends a request's body from a stream to a socket as fast as the socket takes it: exactly as many bytes as
 * were announced, or in chunks. The head waits for the first of them, so that both leave in one write and a
 * backend hears of no request that is not moving. An error of the stream is not seen here: the exchange
 * listens for it.
 */
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { H1Fault, asError } from "./fault.ts";
import { trailerText, withoutBody } from "./request-head.ts";
import type { Exchange } from "./exchange.ts";

export interface BodySenderEvents {
  /** Bytes have gone on their way, or the socket has taken what it was given. */
  onProgress(): void;
  /** All of the body has been handed to the socket. */
  onSent(): void;
  /** The body broke its word or broke off without an error: the request can never be complete. */
  onFault(error: Error): void;
}

export class BodySender {
  readonly #socket: Socket;
  readonly #body: Readable;
  readonly #exchange: Exchange;
  readonly #events: BodySenderEvents;
  /** Until it has been written. */
  #head: string | null;
  /** Bytes still owed; null for chunks. */
  #owed: number | null;
  #isOver = false;

  constructor(socket: Socket, body: Readable, exchange: Exchange, events: BodySenderEvents) {
    this.#socket = socket;
    this.#body = body;
    this.#exchange = exchange;
    this.#events = events;
    const { text, framing, length } = exchange.head;
    this.#head = text;
    this.#owed = framing === "chunked" ? null : length;
    body.on("close", this.#onClose).on("end", this.#onEnd).on("data", this.#onData);
  }

  /** The socket has room again. */
  drained(): void {
    this.#events.onProgress();
    this.#body.resume();
  }

  /** Sends nothing more, and gives the body up unless it has ended. */
  stop(): void {
    if (this.#isOver) return;
    this.#detach();
    this.#body.destroy();
  }

  readonly #onData = (data: Buffer | string): void => {
    const chunk = typeof data === "string" ? Buffer.from(data) : data;
    // An empty chunk would be the last.
    if (chunk.length === 0) return;
    if (this.#owed !== null) {
      if (chunk.length > this.#owed) return this.#fault("has more bytes than Content-Length says");
      this.#owed -= chunk.length;
    }
    if (!this.#write(chunk)) this.#body.pause();
    this.#events.onProgress();
  };

  #write(chunk: Buffer): boolean {
    const socket = this.#socket;
    socket.cork();
    this.#writeHead();
    if (this.#owed === null) socket.write(`${chunk.length.toString(16)}\r\n`, "latin1");
    let hasRoom = socket.write(chunk);
    if (this.#owed === null) hasRoom = socket.write("\r\n", "latin1");
    socket.uncork();
    return hasRoom;
  }

  #writeHead(): void {
    if (this.#head !== null) this.#socket.write(this.#head, "latin1");
    this.#head = null;
  }

  readonly #onEnd = (): void => {
    if (this.#owed !== null && this.#owed > 0) {
      return this.#fault("has fewer bytes than Content-Length says");
    }
    try {
      this.#writeEnd();
    } catch (thrown) {
      this.#detach();
      return this.#events.onFault(asError(thrown));
    }
    this.#detach();
    this.#events.onSent();
  };

  #writeEnd(): void {
    const { head, request } = this.#exchange;
    if (this.#owed !== null) return this.#writeHead();
    const trailers = trailerText(request.trailers?.() ?? []);
    if (this.#head !== null && trailers === "") {
      this.#socket.write(withoutBody(head), "latin1");
    } else {
      this.#socket.cork();
      this.#writeHead();
      this.#socket.write(`0\r\n${trailers}\r\n`, "latin1");
      this.#socket.uncork();
    }
  }

  readonly #onClose = (): void => this.#fault("broke off");

  #fault(what: string): void {
    this.stop();
    this.#events.onFault(new H1Fault("request", `The request body ${what}.`));
  }

  #detach(): void {
    this.#isOver = true;
    const body = this.#body;
    body.off("close", this.#onClose).off("end", this.#onEnd).off("data", this.#onData);
  }
}
