/** One exchange as its client's handler: what has arrived so far, and what may still be answered. */
import type { Sold } from "../../payments/sale/admission.ts";
import {
  addMissing,
  setLines,
  interimLines,
  responseLines,
  trailerLines,
  upgradeRequiredLines,
} from "../message/field-lines.ts";
import type { H1Request } from "../../http1/exchange.ts";
import { giveBack } from "../../http1/read-buffers.ts";
import { notesOf } from "../message/inbound.ts";
import { hashAsked } from "../message/request-body.ts";
import { KeptAnswer } from "./kept-answer.ts";
import { OutgoingRequest } from "./outgoing-request.ts";
import { RefusalFirst } from "./refusal-first.ts";
import { isPaymentRequired, judgedBodyLimit } from "./payment-required.ts";
import { foreign402, isTooLarge, tooLarge, unanswered } from "./unanswered.ts";
import type { ClientController, ClientHandler, UpstreamClient } from "./upstream-client.ts";
import type { Delivery, UpstreamExchange, UpstreamOptions } from "./upstream.ts";

/** Up to here a complete body is sent as a string, joined with the head into one write. */
const oneWriteLimit = 16 * 1024;
/** Of an answer that is not wanted so many bytes are read on, so that its connection lives. */
const MAX_DROPPED_BYTES = 64 * 1024;

/** The one interim answer that is passed on. */
const EARLY_HINTS = 103;
const UPGRADE_REQUIRED = 426;
/** A reason phrase that `writeHead` takes; any other is dropped whole. */
const PHRASE = /^[\t\x20-\x7e]*$/;

/** The backend's answer, as the client gets it. */
interface BackendAnswer {
  readonly status: number;
  readonly phrase: string;
  readonly lines: string[];
  /** From dispatch to its head, milliseconds. */
  readonly upstreamMs: number;
  /** Of one that is sold and may still turn out small enough. */
  kept: KeptAnswer | null;
}

/** How far an exchange has come. Each names what it may become next. */
type State =
  /** The backend has not answered. Then judging, beginning, or reading on; over. */
  | { readonly is: "asking"; readonly answer: null }
  /** The body of a 402, until it can be judged. Then ended; over. */
  | {
      readonly is: "judging";
      readonly answer: BackendAnswer;
      readonly parts: Buffer[];
      bytes: number;
    }
  /**
   * Nothing was written yet, and the first part of the body is held back until it is known whether the whole answer came
   * with it. Then passing, ended, or reading on; over.
   */
  | { readonly is: "beginning"; readonly answer: BackendAnswer; held: Buffer | null }
  /** The head was written to the client: an answer can only be finished or cut. Then ended, or reading on; over. */
  | { readonly is: "passing"; readonly answer: BackendAnswer }
  /** The client has left, and the answer is read on without it until the timer ends. Then over. */
  | {
      readonly is: "reading on";
      readonly answer: BackendAnswer | null;
      readonly timer: NodeJS.Timeout;
      /** The status that the client had before it left. */
      readonly leftAt: number | null;
    }
  /** The backend has ended its answer; `last`: what was handed on with that. Then over. */
  | { readonly is: "ended"; readonly answer: BackendAnswer; readonly last: Buffer | null }
  /** What became of the exchange is told; `dropped`: bytes that came nevertheless. */
  | { readonly is: "over"; readonly answer: null; dropped: number };

const ASKING: State = { is: "asking", answer: null };

export class Forwarding implements ClientHandler {
  readonly #exchange: UpstreamExchange;
  readonly #client: UpstreamClient;
  readonly #options: UpstreamOptions;
  readonly #resolve: (delivery: Delivery) => void;
  #state: State = ASKING;
  #outgoing: OutgoingRequest | null = null;
  /** Null until the request was handed to a connection: from then on the backend may have seen it. */
  #controller: ClientController | null = null;
  #startedAt = 0;

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
    if (this.#state.is === "over") return;
    this.#startedAt = performance.now();
    const { sale } = this.#exchange;
    this.#client.dispatch(request, sale === null ? this : new RefusalFirst(this, sale));
  }

  onRequestStart(controller: ClientController): void {
    this.#controller = controller;
    // The client left while the request was waiting for a connection.
    if (this.#state.is === "over") controller.abort(new Error("The client has left."));
  }

  /**
   * 103 (RFC 8297) crosses where nothing is sold: what a sale buys is decided by the final answer alone. 100 is
   * ours to give, and a client that knows only HTTP/1.0 would take any of them for the answer.
   */
  onInterim(status: number, raw: readonly string[]): void {
    const { request, response, removed, sale } = this.#exchange;
    const isWanted = status === EARLY_HINTS && sale === null && request.httpVersion !== "1.0";
    const isLate = this.#state.is === "over" || response.headersSent || response.destroyed;
    if (!isWanted || isLate) return;
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
    const state = this.#state;
    if (state.is === "over" || this.#declines(status)) return;
    const upstreamMs = performance.now() - this.#startedAt;
    const { request, response, responseSet, responseAdded, removed, sale, tap } = this.#exchange;
    const verdict = sale === null ? this.#exchange.judge?.(status, raw) : sale.judge(status, raw);
    if (verdict === "followed" && state.is === "asking") {
      response.off("close", this.#onClientClose);
      return this.#settle({ kind: "redirected", status });
    }
    const { method = "" } = request;
    const lines = responseLines(raw, responseSet, responseAdded, removed);
    if (status === UPGRADE_REQUIRED) {
      const isLast = response.shouldKeepAlive === false;
      lines.push(...upgradeRequiredLines(raw, isLast, removed));
    }
    if (sale !== null && status >= 500) addMissing(lines, sale.failureLines);
    if (verdict === "goods" && tap !== undefined) setLines(lines, tap.begin(raw));
    const isKept = sale !== null && verdict === "goods";
    const { keepBytes = 0, keepsEvents } = sale ?? {};
    const told = { method, status, keepsEvents };
    const kept = isKept ? KeptAnswer.begin(told, lines, keepBytes) : null;
    const phrase = PHRASE.test(statusText) ? statusText : "";
    const answer: BackendAnswer = { status, phrase, lines, upstreamMs, kept };
    if (state.is === "reading on") {
      // Of what was not begun for him its buyer has had nothing, and nothing is charged by it.
      if (kept === null) this.#abandon(state.leftAt);
      else this.#state = { ...state, answer };
    } else if (status === 402 && method !== "HEAD") {
      this.#state = { is: "judging", answer, parts: [], bytes: 0 };
    } else {
      this.#state = { is: "beginning", answer, held: null };
      process.nextTick(passOnHead, this);
    }
  }

  onResponseData(controller: ClientController, chunk: Buffer): void {
    const state = this.#state;
    if (state.is === "over") {
      state.dropped += chunk.length;
      if (state.dropped > MAX_DROPPED_BYTES) controller.abort(new Error("Not wanted."));
      return;
    }
    const { answer } = state;
    if (answer === null) return;
    if (answer.kept !== null && !answer.kept.take(chunk)) answer.kept = null;
    this.#exchange.tap?.take(chunk);
    if (state.is === "judging") {
      state.parts.push(chunk);
      state.bytes += chunk.length;
      if (state.bytes > judgedBodyLimit) this.#refuse(foreign402);
      return;
    }
    if (state.is === "reading on") {
      if (!this.#isWanted(answer)) this.#abandon(state.leftAt);
      return;
    }
    if (state.is === "beginning" && state.held === null) {
      state.held = chunk;
      return;
    }
    this.passOn();
    if (this.#state.is === "passing" && !this.#write(chunk, answer)) this.#pause(controller);
  }

  onResponseEnd(_controller: ClientController, trailers: readonly string[]): void {
    const state = this.#state;
    const { answer } = state;
    if (answer === null) return;
    const told = this.#exchange.tap?.end();
    if (state.is === "reading on") return this.#abandon(answer.status, answer);
    if (told !== undefined && state.is !== "passing") setLines(answer.lines, told);
    let last: Buffer | null = null;
    if (state.is === "judging") {
      last = Buffer.concat(state.parts);
      if (!isPaymentRequired(last)) return this.#refuse(foreign402);
    } else if (state.is === "beginning") last = state.held;
    if (state.is !== "passing" && !this.#writeHead(answer)) return;
    this.#state = { is: "ended", answer, last };
    const { request, response, removed } = this.#exchange;
    if (trailers.length > 0) response.addTrailers(trailerLines(trailers, removed));
    if (last !== null) this.#exchange.wrote?.(last.length);
    if (last === null) response.end();
    else if (last.length > oneWriteLimit) response.end(last);
    else response.end(last.toString("latin1"), "latin1");
    // A client that does not read the rest gets no more time than one that stops in the middle.
    if (request.socket.writableLength === 0) return;
    request.socket.setTimeout(this.#options.answerIdleMs);
    this.#exchange.waits?.();
  }

  onResponseError(_controller: unknown, error: Error): void {
    const state = this.#state;
    // Who breaks his own request off has had what there was by then: it is as if he had left.
    if (isTooLarge(error) && (state.is === "passing" || state.is === "ended")) {
      this.#settle({ kind: "abandoned", status: state.answer.status, sent: true });
      return this.#cut();
    }
    if (state.is !== "over") this.#exchange.tap?.broke();
    switch (state.is) {
      case "over":
        return;
      case "reading on":
        return this.#abandon(state.leftAt);
      case "passing":
      case "ended": {
        const { status } = state.answer;
        // Stored before the client sees it: it may try again at once, at another process.
        const stored = this.#exchange.sale?.refused();
        this.#settle({ kind: "broken", status, detail: error.message });
        if (stored === undefined) this.#cut();
        else void stored.finally(() => this.#cut());
        return;
      }
      default: {
        const retriable = this.#outgoing?.release() ?? false;
        const sent = this.#controller !== null;
        this.#settle(unanswered(error, { sent, retriable }, this.#options));
      }
    }
  }

  /** True when the answer is one that the caller does not want, and the request can be sent elsewhere. */
  #declines(status: number): boolean {
    const { declined = null, sale } = this.#exchange;
    const isDeclinable = status === 502 || status === 503 || status === 504;
    if (declined === null || sale !== null || !declined.has(status) || !isDeclinable) return false;
    if (this.#outgoing?.release() !== true) return false;
    const detail = `${this.#options.origin} answered ${status}.`;
    const facts = { kind: "unanswered", reason: "declined", sent: true, retriable: true } as const;
    this.#settle({ ...facts, status, detail });
    return true;
  }

  /** Writes the head and what was held back, if that has not happened yet. */
  passOn(): void {
    const state = this.#state;
    if (state.is !== "beginning") return;
    const { answer, held } = state;
    if (!this.#writeHead(answer)) return;
    this.#state = { is: "passing", answer };
    if (held === null) this.#exchange.response.flushHeaders();
    else if (!this.#write(held, answer) && this.#controller !== null) this.#pause(this.#controller);
  }

  /** False: the client is behind. */
  #write(chunk: Buffer, { kept }: BackendAnswer): boolean {
    const { response, wrote } = this.#exchange;
    wrote?.(chunk.length);
    if (kept !== null) return response.write(chunk);
    return response.write(chunk, (error) => {
      if (!error) giveBack(chunk);
    });
  }

  /** False when the head cannot be written as HTTP; the caller answers instead. */
  #writeHead({ status, phrase, lines }: BackendAnswer): boolean {
    try {
      this.#exchange.response.writeHead(status, phrase, lines);
      return true;
    } catch (error) {
      const detail = `The answer cannot be passed on: ${String(error)}`;
      const facts = { kind: "unanswered", reason: "malformed", sent: true } as const;
      this.#refuse({ ...facts, status: 502, detail, retriable: false });
      return false;
    }
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
    const state = this.#state;
    if (state.is === "over") return;
    const { answer } = state;
    const whole = state.is === "ended" ? answer : null;
    if (answer !== null && this.#exchange.response.writableFinished) {
      if (state.is === "ended" && state.last !== null && answer.kept === null) giveBack(state.last);
      const { status, upstreamMs } = answer;
      this.#settle({ kind: "delivered", status, upstreamMs, ...this.#sold(whole) });
    } else if (whole === null && this.#mayReadOn(answer)) {
      const { sale, tap } = this.#exchange;
      const ms = (sale ?? tap)?.readOnMs ?? 0;
      const leftAt = answer?.status ?? null;
      const timer = setTimeout(() => this.#abandon(leftAt), ms);
      this.#state = { is: "reading on", answer, timer, leftAt };
      // What was not taken by the client no longer holds the backend up.
      if (this.#controller?.paused) this.#controller.resume();
    } else {
      this.#abandon(answer?.status ?? null, whole);
    }
  };

  /** Whether the backend works on a request that is complete, and its answer may still be kept. */
  #mayReadOn(answer: BackendAnswer | null): boolean {
    const isSent = this.#controller !== null && this.#outgoing?.isWhole === true;
    if (!isSent) return false;
    return answer === null ? this.#exchange.sale !== null : this.#isWanted(answer);
  }

  /** Whether more of it matters without its client: it may be kept, or says yet what it costs. */
  #isWanted({ kept }: BackendAnswer): boolean {
    return kept !== null || this.#exchange.tap?.isOpen === true;
  }

  /** The client has left: what the backend still sends is not wanted. `whole`: its answer, where it has ended that. */
  #abandon(status: number | null, whole: BackendAnswer | null = null): void {
    this.#settle({
      kind: "abandoned",
      status,
      sent: this.#controller !== null,
      ...(notesOf(this.#exchange.request.socket).isUnread ? { isUnread: true } : {}),
      ...this.#sold(whole),
    });
    if (whole === null) this.#controller?.abort(new Error("The client has left."));
  }

  #sold(whole: BackendAnswer | null): { readonly kept?: Sold } {
    const kept = whole?.kept ?? null;
    const bodyHash = kept === null ? null : (this.#outgoing?.bodyHash() ?? null);
    if (kept === null || bodyHash === null) return {};
    const asked = hashAsked(this.#exchange.request, bodyHash);
    return { kept: { bodyHash: asked, response: kept.finish() } };
  }

  #settle(delivery: Delivery): void {
    const state = this.#state;
    if (state.is === "over") return;
    if (state.is === "reading on") clearTimeout(state.timer);
    this.#state = { is: "over", answer: null, dropped: 0 };
    if (delivery.kind === "unanswered") this.#exchange.response.off("close", this.#onClientClose);
    this.#resolve(delivery);
  }
}

/** Not a closure: the head of every answer is scheduled with it. */
function passOnHead(forwarding: Forwarding): void {
  forwarding.passOn();
}
