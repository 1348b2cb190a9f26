import { systemTime, type Time } from "../../src/time/time.ts";

/** The time of day, which a test may set forward. */
export class MovableTime implements Time {
  offsetMs = 0;

  now(): number {
    return systemTime.now() + this.offsetMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return systemTime.sleep(ms, signal);
  }

  timeout(ms: number): AbortSignal {
    return systemTime.timeout(ms);
  }
}
