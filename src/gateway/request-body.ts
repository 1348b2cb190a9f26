/** A request's body on its way to the backend: whole when it is small, streamed under a limit otherwise. */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";

/**
 * Bodies up to this many bytes are read whole before the backend hears of the request: it is then never
 * kept busy by a slow client, and head and body leave in one write.
 */
export const wholeBodyLimit = 64 * 1024;

/** Calls back once with exactly `length` bytes, or never when the client leaves before. */
export function readWholeBody(
  source: IncomingMessage,
  length: number,
  done: (body: Buffer) => void,
): void {
  const chunks: Buffer[] = [];
  source.on("data", (chunk: Buffer) => chunks.push(chunk));
  source.on("end", () => {
    const [first] = chunks;
    done(chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks, length));
  });
}

class BodyTooLarge extends Error {
  override readonly name = "BodyTooLarge";
  readonly code = "body_too_large";
}

/**
 * The body as a stream of its own, because the client library destroys what it was given and must not
 * take the client's connection with it. Once destroyed, the rest of the body is read and thrown away, so
 * that the client gets to read its answer; a client that sends twice the limit is cut off.
 */
export class RequestBody extends Readable {
  readonly #source: IncomingMessage;
  readonly #limit: number;
  #received = 0;

  /** @param limit bytes; one more destroys the stream with {@link BodyTooLarge}. */
  constructor(source: IncomingMessage, limit: number) {
    super();
    this.#source = source;
    this.#limit = limit;
    source.on("data", (chunk: Buffer) => this.#take(chunk));
    source.on("end", () => this.push(null));
    source.pause();
  }

  #take(chunk: Buffer): void {
    this.#received += chunk.length;
    if (this.destroyed) {
      if (this.#received > 2 * this.#limit) this.#source.destroy();
    } else if (this.#received > this.#limit) {
      this.destroy(new BodyTooLarge(`The request body is larger than ${this.#limit} bytes.`));
    } else if (!this.push(chunk)) {
      this.#source.pause();
    }
  }

  override _read(): void {
    this.#source.resume();
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.#source.resume();
    callback(error);
  }
}
