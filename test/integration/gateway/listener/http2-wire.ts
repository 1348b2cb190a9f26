/**
 * An HTTP/2 client of single frames (RFC 9113 section 4), for what no library would send. Header blocks are
 * literals without compression; of the server's only the status is read.
 */
import { connect as connectTls, type TLSSocket } from "node:tls";
import { onTestFinished } from "vitest";

export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const END_STREAM = 1;
export const END_HEADERS = 4;
const ACK = 1;
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD_BYTES = 9;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

export type Lines = readonly (readonly [string, string])[];

export function frame(
  type: number,
  flags: number,
  stream: number,
  payload: Uint8Array = new Uint8Array(),
): Buffer {
  const head = Buffer.alloc(FRAME_HEAD_BYTES);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** RFC 7541 section 5.1, of a string of plain bytes. */
function literal(text: string): Buffer {
  const bytes = Buffer.from(text, "latin1");
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes]);
  const size: number[] = [127];
  let rest = bytes.length - 127;
  for (; rest >= 128; rest = Math.floor(rest / 128)) size.push((rest % 128) + 128);
  return Buffer.concat([Buffer.from([...size, rest]), bytes]);
}

/** RFC 7541 section 6.2.2: literal fields that are not remembered. */
export function block(lines: Lines): Buffer {
  return Buffer.concat(
    lines.flatMap(([name, value]) => [Buffer.from([0]), literal(name), literal(value)]),
  );
}

/** The pseudo-header fields of a request, with others in place of its own. */
export function requestLines(
  path = "/free",
  { method = "GET", authority = "shop.example" } = {},
): Lines {
  return [
    [":method", method],
    [":scheme", "https"],
    [":path", path],
    [":authority", authority],
  ];
}

/** Statuses that RFC 7541 has an index for. */
const STATUSES: Readonly<Record<number, number>> = {
  0x88: 200,
  0x89: 204,
  0x8a: 206,
  0x8b: 304,
  0x8c: 400,
  0x8d: 404,
  0x8e: 500,
};

/** RFC 7541 appendix B: `0` to `2` have five bits, the other digits six; three of them are read. */
function huffmanDigits(text: Buffer): string {
  let bits = [...text].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  let digits = "";
  while (digits.length < 3) {
    const short = Number.parseInt(bits.slice(0, 5), 2);
    const isShort = short <= 2;
    digits += isShort ? short : Number.parseInt(bits.slice(0, 6), 2) - 0x19 + 3;
    bits = bits.slice(isShort ? 5 : 6);
  }
  return digits;
}

export class WireClient {
  readonly socket: TLSSocket;
  readonly frames: Frame[] = [];
  #received: Buffer = Buffer.alloc(0);
  #waiting: (() => void)[] = [];
  #isClosed = false;
  /** Resolves once the connection is over. */
  readonly closed: Promise<void>;

  private constructor(socket: TLSSocket) {
    this.socket = socket;
    this.closed = new Promise((resolve) => {
      socket.once("close", () => {
        this.#isClosed = true;
        resolve();
        this.#wake();
      });
    });
    socket.on("error", () => {});
    socket.on("data", (chunk) => this.#take(chunk));
    onTestFinished(() => void socket.destroy());
  }

  /** @param isSilent leaves out the preface and the settings */
  static async open(port: number, isSilent = false): Promise<WireClient> {
    const place = { port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: ["h2"] };
    const socket = connectTls(place);
    const client = new WireClient(socket);
    await new Promise<void>((resolve, reject) => {
      socket.once("secureConnect", resolve).once("error", reject);
    });
    if (isSilent) return client;
    socket.write(PREFACE);
    client.send(frame(FRAME.settings, 0, 0), frame(FRAME.settings, ACK, 0));
    return client;
  }

  send(...frames: readonly Buffer[]): void {
    this.socket.write(Buffer.concat(frames));
  }

  /** Lets the server send so many bytes more, on the connection and on each stream. */
  widen(bytes: number): void {
    const more = Buffer.alloc(4);
    more.writeUInt32BE(bytes);
    const initialWindow = Buffer.concat([Buffer.from([0, 4]), more]);
    this.send(frame(FRAME.settings, 0, 0, initialWindow), frame(FRAME.windowUpdate, 0, 0, more));
  }

  /** A request without a body, or with one that follows. */
  request(stream: number, lines: Lines, isWhole = true): void {
    const flags = END_HEADERS + (isWhole ? END_STREAM : 0);
    this.send(frame(FRAME.headers, flags, stream, block(lines)));
  }

  /** Waits for a frame; null when the connection ends before it comes. */
  async next(matches: (frame: Frame) => boolean): Promise<Frame | null> {
    for (;;) {
      const found = this.frames.find(matches);
      if (found !== undefined) return found;
      if (this.#isClosed) return null;
      await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    }
  }

  /** What becomes of a stream: the status of its answer, or `reset` and the code, or `closed`. */
  async outcome(stream: number): Promise<string> {
    const { headers, reset } = FRAME;
    const found = await this.next(
      (each) => each.stream === stream && (each.type === headers || each.type === reset),
    );
    if (found === null) return "closed";
    if (found.type === reset) return `reset ${found.payload.readUInt32BE(0)}`;
    return String(statusOf(found.payload));
  }

  /** The error code of a RST_STREAM, or null when the connection ended. */
  async resetOf(stream: number): Promise<number | null> {
    const found = await this.next((each) => each.stream === stream && each.type === FRAME.reset);
    return found?.payload.readUInt32BE(0) ?? null;
  }

  /** The error code of the last GOAWAY; null: none came before the connection ended. */
  async goaway(): Promise<number | null> {
    await this.closed;
    const found = this.frames.findLast(({ type }) => type === FRAME.goaway);
    return found?.payload.readUInt32BE(4) ?? null;
  }

  #take(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk]);
    while (this.#received.length >= FRAME_HEAD_BYTES) {
      const end = FRAME_HEAD_BYTES + this.#received.readUIntBE(0, 3);
      if (this.#received.length < end) break;
      this.frames.push({
        type: this.#received.readUInt8(3),
        flags: this.#received.readUInt8(4),
        stream: this.#received.readUInt32BE(5),
        payload: this.#received.subarray(FRAME_HEAD_BYTES, end),
      });
      this.#received = this.#received.subarray(end);
    }
    this.#wake();
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resume of waiting) resume();
  }
}

function statusOf(payload: Buffer): number | string {
  const first = payload[0] ?? 0;
  // RFC 7541 section 6.3: the size of the table may have been changed first.
  if (first >= 0x20 && first < 0x40) return statusOf(payload.subarray(1));
  const known = STATUSES[first];
  if (known !== undefined) return known;
  const size = payload[1] ?? 0;
  const text = payload.subarray(2, 2 + (size % 128));
  return size < 128 ? text.toString("latin1") : huffmanDigits(text);
}
