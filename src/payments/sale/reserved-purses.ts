/**
 * What payers' purses have to pay for what was reserved of an hour and is not decided. Each payment is found good by
 * itself: without this one purse that is good for one of them would reserve all of the hour at once. A payment for which
 * nothing is left waits until others of its purse are decided.
 */
import { sooner, waitWithin, type Time } from "../../time/time.ts";

/** How long a payment waits for others of its purse, milliseconds: a few blocks. */
const WAIT_MS = 4_000;
/** Payments of one purse that wait at most; others are refused at once. */
const MAX_WAITING_OF_ONE = 256;

/** What a payment takes of a purse, and what was seen in it when it was found good; atomic units. */
export interface ReservedDraw {
  readonly purse: string;
  readonly amountAtomic: bigint;
  readonly meansAtomic: bigint;
}

interface Taken {
  sum: bigint;
  waiting: number;
  /** Resolves when one of them is decided. */
  freed: PromiseWithResolvers<void>;
}

export class ReservedPurses {
  readonly #time: Pick<Time, "now" | "timeout">;
  readonly #taken = new Map<string, Taken>();

  constructor(time: Pick<Time, "now" | "timeout">) {
    this.#time = time;
  }

  /** What is to be called when it is decided, whatever it has come to; undefined: nothing is left for it. */
  async take(
    { purse, amountAtomic, meansAtomic }: ReservedDraw,
    signal: AbortSignal,
  ): Promise<(() => void) | undefined> {
    const over = sooner(signal, this.#time.timeout(WAIT_MS));
    for (;;) {
      const taken = this.#taken.get(purse);
      // Alone it was found good.
      if (taken === undefined || taken.sum + amountAtomic <= meansAtomic) {
        return this.#enter(purse, amountAtomic);
      }
      if (over.aborted || taken.waiting >= MAX_WAITING_OF_ONE) return undefined;
      taken.waiting += 1;
      await waitWithin(taken.freed.promise, over, undefined);
      taken.waiting -= 1;
    }
  }

  #enter(purse: string, amountAtomic: bigint): () => void {
    const fresh = { sum: 0n, waiting: 0, freed: Promise.withResolvers<void>() };
    const taken = this.#taken.get(purse) ?? fresh;
    this.#taken.set(purse, taken);
    taken.sum += amountAtomic;
    return () => {
      taken.sum -= amountAtomic;
      if (taken.sum === 0n) this.#taken.delete(purse);
      taken.freed.resolve();
      taken.freed = Promise.withResolvers<void>();
    };
  }
}
