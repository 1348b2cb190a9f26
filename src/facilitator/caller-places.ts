/**
 * Places for those who call `/verify` and `/settle`: so many calls are under way at a time, and few of them are
 * settlements at a facilitator elsewhere, over the connections that our own buyers' payments go by. A caller has its
 * share of them, and whoever finds none is told so at once. Of those that wait to be handed over, the next is one of
 * the caller that has fewest under way and refused.
 */
import { Counts } from "../fairness/counts.ts";
import { FairLane } from "../fairness/fair-lane.ts";
import type { SettleResponse } from "../x402/x402.ts";
import { FacilitatorFault, type InTurn } from "../payments/facilitator.ts";

/** Calls under way, from their first byte to their answer; with each a body of 64 KiB may come. */
export const MAX_CALLS = 512;
/** Of them, settlements that are handed over at the same time; a facilitator elsewhere has as many connections more. */
export const MAX_HANDED_OVER = 24;

/** It was not handed over, and may be sent again in a moment. */
export class NoTurn extends FacilitatorFault {
  constructor() {
    super(
      "unavailable",
      "unexpected_settle_error",
      "its turn to be handed over did not come in time",
    );
  }
}

/** One call's place. */
export interface CallerPlace {
  /** Throws {@link NoTurn}, or what the work throws. */
  readonly inTurn: InTurn;
  /** Gives it back, once. */
  leave(): void;
}

export class CallerPlaces {
  readonly #calls = new Counts();
  readonly #lane = new FairLane({
    calls: MAX_HANDED_OVER,
    waiting: MAX_CALLS,
    fault: () => new NoTurn(),
  });

  /** Whether nobody is in it. */
  get isEmpty(): boolean {
    return this.#calls.total === 0 && this.#lane.isEmpty;
  }

  /**
   * Undefined: that caller has as many as are free.
   * @param caller a name that tells it from others
   */
  enter(caller: string): CallerPlace | undefined {
    if (!this.#calls.hasShare(caller, MAX_CALLS)) return undefined;
    this.#calls.change(caller, 1);
    return {
      inTurn: (work, signal) => this.#lane.run({ client: caller, work, isGood }, signal),
      leave: () => this.#calls.change(caller, -1),
    };
  }
}

function isGood({ success }: SettleResponse): boolean {
  return success;
}
