/** Reads what one answer has used, while it passes: of its head, and of its body's bytes, none of which are kept. */
import { Events } from "./events.ts";
import { JsonPath } from "./json-path.ts";
import type { MeterSource } from "./meter.ts";
import { ABSENT, readNumber, unread, type UsageReading } from "./usage.ts";

/** Bytes of an answer that are read: what stands behind them is not found. */
export const MAX_READ_BYTES = 64 * 1024 * 1024;

const BOM = [0xef, 0xbb, 0xbf];

/** What is asked of a head: the values of each of its lines of a name, lower-case. */
export type HeadLines = (name: string) => readonly string[];

interface Body {
  take(bytes: Uint8Array): void;
  end(): UsageReading;
}

export class AnswerMeter {
  readonly #sources: readonly MeterSource[];
  #body: Body | null = null;
  #bytes = 0;
  #reading: UsageReading = ABSENT;

  constructor(sources: readonly MeterSource[]) {
    this.#sources = sources;
  }

  /** Of another answer than before, where there was one. What it says already: null where its body says it. */
  begin(lines: HeadLines): UsageReading | null {
    this.#body = null;
    this.#bytes = 0;
    this.#reading = ABSENT;
    const header = this.#sources.find(({ kind }) => kind === "header");
    const written = header === undefined ? [] : lines(header.path[0] ?? "");
    const isEvents = lines("content-type").some((type) => /^\s*text\/event-stream\b/i.test(type));
    const kind = isEvents ? "sse" : "json";
    const source = this.#sources.find((each) => each.kind === kind);
    // A header says it before anything else does.
    if (written.length > 0 || source === undefined) {
      this.#reading = readingOf(written);
      return this.#reading;
    }
    if (lines("content-encoding").some((coding) => !/^\s*(?:identity)?\s*$/i.test(coding))) {
      this.#reading = unread("encoded");
      return this.#reading;
    }
    this.#body = kind === "sse" ? new Events(source.path) : new JsonBody(source.path);
    return null;
  }

  /** Nothing that comes changes what is read. */
  get isOver(): boolean {
    return this.#body === null;
  }

  take(bytes: Uint8Array): void {
    if (this.#body === null) return;
    this.#bytes += bytes.length;
    if (this.#bytes <= MAX_READ_BYTES) {
      this.#body.take(bytes);
      return;
    }
    this.#body = null;
    this.#reading = unread("too-long");
  }

  /** The answer is whole. Of one that is not, {@link cut} is asked. */
  end(): UsageReading {
    if (this.#body !== null) this.#reading = this.#body.end();
    this.#body = null;
    return this.#reading;
  }

  /** The answer was not read to its end, since its buyer has left: what its head said, or nothing. */
  cut(): UsageReading {
    if (this.#body !== null) this.#reading = unread("left");
    this.#body = null;
    return this.#reading;
  }
}

/** A text of JSON, behind the mark that some write at its beginning. */
class JsonBody implements Body {
  readonly #json: JsonPath;
  /** So many bytes of the mark are read; 0: nothing is; null: it is past. */
  #mark: number | null = 0;

  constructor(path: readonly string[]) {
    this.#json = new JsonPath(path);
  }

  take(bytes: Uint8Array): void {
    let at = 0;
    while (this.#mark !== null && at < bytes.length) {
      if (bytes[at] !== BOM[this.#mark]) {
        if (this.#mark > 0) this.#json.take(Uint8Array.from(BOM));
        this.#mark = null;
      } else {
        at += 1;
        this.#mark = this.#mark === 2 ? null : this.#mark + 1;
      }
    }
    this.#json.take(bytes, at);
  }

  end(): UsageReading {
    return this.#mark === 0 ? ABSENT : this.#json.end();
  }
}

/** Of a header: one line, with one number. */
function readingOf(lines: readonly string[]): UsageReading {
  const [line, ...others] = lines;
  if (line === undefined) return ABSENT;
  if (others.length > 0) return unread("twice");
  const usage = readNumber(line.trim());
  return usage === undefined ? unread("no-number") : { kind: "read", usage };
}
