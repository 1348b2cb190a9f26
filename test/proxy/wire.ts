/**
 * HTTP/1.x messages read from bytes by the letter of RFC 9112, for both ends of the suite: neither Node's
 * parser nor the product's own decides what arrived. Anything that a lenient reader would forgive is a fault.
 */
import { createHash } from "node:crypto";

/** Latin-1 text, as it was spelled. */
export type Line = readonly [name: string, value: string];

/** How the end of a body is known. `none`: there is no body, whatever the lines say. */
export type Framing = "none" | "length" | "chunked" | "close";

export interface Head {
  readonly startLine: string;
  readonly lines: readonly Line[];
}

/** A body, told apart from any other by its hash. */
export interface Content {
  readonly length: number;
  /** Hex SHA-256. */
  readonly hash: string;
  /** The first {@link KEPT_BYTES} of it. */
  readonly start: Buffer;
}

export interface Message extends Head {
  readonly framing: Framing;
  readonly content: Content;
  readonly trailers: readonly Line[];
}

/** Bytes of each body that are kept to be looked at. */
const KEPT_BYTES = 64 * 1024;
/** Bytes of a head, a chunk size or trailers at most. */
const MAX_TEXT_BYTES = 256 * 1024;
const LAST_INTERIM_STATUS = 199;
const SWITCHING = 101;
/** RFC 9112 section 6.3. */
const BODILESS_STATUSES: ReadonlySet<number> = new Set([SWITCHING, 204, 304]);
const CRLF = Buffer.from("\r\n");

export class ContentMeter {
  readonly #hash = createHash("sha256");
  #start = Buffer.alloc(0);
  length = 0;

  take(chunk: Buffer): void {
    if (this.length < KEPT_BYTES) {
      this.#start = Buffer.concat([this.#start, chunk.subarray(0, KEPT_BYTES - this.length)]);
    }
    this.length += chunk.length;
    this.#hash.update(chunk);
  }

  finish(): Content {
    return { length: this.length, hash: this.#hash.digest("hex"), start: this.#start };
  }
}

class WireFault extends Error {
  override readonly name = "WireFault";
}

export interface ReaderOptions {
  readonly kind: "request" | "response";
  /** The method that the next final answer is for; asked once per answer. */
  readonly method?: () => string;
  readonly onHead?: (head: Head) => void;
  readonly onInterim?: (head: Head) => void;
  readonly onBody?: (chunk: Buffer) => void;
  readonly onMessage: (message: Message) => void;
}

type State = "head" | "length" | "size" | "data" | "gap" | "trailers" | "close" | "tunnel";

export class MessageReader {
  readonly #options: ReaderOptions;
  #state: State = "head";
  #rest: Buffer = Buffer.alloc(0);
  #head: Head = { startLine: "", lines: [] };
  #framing: Framing = "none";
  #meter = new ContentMeter();
  /** Bytes of the body or of the chunk that are still to come. */
  #left = 0;

  constructor(options: ReaderOptions) {
    this.#options = options;
  }

  /** Between two messages, with not a byte of the next one. */
  get isIdle(): boolean {
    return this.#state === "head" && this.#rest.length === 0;
  }

  /** Throws {@link WireFault} for bytes that are no message. */
  push(chunk: Buffer): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    while (this.#step());
  }

  /** The connection has ended in order. Throws when that cuts a message off. */
  end(): void {
    if (this.#state === "close") this.#finish([]);
    else if (!this.isIdle && this.#state !== "tunnel") {
      throw new WireFault(`the connection ended within the ${this.#state}`);
    }
  }

  /** True while there may be more to read. */
  #step(): boolean {
    switch (this.#state) {
      case "head":
        return this.#readHead();
      case "size":
        return this.#readSize();
      case "gap":
        return this.#readGap();
      case "trailers":
        return this.#readTrailers();
      case "tunnel":
        return false;
      default:
        return this.#readBody();
    }
  }

  /** The text up to the mark, which is taken along; undefined until it is there. */
  #until(mark: string): string | undefined {
    const end = this.#rest.indexOf(mark, 0, "latin1");
    if (end === -1) {
      if (this.#rest.length > MAX_TEXT_BYTES) throw new WireFault(`no end of the ${this.#state}`);
      return undefined;
    }
    const text = this.#rest.toString("latin1", 0, end);
    this.#rest = this.#rest.subarray(end + mark.length);
    return text;
  }

  #readHead(): boolean {
    const text = this.#until("\r\n\r\n");
    if (text === undefined) return false;
    const [startLine = "", ...texts] = text.split("\r\n");
    const head: Head = { startLine, lines: texts.map(readLine) };
    if (this.#options.kind === "response") return this.#beginAnswer(head);
    if (!REQUEST_LINE.test(startLine)) throw new WireFault(`no request line: ${startLine}`);
    return this.#begin(head, declaredFraming(head.lines) ?? "none");
  }

  #beginAnswer(head: Head): boolean {
    const status = statusOf(head.startLine);
    if (status <= LAST_INTERIM_STATUS && status !== SWITCHING) {
      this.#options.onInterim?.(head);
      return true;
    }
    const method = this.#options.method?.() ?? "GET";
    const isBodiless = BODILESS_STATUSES.has(status) || method === "HEAD";
    this.#begin(head, isBodiless ? "none" : (declaredFraming(head.lines) ?? "close"));
    if (status === SWITCHING) this.#state = "tunnel";
    return true;
  }

  #begin(head: Head, framing: Framing): boolean {
    this.#head = head;
    this.#framing = framing;
    this.#meter = new ContentMeter();
    this.#left = 0;
    this.#options.onHead?.(head);
    if (framing === "none") this.#finish([]);
    else if (framing === "chunked") this.#state = "size";
    else if (framing === "close") this.#state = "close";
    else {
      this.#left = Number(valueOf(head.lines, "content-length"));
      this.#state = "length";
      if (this.#left === 0) this.#finish([]);
    }
    return true;
  }

  #readSize(): boolean {
    const text = this.#until("\r\n");
    if (text === undefined) return false;
    const [, digits] = /^([0-9a-f]{1,8})(?:[ \t]*;.*)?$/i.exec(text) ?? [];
    if (digits === undefined) throw new WireFault(`no chunk size: ${JSON.stringify(text)}`);
    const size = Number.parseInt(digits, 16);
    this.#left = size;
    this.#state = size === 0 ? "trailers" : "data";
    return true;
  }

  #readTrailers(): boolean {
    if (this.#rest.subarray(0, CRLF.length).equals(CRLF)) {
      this.#rest = this.#rest.subarray(CRLF.length);
      this.#finish([]);
      return true;
    }
    const text = this.#until("\r\n\r\n");
    if (text === undefined) return false;
    this.#finish(text.split("\r\n").map(readLine));
    return true;
  }

  #readGap(): boolean {
    if (this.#rest.length < CRLF.length) return false;
    if (!this.#rest.subarray(0, CRLF.length).equals(CRLF)) {
      throw new WireFault("a chunk does not end where its size says");
    }
    this.#rest = this.#rest.subarray(CRLF.length);
    this.#state = "size";
    return true;
  }

  #readBody(): boolean {
    if (this.#rest.length === 0) return false;
    const isOpen = this.#state === "close";
    const taken = isOpen ? this.#rest.length : Math.min(this.#left, this.#rest.length);
    const part = this.#rest.subarray(0, taken);
    this.#rest = this.#rest.subarray(taken);
    this.#left -= taken;
    this.#meter.take(part);
    this.#options.onBody?.(part);
    if (isOpen || this.#left > 0) return true;
    if (this.#state === "data") this.#state = "gap";
    else this.#finish([]);
    return true;
  }

  #finish(trailers: readonly Line[]): void {
    this.#state = "head";
    const content = this.#meter.finish();
    this.#options.onMessage({ ...this.#head, framing: this.#framing, content, trailers });
  }
}

const REQUEST_LINE = /^[!#$%&'*+.^`|~\w-]+ [\x21-\xff]+ HTTP\/1\.[01]$/;
const STATUS_LINE = /^HTTP\/1\.[01] ([1-9]\d\d) [\t\x20-\x7e\x80-\xff]*$/;
const HEADER_LINE =
  /^([!#$%&'*+.^`|~\w-]+):[ \t]*((?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?)[ \t]*$/;

function statusOf(startLine: string): number {
  const digits = STATUS_LINE.exec(startLine)?.[1];
  if (digits === undefined) throw new WireFault(`no status line: ${JSON.stringify(startLine)}`);
  return Number(digits);
}

function readLine(text: string): Line {
  const [, name, value] = HEADER_LINE.exec(text) ?? [];
  if (name === undefined || value === undefined) {
    throw new WireFault(`no header line: ${JSON.stringify(text.slice(0, 200))}`);
  }
  return [name, value];
}

function valuesOf(lines: readonly Line[], lowerCaseName: string): string[] {
  return lines.filter(([name]) => name.toLowerCase() === lowerCaseName).map(([, value]) => value);
}

export function valueOf(lines: readonly Line[], lowerCaseName: string): string | undefined {
  return valuesOf(lines, lowerCaseName)[0];
}

/** RFC 9112 section 6.3, where two framings are one too many. */
function declaredFraming(lines: readonly Line[]): "length" | "chunked" | undefined {
  const lengths = valuesOf(lines, "content-length");
  const codings = valuesOf(lines, "transfer-encoding");
  if (lengths.length + codings.length > 1) throw new WireFault("more than one framing");
  if (codings.length === 1) {
    if (codings[0]?.toLowerCase() !== "chunked") throw new WireFault(`coding ${codings[0]}`);
    return "chunked";
  }
  if (lengths.length === 0) return undefined;
  if (!/^\d+$/.test(lengths[0] ?? "")) throw new WireFault(`length ${lengths[0]}`);
  return "length";
}

/** A head as it goes over the wire. */
export function headText(startLine: string, lines: readonly Line[]): string {
  return `${[startLine, ...lines.map(([name, value]) => `${name}: ${value}`)].join("\r\n")}\r\n\r\n`;
}

/** A body in chunks of that many bytes, with its trailers. */
export function chunked(body: Buffer, size = 16_384, trailers: readonly Line[] = []): Buffer {
  const parts: Buffer[] = [];
  for (let from = 0; from < body.length; from += size) {
    const part = body.subarray(from, from + size);
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from("\r\n"));
  }
  const last = trailers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return Buffer.concat([...parts, Buffer.from(`0\r\n${last}\r\n`, "latin1")]);
}
