/**
 * An answer whose messages are read, and perhaps written anew, on their way to the client: one document of JSON, held until
 * it is whole, or a stream of events, each held until it is. What is too large for that passes as it is, where it may.
 */
import { Gathered } from "../../http1/gathered.ts";
import { setLines } from "../message/field-lines.ts";
import { valueOf } from "../message/field-values.ts";
import type { InboundResponse } from "../message/inbound.ts";
import { Swapped } from "./swapped.ts";
import { unpackedBody } from "./unpacked.ts";

/** The largest document, or event, that is read, bytes. */
export const MAX_READ_BYTES = 1024 * 1024;

/** What of an answer may wait behind a message that holds it up, bytes: it is cut where more comes. */
export const MAX_WAITING_BYTES = 1024 * 1024;

/** In place of what is too large to be unpacked: no message. */
const UNREAD = "packed";

/** Who reads the messages of an answer. */
export interface MessageReader {
  /** The same text where nothing is to be changed; what is given as a promise holds up all that follows. */
  readonly message: (text: string) => string | Promise<string>;
  /** In place of a message that cannot be read; null: it passes as it is. */
  readonly unreadable: () => string | null;
  /** The backend has ended its answer. `mayBeMore`: not all of it was read, or what is missing may be fetched elsewhere. */
  readonly ended: (mayBeMore: boolean) => void | Promise<void>;
  /** Good answers are documents whatever type they say that they have, but for events. Default: those of JSON alone. */
  readonly readsAll?: boolean;
  /** A text of ASCII, and what is put in place of it, once, in what passes unread. */
  readonly instead?: readonly [find: string, put: string];
}

/** `over`: it was answered in place of the backend. */
type Mode = "passing" | "document" | "events" | "over";

/** What was done at once, and whether the client is behind (false), or what is waited for. */
type Turn = boolean | Promise<void>;

export class RewrittenResponse implements InboundResponse {
  readonly #inner: InboundResponse;
  readonly #reader: MessageReader;
  #mode: Mode = "passing";
  #head: readonly [status: number, phrase: string, lines: string[]] | null = null;
  #body = new Gathered();
  #isTold = false;
  /** What was begun later waits for it. */
  #pending: Promise<void> | null = null;
  /** Bytes of it. */
  #waiting = 0;
  #mayBeMore = false;
  /** No event has come yet. */
  #isFirst = true;
  /** What passes unread. */
  readonly #swapped: Swapped;

  constructor(inner: InboundResponse, reader: MessageReader) {
    this.#inner = inner;
    this.#reader = reader;
    this.#swapped = new Swapped(reader.instead);
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
    this.#mode = modeOf(status, lines, this.#reader.readsAll === true);
    this.#mayBeMore = this.#mode === "passing" && !isPlain(lines);
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
    if (this.#mode === "passing" && this.#pending === null && this.#swapped.isOver) {
      return this.#inner.write(chunk, done);
    }
    // Whoever lends the memory gets it back.
    const own = Buffer.from(chunk);
    done?.();
    if (this.#pending === null) return this.#inTurn(() => this.#take(own));
    this.#waiting += own.length;
    if (this.#waiting > MAX_WAITING_BYTES) {
      this.#inner.destroy();
      return true;
    }
    return this.#inTurn(() => {
      this.#waiting -= own.length;
      return this.#take(own);
    });
  }

  end(chunk?: Uint8Array | string, encoding?: BufferEncoding): this {
    const last = typeof chunk === "string" ? Buffer.from(chunk, encoding) : chunk;
    this.#inTurn(() => this.#end(last));
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

  /** Behind all that waits. False: the client is behind. */
  #inTurn(next: () => Turn): boolean {
    const turn = this.#pending === null ? next() : this.#behind(this.#pending, next);
    if (typeof turn === "boolean") return turn;
    const held: Promise<void> = turn
      .catch(() => {
        // Whatever could not be recorded: an answer that is cut looks like none that is complete.
        this.#inner.destroy();
      })
      .finally(() => {
        if (this.#pending === held) this.#pending = null;
      });
    this.#pending = held;
    return true;
  }

  async #behind(pending: Promise<void>, next: () => Turn): Promise<void> {
    await pending;
    await next();
  }

  #take(chunk: Uint8Array): Turn {
    if (this.#mode === "over") return true;
    if (this.#mode === "passing") return this.#pass(chunk);
    const own = Buffer.from(chunk);
    this.#body.add(own);
    if (this.#mode === "events") return this.#mayEnd(own) ? this.#passEvents() : true;
    return this.#body.length > MAX_READ_BYTES ? this.#giveUpDocument() : true;
  }

  #pass(chunk: Uint8Array): boolean {
    const told = this.#swapped.take(chunk);
    return told.length === 0 || this.#inner.write(told);
  }

  /** Whether an event may end in it; one of many pieces is put together once, and not for each of them. */
  #mayEnd(chunk: Buffer): boolean {
    const isOver = this.#body.length > MAX_READ_BYTES;
    return isOver || chunk.includes("\n") || chunk.includes("\r");
  }

  /** A document that is not read. */
  #giveUpDocument(): Turn {
    const instead = this.#reader.unreadable();
    const held = this.#body.whole();
    this.#body = new Gathered();
    const lines = this.#head?.[2] ?? [];
    if (instead === null && !isPlain(lines)) {
      // Not even its id is told as its client knows it.
      this.#mode = "over";
      const read = this.#reader.message(UNREAD);
      const end = (text: string): void => this.#endDocument(text === UNREAD ? "" : text);
      return read instanceof Promise ? read.then(end) : (end(read), true);
    }
    if (instead === null) {
      this.#mode = "passing";
      this.#mayBeMore = true;
      if (!this.#swapped.isOver) withoutLength(this.#head?.[2] ?? []);
      this.#writeHead();
      return this.#pass(held);
    }
    this.#mode = "over";
    this.#endDocument(instead);
    return true;
  }

  #passEvents(): Turn {
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
    this.#body = new Gathered();
    const instead = this.#reader.unreadable();
    this.#mode = instead === null ? "passing" : "over";
    if (instead === null) {
      this.#mayBeMore = true;
      this.#pass(held);
      return;
    }
    this.#inner.end(Buffer.from(`data: ${instead}\n\n`));
  }

  /** An event as it is passed on. */
  #eventOf(event: Buffer): Buffer | Promise<Buffer> {
    // Of a mark at the beginning of a stream clients see nothing.
    const text = event.toString("utf8").replace(this.#isFirst ? /^\uFEFF/ : "", "");
    this.#isFirst = false;
    const lines = text.split(/\r\n|\r|\n/);
    if (lines.some((line) => line.startsWith("id"))) this.#mayBeMore = true;
    const data = lines.flatMap((line) => {
      return line.startsWith("data:") ? [line.slice(line.startsWith("data: ") ? 6 : 5)] : [];
    });
    const told = data.join("\n");
    if (!/^\s*[[{]/.test(told)) return event;
    const read = this.#reader.message(told);
    const written = (text: string): Buffer => {
      if (text === told) return event;
      const others = lines.filter((line) => line !== "" && !line.startsWith("data:"));
      // Of JSON only what is between its values breaks lines.
      const line = text.replaceAll("\n", " ");
      return Buffer.from([...others, `data: ${line}`, "", ""].join("\n"));
    };
    return read instanceof Promise ? read.then(written) : written(read);
  }

  #end(last: Uint8Array | undefined): Turn {
    const taken = last === undefined ? true : this.#take(last);
    return typeof taken === "boolean" ? this.#ended() : this.#behind(taken, () => this.#ended());
  }

  #ended(): Turn {
    if (this.#mode === "over" || this.#inner.destroyed) return true;
    if (this.#mode === "document") return this.#endOfDocument();
    const ended = this.#reader.ended(this.#mayBeMore);
    const finish = (): void => {
      const left = Buffer.concat([this.#swapped.rest(), this.#body.whole()]);
      if (left.length > 0) this.#inner.write(left);
      this.#inner.end();
    };
    if (ended instanceof Promise) return ended.then(finish);
    finish();
    return true;
  }

  #endOfDocument(): Turn {
    const [, , lines = []] = this.#head ?? [];
    const plain = unpackedBody(this.#body.whole(), lines);
    if (plain !== null) {
      this.#body = new Gathered();
      this.#body.add(plain);
      withoutLine(lines, "content-encoding");
    }
    const told = this.#body.whole().toString("utf8");
    const read = this.#reader.message(told);
    return read instanceof Promise ? this.#endLater(read, told) : this.#ending(read, told);
  }

  async #endLater(text: Promise<string>, told: string): Promise<void> {
    await this.#ending(await text, told);
  }

  #ending(text: string, told: string): Turn {
    const ended = this.#reader.ended(false);
    const finish = (): void => this.#endDocument(text === told ? null : text);
    if (ended instanceof Promise) return ended.then(finish);
    finish();
    return true;
  }

  /** @param text in place of what the backend has written; null: that */
  #endDocument(text: string | null): void {
    const body = text === null ? this.#body.whole() : Buffer.from(text);
    const [, , lines] = this.#head ?? [200, "", []];
    if (text !== null) {
      setLines(lines, ["Content-Type", "application/json"]);
      withoutLine(lines, "content-encoding");
    }
    setLines(lines, ["Content-Length", String(body.length)]);
    this.#writeHead();
    this.#inner.end(body);
  }

  #writeHead(): void {
    const [status, phrase, lines] = this.#head ?? [200, "", []];
    this.#inner.writeHead(status, phrase, lines);
  }
}

function modeOf(status: number, lines: readonly string[], readsAll: boolean): Mode {
  const type = valueOf(lines, "content-type") ?? "";
  if (status === 204 || status === 304) return "passing";
  // What nobody has asked for is read where that can be, and else it is not sold.
  if (!isPlain(lines)) return readsAll && status < 300 ? "document" : "passing";
  if (/^\s*application\/json\s*(?:;|$)/i.test(type)) return "document";
  if (status >= 300) return "passing";
  if (/^\s*text\/event-stream\s*(?:;|$)/i.test(type)) return "events";
  return readsAll ? "document" : "passing";
}

function isPlain(lines: readonly string[]): boolean {
  return (valueOf(lines, "content-encoding") ?? "identity") === "identity";
}

function withoutLength(lines: string[]): void {
  withoutLine(lines, "content-length");
}

function withoutLine(lines: string[], lowerCaseName: string): void {
  for (let index = lines.length - 2; index >= 0; index -= 2) {
    if (lines[index]?.toLowerCase() === lowerCaseName) lines.splice(index, 2);
  }
}

/** Where the first event ends: behind its empty line; -1: it is not whole. */
function endOfEvent(held: Buffer): number {
  const found = /(?:\r\n|\n|\r(?!\n)){2}/.exec(held.toString("latin1"));
  return found === null ? -1 : found.index + found[0].length;
}
