/**
 * What a process may lose its seller when it is killed: what requests of buyers' credits have reserved, and what they have
 * used and is not written yet. A request takes its part before it begins, and waits where all of it is taken.
 */
import type { Time } from "../../time/time.ts";

/** How long a request waits for its part at most, milliseconds: so long the ledger may be away. */
export const RISK_WAIT_MS = 5_000;
/** Requests that may wait for their part. */
export const MAX_RISK_WAITING = 1_024;

interface Waiting {
  readonly amount: bigint;
  readonly done: () => void;
}

export class Risk {
  /** Atomic units of a token; asked each time. */
  readonly #limit: () => bigint;
  readonly #time: Time;
  /** The first first. */
  readonly #queue = new Set<Waiting>();
  #taken = 0n;

  constructor(limit: () => bigint, time: Time) {
    this.#limit = limit;
    this.#time = time;
  }

  get taken(): bigint {
    return this.#taken;
  }

  get waiting(): number {
    return this.#queue.size;
  }

  /** False where that would be too much, or others wait. One request alone may be more than the limit. */
  take(amount: bigint): boolean {
    if (this.#queue.size > 0 || !this.#fits(amount)) return false;
    this.#taken += amount;
    return true;
  }

  /** The same, in its turn. `unavailable`: there was no turn in time, or nobody waits any more. */
  async wait(amount: bigint, signal?: AbortSignal): Promise<"taken" | "busy" | "unavailable"> {
    if (this.#queue.size >= MAX_RISK_WAITING) return "busy";
    const { promise, resolve } = Promise.withResolvers<"taken" | "unavailable">();
    const waiting: Waiting = { amount, done: () => resolve("taken") };
    const leave = (): void => {
      if (!this.#queue.delete(waiting)) return;
      resolve("unavailable");
      this.#serve();
    };
    this.#queue.add(waiting);
    const late = this.#time.timeout(RISK_WAIT_MS);
    for (const each of [late, signal]) each?.addEventListener("abort", leave, { once: true });
    if (signal?.aborted === true) leave();
    try {
      return await promise;
    } finally {
      for (const each of [late, signal]) each?.removeEventListener("abort", leave);
    }
  }

  give(amount: bigint): void {
    this.#taken -= amount;
    this.#serve();
  }

  #serve(): void {
    for (const waiting of this.#queue) {
      if (!this.#fits(waiting.amount)) return;
      this.#queue.delete(waiting);
      this.#taken += waiting.amount;
      waiting.done();
    }
  }

  #fits(amount: bigint): boolean {
    return this.#taken === 0n || this.#taken + amount <= this.#limit();
  }
}
