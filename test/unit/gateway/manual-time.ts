/** Time that a test moves: pauses and timeouts end when it says so, in their order. */
import { setImmediate as turn } from "node:timers/promises";
import type { Time } from "../../../src/time/time.ts";

interface Alarm {
  readonly atMs: number;
  readonly ring: () => void;
}

export class ManualTime implements Time {
  #nowMs = 1_700_000_000_000;
  #alarms: Alarm[] = [];

  readonly now = (): number => this.#nowMs;

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      signal?.addEventListener("abort", () => resolve(), { once: true });
      this.#alarms.push({ atMs: this.#nowMs + ms, ring: resolve });
    });
  }

  timeout(ms: number): AbortSignal {
    const controller = new AbortController();
    this.#alarms.push({ atMs: this.#nowMs + ms, ring: () => controller.abort() });
    return controller.signal;
  }

  /** Moves on, once everything that can happen now has happened. */
  async advance(ms: number): Promise<void> {
    await turn();
    this.#nowMs += ms;
    const due = this.#alarms.filter(({ atMs }) => atMs <= this.#nowMs);
    this.#alarms = this.#alarms.filter(({ atMs }) => atMs > this.#nowMs);
    for (const { ring } of due.sort((left, right) => left.atMs - right.atMs)) ring();
    await turn();
  }
}
