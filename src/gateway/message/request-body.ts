/** A request's body on its way to the backend: whole when it is small, streamed under a limit otherwise. */
import { createHash, hash, type Hash } from "node:crypto";
import { Readable } from "node:stream";
import { Gathered } from "../../http1/gathered.ts";
import { askedOf, keepBody, type InboundRequest } from "./inbound.ts";
import { MAX_UNREAD_PARTS, unreadParts } from "./unread-parts.ts";

/**
 * Bodies up to this many bytes are read whole before the backend hears of the request: it is then never
 * kept busy by a slow client, and head and body leave in one write.
 */
export const wholeBodyLimit = 64 * 1024;

/** Calls back once with exactly `length` bytes, or never when the client leaves before. */
export function readWholeBody(
  source: InboundRequest,
  length: number,
  done: (body: Buffer) => void,
): void {
  const body = new Gathered(length);
  source.on("data", (chunk: Buffer) => body.add(chunk));
  source.on("end", () => done(body.whole()));
}

class BodyTooLarge extends Error {
  override readonly name = "BodyTooLarge";
  readonly code = "body_too_large";
}

/**
 * The body as a stream of its own, because the client library destroys what it was given and must not
 * take the client's connection with it. Once destroyed, the rest of the body is read and thrown away, so
 * that the client gets to read its answer; a client that sends twice the limit is cut off.
 */
export class RequestBody extends Readable {
  readonly #source: InboundRequest;
  readonly #limit: number;
  #received = 0;
  readonly #hashing: Hash | null;
  #hash: string | null = null;
  #isWhole = false;

  /**
   * @param limit bytes; one more destroys the stream with {@link BodyTooLarge}.
   * @param hashed whether {@link hash} is wanted
   */
  constructor(source: InboundRequest, limit: number, hashed: boolean) {
    super();
    this.#source = source;
    this.#limit = limit;
    this.#hashing = hashed ? createHash("sha256") : null;
    source.on("data", this.#take);
    source.on("end", this.#end);
    source.pause();
    // Whoever sends it listens as well, but not yet, or no longer, where the client leaves while it waits.
    this.on("error", () => {});
  }

  /** Hex SHA-256 of the body; null until all of it has been read. */
  get hash(): string | null {
    return this.#hash;
  }

  /** All of the body has been read from the client. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Ends this stream. True: nothing was read of the source, and nothing will be, until another reads it. */
  giveBack(): boolean {
    if (this.#received > 0 || this.#isWhole) return false;
    this.#source.off("data", this.#take);
    this.#source.off("end", this.#end);
    this.destroy();
    // Being destroyed, now or before in this turn of the loop, had the source read on.
    this.#source.pause();
    return true;
  }

  readonly #end = (): void => {
    // A body that was thrown away half read is not what the backend saw.
    if (!this.destroyed) {
      this.#hash = this.#hashing?.digest("hex") ?? null;
      this.#isWhole = true;
    }
    this.push(null);
  };

  readonly #take = (chunk: Buffer): void => {
    this.#received += chunk.length;
    if (!this.destroyed) this.#hashing?.update(chunk);
    if (this.destroyed) {
      if (this.#received > 2 * this.#limit) this.#source.destroy();
    } else if (this.#received > this.#limit) {
      this.destroy(new BodyTooLarge(`The request body is larger than ${this.#limit} bytes.`));
    } else if (!this.push(chunk) || unreadParts(this) > MAX_UNREAD_PARTS) {
      this.#source.pause();
    }
  };

  override _read(): void {
    this.#source.resume();
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.#source.resume();
    callback(error);
  }
}

const HASH_OF_NOTHING = hash("sha256", "");

/** Hex SHA-256 of a body that is there; null stands for none. */
export function hashBody(body: Buffer | null): string {
  return body === null ? HASH_OF_NOTHING : hash("sha256", body);
}

/** What a part of an answer, or none of it, is asked for with. */
const SELECTING = ["range", "if-range", "if-none-match", "if-modified-since"] as const;

/**
 * The hash of a body, and of the lines that ask for a part of the answer: a kept part is for nobody who asks for the
 * whole, or for another part. Without such lines it is that of the body alone. Of a request of which it is known what it
 * asks for, that.
 */
export function hashAsked(request: InboundRequest, bodyHash: string): string {
  const asked = askedOf(request);
  if (asked !== undefined) return asked;
  const { headers } = request;
  const lines = SELECTING.flatMap((name) =>
    name in headers ? [`${name}: ${String(headers[name])}`] : [],
  );
  return lines.length === 0 ? bodyHash : hash("sha256", [bodyHash, ...lines].join("\n"));
}

/** What asks for bytes of an answer, which whoever answers may give whole (RFC 9110 section 14.2). */
const OF_BYTES: ReadonlySet<string> = new Set(["range", "if-range"]);

/** What {@link hashAsked} is of the same request without a body for the whole; null where it asks for no bytes of that. */
export function hashOfWhole(request: InboundRequest): string | null {
  const { headers } = request;
  if (askedOf(request) !== undefined || hasRequestBody(request)) return null;
  if (!/^\s*bytes=/i.test(headers.range ?? "")) return null;
  const isOfBytes = SELECTING.every((name) => !(name in headers) || OF_BYTES.has(name));
  return isOfBytes ? HASH_OF_NOTHING : null;
}

/** Whether a request announces a body. */
export function hasRequestBody({ headers }: InboundRequest): boolean {
  return headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
}

/** Largest body that is kept while it is not known whether its request will be forwarded, bytes. */
const MAX_KEPT_BODY_BYTES = 1024 * 1024;

/**
 * Reads a request's body for its hash alone. Null when it has more than `limit` bytes, or never ends
 * because the client left.
 */
export async function readBodyHash(source: InboundRequest, limit: number): Promise<string | null> {
  if (!hasRequestBody(source)) return hashBody(null);
  if (source.destroyed || Number(source.headers["content-length"] ?? 0) > limit) return null;
  return new Promise((resolve) => {
    const hashing = createHash("sha256");
    let received = 0;
    source.on("data", (chunk: Buffer) => {
      received += chunk.length;
      if (received > limit) resolve(null);
      else hashing.update(chunk);
    });
    source.on("end", () => resolve(received > limit ? null : hashing.digest("hex")));
    source.on("close", () => resolve(null));
  });
}

/** Whether {@link readAndKeepBody} can do that. */
export function isKeepable(source: InboundRequest): boolean {
  const length = source.headers["content-length"];
  if (!hasRequestBody(source)) return true;
  return !source.destroyed && length !== undefined && Number(length) <= MAX_KEPT_BODY_BYTES;
}

/** The hash of a body that may be forwarded afterwards; null where the client left before its end. */
export async function readAndKeepBody(source: InboundRequest): Promise<string | null> {
  if (!hasRequestBody(source)) return hashBody(null);
  return new Promise((resolve) => {
    readWholeBody(source, Number(source.headers["content-length"]), (body) => {
      keepBody(source, body);
      resolve(hashBody(body));
    });
    source.on("close", () => resolve(null));
  });
}
