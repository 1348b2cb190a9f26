/**
 * Finds a number in a stream of events (`text/event-stream`) while its bytes pass, in any pieces: in the JSON of each
 * event's data, of which the last one counts that has the path. What is kept is one reader of JSON, and no line.
 */
import { JsonPath } from "./json-path.ts";
import { ABSENT, unread, type UsageReading } from "./usage.ts";

/** Bytes of one event's data that are read; a longer one is passed over. */
export const MAX_EVENT_BYTES = 1024 * 1024;

const CR = 0x0d;
const LF = 0x0a;
const COLON = 0x3a;
const SPACE = 0x20;
const BOM = [0xef, 0xbb, 0xbf];
const LINE_FEED = Uint8Array.of(LF);
/** The field's name, as its bytes stand. */
const DATA = Buffer.from("data");

/** How far a line has come. */
type Line =
  /** So many bytes of `data` have been read. */
  | "name"
  /** Behind the colon, where one space is none of the data. */
  | "space"
  | "data"
  /** A comment, or another field: it does not matter. */
  | "other";

export class Events {
  readonly #path: readonly string[];
  #line: Line = "name";
  #named = 0;
  /** A line feed that comes next ends the same line. */
  #isAfterCr = false;
  /** Bytes of a mark that may be at the beginning. Null: it is past. */
  #mark: number | null = 0;
  /** Of the event that is being read; null: it has no data yet. */
  #data: JsonPath | null = null;
  #dataBytes = 0;
  #found: UsageReading = ABSENT;

  constructor(path: readonly string[]) {
    this.#path = path;
  }

  take(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length) {
      if (this.#line === "data") {
        const end = endOfLine(bytes, at);
        this.#takeData(bytes, at, end);
        at = end;
        if (at === bytes.length) return;
      }
      this.#takeByte(bytes[at] ?? 0, bytes, at);
      at += 1;
    }
  }

  /** What it says, now that it is over: an event counts without the empty line behind it, too, which many leave out. */
  end(): UsageReading {
    this.#endLine();
    this.#endEvent();
    return this.#found;
  }

  #takeByte(byte: number, bytes: Uint8Array, at: number): void {
    if (this.#mark !== null) {
      if (byte === BOM[this.#mark]) {
        this.#mark = this.#mark === 2 ? null : this.#mark + 1;
        return;
      }
      // A part of a mark is the beginning of a field that nobody knows.
      if (this.#mark > 0) this.#line = "other";
      this.#mark = null;
    }
    const isAfterCr = this.#isAfterCr;
    this.#isAfterCr = false;
    if (byte === LF && isAfterCr) return;
    if (byte === LF || byte === CR) {
      this.#isAfterCr = byte === CR;
      const isEmpty = this.#line === "name" && this.#named === 0;
      this.#endLine();
      if (isEmpty) this.#endEvent();
    } else if (this.#line === "name") this.#takeName(byte);
    else if (this.#line === "space") {
      this.#line = "data";
      if (byte !== SPACE) this.#takeData(bytes, at, at + 1);
    }
  }

  #takeName(byte: number): void {
    if (this.#named < DATA.length && byte === DATA[this.#named]) this.#named += 1;
    else if (this.#named === DATA.length && byte === COLON) this.#beginData();
    else this.#line = "other";
  }

  #endLine(): void {
    // A line of the name alone is one of empty data.
    if (this.#line === "name" && this.#named === DATA.length) this.#beginData();
    this.#line = "name";
    this.#named = 0;
  }

  /** Lines of data of one event are one text, with line feeds between them. */
  #beginData(): void {
    this.#line = "space";
    if (this.#data === null) this.#data = new JsonPath(this.#path);
    else this.#takeData(LINE_FEED, 0, 1);
  }

  #takeData(bytes: Uint8Array, start: number, end: number): void {
    this.#dataBytes += end - start;
    if (this.#dataBytes <= MAX_EVENT_BYTES) this.#data?.take(bytes, start, end);
  }

  #endEvent(): void {
    const reading = this.#data?.end();
    const isTooLong = this.#dataBytes > MAX_EVENT_BYTES;
    this.#data = null;
    this.#dataBytes = 0;
    if (isTooLong) {
      if (this.#found === ABSENT) this.#found = unread("too-long");
    } else if (reading !== undefined && hasPath(reading)) this.#found = reading;
  }
}

/** What is no JSON, as the `[DONE]` at the end of some streams, says nothing. */
function hasPath(reading: UsageReading): boolean {
  if (reading.kind === "read") return true;
  return reading.reason !== "absent" && reading.reason !== "malformed";
}

function endOfLine(bytes: Uint8Array, start: number): number {
  for (let at = start; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === LF || byte === CR) return at;
  }
  return bytes.length;
}
