/**
 * Virtual time: an event queue instead of a clock. Events of the same millisecond happen in an order that
 * the seed decides; between two events every promise that can go on does.
 */
import type { Time } from "../../src/time/time.ts";
import type { Random } from "./random.ts";

/** One life of a process; what belongs to a dead one never happens. */
export interface Life {
  readonly id: string;
  isAlive: boolean;
}

interface Event {
  readonly atMs: number;
  readonly order: number;
  readonly life: Life | null;
  run: (() => void) | null;
}

export class VirtualTime {
  nowMs: number;
  /** Events that have happened. */
  events = 0;
  readonly #random: Random;
  readonly #queue: Event[] = [];

  constructor(startMs: number, random: Random) {
    this.nowMs = startMs;
    this.#random = random;
  }

  /** Whose life it is, or null for what no crash can stop. Returns how to call it off. */
  schedule(inMs: number, life: Life | null, run: () => void): () => void {
    const atMs = this.nowMs + Math.max(0, inMs);
    const event: Event = { atMs, order: this.#random.next(), life, run };
    push(this.#queue, event);
    return () => {
      event.run = null;
    };
  }

  pause(ms: number, life: Life | null): Promise<void> {
    return new Promise((resolve) => this.schedule(ms, life, resolve));
  }

  /** Lets events happen until that time, or until there are no more. */
  run(untilMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const next = (): void => {
        try {
          if (this.#happen(untilMs)) queueMicrotask(afterMicrotasks);
          else resolve();
        } catch (cause) {
          reject(cause instanceof Error ? cause : new Error(String(cause)));
        }
      };
      // A tick begins when all microtasks are done, however many of them there are.
      const afterMicrotasks = (): void => process.nextTick(next);
      queueMicrotask(afterMicrotasks);
    });
  }

  #happen(untilMs: number): boolean {
    for (;;) {
      const first = this.#queue[0];
      if (first === undefined || first.atMs > untilMs) {
        this.nowMs = Math.max(this.nowMs, untilMs);
        return false;
      }
      pop(this.#queue);
      const { run, life } = first;
      if (run === null || life?.isAlive === false) continue;
      this.nowMs = first.atMs;
      this.events += 1;
      run();
      return true;
    }
  }
}

const TIME_UP = new DOMException("the time is up", "TimeoutError");

/** Time as one life sees it: with the life its timers end. */
export class LifeTime implements Time {
  readonly #time: VirtualTime;
  readonly #life: Life;

  constructor(time: VirtualTime, life: Life) {
    this.#time = time;
    this.#life = life;
  }

  now(): number {
    return this.#time.nowMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        signal?.removeEventListener("abort", wake);
        cancel();
        resolve();
      };
      const cancel = this.#time.schedule(ms, this.#life, wake);
      signal?.addEventListener("abort", wake, { once: true });
    });
  }

  timeout(ms: number): AbortSignal {
    const controller = new AbortController();
    this.#time.schedule(ms, this.#life, () => controller.abort(TIME_UP));
    return controller.signal;
  }
}

function isBefore(left: Event, right: Event): boolean {
  return left.atMs < right.atMs || (left.atMs === right.atMs && left.order < right.order);
}

function push(heap: Event[], event: Event): void {
  let at = heap.length;
  heap.push(event);
  while (at > 0) {
    const parent = (at - 1) >> 1;
    const above = heap[parent];
    if (above === undefined || !isBefore(event, above)) break;
    heap[at] = above;
    at = parent;
  }
  heap[at] = event;
}

function pop(heap: Event[]): void {
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return;
  let at = 0;
  for (;;) {
    const left = heap[2 * at + 1];
    if (left === undefined) break;
    const right = heap[2 * at + 2];
    const isRight = right !== undefined && isBefore(right, left);
    const child = isRight ? right : left;
    if (!isBefore(child, last)) break;
    heap[at] = child;
    at = 2 * at + (isRight ? 2 : 1);
  }
  heap[at] = last;
}
