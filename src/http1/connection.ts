/**
 * One socket to a backend and the exchanges that run on it, one after another. It knows when it may carry
 * another one, and gives itself up at the first sign of doubt: a connection costs less than an answer that
 * is taken for another request's.
 */
import type { Socket } from "node:net";
import type { AnswerHead } from "./answer-head.ts";
import { AnswerReader } from "./answer-reader.ts";
import { BodySender } from "./body-sender.ts";
import type { Carrier, Exchange } from "./exchange.ts";
import { H1Fault, asError } from "./fault.ts";
import type { SocketOpener } from "./open-socket.ts";
import { ReadBuffers } from "./read-buffers.ts";

/** An idle connection is given up this long before the backend's `Keep-Alive: timeout=` says. */
const KEEP_ALIVE_MARGIN_MS = 1_000;
/** A body up to this size is joined with its head into one write. */
const ONE_WRITE_BYTES = 16 * 1024;

export interface ConnectionLimits {
  readonly connectTimeoutMs: number;
  readonly responseTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly pauseTimeoutMs: number;
  readonly keepAliveMs: number;
  readonly headLimitBytes: number;
}

/** Whoever owns the connections of a backend. */
export interface Keeper {
  readonly limits: ConnectionLimits;
  readonly opener: SocketOpener;
  /** Milliseconds that only grow. */
  readonly now: () => number;
  onConnected(): void;
  onConnectFailed(error: Error): void;
  /** It has carried an exchange to its end and may carry another, though not in this turn of the loop. */
  onIdle(connection: Connection): void;
  /** It is closed; called once. */
  onGone(connection: Connection): void;
  /** The exchange asks for a new connection. */
  replay(exchange: Exchange): void;
}

export class Connection implements Carrier {
  readonly #keeper: Keeper;
  readonly #socket: Socket;
  readonly #reader: AnswerReader;
  readonly #buffers = new ReadBuffers();
  #buffer: Buffer;
  #phase: "connecting" | "busy" | "idle" | "gone" = "connecting";
  /** The exchange that runs here, or waits for the connection to be up. */
  #exchange: Exchange | null;
  #uses = 0;
  /** Not a byte of the request that runs has left. */
  #isUnsent = false;
  #hasHead = false;
  #sender: BodySender | null = null;
  /** The body was given up half sent: the backend will read nothing else here. */
  #isCut = false;
  #isInRead = false;
  /** How long it may be idle after the exchange that runs. */
  #keepMs = 0;
  #deadline: number;

  constructor(keeper: Keeper, exchange: Exchange) {
    this.#keeper = keeper;
    this.#exchange = exchange;
    exchange.carrier = this;
    this.#deadline = keeper.now() + keeper.limits.connectTimeoutMs;
    this.#buffer = this.#buffers.next(null);
    const sink = {
      onInterim: ({ status, lines }: AnswerHead) => this.#exchange?.takeInterim(status, lines),
      onHead: (head: AnswerHead) => this.#onHead(head),
      onData: (chunk: Buffer) => this.#exchange?.takeData(this.#buffers.lend(chunk)),
      onEnd: (trailers: string[]) => this.#onEnd(trailers),
    };
    this.#reader = new AnswerReader(sink, keeper.limits.headLimitBytes);
    this.#socket = keeper.opener.open({
      buffer: () => this.#nextBuffer(),
      callback: (count) => this.#onRead(count),
    });
    this.#socket.once(keeper.opener.readyEvent, () => this.#onConnected());
    this.#socket.on("drain", () => this.#sender?.drained());
    this.#socket.on("end", () => this.#onEof());
    this.#socket.on("error", (error) => this.#onError(error));
    this.#socket.on("close", () => this.#onClose());
  }

  /** True: an exchange may {@link run} here. */
  isReady(now: number): boolean {
    return this.#phase === "idle" && now < this.#deadline && this.#socket.writable;
  }

  get isIdle(): boolean {
    return this.#phase === "idle";
  }

  run(exchange: Exchange, now: number): void {
    this.#exchange = exchange;
    exchange.carrier = this;
    this.#phase = "busy";
    this.#hasHead = false;
    if (!exchange.start()) return;
    this.#uses += 1;
    this.#reader.begin(exchange.request.method);
    this.#send(exchange, now);
  }

  /** Ends what has taken too long. */
  expire(now: number): void {
    if (now < this.#deadline) return;
    if (this.#phase === "idle") return this.#end();
    const { limits } = this.#keeper;
    if (this.#phase === "connecting") {
      const text = `Connect timeout: no connection within ${limits.connectTimeoutMs} ms.`;
      const fault = new H1Fault("connect-timeout", text);
      this.#keeper.onConnectFailed(fault);
      this.#fail(fault);
    } else if (this.#phase === "busy" && !this.#hasHead && this.#sender === null) {
      const text = `Head timeout: no complete head within ${limits.responseTimeoutMs} ms.`;
      this.#fail(new H1Fault("head-timeout", text));
    } else if (this.#exchange?.paused === true) {
      const text = `Pause timeout: the answer was held for ${limits.pauseTimeoutMs} ms.`;
      this.#fail(new H1Fault("pause-timeout", text));
    } else {
      const text = `Idle timeout: no byte moved for ${limits.idleTimeoutMs} ms.`;
      this.#fail(new H1Fault("idle-timeout", text));
    }
  }

  /** Closes it, cutting the exchange that runs. */
  cut(fault: H1Fault): void {
    this.#fail(fault);
  }

  /** Closes it while it is idle. */
  retire(): void {
    if (this.#phase === "idle") this.#end();
  }

  drop(): void {
    this.#exchange = null;
    this.#end();
  }

  pause(): void {
    this.#deadline = this.#keeper.now() + this.#keeper.limits.pauseTimeoutMs;
    // Within a read its return value stops the reading.
    if (!this.#isInRead) this.#socket.pause();
  }

  resume(): void {
    this.#deadline = this.#keeper.now() + this.#keeper.limits.idleTimeoutMs;
    this.#socket.resume();
  }

  #onConnected(): void {
    if (this.#phase !== "connecting") return;
    this.#keeper.onConnected();
    const exchange = this.#exchange;
    if (exchange !== null) this.run(exchange, this.#keeper.now());
  }

  #send(exchange: Exchange, now: number): void {
    const { limits } = this.#keeper;
    const { head, request } = exchange;
    const { body } = request;
    const socket = this.#socket;
    if (body !== null && !Buffer.isBuffer(body)) {
      this.#deadline = now + limits.idleTimeoutMs;
      this.#sender = new BodySender(socket, body, exchange, {
        onProgress: () => {
          this.#deadline = this.#keeper.now() + limits.idleTimeoutMs;
        },
        onSent: () => this.#onSent(),
        onFault: (error) => exchange.abort(error),
      });
      return;
    }
    this.#deadline = now + limits.responseTimeoutMs;
    if (body === null || body.length === 0) {
      socket.write(head.text, "latin1");
    } else if (body.length <= ONE_WRITE_BYTES) {
      socket.write(head.text + body.toString("latin1"), "latin1");
    } else {
      socket.cork();
      socket.write(head.text, "latin1");
      socket.write(body);
      socket.uncork();
    }
    // An idle connection takes the first bytes at once, or it is dead and has taken none.
    this.#isUnsent = socket.errored !== null;
  }

  #onSent(): void {
    this.#sender = null;
    const { limits, now } = this.#keeper;
    this.#deadline = now() + (this.#hasHead ? limits.idleTimeoutMs : limits.responseTimeoutMs);
  }

  #nextBuffer(): Buffer {
    const reader = this.#reader;
    this.#buffer = this.#buffers.next(reader.isInBody ? reader.bytesLeft : null);
    return this.#buffer;
  }

  /** False stops the reading. */
  #onRead(count: number): boolean {
    const exchange = this.#exchange;
    if (exchange === null || this.#phase !== "busy") {
      this.#fail(broken("The backend spoke before it was asked."));
      return true;
    }
    this.#isInRead = true;
    try {
      exchange.begin();
      this.#reader.take(this.#buffer, count);
    } catch (thrown) {
      this.#fail(asError(thrown));
    }
    this.#isInRead = false;
    if (this.#exchange === null) return true;
    if (exchange.paused) return false;
    if (this.#hasHead) this.#deadline = this.#keeper.now() + this.#keeper.limits.idleTimeoutMs;
    return true;
  }

  #onHead(head: AnswerHead): void {
    const { status, lines, statusText, isPersistent } = head;
    this.#hasHead = true;
    this.#keepMs = keepMsOf(head, this.#keeper.limits.keepAliveMs);
    // RFC 9112 section 9.5: who is told that the rest is not wanted stops sending it.
    if (this.#sender !== null && status >= 400 && !isPersistent) {
      this.#isCut = true;
      this.#sender.stop();
      this.#sender = null;
    }
    this.#exchange?.takeHead(status, lines, statusText);
  }

  #onEnd(trailers: string[]): void {
    const exchange = this.#exchange;
    if (exchange === null) return;
    this.#exchange = null;
    // What answers before it has read the request may take the rest of it for another.
    const isSent = this.#sender === null && !this.#isCut && this.#socket.writableLength === 0;
    const mayStay = this.#reader.isReusable && exchange.request.reset !== true;
    if (isSent && mayStay && this.#keepMs > 0) {
      this.#phase = "idle";
      this.#deadline = this.#keeper.now() + this.#keepMs;
      this.#keeper.onIdle(this);
    } else {
      this.#end();
    }
    exchange.finish(trailers);
  }

  #onEof(): void {
    if (this.#phase === "idle") return this.#end();
    try {
      if (this.#phase === "busy") this.#reader.end();
    } catch (thrown) {
      this.#fail(asError(thrown));
    }
    this.#fail(broken("The backend closed the connection."));
  }

  /** Also after each end of ours, for which no fault is made: its stack costs more than the rest of the end. */
  #onClose(): void {
    if (this.#phase !== "gone") this.#fail(broken("The connection was closed."));
  }

  #onError(error: NodeJS.ErrnoException): void {
    // Several addresses that all refuse make an error without a text of its own.
    const text = error.message === "" ? (error.code ?? error.name) : error.message;
    if (this.#phase === "connecting") {
      const fault = new H1Fault("connect", text, { cause: error });
      this.#keeper.onConnectFailed(fault);
      this.#fail(fault);
    } else {
      this.#fail(new H1Fault("broken", text, { cause: error }));
    }
  }

  #fail(error: Error): void {
    if (this.#phase === "gone") return;
    const exchange = this.#exchange;
    this.#exchange = null;
    this.#end();
    if (exchange === null) return;
    const isDead = error instanceof H1Fault && error.code === "broken";
    const mayReplay = this.#isUnsent ? exchange.mayMove() : exchange.mayReplay();
    if (isDead && this.#uses > 1 && mayReplay) this.#keeper.replay(exchange);
    else exchange.fail(error);
  }

  #end(): void {
    if (this.#phase === "gone") return;
    this.#phase = "gone";
    this.#reader.stop();
    this.#sender?.stop();
    this.#sender = null;
    this.#buffers.leave();
    this.#socket.destroy();
    this.#keeper.onGone(this);
  }
}

function broken(message: string): H1Fault {
  return new H1Fault("broken", message);
}

/** How long the connection may be idle, milliseconds; 0: not at all. */
function keepMsOf({ keepAliveSeconds }: AnswerHead, keepAliveMs: number): number {
  if (keepAliveSeconds === null) return keepAliveMs;
  return Math.max(0, Math.min(keepAliveMs, keepAliveSeconds * 1_000 - KEEP_ALIVE_MARGIN_MS));
}
