/**
 * Time as the money path sees it: everything that waits, expires or is stamped asks here, so that a
 * simulation can run years of faults in seconds and repeat each of them.
 */
import { setTimeout as sleep } from "node:timers/promises";

export interface Time {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after the pause, or as soon as the signal ends it. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** A signal that aborts after that long; it does not keep the process alive. */
  timeout(ms: number): AbortSignal;
}

export const systemTime: Time = {
  now: Date.now,
  async sleep(ms, signal) {
    await sleep(ms, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
  },
  timeout: (ms) => AbortSignal.timeout(ms),
};
