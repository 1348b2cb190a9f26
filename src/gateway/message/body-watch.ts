/**
 * Deadlines of request bodies: one that stalls, trickles or never ends is given up, on every route and also
 * after its request was answered, so that a client cannot hold a connection by a few bytes. Only the time
 * counts while the body is read: who waits for a settlement or a slow backend has done nothing wrong.
 */
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
interface Progress {
  lookedAtMs: number;
  /** Of the connection, when it was last looked at. */
  bytesRead: number;
  readingMs: number;
  readonly pace: Pace;
}

export class BodyWatch {
  readonly #limits: BodyLimits;
  readonly #sweep: Sweep<Sender, Progress>;

  constructor(limits: BodyLimits, options: SweepOptions = systemSweep) {
    this.#limits = limits;
    this.#sweep = new Sweep((sender, progress, now) => this.#look(sender, progress, now), options);
  }

  /** Bodies that are looked after. */
  get size(): number {
    return this.#sweep.size;
  }

  /** For a request that has a body. */
  begin(sender: Sender): void {
    const lookedAtMs = this.#sweep.now;
    const { bytesRead } = sender.request.socket;
    const pace = new Pace(this.#limits.bytesPerSecond);
    this.#sweep.add(sender, { lookedAtMs, bytesRead, readingMs: 0, pace });
  }

  /** The request is answered: a body that is whole by now needs no look any more. */
  end(sender: Sender): void {
    if (sender.request.complete) this.#sweep.delete(sender);
  }

  #look(sender: Sender, progress: Progress, nowMs: number): boolean {
    const { request } = sender;
    sender.bodyStalledMs = 0;
    if (request.complete || request.destroyed || request.socket.destroyed) return false;
    this.#measure(request, progress, nowMs);
    const { readingMs, pace } = progress;
    const { idleMs, totalMs } = this.#limits;
    if (pace.silentMs <= idleMs && readingMs <= totalMs && pace.behindMs <= idleMs) {
      if (request.readableFlowing === true) sender.bodyStalledMs = pace.stalledMs;
      return true;
    }
    sender.giveUp();
    return false;
  }

  #measure({ socket, readableFlowing }: InboundRequest, progress: Progress, nowMs: number): void {
    const elapsedMs = nowMs - progress.lookedAtMs;
    const bytes = socket.bytesRead - progress.bytesRead;
    progress.lookedAtMs = nowMs;
    progress.bytesRead += bytes;
    const clientMs = readableFlowing === true ? elapsedMs : 0;
    progress.readingMs += clientMs;
    progress.pace.moved(clientMs, bytes);
  }
}
