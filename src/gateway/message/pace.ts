/**
 * How one direction of an exchange moves while it is its client's turn to move it: for how long nothing has, and how
 * far it is behind a rate. Whoever was fast is not owed anything for it: an average over hours would let a client
 * take all at once what it then does not move for just as long.
 */

/** Whoever is behind so many times the least rate makes room where all places are taken, long before it is cut. */
const STALL_FACTOR = 16;

export class Pace {
  readonly #bytesPerSecond: number;
  #silentMs = 0;
  #behindMs = 0;
  #stalledMs = 0;

  /** @param bytesPerSecond the least rate */
  constructor(bytesPerSecond: number) {
    this.#bytesPerSecond = bytesPerSecond;
  }

  /** Longest silence up to now, of the client's time, milliseconds. */
  get silentMs(): number {
    return this.#silentMs;
  }

  /** So much longer than the least rate would have needed, milliseconds. */
  get behindMs(): number {
    return this.#behindMs;
  }

  /** The same at {@link STALL_FACTOR} times that rate. */
  get stalledMs(): number {
    return this.#stalledMs;
  }

  /**
   * @param clientMs since the last call; only time in which it was for the client to go on
   * @param bytes that moved meanwhile
   */
  moved(clientMs: number, bytes: number): void {
    this.#silentMs = bytes > 0 ? 0 : this.#silentMs + clientMs;
    const earnedMs = (bytes * 1000) / this.#bytesPerSecond;
    this.#behindMs = Math.max(0, this.#behindMs + clientMs - earnedMs);
    this.#stalledMs = Math.max(0, this.#stalledMs + clientMs - earnedMs / STALL_FACTOR);
  }

  /** Nothing is left for the client to do. */
  caughtUp(): void {
    this.#silentMs = 0;
    this.#behindMs = 0;
    this.#stalledMs = 0;
  }
}
