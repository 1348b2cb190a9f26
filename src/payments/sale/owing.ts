/** Deliveries that have broken off, until that is stored: a payer who comes again by then is owed what he comes for. */
import { once } from "node:events";
import type { Time } from "../../time/time.ts";

/** How long others wait for one of them, milliseconds. */
export const OWING_MS = 2_000;

export class Owing {
  readonly #time: Time;
  readonly #under = new Set<Promise<unknown>>();

  constructor(time: Time) {
    this.#time = time;
  }

  /** `stored` never rejects. */
  add(stored: Promise<unknown>): void {
    const over = Promise.race([stored, once(this.#time.timeout(OWING_MS), "abort")]);
    this.#under.add(over);
    void over.then(() => this.#under.delete(over));
  }

  /** What has broken off by now is stored, or has had its time. Undefined: nothing has. */
  settled(): Promise<unknown> | undefined {
    return this.#under.size === 0 ? undefined : Promise.all(this.#under);
  }
}
