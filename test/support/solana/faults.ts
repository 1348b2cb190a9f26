/** What can go wrong with a node, on demand: one fault for each call that an injection matches. */

/** What goes wrong. */
export type Fault =
  /** `sendTransaction` answers with the signature, and the transaction is gone. */
  | { readonly lose: true }
  /** The connection breaks without an answer. */
  | { readonly drop: true }
  /** An HTTP answer of this status; 200 with a body that is no JSON makes a malformed answer. */
  | { readonly status: number; readonly body?: string }
  /** This result, whatever the truth is. */
  | { readonly result: unknown }
  /** This JSON-RPC error. */
  | { readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } }
  /** No answer until the injection is lifted; then the usual course. */
  | { readonly hold: true }
  /** The usual course, so many milliseconds late. */
  | { readonly delayMs: number }
  /** The answer of a node that is so many slots behind. */
  | { readonly lagSlots: number };

export type Injection = Fault & {
  /** Default: every method. */
  readonly method?: string;
  /**
   * `question` (default): before the node hears of it. `answer`: after it has acted on it, so that a
   * transaction is queued and only the word of it is lost.
   */
  readonly at?: "question" | "answer";
  /** Matching calls that pass unharmed before the first fault; default 0. */
  readonly skip?: number;
  /** How many calls meet the fault; default: all until it is lifted. */
  readonly times?: number;
};

/** A fault that is in force. */
export interface Injected {
  readonly id: number;
  /** How many calls have met it. */
  readonly hits: number;
  /** Resolves once so many calls have met it. */
  hit(times?: number): Promise<void>;
  /** Ends the fault; calls held by it go on. */
  lift(): void;
}

/** Injections at most at a time. */
const MAX_INJECTIONS = 1_000;

export class Faults {
  #injections: ActiveInjection[] = [];
  #lastId = 0;

  inject(injection: Injection): Injected {
    this.#injections = this.#injections.filter((each) => !each.isOver);
    if (this.#injections.length >= MAX_INJECTIONS) throw new Error("too many faults at a time");
    this.#lastId += 1;
    const active = new ActiveInjection(this.#lastId, injection);
    this.#injections.push(active);
    return active;
  }

  /** Ends one fault, or all of them. */
  lift(id?: number): void {
    for (const each of this.#injections) if (id === undefined || each.id === id) each.lift();
    this.#injections = this.#injections.filter((each) => !each.isOver);
  }

  /** The first injection that takes this call; it counts as met. */
  meet(method: string): ActiveInjection | undefined {
    return this.#injections.find((each) => each.takes(method));
  }
}

export class ActiveInjection implements Injected {
  readonly id: number;
  readonly fault: Injection;
  hits = 0;
  readonly #lifted = Promise.withResolvers<void>();
  #waiting: { readonly times: number; readonly resolve: () => void }[] = [];
  #skip: number;
  #left: number;
  #meeting = 0;

  constructor(id: number, fault: Injection) {
    this.id = id;
    this.fault = fault;
    this.#skip = fault.skip ?? 0;
    this.#left = fault.times ?? Number.POSITIVE_INFINITY;
  }

  /** Nothing will meet it any more, and nothing is held by it. */
  get isOver(): boolean {
    return this.#left <= 0 && this.#meeting === 0;
  }

  takes(method: string): boolean {
    const wanted = this.fault.method;
    if (this.#left <= 0 || (wanted !== undefined && wanted !== method)) return false;
    if (this.#skip > 0) {
      this.#skip -= 1;
      return false;
    }
    this.#left -= 1;
    this.#meeting += 1;
    return true;
  }

  /** To be called once the node has done what the fault lets it do. */
  done(): void {
    this.#meeting -= 1;
    this.hits += 1;
    const isDue = (each: { times: number }): boolean => each.times <= this.hits;
    const due = this.#waiting.filter(isDue);
    this.#waiting = this.#waiting.filter((each) => !isDue(each));
    for (const { resolve } of due) resolve();
  }

  /** For `hold` and `delayMs`: late, or at once when the fault is lifted. */
  async pause(): Promise<void> {
    if ("hold" in this.fault) return this.#lifted.promise;
    if (!("delayMs" in this.fault)) return;
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, this.fault.delayMs);
    await Promise.race([late.promise, this.#lifted.promise]);
    clearTimeout(timer);
  }

  hit(times = 1): Promise<void> {
    if (times <= this.hits) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.push({ times, resolve });
    });
  }

  lift(): void {
    this.#left = 0;
    this.#lifted.resolve();
  }
}
