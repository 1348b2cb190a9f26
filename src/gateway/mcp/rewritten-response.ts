/**
 * An answer whose messages are read, and perhaps written anew, on their way to the client: one document of JSON, held until
 * it is whole, or a stream of events, each held until it is. What is too large for that passes as it is, where it may.
 */
import { Gathered } from "../../http1/gathered.ts";
import { setLines } from "../message/field-lines.ts";
import { valueOf } from "../message/field-values.ts";
import type { InboundResponse } from "../message/inbound.ts";

/** The largest document, or event, that is read, bytes. */
export const MAX_READ_BYTES = 1024 * 1024;

/** Who reads the messages of an answer. */
export interface MessageReader {
  /** The same text where nothing is to be changed; what is given as a promise holds up all that follows. */
  readonly message: (text: string) => string | Promise<string>;
  /** In place of a message that cannot be read; null: it passes as it is. */
  readonly unreadable: () => string | null;
  /** The backend has ended its answer. `mayBeMore`: not all of it was read, or what is missing may be fetched elsewhere. */
  readonly ended: (mayBeMore: boolean) => void | Promise<void>;
}

type Mode = "passing" | "document" | "events";

export class RewrittenResponse implements InboundResponse {
  readonly #inner: InboundResponse;
  readonly #reader: MessageReader;
  #mode: Mode = "passing";
  #head: readonly [status: number, phrase: string, lines: string[]] | null = null;
  #body = new Gathered();
  #isTold = false;
  /** What was begun later waits for it. */
  #pending: Promise<void> | null = null;
  #mayBeMore = false;

  constructor(inner: InboundResponse, reader: MessageReader) {
    this.#inner = inner;
    this.#reader = reader;
  }

  get headersSent(): boolean {
    return this.#isTold || this.#inner.headersSent;
  }
  get shouldKeepAlive(): boolean {
    return this.#inner.shouldKeepAlive !== false;
  }
  get destroyed(): boolean {
    return this.#inner.destroyed;
  }
  get writableFinished(): boolean {
    return this.#inner.writableFinished;
  }
  get writableEnded(): boolean {
    return this.#inner.writableEnded;
  }
  get writableLength(): number {
    return this.#inner.writableLength;
  }

  writeHead(status: number, ...rest: [string[]] | [string, string[]]): this {
    const [phrase, given] = rest.length === 1 ? ["", rest[0]] : rest;
    // Whoever keeps the answer has these lines, too.
    const lines = [...given];
    this.#isTold = true;
    this.#mode = modeOf(status, lines);
    this.#mayBeMore = !isPlain(lines);
    this.#head = [status, phrase, lines];
    if (this.#mode === "document") return this;
    if (this.#mode === "events") withoutLength(lines);
    this.#writeHead();
    return this;
  }

  writeContinue(): void {
    this.#inner.writeContinue();
  }

  flushHeaders(): void {
    if (this.#mode !== "document") this.#inner.flushHeaders();
  }

  write(chunk: Uint8Array, done?: (error?: Error | null) => void): boolean {
    if (this.#mode === "passing" && this.#pending === null) return this.#inner.write(chunk, done);
    // Whoever lends the memory gets it back.
    const own = Buffer.from(chunk);
    done?.();
    if (this.#pending === null) return this.#take(own);
    this.#after(() => void this.#take(own));
    return true;
  }

  end(chunk?: Uint8Array | string, encoding?: BufferEncoding): this {
    const last = typeof chunk === "string" ? Buffer.from(chunk, encoding) : chunk;
    if (this.#pending !== null) {
      this.#after(() => this.#end(last));
      return this;
    }
    const ended = this.#end(last);
    if (ended !== undefined) this.#hold(ended);
    return this;
  }

  addTrailers(pairs: readonly [string, string][]): void {
    if (this.#mode === "passing") this.#inner.addTrailers(pairs);
  }

  destroy(): unknown {
    return this.#inner.destroy();
  }

  on(event: "close", listener: (...facts: unknown[]) => void): unknown {
    return this.#inner.on(event, listener);
  }
  once(event: "close" | "drain" | "finish", listener: (...facts: unknown[]) => void): unknown {
    return this.#inner.once(event, listener);
  }
  off(event: "close" | "drain" | "finish", listener: (...facts: unknown[]) => void): unknown {
    return this.#inner.off(event, listener);
  }

  /** False: the client is behind. */
  #take(chunk: Uint8Array): boolean {
    if (this.#mode === "passing") return this.#inner.write(chunk);
    this.#body.add(Buffer.from(chunk));
    if (this.#mode === "document") {
      if (this.#body.length > MAX_READ_BYTES) this.#giveUpDocument();
      return true;
    }
    const isTaken = this.#passEvents();
    if (typeof isTaken === "boolean") return isTaken;
    this.#hold(isTaken);
    return true;
  }

  /** A document that is not read. */
  #giveUpDocument(): void {
    const instead = this.#reader.unreadable();
    const held = this.#body.whole();
    this.#body = new Gathered();
    if (instead === null) {
      this.#mode = "passing";
      this.#mayBeMore = true;
      this.#writeHead();
      this.#inner.write(held);
      return;
    }
    this.#endDocument(instead);
    this.#mode = "passing";
  }

  /** False: the client is behind. A promise where one of them holds up the others. */
  #passEvents(): boolean | Promise<void> {
    let isTaken = true;
    for (;;) {
      const held = this.#body.whole();
      const end = endOfEvent(held);
      this.#body = new Gathered();
      if (end < 0) {
        this.#body.add(held);
        if (held.length > MAX_READ_BYTES) this.#giveUpEvent(held);
        return isTaken;
      }
      this.#body.add(held.subarray(end));
      const read = this.#eventOf(held.subarray(0, end));
      if (read instanceof Promise) {
        return this.#passLater(read);
      }
      isTaken = this.#inner.write(read);
    }
  }

  async #passLater(event: Promise<Buffer>): Promise<void> {
    this.#inner.write(await event);
    await this.#passEvents();
  }

  #giveUpEvent(held: Buffer): void {
    this.#mode = "passing";
    this.#body = new Gathered();
    const instead = this.#reader.unreadable();
    if (instead === null) {
      this.#mayBeMore = true;
      this.#inner.write(held);
      return;
    }
    this.#inner.end(Buffer.from(`data: ${instead}\n\n`));
  }

  /** An event as it is passed on. */
  #eventOf(event: Buffer): Buffer | Promise<Buffer> {
    const lines = event.toString("utf8").split(/\r\n|\r|\n/);
    if (lines.some((line) => line.startsWith("id"))) this.#mayBeMore = true;
    const data = lines.flatMap((line) => {
      return line.startsWith("data:") ? [line.slice(line.startsWith("data: ") ? 6 : 5)] : [];
    });
    const told = data.join("\n");
    if (!told.trimStart().startsWith("{")) return event;
    const read = this.#reader.message(told);
    const written = (text: string): Buffer => {
      if (text === told) return event;
      const others = lines.filter((line) => line !== "" && !line.startsWith("data:"));
      return Buffer.from([...others, `data: ${text}`, "", ""].join("\n"));
    };
    return read instanceof Promise ? read.then(written) : written(read);
  }

  #end(last: Uint8Array | undefined): void | Promise<void> {
    if (last !== undefined) this.#take(last);
    // What it has begun is over first.
    if (this.#pending !== null) return this.#pending.then(() => this.#ended());
    return this.#ended();
  }

  #ended(): void | Promise<void> {
    // It was answered in place of the backend.
    if (this.#inner.writableEnded || this.#inner.destroyed) return undefined;
    if (this.#mode === "document") return this.#endOfDocument();
    const ended = this.#reader.ended(this.#mayBeMore);
    const finish = (): void => {
      const left = this.#body.whole();
      if (left.length > 0) this.#inner.write(left);
      this.#inner.end();
    };
    if (ended instanceof Promise) return ended.then(finish);
    finish();
    return undefined;
  }

  #endOfDocument(): void | Promise<void> {
    const told = this.#body.whole().toString("utf8");
    const read = this.#reader.message(told);
    if (read instanceof Promise) {
      return read.then((text) => this.#ending(text, told));
    }
    return this.#ending(read, told);
  }

  #ending(text: string, told: string): void | Promise<void> {
    const ended = this.#reader.ended(false);
    const finish = (): void => this.#endDocument(text === told ? null : text);
    if (ended instanceof Promise) return ended.then(finish);
    finish();
    return undefined;
  }

  /** @param text in place of what the backend has written; null: that */
  #endDocument(text: string | null): void {
    const body = text === null ? this.#body.whole() : Buffer.from(text);
    const [, , lines] = this.#head ?? [200, "", []];
    setLines(lines, ["Content-Length", String(body.length)]);
    this.#writeHead();
    this.#inner.end(body);
  }

  #writeHead(): void {
    const [status, phrase, lines] = this.#head ?? [200, "", []];
    this.#inner.writeHead(status, phrase, lines);
  }

  #hold(pending: Promise<void>): void {
    const held: Promise<void> = pending
      .catch(() => {
        // Whatever could not be recorded: an answer that is cut looks like none that is complete.
        this.#inner.destroy();
      })
      .finally(() => {
        if (this.#pending === held) this.#pending = null;
      });
    this.#pending = held;
  }

  #after(next: () => void | Promise<void>): void {
    this.#hold(this.#behind(this.#pending, next));
  }

  async #behind(pending: Promise<void> | null, next: () => void | Promise<void>): Promise<void> {
    await pending;
    await next();
  }
}

function modeOf(status: number, lines: readonly string[]): Mode {
  const type = valueOf(lines, "content-type") ?? "";
  if (status === 204 || status === 304 || !isPlain(lines)) return "passing";
  if (/^\s*application\/json\s*(?:;|$)/i.test(type)) return "document";
  return status < 300 && /^\s*text\/event-stream\s*(?:;|$)/i.test(type) ? "events" : "passing";
}

function isPlain(lines: readonly string[]): boolean {
  return (valueOf(lines, "content-encoding") ?? "identity") === "identity";
}

function withoutLength(lines: string[]): void {
  for (let index = lines.length - 2; index >= 0; index -= 2) {
    if (lines[index]?.toLowerCase() === "content-length") lines.splice(index, 2);
  }
}

/** Where the first event ends: behind its empty line; -1: it is not whole. */
function endOfEvent(held: Buffer): number {
  const found = /\r\n\r\n|\n\n|\r\r/.exec(held.toString("latin1"));
  return found === null ? -1 : found.index + found[0].length;
}
