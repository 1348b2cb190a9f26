/**
 * Faults at every boundary: each call that leaves a life's memory goes through here, takes its time, and
 * may fail before or after its effect, or be the last thing that its life does.
 */
import type { Random } from "./random.ts";
import type { Life, VirtualTime } from "./virtual-time.ts";

export const FAULTS = ["crash-before", "crash-after", "fail-before", "fail-after", "slow"] as const;
export type Fault = (typeof FAULTS)[number];

/** Decides what goes wrong at which crossing, counted from 0. */
export interface FaultPlan {
  at(crossing: number, name: string): Fault | undefined;
}

export interface Crossing<Value> {
  readonly name: string;
  /** What it costs to get there, and again to come back, milliseconds at most. */
  readonly mostMs: number;
  /** How long it takes where it is slow, milliseconds; by default longer than most wait. */
  readonly slowMs?: number;
  /** True for what is under way outside of us when we die, and arrives nevertheless. */
  readonly outlives?: boolean;
  readonly signal?: AbortSignal;
  /** The error of a call that did not get there, or whose answer was lost. */
  readonly fault: (isTimeUp: boolean) => Error;
  readonly effect: () => Promise<Value> | Value;
  /** What happens where the effect does not: a transaction that is rolled back has run. */
  readonly undone?: () => void;
}

export interface BoundaryOptions {
  readonly time: VirtualTime;
  readonly random: Random;
  readonly plan: FaultPlan;
  readonly crash: (life: Life) => void;
  readonly trace: (line: string) => void;
}

/** How long a slow call takes, milliseconds. */
const SLOW_MS = 12_000;

export class Boundary {
  readonly #options: BoundaryOptions;
  #crossings = 0;
  #faults = 0;

  constructor(options: BoundaryOptions) {
    this.#options = options;
  }

  /** How many calls there were. */
  get crossings(): number {
    return this.#crossings;
  }

  /** How many of them went wrong. */
  get faults(): number {
    return this.#faults;
  }

  cross<Value>(life: Life, crossing: Crossing<Value>): Promise<Value> {
    const { signal } = crossing;
    return new Promise((resolve, reject) => {
      if (!life.isAlive) return;
      const isTimeUp = (): void => {
        if (life.isAlive) reject(crossing.fault(true));
      };
      if (signal?.aborted === true) return isTimeUp();
      signal?.addEventListener("abort", isTimeUp, { once: true });
      const end = (): boolean => {
        signal?.removeEventListener("abort", isTimeUp);
        return life.isAlive;
      };
      void this.#pass(life, crossing)
        .then((value) => (end() ? resolve(value) : undefined))
        .catch((cause: unknown) => (end() ? reject(asError(cause)) : undefined));
    });
  }

  async #pass<Value>(life: Life, crossing: Crossing<Value>): Promise<Value> {
    const { time, random, plan, trace } = this.#options;
    const number = this.#crossings;
    this.#crossings += 1;
    const { name, mostMs, slowMs = SLOW_MS, outlives } = crossing;
    const what = plan.at(number, name);
    if (what !== undefined) this.#faults += 1;
    trace(`${life.id}: #${number} ${name}${what === undefined ? "" : ` [${what}]`}`);
    const bound = outlives === true ? null : life;
    await time.pause(what === "slow" ? slowMs : random.between(0, mostMs), bound);
    if (what === "crash-before" || what === "fail-before") {
      crossing.undone?.();
      return this.#fail(life, crossing, what === "crash-before");
    }
    const [outcome] = await Promise.allSettled([(async () => crossing.effect())()]);
    if (what === "crash-after") return this.#fail(life, crossing, true);
    await time.pause(random.between(0, mostMs), life);
    if (what === "fail-after") return this.#fail(life, crossing, false);
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  }

  #fail<Value>(life: Life, { fault }: Crossing<Value>, isLast: boolean): Promise<never> {
    if (!isLast) throw fault(false);
    this.#options.crash(life);
    return never();
  }
}

function asError(cause: unknown): Error {
  return cause instanceof Error ? cause : new Error(String(cause));
}

/** What a dead life waits for. */
export function never(): Promise<never> {
  return new Promise(() => undefined);
}
