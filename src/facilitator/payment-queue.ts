/**
 * Payments of one network that wait to be signed. While an account has nothing in the air it takes what is
 * there at once; otherwise payments are collected, so that one transaction carries many of them.
 */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { Settling } from "./flight.ts";

/** Payments that wait at most; more are turned away. */
export const MAX_QUEUED = 1_024;
/** Longest that a payment is held back for others to join it, milliseconds. */
export const COLLECT_MS = 100;

export class PaymentQueue {
  readonly #maxTogether: () => number;
  #together: Settling[] = [];
  #alone: Settling[] = [];

  /** `maxTogether`: payments that one transaction carries at most, as things stand. */
  constructor(maxTogether: () => number) {
    this.#maxTogether = maxTogether;
  }

  get size(): number {
    return this.#together.length + this.#alone.length;
  }

  add(item: Settling): void {
    (item.isAlone ? this.#alone : this.#together).push(item);
  }

  /** Puts back what was taken, before all others. */
  putBack(items: readonly Settling[]): void {
    this.#together.unshift(...items.filter(({ isAlone }) => !isAlone));
    this.#alone.unshift(...items.filter(({ isAlone }) => isAlone));
  }

  /** What one account is to sign now, oldest first; `isIdle`: it has nothing in the air. */
  take(nowMs: number, isIdle: boolean): readonly Settling[] {
    const [first] = this.#together;
    const [alone] = this.#alone;
    const maxTogether = this.#maxTogether();
    const isDue =
      first !== undefined &&
      (isIdle || this.#together.length >= maxTogether || nowMs - first.queuedMs >= COLLECT_MS);
    if (isDue && (alone === undefined || first.queuedMs <= alone.queuedMs)) {
      return this.#together.splice(0, maxTogether);
    }
    return this.#alone.splice(0, 1);
  }

  /** Milliseconds since the epoch: when those that are being collected have waited long enough. */
  get dueMs(): number | undefined {
    const [first] = this.#together;
    return first && first.queuedMs + COLLECT_MS;
  }

  /** Calls one back; undefined when it is not here any more. */
  remove(key: PaymentKey): Settling | undefined {
    const found = [...this.#together, ...this.#alone].find((item) => item.key === key);
    if (found === undefined) return undefined;
    this.#together = this.#together.filter((item) => item !== found);
    this.#alone = this.#alone.filter((item) => item !== found);
    return found;
  }

  /** Empties it. */
  drain(): readonly Settling[] {
    const all = [...this.#together, ...this.#alone];
    this.#together = [];
    this.#alone = [];
    return all;
  }
}
