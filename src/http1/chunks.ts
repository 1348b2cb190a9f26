/**
 * Takes the chunk lines out of a chunked body (RFC 9112 section 7.1), in place, so that all the bytes of a
 * body that came with one read are handed on in one piece.
 */
import { parseTrailers } from "./answer-head.ts";
import { malformed } from "./fault.ts";

/** Hexadecimal digits of a chunk's size at most: sizes stay far below 2^53. */
const MAX_SIZE_DIGITS = 12;
/** Bytes of the extensions of one chunk at most. They are checked and dropped. */
const MAX_EXTENSION_BYTES = 1024;
/** Bytes of all trailer lines at most. */
const MAX_TRAILER_BYTES = 16 * 1024;

/** `;name`, `;name=token` or `;name="text"`, without the blanks that nobody may send. */
const EXTENSIONS =
  /^(?:;[\w!#$%&'*+.^`|~-]+(?:=(?:[\w!#$%&'*+.^`|~-]+|"(?:[\t !#-[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"))?)*$/;

const CR = 0x0d;
const LF = 0x0a;
const SEMICOLON = 0x3b;

type Stage =
  | "size"
  | "extension"
  | "size-lf"
  | "data"
  | "data-cr"
  | "data-lf"
  | "trailers"
  | "over";

export class ChunkDecoder {
  #stage: Stage = "size";
  #size = 0;
  #digits = 0;
  #extension = "";
  #trailerText = "";
  #trailers: string[] = [];
  #at = 0;

  /** The last chunk and the trailers have been read. */
  get isOver(): boolean {
    return this.#stage === "over";
  }

  /** Where the last {@link decode} stopped: before the end only when the body {@link isOver}. */
  get at(): number {
    return this.#at;
  }

  get trailers(): string[] {
    return this.#trailers;
  }

  /**
   * Moves the body bytes of `buffer[start, end)` together at `start` and returns how many they are.
   * @throws H1Fault `malformed`
   */
  decode(buffer: Buffer, start: number, end: number): number {
    let to = start;
    this.#at = start;
    while (this.#at < end && this.#stage !== "over") {
      if (this.#stage === "data") {
        const count = Math.min(this.#size, end - this.#at);
        if (to !== this.#at) buffer.copyWithin(to, this.#at, this.#at + count);
        to += count;
        this.#at += count;
        this.#size -= count;
        if (this.#size === 0) this.#stage = "data-cr";
      } else {
        this.#between(buffer, end);
      }
    }
    return to - start;
  }

  /** What is between the bytes of two chunks, or after the last. */
  #between(buffer: Buffer, end: number): void {
    switch (this.#stage) {
      case "size":
        return this.#readSize(buffer, end);
      case "extension":
        return this.#readExtension(buffer, end);
      case "size-lf":
        this.#expect(buffer, LF, "chunk-size");
        this.#digits = 0;
        this.#stage = this.#size === 0 ? "trailers" : "data";
        return;
      case "data-cr":
        this.#expect(buffer, CR, "chunk-end");
        this.#stage = "data-lf";
        return;
      case "data-lf":
        this.#expect(buffer, LF, "chunk-end");
        this.#stage = "size";
        return;
      default:
        return this.#readTrailers(buffer, end);
    }
  }

  #expect(buffer: Buffer, byte: number, rule: "chunk-size" | "chunk-end"): void {
    if (buffer[this.#at] !== byte) {
      throw malformed(rule, "A chunk of the answer does not end where its size says.");
    }
    this.#at += 1;
  }

  #readSize(buffer: Buffer, end: number): void {
    for (; this.#at < end; this.#at += 1) {
      const byte = buffer[this.#at] ?? 0;
      const digit = hexDigit(byte);
      if (digit === -1) return this.#endSize(byte);
      this.#digits += 1;
      if (this.#digits > MAX_SIZE_DIGITS) throw badSize();
      this.#size = this.#size * 16 + digit;
    }
  }

  #endSize(byte: number): void {
    if (this.#digits === 0 || (byte !== CR && byte !== SEMICOLON)) throw badSize();
    if (byte === CR) {
      this.#at += 1;
      this.#stage = "size-lf";
    } else {
      this.#stage = "extension";
    }
  }

  #readExtension(buffer: Buffer, end: number): void {
    const found = buffer.indexOf(CR, this.#at);
    const lineEnd = found === -1 || found >= end ? end : found;
    this.#extension += buffer.toString("latin1", this.#at, lineEnd);
    if (this.#extension.length > MAX_EXTENSION_BYTES) throw badExtension();
    this.#at = lineEnd;
    if (lineEnd === end) return;
    if (!EXTENSIONS.test(this.#extension)) throw badExtension();
    this.#extension = "";
    this.#at += 1;
    this.#stage = "size-lf";
  }

  #readTrailers(buffer: Buffer, end: number): void {
    const before = this.#trailerText.length;
    const text = this.#trailerText + buffer.toString("latin1", this.#at, end);
    // No trailers: the empty line is the first.
    const mark = text.startsWith("\r\n") ? 0 : text.indexOf("\r\n\r\n", Math.max(0, before - 3));
    if (text.length > MAX_TRAILER_BYTES && (mark === -1 || mark > MAX_TRAILER_BYTES)) {
      throw malformed("size", `The answer's trailers are larger than ${MAX_TRAILER_BYTES} bytes.`);
    }
    if (mark === -1) {
      this.#trailerText = text;
      this.#at = end;
      return;
    }
    this.#trailers = mark === 0 ? [] : parseTrailers(text.slice(0, mark));
    this.#at += mark + (mark === 0 ? 2 : 4) - before;
    this.#trailerText = "";
    this.#stage = "over";
  }
}

function badSize(): Error {
  return malformed("chunk-size", "The size of a chunk of the answer is not a hexadecimal number.");
}

function badExtension(): Error {
  return malformed(
    "chunk-extension",
    `The extensions of a chunk are malformed, or longer than ${MAX_EXTENSION_BYTES} bytes.`,
  );
}

/** -1 for any other byte. */
function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
