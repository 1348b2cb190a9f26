/** One request whose body is sent, and whose answer is read, at the test's own pace: over any protocol. */
import { once } from "node:events";
import { constants, type ClientHttp2Stream } from "node:http2";
import { setTimeout as pause } from "node:timers/promises";
import { Client, PATIENCE_MS, requestBytes, type Ask, type Place, type Reply } from "./client.ts";
import type { Protocol } from "./differences.ts";
import { Http2Client, readReply } from "./http2-client.ts";
import { chunked, ContentMeter, type Content, type Head } from "./wire.ts";

/** A pause of this length without a byte moving counts as a standstill, milliseconds. */
const STANDSTILL_MS = 250;

/** How much of a body is on its way: undefined where the request has none. */
export interface Upload {
  readonly framing: "length" | "chunked";
  readonly length: number;
}

export interface Visit {
  readonly head: Promise<Head>;
  /** Rejects with `NoAnswer` when it is cut off. */
  readonly reply: Promise<Reply>;
  /** Bytes of the answer's body so far. */
  readonly received: number;
  /** Bytes of the request's body that have left this process. */
  readonly sent: number;
  /** Resolves when the next part may be sent. */
  send(part: Buffer): Promise<void>;
  /** No more will be sent. Without a body, HTTP/1.1 half-closes its connection. */
  finish(): void;
  pause(): void;
  resume(): void;
  /** Leaves without a word. */
  abort(): void;
  close(): void;
}

export function visit(
  place: Place & { readonly protocol: Protocol },
  ask: Ask,
  upload?: Upload,
): Visit {
  return place.protocol === "HTTP/2"
    ? new Http2Visit(place.port, ask, upload)
    : new Http1Visit(place, ask, upload);
}

class Http1Visit implements Visit {
  readonly head: Promise<Head>;
  readonly reply: Promise<Reply>;
  received = 0;
  readonly #client: Client;
  readonly #upload: Upload | undefined;
  readonly #headBytes: number;

  constructor(place: Place, ask: Ask, upload: Upload | undefined) {
    this.#client = new Client(place);
    this.#upload = upload;
    const head = Promise.withResolvers<Head>();
    this.head = head.promise;
    this.head.catch(() => undefined);
    this.reply = this.#client.expect(ask.method, {
      onHead: head.resolve,
      onBody: (chunk) => {
        this.received += chunk.length;
      },
    });
    this.reply.catch(head.reject);
    const framing: readonly (readonly [string, string])[] =
      upload === undefined
        ? []
        : upload.framing === "chunked"
          ? [["Transfer-Encoding", "chunked"]]
          : [["Content-Length", String(upload.length)]];
    const bytes = requestBytes({ ...ask, lines: [...(ask.lines ?? []), ...framing] }).head;
    this.#headBytes = bytes.length;
    this.#client.socket.write(bytes, "latin1");
  }

  get sent(): number {
    const { socket } = this.#client;
    return socket.bytesWritten - socket.writableLength - this.#headBytes;
  }

  async send(part: Buffer): Promise<void> {
    const { socket } = this.#client;
    // Without the last chunk's mark: it follows with `finish`.
    const bytes =
      this.#upload?.framing === "chunked" ? chunked(part, part.length).subarray(0, -5) : part;
    if (!socket.write(bytes)) await once(socket, "drain");
  }

  finish(): void {
    if (this.#upload?.framing === "chunked") this.#client.socket.write("0\r\n\r\n");
    if (this.#upload === undefined) this.#client.socket.end();
  }

  pause(): void {
    this.#client.socket.pause();
  }

  resume(): void {
    this.#client.socket.resume();
  }

  abort(): void {
    const { socket } = this.#client;
    if ("encrypted" in socket) socket.destroy();
    else socket.resetAndDestroy();
  }

  close(): void {
    this.#client.close();
  }
}

class Http2Visit implements Visit {
  readonly head: Promise<Head>;
  readonly reply: Promise<Reply>;
  received = 0;
  readonly #client: Http2Client;
  readonly #stream: ClientHttp2Stream;
  #written = 0;

  constructor(port: number, ask: Ask, upload: Upload | undefined) {
    this.#client = new Http2Client(port);
    const lines =
      upload?.framing === "length"
        ? [...(ask.lines ?? []), ["Content-Length", String(upload.length)] as const]
        : (ask.lines ?? []);
    const open: Ask = { ...ask, lines, framing: "chunked" };
    this.#stream = this.#client.open(
      upload === undefined ? { ...ask, lines } : { ...open, body: Buffer.alloc(0) },
    );
    const head = Promise.withResolvers<Head>();
    this.head = head.promise;
    this.head.catch(() => undefined);
    this.reply = readReply(this.#stream, {
      onHead: head.resolve,
      onBody: (chunk) => {
        this.received += chunk.length;
      },
    });
    this.reply.catch(head.reject);
  }

  get sent(): number {
    return this.#written - this.#stream.writableLength;
  }

  async send(part: Buffer): Promise<void> {
    this.#written += part.length;
    if (!this.#stream.write(part)) await once(this.#stream, "drain");
  }

  finish(): void {
    this.#stream.end();
  }

  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  abort(): void {
    this.#stream.close(constants.NGHTTP2_CANCEL);
  }

  close(): void {
    this.#client.close();
  }
}

/** Resolves with a count once it has stopped growing. */
export async function standstill(count: () => number): Promise<number> {
  for (let last = -1; ;) {
    const now = count();
    if (now === last && now > 0) return now;
    last = now;
    await pause(STANDSTILL_MS);
  }
}

export async function until(isSo: () => boolean): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!isSo()) {
    if (performance.now() > deadline) throw new Error("it did not come to that");
    await pause(1);
  }
}

/** Parts of a body that repeat nowhere near, the same each time. */
export function* parts(length: number): Generator<Buffer> {
  const block = Buffer.allocUnsafe(65_536);
  for (let from = 0; from < length; from += block.length) {
    const part = Buffer.from(block.subarray(0, Math.min(block.length, length - from)));
    part.fill((from / block.length) % 251);
    // A part that is lost, doubled or out of order changes the hash.
    if (part.length >= 8) part.writeDoubleBE(from, 0);
    yield part;
  }
}

export function contentOfParts(length: number): Content {
  const meter = new ContentMeter();
  for (const part of parts(length)) meter.take(part);
  return meter.finish();
}
