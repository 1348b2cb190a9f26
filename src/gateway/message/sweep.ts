/** One timer for all that has to be looked at again and again, and none while there is nothing. */
import { Bag, type Bagged } from "./bag.ts";

/** How often everything is looked at, milliseconds: deadlines of seconds may be late by so much. */
const SWEEP_MS = 500;

export interface SweepOptions {
  /** A clock that only goes forward, milliseconds. */
  readonly clock: () => number;
}

export const systemSweep: SweepOptions = { clock: () => performance.now() };

export class Sweep<Item extends Bagged> {
  readonly #items = new Bag<Item>();
  readonly #clock: () => number;
  readonly #look: (item: Item, nowMs: number) => boolean;
  #timer: NodeJS.Timeout | null = null;

  /** @param look false: the item is done, and not looked at again */
  constructor(look: (item: Item, nowMs: number) => boolean, { clock }: SweepOptions = systemSweep) {
    this.#look = look;
    this.#clock = clock;
  }

  get size(): number {
    return this.#items.size;
  }

  get all(): readonly Item[] {
    return this.#items.all();
  }

  get now(): number {
    return this.#clock();
  }

  add(item: Item): void {
    this.#items.add(item);
    // It keeps no process alive: whatever is looked at has a connection that does.
    this.#timer ??= setInterval(this.#run, SWEEP_MS).unref();
  }

  delete(item: Item): void {
    this.#items.delete(item);
  }

  readonly #run = (): void => {
    const nowMs = this.#clock();
    for (const item of this.#items.all()) {
      const isOver = item.at !== -1 && !this.#look(item, nowMs);
      if (isOver) this.#items.delete(item);
    }
    if (this.#items.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  };
}
