/**
 * Finds the number at one path of a JSON text while its bytes pass, in any pieces. What is kept of the text is how deep it
 * is, the name that is being read, and the number: however long it is, and whoever wrote it.
 */
import { ABSENT, MAX_NUMBER_LENGTH, readNumber, unread, type UsageReading } from "./usage.ts";

/** Objects and arrays within each other at most; a deeper text is not believed. */
export const MAX_DEPTH = 256;
/** Bytes of a name that can still be one of a path, each character of it escaped. */
const MAX_NAME_BYTES = 512;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;

/** What may come next. */
type Expects =
  | "value"
  /** Or the end of an array that has begun. */
  | "first value"
  | "name"
  /** Or the end of an object that has begun. */
  | "first name"
  | "colon"
  /** A comma, or the end of what it is in. */
  | "more"
  | "name string"
  | "value string"
  | "literal"
  /** Nothing but blanks. */
  | "end";

const LITERAL = /^(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)$/;

export class JsonPath {
  readonly #path: readonly string[];
  #expects: Expects = "value";
  /** Of each container that is open, whether it is an object. */
  readonly #objects: boolean[] = [];
  /** So many of the containers that are open, from the outermost, are on the path by the member that is read in them. */
  #matched = 0;
  /** Of each of those, whether the path's member was there. */
  readonly #seen: boolean[] = [];
  #isEscaped = false;
  /** The bytes of a name, or of a literal; null: they do not matter, or are too many. */
  #kept: number[] | null = null;
  #found: UsageReading = ABSENT;
  #isTwice = false;
  #isBroken = false;

  constructor(path: readonly string[]) {
    this.#path = path;
  }

  /** Nothing that comes makes it a text of JSON any more. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  take(bytes: Uint8Array, start = 0, end = bytes.length): void {
    let at = start;
    while (at < end && !this.#isBroken) {
      if (this.#expects === "name string" || this.#expects === "value string") {
        at = this.#takeString(bytes, at, end);
      } else {
        this.#takeByte(bytes[at] ?? 0);
        at += 1;
      }
    }
  }

  /** What it says, now that it is over; `malformed` where it is not whole. */
  end(): UsageReading {
    if (this.#expects === "literal") this.#endLiteral();
    if (this.#isBroken || this.#expects !== "end") return unread("malformed");
    return this.#isTwice ? unread("twice") : this.#found;
  }

  /** Behind the string, or `end` where it goes on. */
  #takeString(bytes: Uint8Array, start: number, end: number): number {
    for (let at = start; at < end; at += 1) {
      const byte = bytes[at] ?? 0;
      if (byte === QUOTE && !this.#isEscaped) {
        this.#endString();
        return at + 1;
      }
      this.#isEscaped = byte === BACKSLASH && !this.#isEscaped;
      if (byte < 0x20) {
        this.#isBroken = true;
        return end;
      }
      if (this.#kept !== null) this.#keep(byte, MAX_NAME_BYTES);
    }
    return end;
  }

  #takeByte(byte: number): void {
    if (this.#expects === "literal") {
      if (isOfLiteral(byte)) return this.#keep(byte, MAX_NUMBER_LENGTH);
      this.#endLiteral();
      if (this.#isBroken) return;
    }
    if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) return;
    switch (this.#expects) {
      case "first value":
        return byte === CLOSE_ARRAY ? this.#close(false) : this.#beginValue(byte);
      case "value":
        return this.#beginValue(byte);
      case "first name":
        return byte === CLOSE_OBJECT ? this.#close(true) : this.#beginName(byte);
      case "name":
        return this.#beginName(byte);
      case "colon":
        this.#isBroken = byte !== COLON;
        this.#expects = "value";
        return;
      case "more":
        return this.#takeMore(byte);
      default:
        this.#isBroken = true;
    }
  }

  #takeMore(byte: number): void {
    if (byte === COMMA) this.#expects = this.#objects.at(-1) === true ? "name" : "value";
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) this.#close(byte === CLOSE_OBJECT);
    else this.#isBroken = true;
  }

  #beginName(byte: number): void {
    this.#isBroken = byte !== QUOTE;
    const outer = this.#objects.length - 1;
    this.#matched = Math.min(this.#matched, outer);
    // Off the path, and below its end, no name matters.
    this.#kept = this.#matched === outer && outer < this.#path.length ? [] : null;
    this.#isEscaped = false;
    this.#expects = "name string";
  }

  #beginValue(byte: number): void {
    const isWanted = this.#isWanted;
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      if (isWanted) this.#found = unread("no-number");
      this.#open(byte === OPEN_OBJECT);
    } else if (byte === QUOTE) {
      if (isWanted) this.#found = unread("no-number");
      this.#kept = null;
      this.#isEscaped = false;
      this.#expects = "value string";
    } else {
      this.#isBroken = !isOfLiteral(byte);
      this.#kept = [byte];
      this.#expects = "literal";
    }
  }

  get #isWanted(): boolean {
    const depth = this.#objects.length;
    return depth === this.#path.length && this.#matched === depth;
  }

  #open(isObject: boolean): void {
    const depth = this.#objects.length;
    if (depth === MAX_DEPTH) {
      this.#isBroken = true;
      return;
    }
    if (this.#matched === depth) this.#seen[depth] = false;
    this.#objects.push(isObject);
    this.#expects = isObject ? "first name" : "first value";
  }

  #close(isObject: boolean): void {
    this.#isBroken = this.#objects.pop() !== isObject;
    this.#endValue();
  }

  #endString(): void {
    if (this.#expects === "value string") return this.#endValue();
    this.#expects = "colon";
    if (this.#kept === null) return;
    const name = nameOf(this.#kept);
    const outer = this.#objects.length - 1;
    if (name === undefined) this.#isBroken = true;
    if (name !== this.#path[outer]) return;
    if (this.#seen[outer] === true) this.#isTwice = true;
    this.#seen[outer] = true;
    this.#matched = outer + 1;
  }

  #endLiteral(): void {
    const text = this.#kept === null ? undefined : String.fromCharCode(...this.#kept);
    // A longer one is a number, as far as anybody can tell.
    this.#isBroken = text !== undefined && !LITERAL.test(text);
    if (this.#isWanted) this.#found = readingOf(text);
    this.#endValue();
  }

  #endValue(): void {
    this.#expects = this.#objects.length === 0 ? "end" : "more";
  }

  #keep(byte: number, limit: number): void {
    if (this.#kept === null) return;
    if (this.#kept.length < limit) this.#kept.push(byte);
    else this.#kept = null;
  }
}

function readingOf(text: string | undefined): UsageReading {
  if (text === "null") return ABSENT;
  const usage = text === undefined ? undefined : readNumber(text);
  return usage === undefined ? unread("no-number") : { kind: "read", usage };
}

/** Letters, digits, signs and points: what is none of them ends a literal. */
function isOfLiteral(byte: number): boolean {
  const isDigit = byte >= 0x30 && byte <= 0x39;
  const isLetter = (byte >= 0x61 && byte <= 0x7a) || byte === 0x45;
  return isDigit || isLetter || byte === 0x2b || byte === 0x2d || byte === 0x2e;
}

/** As the text means it; undefined: it is none. */
function nameOf(bytes: readonly number[]): string | undefined {
  const text = Buffer.from(bytes).toString("utf8");
  if (!text.includes("\\")) return text;
  try {
    return String(JSON.parse(`"${text}"`));
  } catch {
    return undefined;
  }
}
