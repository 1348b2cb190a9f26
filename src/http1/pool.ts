/**
 * An HTTP/1.1 client for one backend, made for a proxy: raw header lines both ways, no object per message
 * but the exchange itself, connections kept last in, first out, and one timer for all that is waited for.
 */
import { EventEmitter } from "node:events";
import { Connection, type Keeper } from "./connection.ts";
import {
  Exchange,
  type Carrier,
  type H1Controller,
  type H1Handler,
  type H1Request,
  type RequestHead,
} from "./exchange.ts";
import { H1Fault, asError } from "./fault.ts";
import { SocketOpener, type H1TlsOptions } from "./open-socket.ts";
import { requestHead } from "./request-head.ts";

/** How often everything that waits is looked at: no deadline is kept more exactly, milliseconds. */
const SWEEP_MS = 250;

/** Of a request that cannot be written. */
const NO_HEAD: RequestHead = { text: "", framing: "none", length: 0 };

export interface H1PoolOptions {
  /** Scheme, host and optional port: `http://10.0.0.11:3000`. No path. */
  readonly origin: string;
  /** Of a socket in the file system, in place of the origin's host and port. */
  readonly socketPath?: string | undefined;
  /** Open connections at most, 1 or more. */
  readonly connections: number;
  /** Milliseconds until a connection must be up. */
  readonly connectTimeoutMs: number;
  /** Milliseconds from the request's last byte until the answer's head must be complete. */
  readonly responseTimeoutMs: number;
  /** Milliseconds without a byte moving, in either direction, after which an exchange is given up. */
  readonly idleTimeoutMs: number;
  /** Milliseconds that an idle connection is kept; below the server's own keep-alive time. */
  readonly keepAliveMs: number;
  /** Bytes of an answer's head at most. */
  readonly headLimitBytes: number;
  /**
   * Milliseconds that a handler may hold an answer in one go. A backstop for handlers: with their own limit
   * below it, they say what becomes of an exchange whose client does not read.
   */
  readonly pauseTimeoutMs: number;
  /**
   * Requests that may wait for a connection while all are busy, {@link queueTimeoutMs} long at most; beyond
   * them they are refused as `saturated`. 0: none waits.
   */
  readonly queue: number;
  /** Default: `connectTimeoutMs`. */
  readonly queueTimeoutMs?: number;
  /** For an `https` origin. */
  readonly tls?: H1TlsOptions;
  /** Milliseconds that only grow; default `performance.now`. */
  readonly now?: () => number;
}

interface PoolEvents {
  /** A connection is up. */
  connect: [];
  /** A connection could not be made. */
  connectionError: [error: Error];
}

/** A request for which there is no connection yet. */
interface Waiting extends Carrier {
  readonly exchange: Exchange;
  readonly deadline: number;
}

export class H1Pool extends EventEmitter<PoolEvents> {
  readonly #options: H1PoolOptions;
  readonly #now: () => number;
  readonly #keeper: Keeper;
  readonly #open = new Set<Connection>();
  /** The last one to become idle is the first to be used; some of them may have died meanwhile. */
  #idle: Connection[] = [];
  /** They have become idle in this turn of the event loop. */
  readonly #resting: Connection[] = [];
  /** Requests of this turn that a kept connection may carry. */
  readonly #arrived: Exchange[] = [];
  #isTurnEnding = false;
  /** Requests that found every connection busy. */
  readonly #waiting: Waiting[] = [];
  #sweeping: NodeJS.Timeout | null = null;
  #isClosed = false;
  #isEvicting = false;
  readonly #drained = Promise.withResolvers<void>();

  /** @throws H1Fault `request` for an origin that is none of `http` or `https` */
  constructor(options: H1PoolOptions) {
    super();
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#keeper = {
      limits: options,
      opener: new SocketOpener(options.origin, options.tls, options.socketPath),
      now: this.#now,
      onConnected: () => this.emit("connect"),
      onConnectFailed: (error) => this.emit("connectionError", error),
      onIdle: (connection) => this.#rest(connection),
      onGone: (connection) => this.#gone(connection),
      replay: (exchange) => this.#place(exchange),
    };
  }

  /** Connections that are open or being opened, those of them that are idle, and requests that wait. */
  get counts(): { readonly open: number; readonly idle: number; readonly waiting: number } {
    const idle = [...this.#open].filter((connection) => connection.isIdle).length;
    return { open: this.#open.size, idle, waiting: this.#arrived.length + this.#waiting.length };
  }

  /** Takes nothing new. */
  get closed(): boolean {
    return this.#isClosed;
  }

  /**
   * Never throws: what is wrong with the request is told to the handler. The controller is that of all its
   * calls, for whoever gives a request up before it {@link H1Handler.onRequestStart starts}.
   */
  dispatch(request: H1Request, handler: H1Handler): H1Controller {
    const exchange = this.#exchangeOf(request, handler);
    if (exchange.isOver) return exchange;
    if (exchange.needsFresh) {
      this.#place(exchange);
    } else {
      this.#arrived.push(exchange);
      this.#awaitEndOfTurn();
    }
    return exchange;
  }

  /** Takes nothing new; resolves when what runs has ended. */
  close(): Promise<void> {
    this.#isClosed = true;
    for (const connection of this.#open) connection.retire();
    this.#checkDrained();
    return this.#drained.promise;
  }

  /** Cuts what runs, too. */
  destroy(): Promise<void> {
    this.#isClosed = true;
    for (const exchange of this.#arrived.splice(0)) exchange.fail(closedFault());
    for (const { exchange } of this.#waiting.splice(0)) exchange.fail(closedFault());
    for (const connection of this.#open) connection.cut(closedFault());
    return this.close();
  }

  /** Over already where the request is none, or where nothing new is taken. */
  #exchangeOf(request: H1Request, handler: H1Handler): Exchange {
    let head: RequestHead;
    try {
      head = requestHead(request, this.#keeper.opener.host);
    } catch (thrown) {
      const refused = new Exchange(request, NO_HEAD, handler);
      refused.fail(asError(thrown));
      return refused;
    }
    const exchange = new Exchange(request, head, handler);
    if (this.#isClosed) exchange.fail(closedFault());
    return exchange;
  }

  #place(exchange: Exchange): void {
    if (this.#tryPlace(exchange)) return;
    const { queue, connections, origin, connectTimeoutMs } = this.#options;
    const { queueTimeoutMs = connectTimeoutMs } = this.#options;
    if (this.#waiting.length >= queue) {
      const text = `All ${connections} connections to ${origin} are busy.`;
      return exchange.fail(new H1Fault("saturated", text));
    }
    const waiting: Waiting = {
      exchange,
      deadline: this.#now() + queueTimeoutMs,
      drop: () => void this.#waiting.splice(this.#waiting.indexOf(waiting), 1),
      pause() {},
      resume() {},
    };
    exchange.carrier = waiting;
    this.#waiting.push(waiting);
  }

  #tryPlace(exchange: Exchange): boolean {
    const now = this.#now();
    const kept = exchange.needsFresh ? null : this.#takeIdle(now);
    if (kept !== null) {
      kept.run(exchange, now);
      return true;
    }
    if (this.#open.size >= this.#options.connections && !this.#evictIdle()) return false;
    this.#open.add(new Connection(this.#keeper, exchange));
    this.#sweeping ??= setInterval(() => setImmediate(this.#sweep), SWEEP_MS).unref();
    return true;
  }

  #takeIdle(now: number): Connection | null {
    for (;;) {
      const last = this.#idle.pop();
      if (last === undefined) return null;
      if (last.isReady(now)) return last;
      last.retire();
    }
  }

  /** Makes room for a connection that has to be new. */
  #evictIdle(): boolean {
    for (let oldest = this.#idle.shift(); oldest !== undefined; oldest = this.#idle.shift()) {
      if (!oldest.isIdle) continue;
      this.#isEvicting = true;
      oldest.retire();
      this.#isEvicting = false;
      return true;
    }
    return false;
  }

  #rest(connection: Connection): void {
    this.#resting.push(connection);
    this.#awaitEndOfTurn();
  }

  /**
   * Kept connections are used between two turns of the event loop only, after all sockets have been read,
   * and not after the turn in which they became idle: what a backend sent behind its last answer, be it
   * bytes that would be taken for the next answer or the end of the connection, is seen first.
   */
  #awaitEndOfTurn(): void {
    if (this.#isTurnEnding) return;
    this.#isTurnEnding = true;
    setImmediate(this.#endTurn);
  }

  readonly #endTurn = (): void => {
    this.#isTurnEnding = false;
    this.#serveWaiting();
    for (const exchange of this.#arrived.splice(0)) {
      if (!exchange.isOver) this.#place(exchange);
    }
    for (const connection of this.#resting.splice(0)) {
      if (this.#isClosed) connection.retire();
      else if (connection.isIdle) this.#idle.push(connection);
    }
    if (this.#waiting.length > 0 && this.#idle.length > 0) this.#awaitEndOfTurn();
    this.#checkDrained();
  };

  #gone(connection: Connection): void {
    this.#open.delete(connection);
    if (this.#isEvicting) return;
    this.#serveWaiting();
    this.#checkDrained();
    if (this.#open.size > 0 || this.#sweeping === null) return;
    clearInterval(this.#sweeping);
    this.#sweeping = null;
  }

  #serveWaiting(): void {
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      if (this.#tryPlace(next.exchange)) continue;
      this.#waiting.unshift(next);
      return;
    }
  }

  /** After a turn of the loop has had its chance to read: a stall of ours is no fault of the backend's. */
  readonly #sweep = (): void => {
    const now = this.#now();
    for (const connection of this.#open) connection.expire(now);
    this.#idle = this.#idle.filter((connection) => connection.isIdle);
    for (let [first] = this.#waiting; first !== undefined; [first] = this.#waiting) {
      if (now < first.deadline) return;
      this.#waiting.shift();
      const text = `No connection to ${this.#options.origin} became free in time.`;
      first.exchange.fail(new H1Fault("saturated", text));
    }
  };

  /** Not at once: a request whose connection has just ended may be placed anew. */
  #checkDrained(): void {
    if (!this.#isClosed) return;
    queueMicrotask(() => {
      const isEmpty = this.#arrived.length === 0 && this.#waiting.length === 0;
      if (isEmpty && this.#open.size === 0) this.#drained.resolve();
    });
  }
}

function closedFault(): H1Fault {
  return new H1Fault("closed", "The connections to the backend are closed.");
}
