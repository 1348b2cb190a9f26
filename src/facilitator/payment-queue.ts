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
  take(account: string, nowMs: number, isIdle: boolean): readonly Settling[] {
    const isFor = (item: Settling): boolean => (item.account ?? account) === account;
    const together = this.#together.filter(isFor);
    const [first] = together;
    const alone = this.#alone.find(isFor);
    const maxTogether = this.#maxTogether();
    const isDue =
      first !== undefined &&
      (isIdle || together.length >= maxTogether || nowMs - first.queuedMs >= COLLECT_MS);
    if (isDue && (alone === undefined || first.queuedMs <= alone.queuedMs)) {
      return this.#takeOut(together.slice(0, maxTogether));
    }
    return alone === undefined ? [] : this.#takeOut([alone]);
  }

  /** Milliseconds since the epoch: when those that are being collected have waited long enough. */
  get dueMs(): number | undefined {
    const [first] = this.#together;
    return first && first.queuedMs + COLLECT_MS;
  }

  /** Calls one back; undefined when it is not here any more. */
  remove(key: PaymentKey): Settling | undefined {
    const found = [...this.#together, ...this.#alone].find((item) => item.key === key);
    if (found !== undefined) this.#takeOut([found]);
    return found;
  }

  /** Takes out those for which `isWanted`; all, where nothing is said. */
  drain(isWanted: (item: Settling) => boolean = () => true): readonly Settling[] {
    return this.#takeOut([...this.#together, ...this.#alone].filter(isWanted));
  }

  #takeOut(items: readonly Settling[]): readonly Settling[] {
    const taken = new Set(items);
    this.#together = this.#together.filter((item) => !taken.has(item));
    this.#alone = this.#alone.filter((item) => !taken.has(item));
    return items;
  }
}
