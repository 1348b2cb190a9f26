/**
 * Requests that wait for another with the same payment. Each has a place for as long as that one's delivery takes, so
 * few do: whoever shows one payment on hundreds of connections would have all places.
 */

import { waitWithin } from "../../time/time.ts";
import { ABANDONED, IN_FLIGHT, type Admission, type GoodsRequest } from "./admission.ts";

/** Those that wait for one payment; further ones are told at once that it is in flight. */
export const MAX_WAITING_FOR_ONE = 4;

export class Waiting {
  /** What tells each of those that wait, by what they wait for. */
  readonly #toTell = new WeakMap<Promise<void>, Set<() => void>>();

  /**
   * Undefined once the other is over; else what is told to a request that waits no longer, or not at all.
   * @param signal ends the wait
   */
  async for(
    other: Promise<void>,
    { isGone, onGone }: Pick<GoodsRequest, "isGone" | "onGone">,
    signal: AbortSignal,
  ): Promise<Admission | undefined> {
    if (isGone()) return ABANDONED;
    const toTell = this.#toTell.get(other) ?? this.#listen(other);
    if (toTell.size >= MAX_WAITING_FOR_ONE) return IN_FLIGHT;
    const over = Promise.withResolvers<Admission | undefined>();
    const stay = onGone(() => over.resolve(ABANDONED));
    const told = (): void => over.resolve(undefined);
    toTell.add(told);
    try {
      return await waitWithin(over.promise, signal, IN_FLIGHT);
    } finally {
      toTell.delete(told);
      stay();
    }
  }

  /** Once for all: a promise keeps each listener, also of who waits no longer, until it is over. */
  #listen(other: Promise<void>): Set<() => void> {
    const toTell = new Set<() => void>();
    this.#toTell.set(other, toTell);
    void other.then(() => this.#tell(other));
    return toTell;
  }

  #tell(other: Promise<void>): void {
    for (const told of this.#toTell.get(other) ?? []) told();
    this.#toTell.delete(other);
  }
}
