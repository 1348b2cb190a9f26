/** Deliveries that have broken off, until that is stored: a payer who comes again by then is owed what he comes for. */
import { once } from "node:events";
import type { Time } from "../../time/time.ts";

/** How long their payers wait for one of them, milliseconds. */
export const OWING_MS = 2_000;

/** Sales that are remembered, whose worker may be the first to notice that they have broken off. */
export const MAX_BEGUN = 4_096;

/** Of which payer, as `payerOf` names him, and for which `METHOD path`. */
export interface Buying {
  readonly payer: string;
  readonly binding: string;
}

export class Owing {
  readonly #time: Time;
  readonly #notice: (() => Promise<unknown>) | undefined;
  /** The oldest first. */
  readonly #begun = new Set<string>();
  /** By payer, all of his: whoever asks waits for one promise, however often he has broken off. */
  readonly #under = new Map<string | null, Promise<void>>();

  /**
   * @param notice resolves when whoever delivers has noticed all that had broken off when it was called, and has said so, or does
   *   not answer. Default: nobody delivers but this process, which sees what breaks off before it sees its payer come again
   */
  constructor(time: Time, notice?: () => Promise<unknown>) {
    this.#time = time;
    this.#notice = notice;
  }

  /** It is claimed, and may be delivered from now on. */
  begin(buying: () => Buying): void {
    if (this.#notice === undefined) return;
    const name = nameOf(buying());
    this.#begun.delete(name);
    this.#begun.add(name);
    const [oldest = ""] = this.#begun.size > MAX_BEGUN ? this.#begun : [];
    this.#begun.delete(oldest);
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
  settled(buying: () => Buying): Promise<unknown> | undefined {
    const notice = this.#notice;
    if (notice === undefined || !this.#begun.has(nameOf(buying()))) return this.#stored(buying);
    return notice().then(() => this.#stored(buying));
  }

  #stored(buying: () => Buying): Promise<unknown> | undefined {
    if (this.#under.size === 0) return undefined;
    const [his, anybodys] = [this.#under.get(buying().payer), this.#under.get(null)];
    return his === undefined ? anybodys : Promise.all([his, anybodys]);
  }
}

function nameOf({ payer, binding }: Buying): string {
  return `${payer} ${binding}`;
}
