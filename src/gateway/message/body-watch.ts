/**
 * Deadlines of request bodies: one that stalls, trickles or never ends is given up, on every route and also
 * after its request was answered, so that a client cannot hold a connection by a few bytes. Only the time
 * counts while the body is read: who waits for a settlement or a slow backend has done nothing wrong.
 */
import type { Bagged } from "./bag.ts";
import type { InboundRequest } from "./inbound.ts";
import { Pace } from "./pace.ts";
import { Sweep, systemSweep, type SweepOptions } from "./sweep.ts";

export interface BodyLimits {
  /** Longest silence between two parts, milliseconds. */
  readonly idleMs: number;
  /** Longest for the whole body, milliseconds. */
  readonly totalMs: number;
  /** Slowest average; a body may be behind it by {@link idleMs}. */
  readonly bytesPerSecond: number;
}

export const defaultBodyLimits: BodyLimits = {
  idleMs: 15_000,
  totalMs: 300_000,
  bytesPerSecond: 512,
};

/** Whoever sends a body. */
export interface Sender {
  readonly request: InboundRequest;
  /** See {@link Pace.stalledMs}; written here. */
  bodyStalledMs: number;
  /** The body is late: answers so where nothing was answered yet, and ends the connection. */
  giveUp(): void;
}

/** What is known of one body; milliseconds are those in which it was read. */
export interface WatchedBody extends Bagged {
  readonly sender: Sender;
  lookedAtMs: number;
  /** Of the connection, when it was last looked at. */
  bytesRead: number;
  readingMs: number;
  readonly pace: Pace;
}

export class BodyWatch {
  readonly #limits: BodyLimits;
  readonly #sweep: Sweep<WatchedBody>;

  constructor(limits: BodyLimits, options: SweepOptions = systemSweep) {
    this.#limits = limits;
    this.#sweep = new Sweep((body, now) => this.#look(body, now), options);
  }

  /** Bodies that are looked after. */
  get size(): number {
    return this.#sweep.size;
  }

  /** For a request that has a body; {@link end} takes what it returns. */
  begin(sender: Sender): WatchedBody {
    const lookedAtMs = this.#sweep.now;
    const { bytesRead } = sender.request.socket;
    const pace = new Pace(this.#limits.bytesPerSecond);
    const body = { sender, lookedAtMs, bytesRead, readingMs: 0, pace, at: -1 };
    this.#sweep.add(body);
    return body;
  }

  /** The request is answered: a body that is whole by now needs no look any more. */
  end(body: WatchedBody): void {
    if (body.sender.request.complete) this.#sweep.delete(body);
  }

  #look(body: WatchedBody, nowMs: number): boolean {
    const { sender, pace } = body;
    const { request } = sender;
    sender.bodyStalledMs = 0;
    if (request.complete || request.destroyed || request.socket.destroyed) return false;
    this.#measure(body, nowMs);
    const { idleMs, totalMs } = this.#limits;
    if (pace.silentMs <= idleMs && body.readingMs <= totalMs && pace.behindMs <= idleMs) {
      if (request.readableFlowing === true) sender.bodyStalledMs = pace.stalledMs;
      return true;
    }
    sender.giveUp();
    return false;
  }

  #measure(body: WatchedBody, nowMs: number): void {
    const { socket, readableFlowing } = body.sender.request;
    const elapsedMs = nowMs - body.lookedAtMs;
    const bytes = socket.bytesRead - body.bytesRead;
    body.lookedAtMs = nowMs;
    body.bytesRead += bytes;
    const clientMs = readableFlowing === true ? elapsedMs : 0;
    body.readingMs += clientMs;
    body.pace.moved(clientMs, bytes);
  }
}
