/**
 * In which order those begin of whom many come at once: new connections, requests of HTTP/2, presented payments. What
 * the system hands over is handled in one go, so that whoever opens two thousand would have as many handshakes and
 * requests done before anybody else's first. A few begin in each turn of the event loop, those of addresses that have
 * fewest first (of requests: of connections).
 */

/** Those that begin in one turn. */
export const PER_TURN = 8;
/** An address that has so many or more is last. */
const LAST = 32;
/** Of so many that begin one is the oldest of all: else who has fewer, and comes again and again, is always first. */
const OLDEST_EACH = 4;

interface Waiting {
  readonly begin: () => void;
  /** In the order in which they came. */
  readonly number: number;
}

export class Turns {
  /** By how many their addresses had, each the oldest first. */
  readonly #waiting: Waiting[][] = [];
  #numbers = 0;
  #begun = 0;
  #count = 0;
  #left = PER_TURN;
  #isScheduled = false;
  readonly #gatherMs: number;
  /** Somebody has come since the last turn. */
  #hasCome = false;
  /** Since when those that wait are gathered. */
  #gatheredFrom = 0;

  /**
   * @param gatherMs for those of whom the system hands over one in each turn of the event loop, however many wait with
   *   it: as long as more come, but no longer than that, none begins; 0: they come all at once
   */
  constructor(gatherMs = 0) {
    this.#gatherMs = gatherMs;
  }

  /** Those that wait for their turn. */
  get waiting(): number {
    return this.#count;
  }

  /** @param others how many the address has beside this one */
  take(others: number, begin: () => void): void {
    if (!this.#isScheduled) {
      this.#schedule();
      if (this.#gatherMs > 0) this.#gatheredFrom = performance.now();
    }
    this.#hasCome = true;
    if (this.#left > 0 && this.#gatherMs === 0) {
      this.#left -= 1;
      begin();
      return;
    }
    (this.#waiting[Math.min(others, LAST)] ??= []).push({ begin, number: this.#numbers++ });
    this.#count += 1;
  }

  #schedule(): void {
    this.#isScheduled = true;
    setImmediate(this.#turn);
  }

  readonly #turn = (): void => {
    this.#isScheduled = false;
    this.#left = PER_TURN;
    if (this.#count > 0) this.#schedule();
    if (this.#isGathering()) return;
    while (this.#left > 0 && this.#count > 0) {
      this.#left -= 1;
      this.#count -= 1;
      this.#next()?.begin();
    }
  };

  /** Until a turn in which nobody has come. */
  #isGathering(): boolean {
    if (this.#gatherMs === 0) return false;
    const now = performance.now();
    const isMore = this.#hasCome && now - this.#gatheredFrom < this.#gatherMs;
    this.#hasCome = false;
    if (!isMore) this.#gatheredFrom = now;
    return isMore;
  }

  #next(): Waiting | undefined {
    this.#begun += 1;
    const queues = this.#waiting.filter((queue) => queue.length > 0);
    const numberOf = ([first]: readonly Waiting[]): number => first?.number ?? 0;
    if (this.#begun % OLDEST_EACH === 0) queues.sort((a, b) => numberOf(a) - numberOf(b));
    return queues[0]?.shift();
  }
}
