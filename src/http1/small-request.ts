/**
 * One small request and its whole answer, with the one thing that a settlement has to know and that no error code
 * tells for certain: whether anything of the request can have been seen.
 */
import type { H1Controller, H1Handler } from "./exchange.ts";
import { asError } from "./fault.ts";
import type { H1Pool } from "./pool.ts";
import { giveBack } from "./read-buffers.ts";

export interface SmallRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  /** Raw `name, value` pairs. */
  readonly headers: readonly string[];
  readonly body: string | null;
  /** Only on a connection that no request has used before. Default false. */
  readonly fresh?: boolean;
}

export interface Reply {
  readonly status: number;
  /** Raw `name, value` pairs. */
  readonly lines: readonly string[];
  /** Without the byte order mark that some write before it. */
  readonly text: string;
}

export interface SmallRequestLimits {
  /** Gives the exchange up. */
  readonly signal: AbortSignal;
  /** Largest body of an answer, bytes. */
  readonly maxBytes: number;
  /** Hears of the answer's status before its body has come, if it ever does. */
  readonly onStatus?: (status: number) => void;
}

const BYTE_ORDER_MARK = /^\ufeff/;

/** Not a byte of the request has left, and none will. */
export class NothingSent extends Error {
  override readonly name = "NothingSent";
  readonly code = "NOTHING_SENT";
}

/** The answer's body has more bytes than are wanted. */
export class AnswerTooLarge extends Error {
  override readonly name = "AnswerTooLarge";
}

/**
 * Rejects with {@link NothingSent} where the connection failed or the signal ended the wait before the
 * request was written; with any other error the request may have been seen: an `H1Fault`, {@link AnswerTooLarge}, or
 * the reason of the signal.
 */
export async function ask(
  pool: Pick<H1Pool, "dispatch">,
  { body, ...question }: SmallRequest,
  { signal, maxBytes, onStatus }: SmallRequestLimits,
): Promise<Reply> {
  if (signal.aborted) throw nothingSent(asError(signal.reason));
  const running = new Answer(maxBytes, onStatus);
  const request = { ...question, body: body === null ? null : Buffer.from(body) };
  const controller = pool.dispatch(request, running);
  // What has not left yet is never sent; what has is no longer waited for.
  const giveUp = (): void => controller.abort(asError(signal.reason));
  signal.addEventListener("abort", giveUp);
  try {
    return await running.reply;
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

class Answer implements H1Handler {
  readonly #reply = Promise.withResolvers<Reply>();
  readonly #maxBytes: number;
  readonly #onStatus: SmallRequestLimits["onStatus"];
  readonly #parts: Buffer[] = [];
  #bytes = 0;
  #isStarted = false;
  #status = 0;
  #lines: readonly string[] = [];

  constructor(maxBytes: number, onStatus: SmallRequestLimits["onStatus"]) {
    this.#maxBytes = maxBytes;
    this.#onStatus = onStatus;
  }

  get reply(): Promise<Reply> {
    return this.#reply.promise;
  }

  onRequestStart(): void {
    this.#isStarted = true;
  }

  onResponseStart(_: H1Controller, status: number, lines: readonly string[]): void {
    this.#status = status;
    this.#lines = lines;
    this.#onStatus?.(status);
  }

  onResponseData(controller: H1Controller, chunk: Buffer): void {
    this.#parts.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes <= this.#maxBytes) return;
    controller.abort(new AnswerTooLarge(`the answer is larger than ${this.#maxBytes} bytes`));
  }

  onResponseEnd(): void {
    const [first] = this.#parts;
    const whole = this.#parts.length === 1 && first ? first : Buffer.concat(this.#parts);
    const text = whole.toString("utf8").replace(BYTE_ORDER_MARK, "");
    this.#giveBack();
    this.#reply.resolve({ status: this.#status, lines: this.#lines, text });
  }

  onResponseError(_: H1Controller, error: Error): void {
    this.#giveBack();
    this.#reply.reject(this.#isStarted ? error : nothingSent(error));
  }

  #giveBack(): void {
    for (const part of this.#parts) giveBack(part);
  }
}

function nothingSent(cause: Error): NothingSent {
  return new NothingSent(cause.message || "not connected", { cause });
}
