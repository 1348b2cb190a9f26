/**
 * A payer who has code from one block to the next (EIP-7702) can make a transaction with many payments fail
 * as a whole. After that payments go alone for a while, and for longer each time it happens again.
 */
import type { Time } from "../../time/time.ts";

/** How long payments go alone after the first time, milliseconds; each further time twice as long. */
export const FIRST_PAUSE_MS = 60_000;
/** Longest pause, and how long there must be none before the next one is a first one again, milliseconds. */
export const MAX_PAUSE_MS = 3_600_000;

export class BatchPause {
  readonly #time: Pick<Time, "now">;
  #pauseMs = 0;
  #untilMs = 0;

  constructor(time: Pick<Time, "now">) {
    this.#time = time;
  }

  get isOn(): boolean {
    return this.#time.now() < this.#untilMs;
  }

  /** A batch was reverted as a whole. The length of the pause that this begins, or undefined in a pause. */
  reverted(): number | undefined {
    // Those that were in the air together are one misfortune.
    if (this.isOn) return undefined;
    const nowMs = this.#time.now();
    const isFirst = nowMs - this.#untilMs >= MAX_PAUSE_MS;
    this.#pauseMs = isFirst ? FIRST_PAUSE_MS : Math.min(2 * this.#pauseMs, MAX_PAUSE_MS);
    this.#untilMs = nowMs + this.#pauseMs;
    return this.#pauseMs;
  }
}
