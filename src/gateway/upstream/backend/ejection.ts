/**
 * Whether a target that can be reached also answers: one that breaks its exchanges, or answers 502, 503 or
 * 504, several times in a row, is left alone for a time that grows. Only meant where another target serves
 * meanwhile; whoever owns this decides that.
 */

/** So many bad exchanges in a row. */
const FAULTS_UNTIL_EJECTED = 5;
/** How long a target is left alone for the first time, milliseconds; then twice as long each time. */
const FIRST_EJECTION_MS = 5_000;
const LONGEST_EJECTION_MS = 60_000;
/** A target that was good for so long is ejected for the first time again, milliseconds. */
const FORGIVEN_AFTER_MS = 120_000;
/** Between two requests that find out whether a target is well again, milliseconds. */
const TRIAL_PAUSE_MS = 1_000;

export class Ejection {
  readonly #now: () => number;
  #faults = 0;
  #isOut = false;
  #pauseMs = 0;
  #returnsAt = 0;
  #returnedAt = Number.NEGATIVE_INFINITY;
  #triedAt = Number.NEGATIVE_INFINITY;

  /** `now`: milliseconds that only grow. */
  constructor(now: () => number) {
    this.#now = now;
  }

  get isOut(): boolean {
    return this.#isOut;
  }

  /** An exchange went well. True where that brings the target back: its time was over. */
  answered(): boolean {
    if (this.#faults === 0) return false;
    if (this.#isOut && this.#now() < this.#returnsAt) return false;
    this.#faults = 0;
    if (!this.#isOut) return false;
    this.#isOut = false;
    this.#returnedAt = this.#now();
    return true;
  }

  /** An exchange went badly. True: often enough in a row to {@link eject} the target. */
  faulted(): boolean {
    this.#faults += 1;
    // Found out once more: what was under way beside it adds nothing.
    if (this.#isOut && this.#now() >= this.#returnsAt) this.eject();
    return !this.#isOut && this.#faults >= FAULTS_UNTIL_EJECTED;
  }

  eject(): void {
    const now = this.#now();
    const isForgiven = !this.#isOut && now - this.#returnedAt > FORGIVEN_AFTER_MS;
    const pauseMs = isForgiven || this.#pauseMs === 0 ? FIRST_EJECTION_MS : 2 * this.#pauseMs;
    this.#pauseMs = Math.min(pauseMs, LONGEST_EJECTION_MS);
    this.#isOut = true;
    this.#returnsAt = now + this.#pauseMs;
    this.#triedAt = Number.NEGATIVE_INFINITY;
  }

  /**
   * True once in each second when the time is over: one request after another finds out. `patienceMs`
   * longer waits who should not be the one.
   */
  mayReturn(patienceMs: number): boolean {
    if (!this.#isOut) return true;
    const now = this.#now();
    if (now < this.#returnsAt + patienceMs || now - this.#triedAt < TRIAL_PAUSE_MS) return false;
    this.#triedAt = now;
    return true;
  }
}
