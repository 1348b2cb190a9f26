/** Deliveries that have broken off, until that is stored: a payer who comes again by then is owed what he comes for. */
import { once } from "node:events";
import type { Time } from "../../time/time.ts";

/** How long their payers wait for one of them, milliseconds. */
export const OWING_MS = 2_000;

export class Owing {
  readonly #time: Time;
  /** By payer, all of his: whoever asks waits for one promise, however often he has broken off. */
  readonly #under = new Map<string | null, Promise<void>>();

  constructor(time: Time) {
    this.#time = time;
  }

  /**
   * @param payer as `payerOf` names him, and nobody else waits: a stranger could have all wait who breaks off again and again.
   *   null: anybody, where a worker has died
   * @param stored never rejects
   */
  add(payer: string | null, stored: Promise<unknown>): void {
    const over = Promise.race([stored, once(this.#time.timeout(OWING_MS), "abort")]);
    const all = this.#behind(payer, over);
    this.#under.set(payer, all);
    void this.#forget(payer, all);
  }

  async #behind(payer: string | null, over: Promise<unknown>): Promise<void> {
    await Promise.all([this.#under.get(payer), over]);
  }

  async #forget(payer: string | null, all: Promise<void>): Promise<void> {
    await all;
    if (this.#under.get(payer) === all) this.#under.delete(payer);
  }

  /** What of his has broken off by now is stored, or has had its time. Undefined: nothing has. */
  settled(payer: () => string): Promise<unknown> | undefined {
    if (this.#under.size === 0) return undefined;
    const [his, anybodys] = [this.#under.get(payer()), this.#under.get(null)];
    return his === undefined ? anybodys : Promise.all([his, anybodys]);
  }
}
