/** One timer for all that has to be looked at again and again, and none while there is nothing. */

/** How often everything is looked at, milliseconds: deadlines of seconds may be late by so much. */
const SWEEP_MS = 500;

export interface SweepOptions {
  /** A clock that only goes forward, milliseconds. */
  readonly clock: () => number;
}

export const systemSweep: SweepOptions = { clock: () => performance.now() };

export class Sweep<Item extends object, State> {
  readonly #states = new Map<Item, State>();
  readonly #clock: () => number;
  readonly #look: (item: Item, state: State, nowMs: number) => boolean;
  #timer: NodeJS.Timeout | null = null;

  /** @param look false: the item is done, and not looked at again */
  constructor(
    look: (item: Item, state: State, nowMs: number) => boolean,
    { clock }: SweepOptions = systemSweep,
  ) {
    this.#look = look;
    this.#clock = clock;
  }

  get size(): number {
    return this.#states.size;
  }

  get now(): number {
    return this.#clock();
  }

  stateOf(item: Item): State | undefined {
    return this.#states.get(item);
  }

  add(item: Item, state: State): void {
    this.#states.set(item, state);
    // It keeps no process alive: whatever is looked at has a connection that does.
    this.#timer ??= setInterval(this.#run, SWEEP_MS).unref();
  }

  delete(item: Item): void {
    this.#states.delete(item);
  }

  readonly #run = (): void => {
    const nowMs = this.#clock();
    for (const [item, state] of this.#states) {
      if (!this.#look(item, state, nowMs)) this.#states.delete(item);
    }
    if (this.#states.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  };
}
