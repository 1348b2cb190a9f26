/**
 * Header lines on the wire of HTTP/2 (RFC 7541), as far as attacks need them: written plainly, so that nothing
 * is corrected on the way, and read with the dynamic table that the gateway uses.
 */

export type Line = readonly [name: string, value: string];

/** Literals that are never indexed, without Huffman codes: any bytes at all. */
export function writeLines(lines: readonly Line[]): string {
  return lines.map(([name, value]) => `\x10${writeText(name)}${writeText(value)}`).join("");
}

function writeText(text: string): string {
  return writeInteger(text.length, 7) + text;
}

/** RFC 7541 section 5.1. */
function writeInteger(value: number, bits: number): string {
  const most = 2 ** bits - 1;
  if (value < most) return String.fromCharCode(value);
  let text = String.fromCharCode(most);
  let rest = value - most;
  for (; rest >= 128; rest = Math.floor(rest / 128))
    text += String.fromCharCode(128 + (rest % 128));
  return text + String.fromCharCode(rest);
}

/** RFC 7541 appendix A; of most entries an answer uses the name alone. */
const STATIC: readonly Line[] = [
  [":authority", ""],
  [":method", "GET"],
  [":method", "POST"],
  [":path", "/"],
  [":path", "/index.html"],
  [":scheme", "http"],
  [":scheme", "https"],
  ...["200", "204", "206", "304", "400", "404", "500"].map((value): Line => [":status", value]),
  ["accept-charset", ""],
  ["accept-encoding", "gzip, deflate"],
  ...[
    "accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control",
    "content-disposition content-encoding content-language content-length content-location content-range",
    "content-type cookie date etag expect expires from host if-match if-modified-since if-none-match if-range",
    "if-unmodified-since last-modified link location max-forwards proxy-authenticate proxy-authorization range",
    "referer refresh retry-after server set-cookie strict-transport-security transfer-encoding user-agent vary",
    "via www-authenticate",
  ]
    .join(" ")
    .split(" ")
    .map((name): Line => [name, ""]),
];

/** Bits of each character's code (RFC 7541 appendix B), which is canonical: the lengths say all. */
const CODE_LENGTHS: Readonly<Record<number, string>> = {
  5: "012aceiost",
  6: " %-./3456789=A_bdfghlmnpru",
  7: ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
  8: "&*,;XZ",
  10: `!"()?`,
  11: "'+|",
  12: "#>",
  13: "\0$@[]~",
  14: "^}",
  15: "<`{",
};

const CODES: ReadonlyMap<string, string> = buildCodes();

function buildCodes(): ReadonlyMap<string, string> {
  const codes = new Map<string, string>();
  let code = 0;
  let bits = 0;
  for (const [length, letters] of Object.entries(CODE_LENGTHS)) {
    code *= 2 ** (Number(length) - bits);
    bits = Number(length);
    for (const letter of letters) {
      codes.set(code.toString(2).padStart(bits, "0"), letter);
      code += 1;
    }
  }
  return codes;
}

/** The end is filled with ones; what is no code here shows as U+FFFD. */
function readHuffman(bytes: string): string {
  const bits = Array.from(bytes, (byte) => byte.charCodeAt(0).toString(2).padStart(8, "0")).join(
    "",
  );
  let text = "";
  let code = "";
  for (const bit of bits) {
    code += bit;
    const letter = CODES.get(code);
    if (letter === undefined) continue;
    text += letter;
    code = "";
  }
  return /^1{0,7}$/.test(code) ? text : `${text}\ufffd`;
}

/** The lines of one connection's answers, block by block in their order. */
export class LineReader {
  readonly #recent: Line[] = [];
  #bytes = "";
  #at = 0;

  /** @throws Error where the block is no sequence of lines. */
  read(block: string): Line[] {
    this.#bytes = block;
    this.#at = 0;
    const lines: Line[] = [];
    while (this.#at < block.length) {
      const line = this.#readLine();
      if (line !== undefined) lines.push(line);
    }
    return lines;
  }

  #readLine(): Line | undefined {
    const first = this.#bytes.charCodeAt(this.#at);
    if (first >= 0x80) return this.#indexed(this.#readInteger(7));
    if (first >= 0x40) {
      const line = this.#readLiteral(6);
      this.#recent.unshift(line);
      return line;
    }
    if (first < 0x20) return this.#readLiteral(4);
    // The table may have another size: what is thrown out is not used again.
    this.#readInteger(5);
    return undefined;
  }

  #readLiteral(bits: number): Line {
    const index = this.#readInteger(bits);
    const name = index === 0 ? this.#readText() : this.#indexed(index)[0];
    return [name, this.#readText()];
  }

  #indexed(index: number): Line {
    const line = STATIC[index - 1] ?? this.#recent[index - 1 - STATIC.length];
    if (line === undefined) throw new Error(`there is no line ${index}`);
    return line;
  }

  #readText(): string {
    const isCoded = this.#bytes.charCodeAt(this.#at) >= 0x80;
    const length = this.#readInteger(7);
    const text = this.#bytes.slice(this.#at, this.#at + length);
    if (text.length < length) throw new Error("a line is cut off");
    this.#at += length;
    return isCoded ? readHuffman(text) : text;
  }

  #readInteger(bits: number): number {
    const most = 2 ** bits - 1;
    let value = this.#next() & most;
    if (value < most) return value;
    for (let unit = 1; ; unit *= 128) {
      const byte = this.#next();
      value += (byte & 127) * unit;
      if (byte < 128) return value;
    }
  }

  #next(): number {
    const byte = this.#bytes.charCodeAt(this.#at);
    if (Number.isNaN(byte)) throw new Error("a line is cut off");
    this.#at += 1;
    return byte;
  }
}
