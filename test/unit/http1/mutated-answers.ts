/**
 * Answers of backends that may do anything, made from a number: the same number makes the same answer. Most
 * are near to what is valid, because that is where two readers come to differ.
 */

export interface MutatedAnswer {
  readonly seed: number;
  /** Of the request that it answers. */
  readonly method: "GET" | "HEAD" | "POST";
  /** How the bytes arrive. */
  readonly pieces: readonly Buffer[];
  /** What becomes of the connection behind them. */
  readonly ending: "fin" | "reset";
}

/** A small generator of evenly spread numbers (mulberry32). */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** In [0, 1). */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  }

  /** In [0, below). */
  below(below: number): number {
    return Math.floor(this.fraction() * below);
  }

  chance(share: number): boolean {
    return this.fraction() < share;
  }

  of<Item>(items: readonly [Item, ...Item[]]): Item {
    return items[this.below(items.length)] ?? items[0];
  }
}

const STATUS_LINES = [
  "HTTP/1.1 200 OK",
  "HTTP/1.1 200 OK",
  "HTTP/1.1 200 OK",
  "HTTP/1.1 201 Created",
  "HTTP/1.1 204 No Content",
  "HTTP/1.1 206 Partial Content",
  "HTTP/1.1 301 Moved Permanently",
  "HTTP/1.1 304 Not Modified",
  "HTTP/1.1 402 Payment Required",
  "HTTP/1.1 404 Not Found",
  "HTTP/1.1 500 Internal Server Error",
  "HTTP/1.1 599 ",
  "HTTP/1.1 299",
  "HTTP/1.0 200 OK",
] as const;

const ODD_STATUS_LINES = [
  "HTTP/1.1 101 Switching Protocols",
  "HTTP/1.1 600 Odd",
  "HTTP/1.1 999 Odder",
  "HTTP/1.1 099 Low",
  "HTTP/1.1 20 OK",
  "HTTP/1.1 2000 OK",
  "HTTP/1.1 2x0 OK",
  "HTTP/1.1  200 OK",
  "HTTP/1.1\t200 OK",
  "HTTP/1.1 200  two blanks",
  "HTTP/1.1 200\tOK",
  "HTTP/1.1 200OK",
  "HTTP/1.1 200 caf\xe9",
  "HTTP/1.1 200 O\0K",
  "HTTP/1.1 200 O\x7fK",
  "HTTP/1.1",
  "HTTP/1.2 200 OK",
  "HTTP/2.0 200 OK",
  "HTTP/0.9 200 OK",
  "HTTP/11 200 OK",
  "http/1.1 200 OK",
  " HTTP/1.1 200 OK",
  "\r\nHTTP/1.1 200 OK",
  "ICY 200 OK",
  "200 OK",
] as const;

const INTERIMS = [
  "HTTP/1.1 100 Continue\r\n\r\n",
  "HTTP/1.1 102 Processing\r\n\r\n",
  "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n",
  "HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\n\r\n",
  "HTTP/1.1 199 Later\r\n\r\n",
] as const;

const LINES = [
  "Date: Thu, 01 Jan 2026 00:00:00 GMT",
  "Content-Type: application/json; charset=utf-8",
  "Set-Cookie: a=1; Path=/",
  "Set-Cookie: b=2; HttpOnly",
  'ETag: W/"5-abc"',
  "Vary:Accept-Encoding",
  "X-Empty:",
  "X-Blank:  \t ",
  "X-Padded: \t value \t ",
  "X-Latin: caf\xe9",
  "x_under: 1",
  "X-Colons: a:b:c",
  "!#$%&'*+-.^_`|~: token",
  "Keep-Alive: timeout=5, max=100",
  "Connection: keep-alive",
  "Connection: close",
  "Trailer: X-Sum",
] as const;

const ODD_LINES = [
  "Content-Length: 5",
  "content-length: 5",
  "Content-Length: 0",
  "Content-Length: 05",
  "Content-Length: +5",
  "Content-Length: -5",
  "Content-Length: 5, 5",
  "Content-Length: 5 5",
  "Content-Length: 0x5",
  "Content-Length:",
  "Content-Length: 5\t",
  "Content-Length : 5",
  "Content-Length: 99999999999999999999",
  "Content-Length: 9007199254740993",
  "Content_Length: 5",
  "Transfer-Encoding: chunked",
  "transfer-encoding: CHUNKED",
  "Transfer-Encoding: gzip, chunked",
  "Transfer-Encoding: chunked, gzip",
  "Transfer-Encoding: chunked, chunked",
  "Transfer-Encoding: identity",
  "Transfer-Encoding: xchunked",
  "Transfer-Encoding: chunked;q=1",
  "Transfer-Encoding:",
  "Transfer-Encoding : chunked",
  "Transfer-Encoding: \x0bchunked",
  " folded: yes",
  "\tfolded",
  "X-Fold: a\r\n b",
  "X-Cr: a\rb",
  "X-Lf: a\nb",
  "X-Nul: a\0b",
  "X-Del: a\x7fb",
  "X-Ctl: a\x01b",
  "X Blank: a",
  "X\0Nul: a",
  "X-Caf\xe9: a",
  ": nameless",
  "no colon",
  "",
  "Connection: upgrade\r\nUpgrade: websocket",
  "Connection: Close, x",
  "Proxy-Connection: close",
] as const;

const CHUNK_TAILS = [
  ";a",
  ";a=b",
  ';a="b c"',
  ';a="b\\"c";d',
  ";",
  ";;",
  ";a=",
  ";=b",
  " ;a=b",
  "; a=b",
  ";a = b",
  ';a="b',
  ";a=\x01",
  ";a\n",
  " ",
  "\t",
  "\n",
  "\r",
  "x",
] as const;

const TRAILERS = [
  "X-Sum: 1",
  "X-Sum: 1\r\nX-Other: \t2 ",
  "Content-Length: 5",
  "Transfer-Encoding: chunked",
  "X Bad: 1",
  "X-Nul: \0",
  " folded",
] as const;

const SPECIAL = '\r\n\0 \t:;,="0159afAF-_\x7f\x80\xff\x0b\x01HTTP/' as const;

/** However the dice fall, an answer is small. */
const MAX_INTERIMS = 40;
const MAX_ODD_LINES = 20;

/** Cuts, repeats and spoils bytes at this share of all answers. */
const SPOILED = 0.4;

export function mutatedAnswer(seed: number): MutatedAnswer {
  const dice = new Dice(Math.imul(seed, 0x9e3779b1));
  const method = dice.of(["GET", "GET", "GET", "GET", "HEAD", "POST"] as const);
  let text = "";
  for (let count = 0; count < MAX_INTERIMS && dice.chance(0.08); count += 1) {
    text += dice.of(INTERIMS);
  }
  text += answer(dice, method === "HEAD");
  if (dice.chance(0.1))
    text += dice.of(["x", "\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]);
  if (dice.chance(SPOILED)) {
    for (let times = 1 + dice.below(3); times > 0; times -= 1) text = spoil(dice, text);
  }
  const ending = dice.chance(0.1) ? "reset" : "fin";
  return { seed, method, pieces: cut(dice, Buffer.from(text, "latin1")), ending };
}

function answer(dice: Dice, isToHead: boolean): string {
  const lines: string[] = [dice.chance(0.06) ? dice.of(ODD_STATUS_LINES) : dice.of(STATUS_LINES)];
  for (let count = dice.below(6); count > 0; count -= 1) lines.push(dice.of(LINES));
  const body = bodyOf(dice);
  const framing = dice.of(["length", "length", "chunked", "chunked", "close", "none"] as const);
  if (framing === "length") {
    const length = dice.chance(0.05) ? dice.below(300) : body.length;
    insert(dice, lines, `${dice.of(["Content-Length", "content-length"])}: ${length}`);
  }
  if (framing === "chunked") insert(dice, lines, "Transfer-Encoding: chunked");
  insertOdd(dice, lines);
  const head = `${lines.join("\r\n")}\r\n\r\n`;
  const hasNone = framing === "none" || /^HTTP\/1.1 (?:204|304)/.test(head) || isToHead;
  if (hasNone && !dice.chance(0.05)) return head;
  return head + (framing === "chunked" ? chunked(dice, body) : body);
}

function insertOdd(dice: Dice, lines: string[]): void {
  for (let count = 0; count < MAX_ODD_LINES && dice.chance(count === 0 ? 0.15 : 0.3); count += 1) {
    insert(dice, lines, dice.of(ODD_LINES));
  }
}

function bodyOf(dice: Dice): string {
  let body = dice.chance(0.1) ? "HTTP/1.1 200 OK\r\n\r\n" : "";
  for (let count = dice.below(dice.chance(0.1) ? 600 : 40); count > 0; count -= 1) {
    body += dice.chance(0.1) ? character(dice) : String.fromCharCode(97 + dice.below(26));
  }
  return body;
}

function chunked(dice: Dice, body: string): string {
  let text = "";
  for (let at = 0; at < body.length;) {
    const size = Math.min(body.length - at, 1 + dice.below(dice.chance(0.3) ? 200 : 8));
    text += `${sizeLine(dice, size)}\r\n${body.slice(at, at + size)}\r\n`;
    at += size;
  }
  const trailers = dice.chance(0.2) ? `${dice.of(TRAILERS)}\r\n` : "";
  return `${text}${sizeLine(dice, 0)}\r\n${trailers}\r\n`;
}

function sizeLine(dice: Dice, size: number): string {
  const digits = size.toString(16);
  const spelled = dice.chance(0.1) ? `00${digits.toUpperCase()}` : digits;
  if (dice.chance(0.01)) return dice.of(["", "g", "0x1", "-1", "+1", "1 1", "fffffffffffffffff"]);
  return spelled + (dice.chance(0.05) ? dice.of(CHUNK_TAILS) : "");
}

function insert(dice: Dice, lines: string[], line: string): void {
  lines.splice(1 + dice.below(lines.length), 0, line);
}

function character(dice: Dice): string {
  return SPECIAL[dice.below(SPECIAL.length)] ?? " ";
}

function spoil(dice: Dice, text: string): string {
  const end = text.indexOf("\r\n\r\n");
  const at = dice.below((dice.chance(0.7) && end > 0 ? end + 4 : text.length) + 1);
  const rest = text.slice(at);
  switch (dice.below(7)) {
    case 0:
      return text.slice(0, at) + character(dice) + rest;
    case 1:
      return text.slice(0, at) + rest.slice(1);
    case 2:
      return text.slice(0, at) + character(dice) + rest.slice(1);
    case 3:
      return text.slice(0, at);
    case 4:
      return text.slice(0, at) + rest.slice(0, dice.below(20)) + rest;
    case 5:
      return text.replace("\r\n", dice.of(["\n", "\r", "\r\r\n", "\n\r", "\r\n\r\n"]));
    default: {
      const lines = text.split("\r\n");
      const line = lines[dice.below(lines.length)] ?? "";
      insert(dice, lines, line);
      return lines.join("\r\n");
    }
  }
}

function cut(dice: Dice, bytes: Buffer): Buffer[] {
  const pieces: Buffer[] = [];
  // Byte by byte, in a few pieces, or as one.
  const largest = dice.of([1, 7, 60, 400, bytes.length + 1] as const);
  for (let at = 0; at < bytes.length;) {
    const size = Math.min(bytes.length - at, 1 + dice.below(largest));
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}
