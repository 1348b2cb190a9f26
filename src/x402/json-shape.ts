/** How much is in a text of JSON, before anybody makes values of it: that takes longer than to look through it. */

const [QUOTE, ESCAPE, COMMA] = [0x22, 0x5c, 0x2c];
const OPENING: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const CLOSING: ReadonlySet<number> = new Set([0x5d, 0x7d]);

export interface JsonBounds {
  /** Lists and objects within each other. */
  readonly depth: number;
  /** Of all kinds, an empty list or object counting twice; names of members are none. */
  readonly values: number;
}

/** Which bound a text of JSON is over; of what is no JSON nothing is said. */
export function boundOver(bytes: Uint8Array, most: JsonBounds): keyof JsonBounds | null {
  let [depth, values] = [0, 1];
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte === QUOTE) at = endOfString(bytes, at);
    else if (byte === COMMA) values += 1;
    else if (OPENING.has(byte)) {
      depth += 1;
      values += 1;
      if (depth > most.depth) return "depth";
    } else if (CLOSING.has(byte)) depth -= 1;
    if (values > most.values) return "values";
  }
  return null;
}

/** Where its second quote is; behind all where there is none. */
function endOfString(bytes: Uint8Array, from: number): number {
  for (let at = from + 1; at < bytes.length; at += 1) {
    if (bytes[at] === ESCAPE) at += 1;
    else if (bytes[at] === QUOTE) return at;
  }
  return bytes.length;
}
