/** One exchange as its client's handler: what has arrived so far, and what may still be answered. */
import type { Sold } from "../../payments/sale/admission.ts";
import {
  addMissing,
  interimLines,
  responseLines,
  trailerLines,
  upgradeRequiredLines,
} from "../message/field-lines.ts";
import type { H1Request } from "../../http1/exchange.ts";
import { giveBack } from "../../http1/read-buffers.ts";
import { hashAsked } from "../message/request-body.ts";
import { KeptAnswer } from "./kept-answer.ts";
import { OutgoingRequest } from "./outgoing-request.ts";
import { RefusalFirst } from "./refusal-first.ts";
import { isPaymentRequired, judgedBodyLimit } from "./payment-required.ts";
import { foreign402, tooLarge, unanswered } from "./unanswered.ts";
import { wasUnread } from "../message/unread.ts";
import type { ClientController, ClientHandler, UpstreamClient } from "./upstream-client.ts";
import type { Delivery, UpstreamExchange, UpstreamOptions } from "./upstream.ts";

/** Up to here a complete body is sent as a string, joined with the head into one write. */
const oneWriteLimit = 16 * 1024;
/** Of an answer that is not wanted so many bytes are read on, so that its connection lives. */
const MAX_DROPPED_BYTES = 64 * 1024;

/** The one interim answer that is passed on. */
const EARLY_HINTS = 103;
const UPGRADE_REQUIRED = 426;

interface Head {
  readonly status: number;
  readonly statusText: string;
  readonly lines: string[];
}

export class Forwarding implements ClientHandler {
  readonly #exchange: UpstreamExchange;
  readonly #client: UpstreamClient;
  readonly #options: UpstreamOptions;
  readonly #resolve: (delivery: Delivery) => void;
  #outgoing: OutgoingRequest | null = null;
  #controller: ClientController | null = null;
  #startedAt = 0;
  #upstreamMs = 0;
  /** The request was handed to a connection: the backend may have seen it. */
  #sent = false;
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
  #droppedBytes = 0;

  constructor(
    exchange: UpstreamExchange,
    client: UpstreamClient,
    options: UpstreamOptions,
    resolve: (delivery: Delivery) => void,
  ) {
    this.#exchange = exchange;
    this.#client = client;
    this.#options = options;
    this.#resolve = resolve;
  }

  start(): void {
    const { request, response } = this.#exchange;
    if (response.destroyed || request.socket.remoteAddress === undefined) {
      // Of a connection that nobody reads from, Node does not find out that it has been reset.
      response.destroy();
      return this.#abandon(null);
    }
    const limit = this.#options.bodyLimitBytes;
    const outgoing = new OutgoingRequest(this.#exchange, limit);
    if (outgoing.length > limit) return this.#settle(tooLarge(limit, false));
    this.#outgoing = outgoing;
    response.on("close", this.#onClientClose);
    outgoing.prepare((ready) => this.#dispatch(ready));
  }

  #dispatch(request: H1Request): void {
    if (this.#settled) return;
    this.#startedAt = performance.now();
    const { sale } = this.#exchange;
    this.#client.dispatch(request, sale === null ? this : new RefusalFirst(this, sale.refused));
  }

  onRequestStart(controller: ClientController): void {
    this.#controller = controller;
    this.#sent = true;
    // The client left while the request was waiting for a connection.
    if (this.#settled) controller.abort(new Error("The client has left."));
  }

  /**
   * 103 (RFC 8297) crosses where nothing is sold: what a sale buys is decided by the final answer alone. 100 is
   * ours to give, and a client that knows only HTTP/1.0 would take any of them for the answer.
   */
  onInterim(status: number, raw: readonly string[]): void {
    const { request, response, removed, sale } = this.#exchange;
    const isWanted = status === EARLY_HINTS && sale === null && request.httpVersion !== "1.0";
    if (!isWanted || this.#settled || response.headersSent || response.destroyed) return;
    try {
      response.writeInformation?.(status, interimLines(raw, removed));
    } catch {
      // Hints that cannot be passed on are none; the answer is still to come.
    }
  }

  onResponseStart(
    _controller: ClientController,
    status: number,
    raw: readonly string[],
    statusText: string,
  ): void {
    if (this.#settled) return;
    if (this.#declines(status)) return;
    this.#upstreamMs = performance.now() - this.#startedAt;
    const { request, response, responseSet, responseVary, removed, sale } = this.#exchange;
    const lines = responseLines(raw, responseSet, responseVary, removed);
    if (status === UPGRADE_REQUIRED) {
      const isLast = response.shouldKeepAlive === false;
      lines.push(...upgradeRequiredLines(raw, isLast, removed));
    }
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

  onResponseData(controller: ClientController, chunk: Buffer): void {
    if (this.#settled) return this.#drop(controller, chunk);
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
    if (!this.#settled && !this.#write(chunk)) this.#pause(controller);
  }

  onResponseEnd(_controller: ClientController, trailers: readonly string[]): void {
    if (this.#settled) return;
    if (this.#judged !== null && !this.#acceptJudged(this.#judged)) return;
    this.#ended = true;
    if (this.#readingOn !== null) return this.#abandon(this.#leftAt);
    const { request, response, removed } = this.#exchange;
    if (!this.#writeHead()) return;
    if (trailers.length > 0) response.addTrailers(trailerLines(trailers, removed));
    const body = this.#held;
    if (body === null) response.end();
    else if (body.length > oneWriteLimit) response.end(body);
    else response.end(body.toString("latin1"), "latin1");
    // A client that does not read the rest gets no more time than one that stops in the middle.
    if (request.socket.writableLength === 0) return;
    request.socket.setTimeout(this.#options.answerIdleMs);
    this.#exchange.waits?.();
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#settled) return;
    if (this.#readingOn !== null) {
      this.#abandon(this.#leftAt);
    } else if (this.#passedOn) {
      const status = this.#head?.status ?? 0;
      // Stored before the client sees it: it may try again at once, at another process.
      const stored = this.#exchange.sale?.refused(status < 400);
      this.#settle({ kind: "broken", status, detail: error.message });
      if (stored === undefined) this.#cut();
      else void stored.finally(() => this.#cut());
    } else {
      const retriable = this.#outgoing?.release() ?? false;
      this.#settle(unanswered(error, { sent: this.#sent, retriable }, this.#options));
    }
  }

  /** True when the answer is one that the caller does not want, and the request can be sent elsewhere. */
  #declines(status: number): boolean {
    const { declined = null, sale } = this.#exchange;
    if (declined === null || sale !== null || !declined.has(status) || !isDeclinable(status)) {
      return false;
    }
    if (this.#outgoing?.release() !== true) return false;
    const detail = `${this.#options.origin} answered ${status}.`;
    const facts = { kind: "unanswered", reason: "declined", sent: true, retriable: true } as const;
    this.#settle({ ...facts, status, detail });
    return true;
  }

  #drop(controller: ClientController, chunk: Buffer): void {
    this.#droppedBytes += chunk.length;
    if (this.#droppedBytes > MAX_DROPPED_BYTES) controller.abort(new Error("Not wanted."));
  }

  /** Writes the head and what was held back, if that has not happened yet. */
  passOn(): void {
    const isDone = this.#settled || this.#passedOn || this.#readingOn !== null;
    if (isDone || this.#judged !== null || !this.#writeHead()) return;
    const { response } = this.#exchange;
    const held = this.#held;
    this.#held = null;
    if (held === null) response.flushHeaders();
    else if (!this.#write(held) && this.#controller !== null) this.#pause(this.#controller);
  }

  /** False: the client is behind. */
  #write(chunk: Buffer): boolean {
    const { response } = this.#exchange;
    if (this.#kept !== null) return response.write(chunk);
    return response.write(chunk, (error) => {
      if (!error) giveBack(chunk);
    });
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
      const facts = { kind: "unanswered", reason: "malformed", sent: true } as const;
      this.#refuse({ ...facts, status: 502, detail, retriable: false });
      return false;
    }
    this.#passedOn = true;
    return true;
  }

  #pause(controller: ClientController): void {
    // What has been read already is handed on, paused or not.
    if (controller.paused) return;
    const { request, response } = this.#exchange;
    const { socket } = request;
    const timeout = socket.timeout ?? 0;
    controller.pause();
    socket.setTimeout(this.#options.answerIdleMs);
    this.#exchange.waits?.();
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
    // HTTP/1.0 has no other mark of completeness than an orderly close, so the close must not be one.
    if (request.httpVersion === "1.0") request.socket.resetAndDestroy();
    else response.destroy();
  }

  readonly #onClientClose = (): void => {
    if (this.#settled) return;
    const status = this.#head?.status ?? null;
    if (status !== null && this.#exchange.response.writableFinished) {
      if (this.#held !== null && this.#kept === null) giveBack(this.#held);
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
  };

  /** Whether the backend works on a request that is complete, and its answer may still be kept. */
  #mayReadOn(): boolean {
    const isSent = this.#sent && this.#outgoing?.isWhole === true;
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
      ...(wasUnread(this.#exchange.request.socket) ? { isUnread: true } : {}),
      ...this.#sold(),
    });
    if (!isEnded) this.#controller?.abort(new Error("The client has left."));
  }

  #sold(): { readonly kept?: Sold } {
    if (!this.#ended || this.#kept === null) return {};
    const bodyHash = this.#outgoing?.bodyHash() ?? null;
    if (bodyHash === null) return {};
    const asked = hashAsked(this.#exchange.request, bodyHash);
    return { kept: { bodyHash: asked, response: this.#kept.finish() } };
  }

  #settle(delivery: Delivery): void {
    if (this.#settled) return;
    this.#settled = true;
    if (delivery.kind === "unanswered") this.#exchange.response.off("close", this.#onClientClose);
    if (this.#readingOn !== null) clearTimeout(this.#readingOn);
    this.#resolve(delivery);
  }
}

function isDeclinable(status: number): status is 502 | 503 | 504 {
  return status >= 502 && status <= 504;
}

/** Not a closure: the head of every answer is scheduled with it. */
function passOnHead(forwarding: Forwarding): void {
  forwarding.passOn();
}

/** A reason phrase that `writeHead` takes; anything but ASCII is dropped with the whole phrase. */
function phrase(statusText: string): string {
  return /^[\t\x20-\x7e]*$/.test(statusText) ? statusText : "";
}
