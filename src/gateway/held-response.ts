/**
 * An answer of a backend that nobody gets yet: it looks to the upstream like a client's response, and is held whole.
 * What cannot be held breaks off, so that the backend is not listened to any more.
 */
import { EventEmitter } from "node:events";
import { Gathered } from "../http1/gathered.ts";
import type { StoredResponse } from "../ledger/ledger.ts";
import type { InboundResponse } from "./message/inbound.ts";
import { areEvents } from "./upstream/kept-answer.ts";
import { valueOf } from "./message/field-values.ts";

/** The largest body of an answer that is held, bytes. */
export const MAX_HELD_BYTES = 1024 * 1024;
/** Of all answers that one process holds, bytes. */
export const MAX_HELD_BYTES_OF_ALL = 64 * MAX_HELD_BYTES;

/** Why an answer is not held. */
export type NotHeld =
  /** A stream of events, which need not end. */
  | "stream"
  /** More than {@link MAX_HELD_BYTES}. */
  | "too-large"
  /** Others take all of {@link MAX_HELD_BYTES_OF_ALL}. */
  | "crowded";

/** What all answers of a process that are held take. */
export class HeldBytes {
  #taken = 0;

  get taken(): number {
    return this.#taken;
  }

  /** False: nothing is left for so many. */
  take(bytes: number): boolean {
    if (this.#taken + bytes > MAX_HELD_BYTES_OF_ALL) return false;
    this.#taken += bytes;
    return true;
  }

  free(bytes: number): void {
    this.#taken -= bytes;
  }
}

export class HeldResponse extends EventEmitter implements InboundResponse {
  readonly #room: HeldBytes;
  readonly #isBodiless: boolean;
  #head: { readonly status: number; readonly lines: readonly string[] } | null = null;
  readonly #body = new Gathered();
  #taken = 0;
  #why: NotHeld | null = null;
  destroyed = false;
  writableEnded = false;
  readonly writableLength = 0;

  readonly #holdsEvents: boolean;

  /**
   * @param method of the request that is answered
   * @param holdsEvents whether a stream of events is held, too: one that ends with the answer to a call
   */
  constructor(method: string, room: HeldBytes, holdsEvents = false) {
    super();
    this.#holdsEvents = holdsEvents;
    this.#isBodiless = method === "HEAD";
    this.#room = room;
  }

  get headersSent(): boolean {
    return this.#head !== null;
  }

  get writableFinished(): boolean {
    return this.writableEnded;
  }

  /** Why it is not held; null: it is, or its client has left. */
  get why(): NotHeld | null {
    return this.#why;
  }

  /** Raw lines of its head; none as long as there is none. */
  get lines(): readonly string[] {
    return this.#head?.lines ?? [];
  }

  /** Once it has ended; null: it has not. Its trailers are lost. */
  get whole(): StoredResponse | null {
    if (this.#head === null || !this.writableEnded) return null;
    const { status, lines } = this.#head;
    const headers: [string, string][] = [];
    for (let index = 0; index < lines.length; index += 2) {
      headers.push([lines[index] ?? "", lines[index + 1] ?? ""]);
    }
    return { status, headers, body: this.#body.whole() };
  }

  /** It was given to its client, or nobody wants it. */
  free(): void {
    this.#room.free(this.#taken);
    this.#taken = 0;
  }

  writeHead(status: number, ...rest: [string[]] | [string, string[]]): this {
    const lines = rest.length === 1 ? rest[0] : rest[1];
    this.#head = { status, lines };
    const told = this.#isBodiless ? undefined : valueOf(lines, "content-length");
    if (areEvents(lines) && !this.#holdsEvents) this.#breakOff("stream");
    else if (told !== undefined && Number(told) > MAX_HELD_BYTES) this.#breakOff("too-large");
    return this;
  }

  write(chunk: Uint8Array, done?: (error?: Error | null) => void): boolean {
    this.#take(Buffer.from(chunk));
    // Nobody but us has the copy.
    done?.();
    return true;
  }

  end(chunk?: Uint8Array | string, encoding?: BufferEncoding): this {
    if (typeof chunk === "string") this.#take(Buffer.from(chunk, encoding));
    else if (chunk !== undefined) this.#take(Buffer.from(chunk));
    if (this.destroyed || this.writableEnded) return this;
    this.writableEnded = true;
    process.nextTick(() => this.emit("close"));
    return this;
  }

  destroy(): this {
    if (this.destroyed || this.writableEnded) return this;
    this.destroyed = true;
    this.free();
    process.nextTick(() => this.emit("close"));
    return this;
  }

  writeContinue(): void {
    // Its client's own response says that.
  }

  flushHeaders(): void {
    // Nobody reads it yet.
  }

  addTrailers(): void {
    // Given later, it has a length, and none.
  }

  #take(part: Buffer): void {
    if (this.destroyed) return;
    if (this.#body.length + part.length > MAX_HELD_BYTES) return this.#breakOff("too-large");
    if (!this.#room.take(part.length)) return this.#breakOff("crowded");
    this.#taken += part.length;
    this.#body.add(part);
  }

  #breakOff(why: NotHeld): void {
    this.#why ??= why;
    this.destroy();
  }
}
