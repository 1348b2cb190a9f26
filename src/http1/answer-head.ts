/**
 * Heads and trailers of answers (RFC 9112 sections 2 to 6), read from latin1 text. Strict: where RFC 9112
 * leaves it to the recipient to guess what a line means, the line is refused with the rule it breaks.
 */
import { MAX_FIELD_LINES, malformed } from "./fault.ts";
import { fieldName, isFieldValue, type FieldKind } from "./field-grammar.ts";

export interface AnswerHead {
  readonly status: number;
  readonly statusText: string;
  /** Raw `name, value` pairs as they came, without the blanks around the values. */
  readonly lines: string[];
  /** Bytes; null when there is none. Never together with {@link isChunked}. */
  readonly contentLength: number | null;
  readonly isChunked: boolean;
  /** The backend means to keep the connection. */
  readonly isPersistent: boolean;
  /** What `Keep-Alive: timeout=` says, seconds; null when it says nothing. */
  readonly keepAliveSeconds: number | null;
}

const PREFIX = "HTTP/1.";
/** Some backends leave out the last blank together with the phrase. */
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?$/;
/** Where the reason phrase begins. */
const REASON_AT = 13;
/** 101 is refused for itself, by who reads the head. */
const SWITCHING = 101;

/**
 * Refuses early what will never be a status line, so that another protocol is not waited for.
 * @param text the first bytes of an answer, any number of them
 */
export function checkBeginning(text: string): void {
  if (text.startsWith(PREFIX) || PREFIX.startsWith(text)) {
    const end = text.indexOf("\r\n");
    if (end !== -1) readStatusLine(text.slice(0, end));
  } else {
    throw badStatusLine();
  }
}

/**
 * @param text starts with the head
 * @param end where the head's last line ends
 */
export function parseHead(text: string, end: number): AnswerHead {
  const firstEnd = text.indexOf("\r\n");
  const lineEnd = firstEnd === -1 || firstEnd > end ? end : firstEnd;
  const { status, statusText, isOld } = readStatusLine(text.slice(0, lineEnd));
  const section = new FieldSection();
  section.read(text, lineEnd + 2, end);
  const { lines, contentLength, isChunked, keepAliveSeconds } = section;
  if (isChunked && contentLength !== null) {
    throw malformed("two-framings", "The answer has both Content-Length and Transfer-Encoding.");
  }
  if (isChunked && isOld) {
    throw malformed("old-chunked", "The answer is of HTTP/1.0 and has a Transfer-Encoding.");
  }
  const isPersistent = !section.saysClose && (!isOld || section.saysKeepAlive);
  const head: AnswerHead = {
    status,
    statusText,
    lines,
    contentLength,
    isChunked,
    isPersistent,
    keepAliveSeconds,
  };
  if (status < 200) checkInterim(head);
  return head;
}

function checkInterim({ status, contentLength, isChunked, isPersistent }: AnswerHead): void {
  if (isChunked || contentLength !== null) {
    throw malformed("interim-framing", `The interim answer ${status} announces a body.`);
  }
  if (!isPersistent && status !== SWITCHING) {
    throw malformed("interim-close", `The interim answer ${status} says that it is the last one.`);
  }
}

/** @param text the lines between the last chunk and the empty line, without the end of the last */
export function parseTrailers(text: string): string[] {
  const section = new FieldSection();
  section.read(text, 0, text.length);
  if (section.contentLength !== null || section.isChunked) {
    throw malformed("trailer-name", "A trailer of the answer would frame it.");
  }
  return section.lines;
}

interface StatusLine {
  readonly status: number;
  readonly statusText: string;
  /** HTTP/1.0. */
  readonly isOld: boolean;
}

/** A backend has few of them. */
const MAX_KNOWN_STATUS_LINES = 256;
const MAX_KNOWN_STATUS_LINE_LENGTH = 64;
const knownStatusLines = new Map<string, StatusLine>();

function readStatusLine(text: string): StatusLine {
  const found = knownStatusLines.get(text);
  if (found !== undefined) return found;
  const [, minor, digits, statusText = ""] = STATUS_LINE.exec(text) ?? [];
  if (minor === undefined) throw badStatusLine();
  const line = { status: Number(digits), statusText, isOld: minor === "0" };
  const isShort = text.length <= MAX_KNOWN_STATUS_LINE_LENGTH;
  if (isShort && knownStatusLines.size < MAX_KNOWN_STATUS_LINES) {
    // A copy: a slice would keep the whole head that it was cut from.
    const copy = Buffer.from(text, "latin1").toString("latin1");
    knownStatusLines.set(copy, { ...line, statusText: copy.slice(REASON_AT) });
  }
  return line;
}

function badStatusLine(): Error {
  return malformed("status-line", "The answer does not begin with a status line of HTTP/1.");
}

/** Lines with a meaning for the connection are noted on the way. */
class FieldSection {
  readonly lines: string[] = [];
  contentLength: number | null = null;
  isChunked = false;
  saysClose = false;
  saysKeepAlive = false;
  keepAliveSeconds: number | null = null;

  read(text: string, start: number, end: number): void {
    let at = start;
    while (at < end) {
      const found = text.indexOf("\r\n", at);
      const lineEnd = found === -1 || found > end ? end : found;
      this.#line(text, at, lineEnd);
      at = lineEnd + 2;
    }
  }

  #line(text: string, start: number, end: number): void {
    const colon = text.indexOf(":", start);
    const name = colon === -1 || colon > end ? null : fieldName(text.slice(start, colon));
    if (name === null) {
      throw malformed("field-name", "A line of the answer does not begin with a name and a colon.");
    }
    let from = colon + 1;
    let to = end;
    while (from < to && isBlank(text.charCodeAt(from))) from += 1;
    while (to > from && isBlank(text.charCodeAt(to - 1))) to -= 1;
    const content = text.slice(from, to);
    if (!isFieldValue(content)) {
      throw malformed("field-value", `${name.text} of the answer has a control character.`);
    }
    if (name.kind !== "plain") this.#note(name.kind, content);
    this.lines.push(name.text, content);
    if (this.lines.length > 2 * MAX_FIELD_LINES) {
      throw malformed("field-count", `The answer has more than ${MAX_FIELD_LINES} header lines.`);
    }
  }

  #note(kind: FieldKind, content: string): void {
    if (kind === "content-length") {
      if (this.contentLength !== null || !/^\d{1,15}$/.test(content)) {
        throw malformed("content-length", "Content-Length of the answer is not one number.");
      }
      this.contentLength = Number(content);
    } else if (kind === "transfer-encoding") {
      if (this.isChunked || content.toLowerCase() !== "chunked") {
        throw malformed("transfer-encoding", "Transfer-Encoding of the answer is not `chunked`.");
      }
      this.isChunked = true;
    } else if (kind === "connection") {
      this.#noteOptions(content);
    } else if (kind === "keep-alive") {
      const seconds = /(?:^|[\s,])timeout\s*=\s*"?(\d{1,9})/i.exec(content)?.[1];
      if (seconds !== undefined) this.keepAliveSeconds = Number(seconds);
    }
  }

  #noteOptions(value: string): void {
    if (value === "keep-alive") {
      this.saysKeepAlive = true;
      return;
    }
    for (const option of value.toLowerCase().split(",")) {
      const word = option.trim();
      if (word === "close") this.saysClose = true;
      if (word === "keep-alive") this.saysKeepAlive = true;
    }
  }
}

const SPACE = 0x20;
const TAB = 0x09;

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB;
}
