/**
 * One place in the pool of workers, which a worker process holds. One that dies is followed by another, sooner the longer
 * it has lived; one that is replaced hands over what it listens on, and then finishes.
 */
import type { AddressInfo } from "node:net";
import type { Logger } from "../telemetry/logger.ts";
import type { Time } from "../time/time.ts";
import type { Exit, WorkerProcess } from "./worker-process.ts";
import { messageOf } from "../x402/result.ts";

/** Pauses before a dead worker is followed by another, milliseconds: the first, doubled up to the longest. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** A worker that has listened for so long has not died in a row with the one before it, milliseconds. */
const STEADY_MS = 10_000;
/** Deaths in a row, of one place, after which it is no use to go on. */
const MOST_DEATHS = 5;
/** How often a worker is asked whether it still answers, and how long it may take to, milliseconds. */
const ASK_EVERY_MS = 1_000;
const ANSWER_WITHIN_MS = 3_000;
/** Questions in a row without an answer after which it hangs; one alone may be due to a suspended machine. */
const MOST_UNANSWERED = 3;
/** How long connections of a worker that is replaced may come back for their next, and last, answer. */
const RETIRE_MS = 2_000;

export interface WorkerSlotOptions {
  /** From 1. */
  readonly number: number;
  readonly fork: (number: number) => WorkerProcess;
  /** What a process is told that it is for, as of now. */
  readonly order: (number: number) => unknown;
  readonly onGone: (process: WorkerProcess) => void;
  /** The place cannot be held. */
  readonly onHopeless: (reason: string) => void;
  /** How long what is in flight may take once a process is replaced, milliseconds. */
  readonly withinMs: () => number;
  readonly logger: Logger;
  readonly time: Time;
}

/** A process that is in the pool of workers now. */
export interface Present {
  readonly process: WorkerProcess;
  isListening: boolean;
  /** It is to end: its death is followed by no other. */
  isLeaving: boolean;
}

export class WorkerSlot {
  readonly number: number;
  readonly #options: WorkerSlotOptions;
  readonly #logger: Logger;
  /** Several while one takes the place of another. */
  readonly #present = new Set<Present>();
  readonly #closing = new AbortController();
  readonly #leaving = new Set<Promise<void>>();
  #ports: readonly number[] = [];
  #holder: Present | undefined;
  #deaths = 0;
  #deathsInRow = 0;
  #reviving: Promise<void> = Promise.resolve();

  constructor(options: WorkerSlotOptions) {
    this.number = options.number;
    this.#options = options;
    this.#logger = options.logger.child({ worker: options.number });
  }

  get present(): Iterable<Present> {
    return this.#present;
  }

  get isListening(): boolean {
    return this.#holder?.isListening === true && !this.#holder.process.isEnded;
  }

  /** Workers that ended by themselves. */
  get deaths(): number {
    return this.#deaths;
  }

  /** The first process of this place, which does not listen yet. */
  async start(): Promise<void> {
    this.#holder = await this.#begin();
  }

  /** Resolves with the addresses; from then on the place is held. Rejects where they cannot be had. */
  async listen(ports: readonly number[]): Promise<readonly AddressInfo[]> {
    const holder = this.#holder;
    if (holder === undefined) throw new Error("a worker that was not started cannot listen");
    const addresses = await holder.process.listen({ ports, sockets: 0 });
    this.#ports = addresses.map(({ port }) => port);
    this.#hold(holder);
    return addresses;
  }

  /** The next process listens before this one lets go. Rejects, and all is as before, where it cannot. */
  async replace(): Promise<void> {
    await this.#reviving;
    const old = this.#holder;
    if (this.#closing.signal.aborted || old === undefined) return;
    const next = await this.#begin();
    old.isLeaving = true;
    try {
      const sockets = await next.process.inherit(old.process);
      await next.process.listen({ ports: this.#ports, sockets });
    } catch (cause) {
      await next.process.kill();
      old.isLeaving = false;
      const hasDied = old.process.isEnded && !this.#closing.signal.aborted;
      if (hasDied) this.#reviving = this.#revive(await old.process.ended);
      throw cause;
    }
    this.#hold(next);
    const leaving = this.#letGo(old).finally(() => this.#leaving.delete(leaving));
    this.#leaving.add(leaving);
  }

  /** Resolves when those that were replaced are gone. */
  async settled(): Promise<void> {
    await Promise.all(this.#leaving);
  }

  retire(): void {
    this.#closing.abort();
    for (const { process } of this.#present) void process.retire().catch(() => undefined);
  }

  /** Finishes what is in flight within that long, and ends every process of this place. */
  async close(withinMs: number): Promise<void> {
    this.retire();
    await this.#finishAll(withinMs);
    await this.#reviving;
    // One that was just being forked.
    await this.#finishAll(0);
  }

  /** Rejects, and leaves no process behind, where it cannot be told what it is for. */
  async #begin(): Promise<Present> {
    const { fork, order, onGone } = this.#options;
    const process = fork(this.number);
    const present = { process, isListening: false, isLeaving: false };
    this.#present.add(present);
    process.onEnded(() => {
      this.#present.delete(present);
      onGone(process);
    });
    try {
      await process.start(await order(this.number));
      return present;
    } catch (cause) {
      const hasDied = process.isEnded;
      await process.kill();
      if (!hasDied) throw cause;
      const exit = describe(await process.ended);
      throw new Error(`worker ${this.number} ended ${exit} before it listened`, { cause });
    }
  }

  /** From here on the death of this one is followed by another. */
  #hold(present: Present): void {
    const { time } = this.#options;
    this.#holder = present;
    present.isListening = true;
    const sinceMs = time.now();
    this.#logger.info({ pid: present.process.pid }, "a worker listens");
    const end = (exit: Exit): void => {
      if (present.isLeaving) return;
      if (time.now() - sinceMs > STEADY_MS) this.#deathsInRow = 0;
      this.#reviving = this.#revive(exit);
    };
    if (present.process.isEnded) void present.process.ended.then(end);
    else {
      present.process.onEnded(end);
      void this.#watch(present);
    }
  }

  /** One that hangs holds connections that nobody serves: it is killed, and so followed by another. */
  async #watch(present: Present): Promise<void> {
    const { time } = this.#options;
    const { process } = present;
    const { signal } = this.#closing;
    let unanswered = 0;
    while (unanswered < MOST_UNANSWERED) {
      await time.sleep(ASK_EVERY_MS, signal);
      if (signal.aborted || process.isEnded) return;
      // While another one is to take its place; it stays where that fails.
      if (present.isLeaving) continue;
      unanswered = (await process.answers(ANSWER_WITHIN_MS)) ? 0 : unanswered + 1;
    }
    if (signal.aborted || present.isLeaving || process.isEnded) return;
    this.#logger.error({ pid: process.pid, unanswered }, "a worker hangs; it is killed");
    await process.kill();
  }

  async #revive(exit: Exit): Promise<void> {
    const { time, onHopeless } = this.#options;
    const { signal } = this.#closing;
    let reason = describe(exit);
    this.#deaths += 1;
    while (!signal.aborted) {
      this.#deathsInRow += 1;
      const facts = { reason, inRow: this.#deathsInRow };
      this.#logger.error(facts, "a worker is gone; another one takes its place");
      if (this.#deathsInRow >= MOST_DEATHS) {
        const said = `worker ${this.number} died ${MOST_DEATHS} times in a row, the last time`;
        return onHopeless(`${said} ${reason}`);
      }
      const pauseMs = FIRST_PAUSE_MS * 2 ** (this.#deathsInRow - 1);
      await time.sleep(Math.min(pauseMs, LONGEST_PAUSE_MS), signal);
      if (signal.aborted) return;
      const failure = await this.#follow();
      if (failure === undefined) return;
      reason = failure;
    }
  }

  /** Undefined where another process listens now, else why it does not. */
  async #follow(): Promise<string | undefined> {
    let next: Present | undefined;
    try {
      next = await this.#begin();
      await next.process.listen({ ports: this.#ports, sockets: 0 });
    } catch (cause) {
      await next?.process.kill();
      return `before it listened: ${messageOf(cause)}`;
    }
    this.#hold(next);
    return undefined;
  }

  async #letGo(old: Present): Promise<void> {
    const { time, withinMs } = this.#options;
    await old.process.retire().catch(() => undefined);
    await time.sleep(RETIRE_MS, this.#closing.signal);
    await this.#finish(old, withinMs());
  }

  async #finishAll(withinMs: number): Promise<void> {
    await Promise.all([...this.#present].map((each) => this.#finish(each, withinMs)));
  }

  async #finish(present: Present, withinMs: number): Promise<void> {
    present.isLeaving = true;
    present.isListening = false;
    await present.process.finish(withinMs);
  }
}

function describe({ code, signal }: Exit): string {
  if (signal !== null) return `by ${signal}`;
  return code === null ? "before it began" : `with exit code ${code}`;
}
