/** Answers to calls that their backend has packed although it was asked not to: what is sold is read first. */
import { brotliDecompressSync, gunzipSync, inflateSync, zstdDecompressSync } from "node:zlib";
import type { StoredResponse } from "../../ledger/ledger.ts";
import { valueOf } from "../message/field-values.ts";

/** What one may unpack to, bytes: as much as is read of a plain one. */
const MAX_UNPACKED_BYTES = 1024 * 1024;

const LIMIT = { maxOutputLength: MAX_UNPACKED_BYTES };

const UNPACK: ReadonlyMap<string, (body: Uint8Array) => Buffer> = new Map([
  ["gzip", (body) => gunzipSync(body, LIMIT)],
  ["x-gzip", (body) => gunzipSync(body, LIMIT)],
  ["deflate", (body) => inflateSync(body, LIMIT)],
  ["br", (body) => brotliDecompressSync(body, LIMIT)],
  ["zstd", (body) => zstdDecompressSync(body, LIMIT)],
]);

/** @param lines raw `name, value` pairs of its head. Null: it is plain, or cannot be unpacked */
export function unpackedBody(body: Uint8Array, lines: readonly string[]): Buffer | null {
  const coding = valueOf(lines, "content-encoding")?.trim().toLowerCase() ?? "identity";
  try {
    return UNPACK.get(coding)?.(body) ?? null;
  } catch {
    return null;
  }
}

/** The same of an answer that is held, or kept. */
export function unpacked(given: StoredResponse): StoredResponse {
  const body = unpackedBody(given.body, given.headers.flat());
  if (body === null) return given;
  const headers = given.headers.filter(([name]) => {
    return !["content-encoding", "content-length"].includes(name.toLowerCase());
  });
  return { ...given, headers: [...headers, ["Content-Length", String(body.length)]], body };
}
