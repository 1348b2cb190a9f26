/**
 * Whether a backend can be reached, as its traffic tells: nobody pays for a request to one that cannot.
 * Connections that fail in a row say it is down; one that succeeds says it is up. While it is down one
 * request after another is let through, a pause apart, to find out (requests that were paid before, and
 * free ones, are tried in any case).
 */

/** So many connections in a row must fail. */
const FAILURES_UNTIL_DOWN = 3;
/** Failures further apart than this say nothing together, milliseconds. */
const FAILURE_WINDOW_MS = 10_000;
/** The pause between two tries while the backend is down, milliseconds. */
const TRY_PAUSE_MS = 2_000;

export class UpstreamHealth {
  readonly #now: () => number;
  #failures = 0;
  #failedAt = 0;
  #nextTryAt = 0;

  /** `now`: milliseconds that only grow. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** A connection was made, or one that was kept has answered. */
  succeeded(): void {
    this.#failures = 0;
  }

  /** A connection could not be made. */
  failed(): void {
    const now = this.#now();
    if (now - this.#failedAt > FAILURE_WINDOW_MS && !this.#isDown()) this.#failures = 0;
    this.#failures += 1;
    this.#failedAt = now;
    this.#nextTryAt = now + TRY_PAUSE_MS;
  }

  /** True: a request may be sent. While the backend is down that is said once in each pause. */
  mayTry(): boolean {
    if (!this.#isDown()) return true;
    const now = this.#now();
    if (now < this.#nextTryAt) return false;
    this.#nextTryAt = now + TRY_PAUSE_MS;
    return true;
  }

  #isDown(): boolean {
    return this.#failures >= FAILURES_UNTIL_DOWN;
  }
}
