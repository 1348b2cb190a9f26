/**
 * HTTP/2 byte by byte (RFC 9113): frames as an attacker writes them, and answers as they are read off a
 * connection. A stream that was reset counts as an answer with the status {@link RESET}.
 */
import type { Answer, Dialogue } from "./dialogue.ts";
import { LineReader, writeLines, type Line } from "./hpack.ts";

export const FRAME_TYPES = [
  "data",
  "headers",
  "priority",
  "rst",
  "settings",
  "push",
  "ping",
  "goaway",
  "window",
  "continuation",
] as const;

/** By their codes. */
export type FrameType = (typeof FRAME_TYPES)[number];

const END_STREAM = 1;
const ACK = 1;
const END_HEADERS = 4;
const PADDED = 8;
const HEAD_BYTES = 9;

/** In place of a status: the stream was reset, or the answer broken off. */
const RESET = 0;

export const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/** What opens every connection: the preface, our settings, and that theirs are known. */
export const OPENING = PREFACE + frame("settings", 0, "") + frame("settings", 0, "", ACK);

export function frame(
  type: FrameType | number,
  stream: number,
  payload: string,
  flags = 0,
): string {
  const code = typeof type === "number" ? type : FRAME_TYPES.indexOf(type);
  return (
    integer(payload.length, 3) + integer(code, 1) + integer(flags, 1) + integer(stream, 4) + payload
  );
}

/** Big-endian. */
export function integer(value: number, bytes: number): string {
  let text = "";
  for (let index = bytes - 1; index >= 0; index -= 1) {
    text += String.fromCharCode(Math.floor(value / 256 ** index) % 256);
  }
  return text;
}

export function headersFrame(
  stream: number,
  lines: readonly Line[],
  { ends, isWhole = true }: { readonly ends: boolean; readonly isWhole?: boolean },
): string {
  const flags = (ends ? END_STREAM : 0) + (isWhole ? END_HEADERS : 0);
  return frame("headers", stream, writeLines(lines), flags);
}

export function dataFrame(stream: number, text: string, ends: boolean): string {
  return frame("data", stream, text, ends ? END_STREAM : 0);
}

interface Stream {
  lines: readonly Line[];
  body: string;
  isOver: boolean;
  isReset: boolean;
}

/** Everything that has come on a connection, as far as it is complete. */
export function readHttp2(received: string, isClosed: boolean): Dialogue {
  const reading = new Reading();
  let at = 0;
  let fault: string | undefined;
  while (at + HEAD_BYTES <= received.length) {
    const length = HEAD_BYTES + integerAt(received, at, 3);
    if (at + length > received.length) break;
    try {
      reading.take(received.slice(at, at + length));
    } catch (cause) {
      fault = String(cause);
      break;
    }
    at += length;
  }
  const { answers, interim, isOver, told } = reading;
  return { received: told, answers, interim, fault, isClosed: isClosed || isOver };
}

function integerAt(text: string, at: number, bytes: number): number {
  let value = 0;
  for (let index = 0; index < bytes; index += 1) value = value * 256 + text.charCodeAt(at + index);
  return value;
}

class Reading {
  readonly #lines = new LineReader();
  readonly #streams = new Map<number, Stream>();
  #block = "";
  interim = 0;
  /** The connection ends, and says so. */
  isOver = false;
  /** What was received, for a person. */
  told = "";

  /** In the order of their streams. */
  get answers(): Answer[] {
    return [...this.#streams]
      .sort(([one], [other]) => one - other)
      .filter(([, { isOver, isReset }]) => isOver || isReset)
      .map(([, { lines, body, isOver }]) => {
        const status = Number(lines.find(([name]) => name === ":status")?.[1] ?? RESET);
        return { status: isOver ? status : RESET, lines, body };
      });
  }

  take(bytes: string): void {
    const type = FRAME_TYPES[bytes.charCodeAt(3)];
    const flags = bytes.charCodeAt(4);
    const id = integerAt(bytes, 5, 4);
    const payload = withoutPadding(bytes.slice(HEAD_BYTES), flags, type);
    if (type === "headers" || type === "continuation") {
      this.#block += payload;
      if ((flags & END_HEADERS) !== 0) this.#takeHead(id, (flags & END_STREAM) !== 0);
    } else if (type === "data") {
      const stream = this.#stream(id);
      stream.body += payload;
      this.told += payload;
      stream.isOver ||= (flags & END_STREAM) !== 0;
    } else if (type === "rst") {
      this.#stream(id).isReset = true;
      this.told += `<reset of stream ${id}: ${integerAt(payload, 0, 4)}>\n`;
    } else if (type === "goaway") {
      this.isOver = true;
      this.told += `<goaway: ${integerAt(payload, 4, 4)}>\n`;
    }
  }

  #takeHead(id: number, ends: boolean): void {
    const lines = this.#lines.read(this.#block);
    this.#block = "";
    this.told += `<stream ${id}>\n${lines.map(([name, value]) => `${name}: ${value}\n`).join("")}`;
    const status = Number(lines.find(([name]) => name === ":status")?.[1] ?? 0);
    if (status >= 100 && status < 200) {
      this.interim += 1;
      return;
    }
    const stream = this.#stream(id);
    // A second head is the trailers.
    if (stream.lines.length === 0) stream.lines = lines;
    stream.isOver ||= ends;
  }

  #stream(id: number): Stream {
    const known = this.#streams.get(id);
    if (known !== undefined) return known;
    const created = { lines: [], body: "", isOver: false, isReset: false };
    this.#streams.set(id, created);
    return created;
  }
}

function withoutPadding(payload: string, flags: number, type?: FrameType): string {
  const mayPad = type === "data" || type === "headers";
  if (!mayPad || (flags & PADDED) === 0) return payload;
  return payload.slice(1, payload.length - payload.charCodeAt(0));
}
