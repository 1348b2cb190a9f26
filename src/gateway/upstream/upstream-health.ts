/**
 * Whether a target can be reached, as its connections tell: nobody pays for a request to one that cannot.
 * Connections that fail in a row say it is down; one that succeeds says it is up. While it is down one
 * request after another is let through, a pause apart, to find out (requests that were paid before, and
 * free ones, are tried in any case where there is no other target).
 */

/** So many connections in a row must fail. */
const FAILURES_UNTIL_DOWN = 3;
/** Failures further apart than this say nothing together, milliseconds. */
const FAILURE_WINDOW_MS = 10_000;
/** The pause between two tries while the target is down, milliseconds. */
const TRY_PAUSE_MS = 2_000;
/** What that pause grows to, twice as long after each try that failed, where others serve meanwhile. */
const LONGEST_PAUSE_MS = 30_000;

export class UpstreamHealth {
  readonly #now: () => number;
  #failures = 0;
  #failedAt = 0;
  #nextTryAt = 0;
  #nextReturnAt = 0;
  #pauseMs = TRY_PAUSE_MS;
  /** A try is under way: what fails beside it tells nothing new. */
  #isTrying = false;
  #onChange: () => void = () => {};

  /** `now`: milliseconds that only grow. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** `listener` is called whenever {@link isDown} has changed. */
  watch(listener: () => void): void {
    this.#onChange = listener;
  }

  get isDown(): boolean {
    return this.#failures >= FAILURES_UNTIL_DOWN;
  }

  /** A connection was made, or one that was kept has answered. */
  succeeded(): void {
    if (this.#failures === 0) return;
    const wasDown = this.isDown;
    this.#failures = 0;
    this.#pauseMs = TRY_PAUSE_MS;
    this.#isTrying = false;
    if (wasDown) this.#onChange();
  }

  /** A connection could not be made. */
  failed(): void {
    const now = this.#now();
    const wasDown = this.isDown;
    if (now - this.#failedAt > FAILURE_WINDOW_MS && !wasDown) this.#failures = 0;
    this.#failures += 1;
    this.#failedAt = now;
    this.#nextTryAt = now + TRY_PAUSE_MS;
    if (wasDown && this.#isTrying) this.#pauseMs = Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS);
    this.#isTrying = false;
    this.#nextReturnAt = now + this.#pauseMs;
    if (this.isDown && !wasDown) this.#onChange();
  }

  /** True: a request may be sent. While the target is down that is said once in each pause. */
  mayTry(): boolean {
    return !this.isDown || this.#isDue(this.#nextTryAt);
  }

  /**
   * Like {@link mayTry}, for a target that can be done without: the pause grows. `patienceMs` longer than
   * that waits who should not be the one to find out.
   */
  mayReturn(patienceMs: number): boolean {
    return !this.isDown || this.#isDue(this.#nextReturnAt + patienceMs);
  }

  #isDue(atMs: number): boolean {
    const now = this.#now();
    if (now < atMs) return false;
    this.#isTrying = true;
    this.#nextTryAt = now + TRY_PAUSE_MS;
    this.#nextReturnAt = now + this.#pauseMs;
    return true;
  }
}
