/**
 * How much a payer may have backends do that comes to nothing: where work comes before the settlement, a payment that
 * was found good may not be payable any more when it is done. Each work takes a place of its payer's, and has it back
 * when it is paid for, or when it was not the payer who has spoilt it; what is spoilt comes back with time.
 */
import { LRUCache } from "lru-cache";
import type { Time } from "../../time/time.ts";
import { ReservedPurses, type ReservedDraw } from "./reserved-purses.ts";

/** Works of one payer that are under way or were not paid for. */
export const MAX_UNPAID_WORKS = 16;
/** After which one that was not paid for is forgotten, one after another, milliseconds. */
export const UNPAID_WORK_MS = 60_000;
/** Payers remembered at most; who has begun none for longest is forgotten first. */
const MAX_PAYERS = 10_000;

/**
 * `spoilt`: the payer has: he has left, has asked for what there is not, or his payment could not be settled. `ours`: the
 * backend has failed, or what became of the money is not known.
 */
export type WorkEnd = "paid" | "ours" | "spoilt";

/** A work that has begun; its end is told once. */
export interface BegunWork {
  readonly end: (how: WorkEnd) => void;
}

/** Of one payer. */
interface Works {
  underWay: number;
  /** Not forgotten; in parts, as time passes. */
  spoilt: number;
  atMs: number;
}

export class UnpaidWorks {
  readonly #time: Pick<Time, "now" | "timeout">;
  readonly #purses: ReservedPurses;
  readonly #payers = new LRUCache<string, Works>({ max: MAX_PAYERS });

  constructor(time: Pick<Time, "now" | "timeout">) {
    this.#time = time;
    this.#purses = new ReservedPurses(time);
  }

  /**
   * Resolves with seconds to wait where he has no place left, and with `crowded` where his purse has not enough for this
   * one beside those that are under way.
   * @param draw undefined: nobody says what is in his purse
   */
  async begin(
    payer: string,
    draw: ReservedDraw | undefined,
    signal: AbortSignal,
  ): Promise<BegunWork | "crowded" | number> {
    const seconds = this.#secondsFor(payer);
    if (seconds > 0) return seconds;
    this.#worksOf(payer).underWay += 1;
    const free = draw === undefined ? () => undefined : await this.#purses.take(draw, signal);
    if (free === undefined) {
      this.#end(payer, "ours");
      return "crowded";
    }
    return {
      end: (how) => {
        free();
        this.#end(payer, how);
      },
    };
  }

  /** Until one more may begin; 0: now. */
  #secondsFor(payer: string): number {
    const { underWay, spoilt } = this.#worksOf(payer);
    const over = underWay + spoilt + 1 - MAX_UNPAID_WORKS;
    return over <= 0 ? 0 : Math.ceil((over * UNPAID_WORK_MS) / 1000);
  }

  #worksOf(payer: string): Works {
    const nowMs = this.#time.now();
    const known = this.#payers.get(payer);
    const { underWay, spoilt, atMs } = known ?? { underWay: 0, spoilt: 0, atMs: nowMs };
    const left = Math.max(0, spoilt - (nowMs - atMs) / UNPAID_WORK_MS);
    const works = { underWay, spoilt: left, atMs: nowMs };
    this.#payers.set(payer, works);
    return works;
  }

  #end(payer: string, how: WorkEnd): void {
    const works = this.#worksOf(payer);
    works.underWay = Math.max(0, works.underWay - 1);
    if (how === "spoilt") works.spoilt += 1;
  }
}
