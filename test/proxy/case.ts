/** One request and the bytes that answer it, as data. */
import type { Ask } from "./client.ts";
import type { Protocol } from "./differences.ts";
import { headText, type Line } from "./wire.ts";

export interface Case {
  readonly name: string;
  /** Without its target, it is for a path of the case's own. */
  readonly ask: Omit<Ask, "target"> & { readonly query?: string };
  /** What the backend writes once it has the whole request: Latin-1 text, or bytes. */
  readonly answer: string | Buffer;
  /** The backend ends the connection behind its answer. */
  readonly ends?: boolean;
  /** Protocols that can say it at all; default: every one. */
  readonly only?: readonly Protocol[];
}

/** A request or an answer that is not passed on, and what comes in its place. */
export interface RefusedCase extends Case {
  readonly status: number;
  readonly why: string;
}

export const OVER_HTTP1: readonly Protocol[] = ["HTTP/1.1", "HTTP/1.1 over TLS"];

export const HELLO =
  "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";

/** An answer with a length. */
export function answer(status: string, lines: readonly Line[], body: string | Buffer): Buffer {
  const bytes = typeof body === "string" ? Buffer.from(body, "latin1") : body;
  const all: Line[] = [...lines, ["Content-Length", String(bytes.length)]];
  return Buffer.concat([Buffer.from(headText(`HTTP/1.1 ${status}`, all), "latin1"), bytes]);
}

/** Bytes that look like nothing in particular and repeat nowhere near. */
export function noise(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let state = 0x9e3779b9;
  for (let index = 0; index < length; index += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[index] = state >>> 24;
  }
  return bytes;
}
