/** Rings once at the earliest of the times that it was told of. */
import type { Time } from "../../time/time.ts";

export class Alarm {
  readonly #time: Pick<Time, "now" | "sleep">;
  readonly #closing: AbortSignal;
  readonly #ring: () => void;
  #atMs: number | undefined;

  /** Rings no more when `closing` has ended. */
  constructor(time: Pick<Time, "now" | "sleep">, closing: AbortSignal, ring: () => void) {
    this.#time = time;
    this.#closing = closing;
    this.#ring = ring;
  }

  /** Milliseconds since the epoch; nothing is to be waited for where it is undefined. */
  set(dueMs: number | undefined): void {
    if (dueMs === undefined || (this.#atMs !== undefined && this.#atMs <= dueMs)) return;
    this.#atMs = dueMs;
    void this.#wait(dueMs);
  }

  async #wait(dueMs: number): Promise<void> {
    await this.#time.sleep(Math.max(0, dueMs - this.#time.now()), this.#closing);
    if (this.#atMs === dueMs) this.#atMs = undefined;
    if (!this.#closing.aborted) this.#ring();
  }
}
