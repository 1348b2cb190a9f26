/** Time for tests whose pauses are over at once. */
import { setImmediate } from "node:timers/promises";
import type { Time } from "../../../../src/time/time.ts";

/** Where it begins: milliseconds since the epoch. */
const START_MS = 1_700_000_000_000;

/** Pauses take no time but the clock's; time limits are real, since real answers are waited for. */
export class LeapingTime implements Time {
  nowMs = START_MS;
  /** Every pause so far, milliseconds. */
  readonly pauses: number[] = [];

  now(): number {
    return this.nowMs;
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return;
    this.pauses.push(ms);
    this.nowMs += ms;
    await setImmediate();
  }

  timeout(ms: number): AbortSignal {
    return AbortSignal.timeout(ms);
  }
}
