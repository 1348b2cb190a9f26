/**
 * Multicall3's `aggregate3`, from the side of the node: which calls a question holds, and an answer put
 * together of theirs. Hex text without `0x`.
 */

/** Hex digits of one ABI word. */
const WORD = 64;
const SELECTOR = "82ad56cb";

/** The `target` and `callData` of each call as one text, or null for any other question. */
export function callsOf(data: string): string[] | null {
  if (!data.startsWith(SELECTOR)) return null;
  // (address target, bool allowFailure, bytes callData)[]
  return readTuples(data.slice(SELECTOR.length), 2);
}

/** Each call's `success` and `returnData` as one text. */
export function resultsOf(answer: string): string[] {
  // (bool success, bytes returnData)[]
  return readTuples(answer, 1);
}

/** The answer of an aggregate whose calls were answered with these {@link resultsOf}. */
export function answerOf(results: readonly string[]): string {
  let offsets = "";
  let tuples = "";
  for (const result of results) {
    const bytes = result.slice(WORD);
    offsets += word((results.length * WORD + tuples.length) / 2);
    tuples += result.slice(0, WORD) + word(0x40) + word(bytes.length / 2);
    tuples += bytes.padEnd(Math.ceil(bytes.length / WORD) * WORD, "0");
  }
  return word(0x20) + word(results.length) + offsets + tuples;
}

/** The first word and the bytes of each tuple in an array of them; `words` stand before the bytes. */
function readTuples(hex: string, words: number): string[] {
  const start = size(hex, 0);
  const base = start + WORD;
  return Array.from({ length: size(hex, start) / 2 }, (_, index) => {
    const tuple = base + size(hex, base + index * WORD);
    const length = tuple + size(hex, tuple + words * WORD);
    const bytes = hex.slice(length + WORD, length + WORD + size(hex, length));
    return hex.slice(tuple, tuple + WORD) + bytes;
  });
}

/** A number of bytes, in hex digits. */
function size(hex: string, at: number): number {
  return Number.parseInt(hex.slice(at, at + WORD), 16) * 2;
}

function word(value: number): string {
  return value.toString(16).padStart(WORD, "0");
}
