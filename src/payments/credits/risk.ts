/**
 * What a process may lose its seller when it is killed: what requests of buyers' credits have reserved, and what they have
 * used and is not written yet. A request takes its part before it begins, and waits where all of it is taken, or where its
 * payer has as much as he leaves to others: nobody has all of it, however slow his requests are.
 */
import type { Time } from "../../time/time.ts";

/** How long a request waits for its part at most, milliseconds: so long the ledger may be away. */
export const RISK_WAIT_MS = 5_000;
/** Requests that may wait for their part; of one payer as many as he leaves to others. */
export const MAX_RISK_WAITING = 1_024;

interface Waiting {
  /** Whose balance it is: the pot's name. */
  readonly who: string;
  readonly amount: bigint;
  readonly done: () => void;
}

export class Risk {
  /** Atomic units of a token; asked each time. */
  readonly #limit: () => bigint;
  readonly #time: Time;
  /** The first first. */
  readonly #queue = new Set<Waiting>();
  /** How many of each payer wait, and what each has taken: of those alone who have any. */
  readonly #waiting = new Map<string, number>();
  readonly #shares = new Map<string, bigint>();
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

  /** Payers of whom anything is kept here. */
  get payers(): number {
    return new Set([...this.#shares.keys(), ...this.#waiting.keys()]).size;
  }

  /**
   * False where that would be too much, or others wait for what is left. One request alone may be more than the limit, and
   * one of a payer more than his share.
   */
  take(who: string, amount: bigint): boolean {
    if (!this.#isWithinShare(who, amount) || !this.#fits(amount)) return false;
    // Who waits for his own share alone holds nobody up.
    for (const each of this.#queue) {
      if (each.who === who || this.#isWithinShare(each.who, each.amount)) return false;
    }
    this.#add(who, amount);
    return true;
  }

  /** The same, in its turn. `unavailable`: there was no turn in time, or nobody waits any more. */
  async wait(
    who: string,
    amount: bigint,
    signal?: AbortSignal,
  ): Promise<"taken" | "busy" | "unavailable"> {
    const own = this.#waiting.get(who) ?? 0;
    const left = MAX_RISK_WAITING - this.#queue.size;
    if (left <= 0 || own >= left) return "busy";
    const { promise, resolve } = Promise.withResolvers<"taken" | "unavailable">();
    const waiting: Waiting = { who, amount, done: () => resolve("taken") };
    const leave = (): void => {
      if (!this.#leave(waiting)) return;
      resolve("unavailable");
      this.#serve();
    };
    this.#queue.add(waiting);
    this.#waiting.set(who, own + 1);
    const late = this.#time.timeout(RISK_WAIT_MS);
    for (const each of [late, signal]) each?.addEventListener("abort", leave, { once: true });
    if (signal?.aborted === true) leave();
    try {
      return await promise;
    } finally {
      for (const each of [late, signal]) each?.removeEventListener("abort", leave);
    }
  }

  give(who: string, amount: bigint): void {
    this.#add(who, -amount);
    this.#serve();
  }

  #add(who: string, amount: bigint): void {
    this.#taken += amount;
    const share = (this.#shares.get(who) ?? 0n) + amount;
    if (share === 0n) this.#shares.delete(who);
    else this.#shares.set(who, share);
  }

  #leave(waiting: Waiting): boolean {
    if (!this.#queue.delete(waiting)) return false;
    const { who } = waiting;
    const left = (this.#waiting.get(who) ?? 0) - 1;
    if (left > 0) this.#waiting.set(who, left);
    else this.#waiting.delete(who);
    return true;
  }

  /** In their order, but for those whose payers have their share. */
  #serve(): void {
    for (const waiting of this.#queue) {
      const { who, amount } = waiting;
      if (!this.#isWithinShare(who, amount)) continue;
      if (!this.#fits(amount)) return;
      this.#leave(waiting);
      this.#add(who, amount);
      waiting.done();
    }
  }

  #fits(amount: bigint): boolean {
    return this.#taken === 0n || this.#taken + amount <= this.#limit();
  }

  /** A payer has no more than is left to others beside it: of all of it one alone has half. */
  #isWithinShare(who: string, amount: bigint): boolean {
    const own = this.#shares.get(who) ?? 0n;
    return own === 0n || own + amount <= this.#limit() - this.#taken - amount;
  }
}
