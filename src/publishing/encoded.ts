/**
 * Documents as they are sent: compressed for those who can read that. Each version of a document is compressed once,
 * as long as it is among those that were asked for last.
 */
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { ContentCoding } from "../http/content-coding.ts";

/** Shorter ones gain less than their reader's time. */
const LEAST_LENGTH = 1_024;
/** Longer ones take too long while somebody waits, unless all who ask get the same. */
const MOST_LENGTH = 512 * 1_024;
/** Of what is kept for others who ask the same, bytes. */
const MAX_KEPT_BYTES = 8 * 1_024 * 1_024;
/** Half the time of the next step, for some hundredths of the size. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } };

/** Another tag for each encoding of the same document: other bytes (RFC 9110 section 8.8.3). */
export function tagOf(etag: string, encoding: ContentCoding | null): string {
  return encoding === null ? etag : `${etag.slice(0, -1)}-${encoding}"`;
}

/** Whether a document of so many characters is compressed at all. `isShared`: all who ask get the same. */
export function isCompressed(length: number, isShared: boolean): boolean {
  return length >= LEAST_LENGTH && (isShared || length <= MOST_LENGTH);
}

export function compress(body: string, encoding: ContentCoding): Uint8Array {
  return encoding === "br" ? brotliCompressSync(body, BROTLI) : gzipSync(body);
}

/** What was compressed last, by its tag. */
export class KeptBytes {
  readonly #kept = new Map<string, Uint8Array>();
  #bytes = 0;

  take(tag: string, make: () => Uint8Array): Uint8Array {
    const known = this.#kept.get(tag);
    const bytes = known ?? make();
    if (known === undefined) this.#bytes += bytes.length;
    // The last one that was asked for goes last.
    else this.#kept.delete(tag);
    this.#kept.set(tag, bytes);
    for (const [oldest, { length }] of this.#kept) {
      if (this.#bytes <= MAX_KEPT_BYTES || oldest === tag) break;
      this.#kept.delete(oldest);
      this.#bytes -= length;
    }
    return bytes;
  }
}
