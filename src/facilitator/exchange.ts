/**
 * One HTTP request and its answer, with the one thing that a settlement has to know and that no error code
 * tells for certain: whether anything of the request can have been seen.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Dispatcher } from "undici";

export interface Question {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

export interface Reply {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** Not a byte of the request has left, and none will. */
export class NothingSent extends Error {
  override readonly name = "NothingSent";
  readonly code = "NOTHING_SENT";
}

/**
 * Rejects with {@link NothingSent} where the connection failed or the signal ended the wait before the
 * request was written; with any other error the request may have been seen.
 */
export async function exchange(
  dispatcher: Dispatcher,
  question: Question,
  signal: AbortSignal,
): Promise<Reply> {
  const running = new Exchange();
  const giveUp = (): void => running.giveUp(asError(signal.reason));
  if (signal.aborted) throw nothingSent(asError(signal.reason));
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    dispatcher.dispatch({ ...question, headers: { ...question.headers } }, running);
    return await running.reply;
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

class Exchange implements Dispatcher.DispatchHandler {
  readonly #reply = Promise.withResolvers<Reply>();
  readonly #parts: Buffer[] = [];
  #controller: Dispatcher.DispatchController | undefined;
  #givenUp: Error | undefined;
  #status = 0;
  #headers: IncomingHttpHeaders = {};

  get reply(): Promise<Reply> {
    return this.#reply.promise;
  }

  /** What has not left yet is never sent; what has is no longer waited for. */
  giveUp(reason: Error): void {
    this.#givenUp = reason;
    if (this.#controller === undefined) this.#reply.reject(nothingSent(reason));
    else this.#controller.abort(reason);
  }

  /** Called when a connection is there and the request is about to be written. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#givenUp === undefined) this.#controller = controller;
    else controller.abort(this.#givenUp);
  }

  onResponseStart(
    _: Dispatcher.DispatchController,
    statusCode: number,
    headers: IncomingHttpHeaders,
  ): void {
    this.#status = statusCode;
    this.#headers = headers;
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#parts.push(chunk);
  }

  onResponseEnd(): void {
    const text = Buffer.concat(this.#parts).toString("utf8");
    this.#reply.resolve({ status: this.#status, headers: this.#headers, text });
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#reply.reject(this.#controller === undefined ? nothingSent(error) : error);
  }
}

function nothingSent(cause: Error): NothingSent {
  return new NothingSent(cause.message || "not connected", { cause });
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}
