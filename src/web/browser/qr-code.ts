/**
 * A text as a QR code (ISO/IEC 18004): as bytes, with the least correction, in the smallest of versions 1 to 10, under
 * the first mask, which cameras read like every other. What libraries do besides would be a quarter of the page.
 */

/** Of versions 1 to 10: codewords of data, those for correction in each block, and blocks. */
const DATA = [19, 34, 55, 80, 108, 136, 156, 194, 232, 274];
const CORRECTION = [7, 10, 15, 20, 26, 18, 20, 24, 30, 18];
const BLOCKS = [1, 1, 1, 1, 1, 2, 2, 2, 2, 4];
/** From version 7 on it says which it is. */
const VERSION_BITS = [0x07c94, 0x085bc, 0x09a99, 0x0a4d3];
/** The least correction, the first mask. */
const FORMAT_BITS = 0x77c4;

/** Whether each square is dark, row by row; null: the text is too long. */
export function qrCode(text: string): boolean[][] | null {
  const bytes = [...new TextEncoder().encode(text)];
  const fits = (most: number, index: number): boolean => most >= bytes.length + (index < 9 ? 2 : 3);
  const index = DATA.findIndex(fits);
  return index < 0 ? null : drawn(index + 1, codewords(bytes, index));
}

/** All that is drawn, with its correction, blocks taking turns. */
function codewords(bytes: readonly number[], index: number): number[] {
  const [most = 0, degree = 0, count = 1] = [DATA[index], CORRECTION[index], BLOCKS[index]];
  // The kind, how many bytes, the bytes, and the end: kind and end have half a byte.
  const written = `4${hex(bytes.length, index < 9 ? 2 : 4)}${bytes.map((each) => hex(each, 2)).join("")}0`;
  const data = (written.match(/../g) ?? []).map((each) => Number.parseInt(each, 16));
  for (let pad = 0xec; data.length < most; pad ^= 0xec ^ 0x11) data.push(pad);
  const divisor = generator(degree);
  const blocks: number[][] = [];
  for (let begun = 0; blocks.length < count;) {
    // The last ones have one more.
    const length = Math.floor((most + blocks.length) / count);
    blocks.push(data.slice(begun, begun + length));
    begun += length;
  }
  const correction = blocks.map((block) => remainder(block, divisor));
  return [...inTurns(blocks), ...inTurns(correction)];
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}

function inTurns(blocks: readonly number[][]): number[] {
  const longest = blocks.at(-1) ?? [];
  return longest.flatMap((_, at) => blocks.flatMap((block) => block[at] ?? []));
}

/** In the field of 256 elements that the standard calculates in. */
function times(one: number, other: number): number {
  let product = 0;
  for (let bit = 7; bit >= 0; bit -= 1) {
    product = (product << 1) ^ ((product >> 7) * 0x11d) ^ (((other >> bit) & 1) * one);
  }
  return product;
}

/** Coefficients of (x - 1)(x - 2)(x - 4)…, without the first, which is 1. */
function generator(degree: number): number[] {
  let made: number[] = [];
  for (let root = 1; made.length < degree; root = times(root, 2)) {
    made = [...made, 0].map((each, at) => each ^ times(at > 0 ? (made[at - 1] ?? 0) : 1, root));
  }
  return made;
}

function remainder(data: readonly number[], divisor: readonly number[]): number[] {
  return data.reduce(
    (rest, each) => {
      const [first = 0, ...others] = rest;
      return divisor.map((factor, at) => (others[at] ?? 0) ^ times(factor, first ^ each));
    },
    divisor.map(() => 0),
  );
}

/** Row by row; undefined: nothing stands there yet. */
type Squares = (boolean | undefined)[][];

function drawn(version: number, words: readonly number[]): boolean[][] {
  const size = 17 + 4 * version;
  const squares: Squares = Array.from({ length: size }, () => Array(size).fill(undefined));
  drawMarks(squares, version);
  drawFormat(squares, version);
  drawWords(squares, words);
  return squares.map((row) => row.map((isDark) => isDark === true));
}

function set(squares: Squares, x: number, y: number, isDark: boolean): void {
  const row = squares[y];
  if (row && x >= 0 && x < squares.length) row[x] = isDark;
}

/** What cameras look for: the dotted lines, the corners, and the small marks between. */
function drawMarks(squares: Squares, version: number): void {
  const size = squares.length;
  for (let at = 0; at < size; at += 1) {
    set(squares, 6, at, at % 2 < 1);
    set(squares, at, 6, at % 2 < 1);
  }
  const end = size - 7;
  const middle = version < 7 ? [] : [(size - 1) / 2];
  const places = version < 2 ? [] : [6, ...middle, end];
  for (const x of places) {
    for (const y of places) {
      const isCorner = x + y < 13 || (x + y === end + 6 && (x === 6 || y === 6));
      if (!isCorner) drawRings(squares, [x, y], 2, [1]);
    }
  }
  drawRings(squares, [3, 3], 4, [2, 4]);
  drawRings(squares, [size - 4, 3], 4, [2, 4]);
  drawRings(squares, [3, size - 4], 4, [2, 4]);
}

/** @param light distances from the centre that are */
function drawRings(
  squares: Squares,
  [centreX, centreY]: readonly [number, number],
  radius: number,
  light: readonly number[],
): void {
  for (let y = -radius; y <= radius; y += 1) {
    for (let x = -radius; x <= radius; x += 1) {
      const isLight = light.includes(Math.max(Math.abs(x), Math.abs(y)));
      set(squares, centreX + x, centreY + y, !isLight);
    }
  }
}

/** How to read it, twice each: around the first corner and beside the two others. */
function drawFormat(squares: Squares, version: number): void {
  const size = squares.length;
  for (let at = 0; at < 15; at += 1) {
    const isDark = ((FORMAT_BITS >> at) & 1) > 0;
    if (at < 8) {
      // Past the dotted line.
      set(squares, 8, at < 6 ? at : at + 1, isDark);
      set(squares, size - 1 - at, 8, isDark);
    } else {
      set(squares, at < 9 ? 7 : 14 - at, 8, isDark);
      set(squares, 8, size - 15 + at, isDark);
    }
  }
  set(squares, 8, size - 8, true);
  const said = VERSION_BITS[version - 7];
  if (said === undefined) return;
  for (let at = 0; at < 18; at += 1) {
    const [along, across] = [size - 11 + (at % 3), Math.floor(at / 3)];
    set(squares, along, across, ((said >> at) & 1) > 0);
    set(squares, across, along, ((said >> at) & 1) > 0);
  }
}

/** Two columns at a time from the right, up and down in turns, around what stands there; the mask is like a chessboard. */
function drawWords(squares: Squares, words: readonly number[]): void {
  const size = squares.length;
  let bit = 0;
  let isUp = false;
  for (let right = size - 1; right > 0; right -= right === 8 ? 3 : 2) {
    isUp = !isUp;
    for (let step = 0; step < 2 * size; step += 1) {
      const x = right - (step % 2);
      const y = isUp ? size - 1 - (step >> 1) : step >> 1;
      if (squares[y]?.[x] !== undefined) continue;
      const isDark = (((words[bit >> 3] ?? 0) >> (7 - (bit % 8))) & 1) > 0;
      bit += 1;
      set(squares, x, y, isDark !== (x + y) % 2 < 1);
    }
  }
}
