/**
 * The least rate of answers, the counterpart of `body-watch.ts`: a client that takes what waits for it, but too
 * slowly, is given up. Only time counts in which bytes wait for the client, never a backend's: an answer of which
 * everything is taken may be as slow as it likes. Looked after is what has once had to wait.
 */
import type { Bagged } from "./bag.ts";
import type { InboundRequest, InboundSocket } from "./inbound.ts";
import { Pace } from "./pace.ts";
import { Sweep, systemSweep, type SweepOptions } from "./sweep.ts";

export interface AnswerLimits {
  /** Slowest average of what waits for a client. */
  readonly bytesPerSecond: number;
  /** It may be behind that by so much, milliseconds. */
  readonly graceMs: number;
}

export const defaultAnswerLimits: AnswerLimits = { bytesPerSecond: 512, graceMs: 60_000 };

/** Whoever takes an answer. */
export interface AnswerReaderState {
  readonly request: InboundRequest;
  /** See {@link Pace.stalledMs}; written here. */
  answerStalledMs: number;
  /** It takes too little: ends its connection, or its stream. */
  giveUpReading(): void;
}

/** What is known of one reader. */
export interface WatchedAnswer extends Bagged {
  readonly reader: AnswerReaderState;
  readonly pace: Pace;
  lookedAtMs: number;
  bytesTaken: number;
  /** When it was last looked at. */
  isWaitedFor: boolean;
}

export class AnswerWatch {
  readonly #limits: AnswerLimits;
  readonly #sweep: Sweep<WatchedAnswer>;

  constructor(limits: AnswerLimits, options: SweepOptions = systemSweep) {
    this.#limits = limits;
    this.#sweep = new Sweep((answer, now) => this.#look(answer, now), options);
  }

  /** Readers that are looked after. */
  get size(): number {
    return this.#sweep.size;
  }

  /** Bytes wait for it. Called once for each, and {@link end} with what it returns when its answer is over. */
  begin(reader: AnswerReaderState): WatchedAnswer {
    const { socket } = reader.request;
    const answer = {
      reader,
      pace: new Pace(this.#limits.bytesPerSecond),
      lookedAtMs: this.#sweep.now,
      bytesTaken: takenOf(socket),
      isWaitedFor: true,
      at: -1,
    };
    this.#sweep.add(answer);
    return answer;
  }

  end(answer: WatchedAnswer): void {
    this.#sweep.delete(answer);
    answer.reader.answerStalledMs = 0;
  }

  #look(answer: WatchedAnswer, nowMs: number): boolean {
    const { reader, pace } = answer;
    const { socket } = reader.request;
    if (socket.destroyed) return false;
    this.#measure(answer, nowMs);
    reader.answerStalledMs = pace.stalledMs;
    if (pace.behindMs <= this.#limits.graceMs) return true;
    reader.giveUpReading();
    return false;
  }

  /** Of HTTP/1.1 it is the connection that is looked at: an answer whose turn has not come waits for no client. */
  #measure(answer: WatchedAnswer, nowMs: number): void {
    const { socket } = answer.reader.request;
    const bytesTaken = takenOf(socket);
    const bytes = Math.max(0, bytesTaken - answer.bytesTaken);
    const isWaitedFor = socket.writableLength > 0;
    const clientMs = answer.isWaitedFor && isWaitedFor ? nowMs - answer.lookedAtMs : 0;
    answer.lookedAtMs = nowMs;
    answer.bytesTaken = bytesTaken;
    answer.isWaitedFor = isWaitedFor;
    if (isWaitedFor) answer.pace.moved(clientMs, bytes);
    else answer.pace.caughtUp();
  }
}

/** What node tells of a connection: the part of a write that is still queued as well as those that are over. */
interface Handle {
  readonly bytesWritten: number;
  readonly writeQueueSize: number;
}

/** Bytes that have left this process for the client, since its connection or stream began. */
function takenOf(socket: InboundSocket): number {
  if (socket.bytesTaken !== undefined) return socket.bytesTaken;
  const handle: unknown = Reflect.get(socket, "_handle");
  return isHandle(handle) ? handle.bytesWritten - handle.writeQueueSize : 0;
}

function isHandle(value: unknown): value is Handle {
  if (typeof value !== "object" || value === null) return false;
  const [written, queued] = [
    Reflect.get(value, "bytesWritten"),
    Reflect.get(value, "writeQueueSize"),
  ];
  return typeof written === "number" && typeof queued === "number";
}
