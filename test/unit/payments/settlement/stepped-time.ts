/** Time for tests that goes on when the test says so. */
import type { Time } from "../../../../src/time/time.ts";

/** Where it begins: milliseconds since the epoch. */
const START_MS = 1_700_000_000_000;

interface Sleeper {
  readonly untilMs: number;
  readonly wake: () => void;
}

/** Nothing that sleeps wakes up, and no limit is reached, before {@link SteppedTime.advance}. */
export class SteppedTime implements Time {
  nowMs = START_MS;
  #sleepers: Sleeper[] = [];
  #isAsleep = Promise.withResolvers<void>();

  now(): number {
    return this.nowMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      signal?.addEventListener("abort", () => resolve(), { once: true });
      this.#sleepers.push({ untilMs: this.nowMs + ms, wake: resolve });
      this.#isAsleep.resolve();
    });
  }

  timeout(): AbortSignal {
    return new AbortController().signal;
  }

  /** Resolves when somebody sleeps. */
  asleep(): Promise<void> {
    return this.#isAsleep.promise;
  }

  /** Wakes who sleeps no longer than that, then waits until somebody sleeps again. */
  async advance(ms: number): Promise<void> {
    await this.asleep();
    this.nowMs += ms;
    const due = this.#sleepers.filter(({ untilMs }) => untilMs <= this.nowMs);
    this.#sleepers = this.#sleepers.filter(({ untilMs }) => untilMs > this.nowMs);
    if (this.#sleepers.length === 0) this.#isAsleep = Promise.withResolvers();
    for (const { wake } of due) wake();
    await this.asleep();
  }
}
