/** Answers that nobody has thought of, and what a plain reader makes of them. */

/** Bytes of random numbers that can be had again (mulberry32). */
export function dice(seed: number): (sides: number) => number {
  let state = seed >>> 0;
  return (sides) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % sides;
  };
}

const NAMES = ["usage", "total_tokens", "a", "ü", "us\\u0061ge", "data", "", "x.y", '\\"'];
const NUMBERS = ["0", "12", "1.5", "-1", "1e3", "1e400", "-0", "123456789012345678901234567890"];
const TEXTS = ["12", "usage", "ü€😀", "data: {", '\\"}', "\\\\", "\\n", ""];

/** JSON that a program would write, mostly with what is asked for somewhere. */
export function randomJson(roll: (sides: number) => number, depth = 0): string {
  const blank = [" ", "", "", "\t", "\n"][roll(5)] ?? "";
  const kind = depth > 4 ? roll(4) : roll(8);
  if (kind === 0) return blank + (NUMBERS[roll(NUMBERS.length)] ?? "0");
  if (kind === 1) return `"${TEXTS[roll(TEXTS.length)] ?? ""}"`;
  if (kind === 2) return ["true", "false", "null"][roll(3)] ?? "null";
  if (kind === 3) return `${blank}[]`;
  if (kind === 4) {
    const items = Array.from({ length: roll(3) }, () => randomJson(roll, depth + 1));
    return `[${items.join(`,${blank}`)}]${blank}`;
  }
  const members = Array.from({ length: roll(4) }, () => {
    return `${blank}"${NAMES[roll(NAMES.length)] ?? ""}"${blank}:${randomJson(roll, depth + 1)}`;
  });
  const usage = roll(2) === 0 ? [] : [`"usage":{"total_tokens":${NUMBERS[roll(8)] ?? "0"}}`];
  return `{${[...members, ...usage].join(`,${blank}`)}}${blank}`;
}

/** The same bytes in pieces, some of them empty. */
export function cut(bytes: Uint8Array, roll: (sides: number) => number): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < bytes.length;) {
    const length = roll(3) === 0 ? roll(3) : roll(40);
    pieces.push(bytes.slice(at, at + length));
    at += length;
  }
  return pieces;
}
