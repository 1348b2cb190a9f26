/** Time that stands still until a test moves it. Between two steps, everything that can go on does. */
import type { Time } from "../../src/time/time.ts";

/** Steps to the next event at most, before a condition counts as never true. */
const MAX_STEPS = 20_000;

interface Timer {
  readonly atMs: number;
  readonly ring: () => void;
}

export class ManualTime implements Time {
  #nowMs: number;
  readonly #timers = new Set<Timer>();

  constructor(startMs = 1_700_000_000_000) {
    this.#nowMs = startMs;
  }

  now(): number {
    return this.#nowMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = { atMs: this.#nowMs + ms, ring: resolve };
      this.#timers.add(timer);
      signal?.addEventListener("abort", () => {
        this.#timers.delete(timer);
        resolve();
      });
    });
  }

  timeout(ms: number): AbortSignal {
    const controller = new AbortController();
    this.#timers.add({ atMs: this.#nowMs + ms, ring: () => controller.abort() });
    return controller.signal;
  }

  /** Moves on, from event to event. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    await calm();
    for (let next = this.#next(untilMs); next !== undefined; next = this.#next(untilMs)) {
      await this.#ring(next);
    }
    this.#nowMs = untilMs;
    await calm();
  }

  /** Moves on until something is so. */
  async until(isSo: () => boolean | Promise<boolean>): Promise<void> {
    await calm();
    for (let steps = 0; steps < MAX_STEPS; steps += 1) {
      if (await isSo()) return;
      const next = this.#next(Number.POSITIVE_INFINITY);
      if (next === undefined) break;
      await this.#ring(next);
    }
    throw new Error("it never came to that");
  }

  /** The value of a promise that needs time to pass. */
  async of<Value>(promise: Promise<Value>): Promise<Value> {
    let isDone = false;
    const ending = promise.finally(() => {
      isDone = true;
    });
    ending.catch(() => undefined);
    await this.until(() => isDone);
    return ending;
  }

  #next(untilMs: number): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.atMs <= untilMs && (first === undefined || timer.atMs < first.atMs)) first = timer;
    }
    return first;
  }

  async #ring(timer: Timer): Promise<void> {
    this.#timers.delete(timer);
    this.#nowMs = Math.max(this.#nowMs, timer.atMs);
    timer.ring();
    await calm();
  }
}

/** A turn of the event loop for each step of a chain that goes through a database in this process. */
const TURNS = 8;

async function calm(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}
