/** Long work in the one thread that serves, done so that nobody waits for it. */
import { setImmediate as turn } from "node:timers/promises";

/** Longest that it goes on without letting others work, milliseconds. */
const HELD_MS = 8;

export class Breath {
  #sinceMs = performance.now();

  /** To be called wherever the work may pause: returns at once unless it has gone on for long enough. */
  async take(): Promise<void> {
    if (performance.now() - this.#sinceMs < HELD_MS) return;
    await turn();
    this.#sinceMs = performance.now();
  }
}
