/**
 * How many parts of a stream wait to be read. Node bounds their bytes, and each part is an object of some hundred bytes
 * beside them: 64 KiB that come as single bytes are 9 MiB.
 */
import type { Readable } from "node:stream";

/** Parts that may wait where each may be a byte. */
export const MAX_UNREAD_PARTS = 1_024;

interface State {
  readonly buffer: readonly unknown[];
  readonly bufferIndex: number;
}

export function unreadParts(stream: Readable): number {
  const state: unknown = Reflect.get(stream, "_readableState");
  return isState(state) ? state.buffer.length - state.bufferIndex : 0;
}

function isState(value: unknown): value is State {
  if (typeof value !== "object" || value === null) return false;
  const index: unknown = Reflect.get(value, "bufferIndex");
  return Array.isArray(Reflect.get(value, "buffer")) && typeof index === "number";
}
