/** One exchange as undici's dispatch handler: what has arrived so far, and what may still be answered. */
import type { Dispatcher } from "undici";
import { addMissing, requestLines, responseLines, trailerLines } from "./field-lines.ts";
import { KeptAnswer } from "./kept-answer.ts";
import { isPaymentRequired, judgedBodyLimit } from "./payment-required.ts";
import { RequestBody, hashBody, readWholeBody, wholeBodyLimit } from "./request-body.ts";
import { diedOfReuse, foreign402, tooLarge, unanswered } from "./unanswered.ts";
import type { Delivery, Exchange, Sold, UpstreamOptions } from "./upstream.ts";

/** Up to here a complete body is sent as a string, joined with the head into one write. */
const oneWriteLimit = 16 * 1024;

interface Head {
  readonly status: number;
  readonly statusText: string;
  readonly lines: string[];
}

export interface Connections {
  /** Keeps its connections for the next request. */
  readonly kept: Dispatcher;
  /** Opens one for each: for sales; and where a kept one died of being reused, the others may be as old. */
  readonly fresh: Dispatcher;
  readonly options: UpstreamOptions;
}

export class Forwarding implements Dispatcher.DispatchHandler {
  readonly #exchange: Exchange;
  readonly #connections: Connections;
  readonly #resolve: (delivery: Delivery) => void;
  #lines: string[] = [];
  #withBody = false;
  /** What was dispatched; undefined before. */
  #body: Buffer | RequestBody | null | undefined;
  #controller: Dispatcher.DispatchController | null = null;
  #startedAt = 0;
  #upstreamMs = 0;
  /** The request was handed to a connection: the backend may have seen it. */
  #sent = false;
  /** A byte of an answer has arrived. */
  #began = false;
  #replayed = false;
  #head: Head | null = null;
  /** The first body bytes, kept back until it is known whether the whole answer came with them. */
  #held: Buffer | null = null;
  /** The body of a 402 until it can be judged. */
  #judged: Buffer[] | null = null;
  #judgedBytes = 0;
  /** The head was written to the client: from here on an answer can only be finished or cut. */
  #passedOn = false;
  /** The backend has ended its answer. */
  #ended = false;
  /** Of an answer that was paid for and may still turn out small enough. */
  #kept: KeptAnswer | null = null;
  /** The client has left and the answer is read on without it, until the timer ends. */
  #readingOn: NodeJS.Timeout | null = null;
  /** The status that the client had before it left. */
  #leftAt: number | null = null;
  #settled = false;

  constructor(exchange: Exchange, connections: Connections, resolve: (delivery: Delivery) => void) {
    this.#exchange = exchange;
    this.#connections = connections;
    this.#resolve = resolve;
  }

  start(): void {
    const { request, response, requestHeaders, sale } = this.#exchange;
    if (response.destroyed) return this.#abandon(null);
    const { lines, contentLength, chunked } = requestLines(request, requestHeaders);
    const limit = this.#connections.options.bodyLimitBytes;
    const length = contentLength ?? 0;
    if (length > limit) return this.#settle(tooLarge(limit, false));
    if (sale !== null) addMissing(lines, ["Idempotency-Key", sale.idempotencyKey]);
    this.#lines = lines;
    this.#withBody = chunked || length > 0;
    response.once("close", () => this.#onClientClose());
    if (!this.#withBody) return this.#dispatch(null);
    if (chunked || length > wholeBodyLimit) {
      return this.#dispatch(new RequestBody(request, limit, sale !== null));
    }
    readWholeBody(request, length, (body) => this.#dispatch(body));
  }

  #dispatch(body: Buffer | RequestBody | null): void {
    if (this.#settled) return;
    const { request, target } = this.#exchange;
    const method = request.method ?? "GET";
    this.#body = body;
    this.#startedAt = performance.now();
    const { kept, fresh } = this.#connections;
    // A sale counts what it asks of the backend: it takes no connection that may die of being reused.
    const isSale = this.#exchange.sale !== null;
    (this.#replayed || isSale ? fresh : kept).dispatch(
      {
        path: target,
        method,
        headers: this.#lines,
        body,
        blocking: false,
        // A backend that ignores such a body takes it for its next request: that connection is not reused.
        reset: this.#withBody && bodyIsOdd.has(method),
      },
      this,
    );
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.#sent = true;
    // The client left while the request was waiting for a connection.
    if (this.#settled) controller.abort(new Error("The client has left."));
  }

  onResponseStarted(): void {
    this.#began = true;
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    _headers: unknown,
    statusText = "",
  ): void {
    // 1xx: the client asked for none (Expect is not forwarded), and 103 hints are advisory.
    if (status < 200 || this.#settled) return;
    this.#upstreamMs = performance.now() - this.#startedAt;
    const { request, responseSet, responseVary, sale } = this.#exchange;
    const lines = responseLines(latin1(controller.rawHeaders), responseSet, responseVary);
    this.#head = { status, statusText, lines };
    if (sale !== null) {
      if (status >= 500) addMissing(lines, sale.failureLines);
      this.#kept = KeptAnswer.begin(
        { method: request.method ?? "", status },
        lines,
        sale.keepBytes,
      );
      if (this.#readingOn !== null) {
        if (this.#kept === null) this.#abandon(this.#leftAt);
        return;
      }
    }
    if (status === 402 && request.method !== "HEAD") this.#judged = [];
    else process.nextTick(passOnHead, this);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#settled) return;
    if (this.#judged !== null) return this.#judge(chunk, this.#judged);
    if (this.#kept !== null && !this.#kept.take(chunk)) this.#kept = null;
    if (this.#readingOn !== null) {
      if (this.#kept === null) this.#abandon(this.#leftAt);
      return;
    }
    if (!this.#passedOn && this.#held === null) {
      this.#held = chunk;
      return;
    }
    this.passOn();
    if (!this.#settled && !this.#exchange.response.write(chunk)) this.#pause(controller);
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    if (this.#settled) return;
    if (this.#judged !== null && !this.#acceptJudged(this.#judged)) return;
    this.#ended = true;
    if (this.#readingOn !== null) return this.#abandon(this.#leftAt);
    const { request, response } = this.#exchange;
    if (!this.#writeHead()) return;
    const trailers = latin1(controller.rawTrailers);
    if (trailers.length > 0) response.addTrailers(trailerLines(trailers));
    const body = this.#held;
    if (body === null) response.end();
    else if (body.length > oneWriteLimit) response.end(body);
    else response.end(body.toString("latin1"), "latin1");
    // A client that does not read the rest gets no more time than one that stops in the middle.
    if (request.socket.writableLength > 0)
      request.socket.setTimeout(this.#connections.options.idleTimeoutMs);
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#settled) return;
    if (this.#readingOn !== null) {
      this.#abandon(this.#leftAt);
    } else if (this.#passedOn) {
      this.#settle({ kind: "broken", status: this.#head?.status ?? 0, detail: error.message });
      this.#cut();
    } else if (this.#mayReplay(error)) {
      this.#replayed = true;
      this.#dispatch(null);
    } else {
      this.#settle(unanswered(error, this.#sent, this.#connections.options));
    }
  }

  /**
   * The backend may close an idle connection just as it is reused. A safe request without a body that got
   * not one byte of an answer is sent once more (RFC 9110 section 9.2.2), unless the connection that died
   * is known to have been new. Never what was paid for: that would be one more attempt than was counted.
   */
  #mayReplay(error: Error): boolean {
    const { request, sale } = this.#exchange;
    const { method } = request;
    if (sale !== null || this.#replayed || this.#began || this.#withBody) return false;
    return safe.has(method ?? "") && diedOfReuse(error);
  }

  /** Writes the head and what was held back, if that has not happened yet. */
  passOn(): void {
    const isDone = this.#settled || this.#passedOn || this.#readingOn !== null;
    if (isDone || this.#judged !== null || !this.#writeHead()) return;
    const { response } = this.#exchange;
    const held = this.#held;
    this.#held = null;
    if (held === null) response.flushHeaders();
    else if (!response.write(held) && this.#controller !== null) this.#pause(this.#controller);
  }

  /** False when the head cannot be written as HTTP; the caller answers instead. */
  #writeHead(): boolean {
    if (this.#passedOn) return true;
    const head = this.#head;
    if (head === null) return false;
    try {
      this.#exchange.response.writeHead(head.status, phrase(head.statusText), head.lines);
    } catch (error) {
      const detail = `The answer cannot be passed on: ${String(error)}`;
      this.#refuse({ kind: "unanswered", status: 502, reason: "malformed", detail, sent: true });
      return false;
    }
    this.#passedOn = true;
    return true;
  }

  #pause(controller: Dispatcher.DispatchController): void {
    // At the end of a connection undici hands on what it still holds, paused or not.
    if (controller.paused) return;
    const { request, response } = this.#exchange;
    const { socket } = request;
    const timeout = socket.timeout ?? 0;
    controller.pause();
    socket.setTimeout(this.#connections.options.idleTimeoutMs);
    response.once("drain", () => {
      socket.setTimeout(timeout);
      controller.resume();
    });
  }

  #judge(chunk: Buffer, judged: Buffer[]): void {
    judged.push(chunk);
    this.#judgedBytes += chunk.length;
    if (this.#judgedBytes > judgedBodyLimit) this.#refuse(foreign402);
  }

  #acceptJudged(judged: Buffer[]): boolean {
    const body = Buffer.concat(judged);
    this.#judged = null;
    this.#held = body;
    if (isPaymentRequired(body)) return true;
    this.#refuse(foreign402);
    return false;
  }

  /** The caller answers; what the backend still sends is not wanted. */
  #refuse(delivery: Delivery): void {
    this.#settle(delivery);
    this.#controller?.abort(new Error("The answer was refused."));
  }

  #cut(): void {
    const { request, response } = this.#exchange;
    const { socket } = request;
    // HTTP/1.0 has no other mark of completeness than an orderly close, so the close must not be one.
    if (request.httpVersionMinor === 0 && !("encrypted" in socket)) socket.resetAndDestroy();
    else response.destroy();
  }

  #onClientClose(): void {
    if (this.#settled) return;
    const status = this.#head?.status ?? null;
    if (status !== null && this.#exchange.response.writableFinished) {
      this.#settle({
        kind: "delivered",
        status,
        upstreamMs: this.#upstreamMs,
        ...this.#sold(),
      });
    } else if (this.#mayReadOn()) {
      this.#readOn(status);
    } else {
      this.#abandon(status);
    }
  }

  /** Whether the backend works on a request that is complete, and its answer may still be kept. */
  #mayReadOn(): boolean {
    const body = this.#body;
    const isSent = this.#sent && !(body instanceof RequestBody && body.hash === null);
    if (this.#exchange.sale === null || this.#ended || !isSent) return false;
    return this.#head === null || this.#kept !== null;
  }

  #readOn(status: number | null): void {
    this.#leftAt = status;
    const ms = this.#exchange.sale?.readOnMs ?? 0;
    this.#readingOn = setTimeout(() => this.#abandon(this.#leftAt), ms);
    // What was not taken by the client no longer holds the backend up.
    if (this.#controller?.paused) this.#controller.resume();
  }

  /** The client has left: what the backend still sends is not wanted. */
  #abandon(status: number | null): void {
    const isEnded = this.#ended;
    this.#settle({
      kind: "abandoned",
      status: isEnded ? (this.#head?.status ?? null) : status,
      sent: this.#sent,
      ...this.#sold(),
    });
    if (!isEnded) this.#controller?.abort(new Error("The client has left."));
  }

  #sold(): { readonly kept?: Sold } {
    const body = this.#body;
    if (!this.#ended || this.#kept === null || body === undefined) return {};
    const bodyHash = body instanceof RequestBody ? body.hash : hashBody(body);
    return bodyHash === null ? {} : { kept: { bodyHash, response: this.#kept.finish() } };
  }

  #settle(delivery: Delivery): void {
    if (this.#settled) return;
    this.#settled = true;
    if (this.#readingOn !== null) clearTimeout(this.#readingOn);
    this.#resolve(delivery);
  }
}

const safe = new Set(["GET", "HEAD", "OPTIONS"]);
const bodyIsOdd = new Set(["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"]);

/** Not a closure: the head of every answer is scheduled with it. */
function passOnHead(forwarding: Forwarding): void {
  forwarding.passOn();
}

/** A reason phrase that `writeHead` takes; anything but ASCII is dropped with the whole phrase. */
function phrase(statusText: string): string {
  return /^[\t\x20-\x7e]*$/.test(statusText) ? statusText : "";
}

function latin1(raw: Dispatcher.DispatchController["rawHeaders"]): string[] {
  if (!Array.isArray(raw)) return [];
  return raw.map((text) => (typeof text === "string" ? text : text.toString("latin1")));
}
