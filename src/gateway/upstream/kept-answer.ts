/**
 * An answer that is kept while it is passed on, so that a buyer who did not get all of it gets it again:
 * small ones only, and none that never ends, without its cookies.
 */
import { valueOf } from "../message/field-values.ts";
import { validateHeaderName, validateHeaderValue } from "node:http";
import { Gathered } from "../../http1/gathered.ts";
import { MAX_STORED_BODY_BYTES, type StoredResponse } from "../../ledger/ledger.ts";
import { PAYMENT_HEADERS, RECEIPT_HEADERS } from "../../x402/header.ts";
import { SIGN_IN_HEADER } from "../../x402/sign-in.ts";

export class KeptAnswer {
  readonly #status: number;
  readonly #lines: readonly string[];
  readonly #limit: number;
  #body = new Gathered();
  #bytes = 0;

  private constructor(status: number, lines: readonly string[], limit: number) {
    this.#status = status;
    this.#lines = lines;
    this.#limit = limit;
  }

  /**
   * Null for an answer that is not kept: events, unless `keepsEvents` says that they end, or more than `limit` bytes by its
   * own account. `lines` are the raw `name, value` pairs that the client gets.
   */
  static begin(
    {
      method,
      status,
      keepsEvents = false,
    }: {
      readonly method: string;
      readonly status: number;
      readonly keepsEvents?: boolean | undefined;
    },
    lines: readonly string[],
    limit: number,
  ): KeptAnswer | null {
    const length = hasBody(method, status) ? valueOf(lines, "content-length") : undefined;
    if (length !== undefined && Number(length) > limit) return null;
    if ((areEvents(lines) && !keepsEvents) || !areWritable(lines)) return null;
    return new KeptAnswer(status, lines, limit);
  }

  /** False when the answer has become too large: it is not kept, and what was, is forgotten. */
  take(chunk: Buffer): boolean {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#limit) {
      this.#body = new Gathered();
      return false;
    }
    this.#body.add(chunk);
    return true;
  }

  /** Once the backend has ended its answer. */
  finish(): StoredResponse {
    const headers: [string, string][] = [];
    for (let index = 0; index < this.#lines.length; index += 2) {
      const name = this.#lines[index] ?? "";
      // A session is one client's, and others have its address (NAT).
      if (name.toLowerCase() !== "set-cookie") headers.push([name, this.#lines[index + 1] ?? ""]);
    }
    return { status: this.#status, headers, body: this.#body.whole() };
  }
}

/** Whether an answer with those raw lines is a stream of events, which need not end. */
export function areEvents(lines: readonly string[]): boolean {
  return /^\s*text\/event-stream\s*(?:;|$)/i.test(valueOf(lines, "content-type") ?? "");
}

/** Of a part of what would be kept if it were asked for whole: an answer that is made anew may be sent in parts, too. */
export function isPartOfLittle(lines: readonly string[]): boolean {
  const [, whole] = /\/(\d+)\s*$/.exec(valueOf(lines, "content-range") ?? "") ?? [];
  return whole !== undefined && Number(whole) <= MAX_STORED_BODY_BYTES;
}

/** What of a kept answer is for whoever asks now: it may be another origin, or another envelope. */
export interface ReplayedTo {
  /** Raw lines. */
  readonly cors: readonly string[];
  /** Raw lines; none where nothing was paid. */
  readonly receipt: readonly string[];
  /** The header that carries the payment, or says who asks. */
  readonly vary: string;
}

/** The raw lines of a kept answer for whoever asks now, without those that frame it. */
export function toldAgain(
  { headers }: Pick<StoredResponse, "headers">,
  { cors, receipt, vary }: ReplayedTo,
): string[] {
  const allowed = valueOf(cors, ALLOWED_ORIGIN);
  // What was kept before it was paid has none.
  const isReceipted = headers.some(([name]) => RECEIPTS.has(name.toLowerCase()));
  const lines = headers.flatMap(([name, value]) => {
    const lowerCase = name.toLowerCase();
    if (lowerCase === ALLOWED_ORIGIN) return [name, allowed ?? value];
    if (RECEIPTS.has(lowerCase)) return receipt;
    return lowerCase === "vary" && PAYMENTS.has(value) ? [name, vary] : [name, value];
  });
  return isReceipted ? lines : [...lines, ...receipt];
}

/** The raw lines that give a kept answer again: its trailers are gone, and its body has a length. */
export function replayLines(method: string, kept: StoredResponse, to: ReplayedTo): string[] {
  const { status, body } = kept;
  const lines = toldAgain(kept, to);
  const isFramed = valueOf(lines, "content-length") !== undefined;
  if (!isFramed && hasBody(method, status)) lines.push("Content-Length", String(body.length));
  return lines;
}

const ALLOWED_ORIGIN = "access-control-allow-origin";
const RECEIPTS = new Set(Object.values(RECEIPT_HEADERS).map((name) => name.toLowerCase()));
const PAYMENTS: ReadonlySet<string> = new Set([...Object.values(PAYMENT_HEADERS), SIGN_IN_HEADER]);

/** RFC 9112 section 6.3: these have none, whatever their Content-Length says. */
function hasBody(method: string, status: number): boolean {
  return method !== "HEAD" && status !== 204 && status !== 304;
}

/** False for lines that the parser took and that cannot be written. */
function areWritable(lines: readonly string[]): boolean {
  try {
    for (let index = 0; index < lines.length; index += 2) {
      const name = lines[index] ?? "";
      validateHeaderName(name);
      validateHeaderValue(name, lines[index + 1] ?? "");
    }
    return true;
  } catch {
    return false;
  }
}
