/** Makes the PNG of a browser small: at most 256 colours, which a page of text does not miss, and compressed well. */
import { crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");
/** Of a chunk: length and kind before its data, and the check sum behind. */
const CHUNK_HEAD = 8;
const CHUNK_BYTES = 12;
/** What Chromium writes: eight bits for each of red, green and blue. */
const DEPTH = 8;
const TRUECOLOUR = 2;
const CHANNELS = 3;
const PALETTE = 3;
const MOST_COLOURS = 256;

interface Pixels {
  readonly width: number;
  readonly height: number;
  /** 0xRRGGBB, row by row. */
  readonly colours: Uint32Array;
}

/**
 * The same picture with a palette: its commonest colours as they are, each of the others as the nearest of them.
 * @throws {TypeError} where it is no PNG as Chromium writes them
 */
export function smallerPng(png: Buffer): Buffer {
  const { width, height, colours } = read(png);
  const counts = new Map<number, number>();
  for (const colour of colours) counts.set(colour, (counts.get(colour) ?? 0) + 1);
  const byCount = [...counts].sort(([a, left], [b, right]) => right - left || a - b);
  const palette = byCount.slice(0, MOST_COLOURS).map(([colour]) => colour);
  const indexes = new Map(byCount.map(([colour]) => [colour, nearest(palette, colour)]));

  // A row begins with its filter: 0, none, is best for few colours.
  const rows = Buffer.alloc(height * (width + 1));
  for (const [at, colour] of colours.entries()) {
    rows[at + Math.floor(at / width) + 1] = indexes.get(colour) ?? 0;
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([DEPTH, PALETTE], 8);
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", head),
    chunk("PLTE", Buffer.from(palette.flatMap(channels))),
    chunk("IDAT", deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function channels(colour: number): readonly number[] {
  return [colour >> 16, (colour >> 8) & 255, colour & 255];
}

function nearest(palette: readonly number[], colour: number): number {
  const [red = 0, green = 0, blue = 0] = channels(colour);
  let [best, least] = [0, Infinity];
  for (const [index, each] of palette.entries()) {
    const [r = 0, g = 0, b = 0] = channels(each);
    const distance = (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
    if (distance < least) [best, least] = [index, distance];
  }
  return best;
}

function chunk(kind: string, data: Buffer): Buffer {
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  const body = Buffer.concat([Buffer.from(kind, "latin1"), data]);
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}

function read(png: Buffer): Pixels {
  let head: Buffer | undefined;
  const parts: Buffer[] = [];
  for (let at = SIGNATURE.length; at < png.length;) {
    const length = png.readUInt32BE(at);
    const kind = png.toString("latin1", at + 4, at + CHUNK_HEAD);
    const data = png.subarray(at + CHUNK_HEAD, at + CHUNK_HEAD + length);
    if (kind === "IHDR") head = data;
    if (kind === "IDAT") parts.push(data);
    at += CHUNK_BYTES + length;
  }
  if (head?.[8] !== DEPTH || head[9] !== TRUECOLOUR || head[12] !== 0) {
    throw new TypeError("this is no PNG of a page, which has 8 bits of red, green and blue");
  }
  const [width, height] = [head.readUInt32BE(0), head.readUInt32BE(4)];
  const bytes = unfilter(inflateSync(Buffer.concat(parts)), width * CHANNELS);
  const colours = new Uint32Array(width * height);
  for (const at of colours.keys()) colours[at] = bytes.readUIntBE(at * CHANNELS, CHANNELS);
  return { width, height, colours };
}

/** Undoes what each row says of itself: its bytes are differences from those to the left and above. */
function unfilter(filtered: Buffer, rowBytes: number): Buffer {
  const rows = Math.floor(filtered.length / (rowBytes + 1));
  const bytes = Buffer.alloc(rows * rowBytes);
  for (let row = 0; row < rows; row += 1) {
    const filter = filtered[row * (rowBytes + 1)] ?? 0;
    for (let column = 0; column < rowBytes; column += 1) {
      const at = row * rowBytes + column;
      const isFirst = column < CHANNELS;
      const left = isFirst ? 0 : (bytes[at - CHANNELS] ?? 0);
      const above = bytes[at - rowBytes] ?? 0;
      const corner = isFirst ? 0 : (bytes[at - rowBytes - CHANNELS] ?? 0);
      const told = filtered[at + row + 1] ?? 0;
      bytes[at] = told + predicted(filter, { left, above, corner });
    }
  }
  return bytes;
}

interface Neighbours {
  readonly left: number;
  readonly above: number;
  readonly corner: number;
}

/** By the numbers of the PNG specification, section 9.2. */
function predicted(filter: number, { left, above, corner }: Neighbours): number {
  switch (filter) {
    case 0:
      return 0;
    case 1:
      return left;
    case 2:
      return above;
    case 3:
      return (left + above) >> 1;
    case 4: {
      const [toLeft, toAbove] = [Math.abs(above - corner), Math.abs(left - corner)];
      const toCorner = Math.abs(left + above - 2 * corner);
      if (toLeft <= toAbove && toLeft <= toCorner) return left;
      return toAbove <= toCorner ? above : corner;
    }
    default:
      throw new TypeError(`PNG knows no filter ${filter}`);
  }
}
