/**
 * A JSON body as an expression sees it. Two programs must not read it differently, since one of them asks for the
 * price and the other does the work: what readers disagree about is refused.
 */
import { err, ok, type Result } from "../x402/result.ts";

/** A whole number is a `bigint`, any other a `number`; an object is a `Map`, which has no inherited members. */
export type JsonValue = null | boolean | bigint | number | string | JsonValue[] | JsonMap;
type JsonMap = Map<string, JsonValue>;

/** Lists and objects within each other. */
export const MAX_BODY_DEPTH = 32;
/** Digits of a number, its exponent among them. */
const MAX_NUMBER_LENGTH = 40;
const MAX_INT = 2n ** 63n - 1n;
const MIN_INT = -(2n ** 63n);

const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const SPACE = /[ \t\n\r]*/y;
const WORDS: readonly (readonly [string, JsonValue])[] = [
  ["true", true],
  ["false", false],
  ["null", null],
];

class Unreadable extends Error {
  override readonly name = "Unreadable";
}

/** What stands where a number, a name or the like is expected. */
const NO_JSON = "the body is no JSON";

/** Where in the text of a body a member stands that was looked for: indices of characters. */
export interface MarkedMember {
  /** From its name to its end, with one of the commas that part it from others. */
  readonly begin: number;
  readonly end: number;
  /** Of its value alone. */
  readonly value: readonly [begin: number, end: number];
}

/** A body whose text is looked into as well. */
export interface MarkedBody {
  readonly value: JsonValue;
  readonly text: string;
  /** As many as are looked for; undefined: it is not there. */
  readonly marked: readonly (MarkedMember | undefined)[];
}

/** How a body is read. */
interface Reading {
  /** Of members that are looked for: names from the outermost object down to it; none is within a list. Default: none is. */
  readonly marks?: readonly (readonly string[])[];
  /** Values in it, names of members not counted. */
  readonly maxValues: number;
  /** Names of members that matter: none is there in other letters. */
  readonly members: ReadonlySet<string>;
}

/** The same for names that readers which look at no letter case, as that of Go, take for one. */
export function foldedName(name: string): string {
  return name.toUpperCase().toLowerCase();
}

/** The value of a body, or a sentence on why there is none that everybody would agree on. */
export function readJsonBody(body: Uint8Array, reading: Reading): Result<JsonValue, string> {
  const read = readMarkedBody(body, reading);
  return read.ok ? ok(read.value.value) : read;
}

/** The same, and where some members of it stand. */
export function readMarkedBody(body: Uint8Array, reading: Reading): Result<MarkedBody, string> {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    const reader = new JsonReader(text, reading);
    const value = reader.read();
    return ok({ value, text, marked: reader.marked });
  } catch (cause) {
    if (cause instanceof Unreadable) return err(cause.message);
    // Of the decoder.
    if (cause instanceof TypeError) return err("the body is no text in UTF-8");
    throw cause;
  }
}

class JsonReader {
  readonly #text: string;
  readonly #maxValues: number;
  readonly #members: ReadonlySet<string>;
  readonly #folded: ReadonlySet<string>;
  readonly #marks: readonly (readonly string[])[];
  /** Names that lead here; null: a list does. */
  readonly #path: (string | null)[] = [];
  readonly #marked: (MarkedMember | undefined)[];
  #at = 0;
  #values = 0;

  constructor(text: string, { maxValues, members, marks = [] }: Reading) {
    this.#text = text;
    this.#marks = marks;
    this.#marked = marks.map(() => undefined);
    this.#maxValues = maxValues;
    this.#members = members;
    this.#folded = new Set([...members].map(foldedName));
  }

  read(): JsonValue {
    const value = this.#value(0);
    this.#skipSpace();
    if (this.#at < this.#text.length) throw new Unreadable(NO_JSON);
    return value;
  }

  get marked(): readonly (MarkedMember | undefined)[] {
    return this.#marked;
  }

  #value(depth: number): JsonValue {
    this.#values += 1;
    if (this.#values > this.#maxValues) {
      throw new Unreadable(`the body has more than ${this.#maxValues} values`);
    }
    this.#skipSpace();
    const first = this.#text[this.#at];
    if (first === '"') return this.#string();
    if (first === "{" || first === "[") {
      if (depth === MAX_BODY_DEPTH) {
        throw new Unreadable(`the body nests deeper than ${MAX_BODY_DEPTH}`);
      }
      this.#at += 1;
      return first === "{" ? this.#object(depth + 1) : this.#list(depth + 1);
    }
    for (const [word, value] of WORDS) {
      if (!this.#text.startsWith(word, this.#at)) continue;
      this.#at += word.length;
      return value;
    }
    return this.#number();
  }

  #object(depth: number): JsonMap {
    const members: JsonMap = new Map();
    if (this.#takes("}")) return members;
    do {
      this.#skipSpace();
      const begin = this.#at;
      if (this.#text[begin] !== '"') throw new Unreadable(NO_JSON);
      const name = this.#string();
      if (members.has(name)) throw new Unreadable("the body has a member twice");
      // One that is not asked for is nothing that decides a price, whoever reads it how.
      if (!this.#members.has(name) && this.#folded.has(foldedName(name))) {
        throw new Unreadable("the body has a member in other letters than is asked for");
      }
      this.#expect(":");
      members.set(name, this.#member(depth, name, begin));
    } while (this.#takes(","));
    this.#expect("}");
    return members;
  }

  #member(depth: number, name: string, begin: number): JsonValue {
    this.#path.push(name);
    this.#skipSpace();
    const from = this.#at;
    const value = this.#value(depth);
    for (const [at, mark] of this.#marks.entries()) {
      if (!isPath(mark, this.#path)) continue;
      this.#marked[at] = { ...this.#parted(begin, this.#at), value: [from, this.#at] };
    }
    this.#path.pop();
    return value;
  }

  /** With the comma behind it, else the one in front. */
  #parted(begin: number, end: number): { readonly begin: number; readonly end: number } {
    SPACE.lastIndex = end;
    SPACE.exec(this.#text);
    if (this.#text[SPACE.lastIndex] === ",") return { begin, end: SPACE.lastIndex + 1 };
    let front = begin - 1;
    while (front >= 0 && /[ \t\n\r]/.test(this.#text[front] ?? "")) front -= 1;
    return { begin: this.#text[front] === "," ? front : begin, end };
  }

  #list(depth: number): JsonValue[] {
    const members: JsonValue[] = [];
    if (this.#takes("]")) return members;
    this.#path.push(null);
    do members.push(this.#value(depth));
    while (this.#takes(","));
    this.#path.pop();
    this.#expect("]");
    return members;
  }

  #string(): string {
    const begin = this.#at;
    let end = begin;
    do {
      end = this.#text.indexOf('"', end + 1);
      if (end < 0) throw new Unreadable(NO_JSON);
    } while (this.#isEscaped(end, begin));
    this.#at = end + 1;
    try {
      return String(JSON.parse(this.#text.slice(begin, end + 1)));
    } catch {
      throw new Unreadable(NO_JSON);
    }
  }

  #isEscaped(quote: number, begin: number): boolean {
    let slash = quote;
    while (slash - 1 > begin && this.#text[slash - 1] === "\\") slash -= 1;
    return (quote - slash) % 2 === 1;
  }

  /** One that has no fraction is exact, or refused: many readers would make another one of it. */
  #number(): bigint | number {
    NUMBER.lastIndex = this.#at;
    const [written, fraction, exponent] = NUMBER.exec(this.#text) ?? [];
    if (written === undefined) throw new Unreadable(NO_JSON);
    if (written.length > MAX_NUMBER_LENGTH) throw new Unreadable(TOO_LARGE);
    this.#at += written.length;
    if (fraction === undefined && exponent === undefined) {
      const whole = BigInt(written);
      if (whole > MAX_INT || whole < MIN_INT) throw new Unreadable(TOO_LARGE);
      return whole;
    }
    const number = Number(written);
    if (!Number.isFinite(number)) throw new Unreadable(TOO_LARGE);
    return number;
  }

  #takes(mark: string): boolean {
    this.#skipSpace();
    if (this.#text[this.#at] !== mark) return false;
    this.#at += 1;
    return true;
  }

  #expect(mark: string): void {
    if (!this.#takes(mark)) throw new Unreadable(NO_JSON);
  }

  #skipSpace(): void {
    SPACE.lastIndex = this.#at;
    SPACE.exec(this.#text);
    this.#at = SPACE.lastIndex;
  }
}

function isPath(mark: readonly string[], path: readonly (string | null)[]): boolean {
  return mark.length === path.length && mark.every((name, at) => name === path[at]);
}

const TOO_LARGE = "the body has a number of more digits than are kept exactly";
