/**
 * Payments of one network that wait to be signed. While an account has nothing in the air it takes what is
 * there at once; otherwise payments are collected, so that one transaction carries many of them.
 */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { Refusal } from "../x402/result.ts";
import type { Settling } from "./flight.ts";

/** Payments that wait at most; more are turned away. */
export const MAX_QUEUED = 1_024;
/** Longest that a payment is held back for others to join it, milliseconds. */
export const COLLECT_MS = 100;
/** Payments that run code of their payers' and wait at most; and for how long, milliseconds. */
export const MAX_CODE_QUEUED = 64;
export const MAX_CODE_WAIT_MS = 10_000;

/** Why code of payers' is not run after all. */
export const CROWDED: Refusal = {
  code: "invalid_transaction_state",
  detail: "too many payments of smart wallets are under way; try again later",
};

/** What one account can be given now. */
export interface Taking {
  readonly account: string;
  readonly nowMs: number;
  /** It has nothing in the air. */
  readonly isIdle: boolean;
  readonly admits: (item: Settling) => boolean;
}

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

  /**
   * What one account is to sign now, oldest first; those that there is no place for hold up nobody, and
   * code of payers' runs when nobody else waits.
   */
  take({ account, nowMs, isIdle, admits }: Taking): readonly Settling[] {
    const isFor = (item: Settling): boolean => (item.account ?? account) === account;
    const isReady = (item: Settling): boolean => isFor(item) && admits(item);
    const together = this.#together.filter(isReady);
    const [first] = together;
    const alone =
      this.#alone.find((item) => !item.runsCode && isReady(item)) ?? this.#alone.find(isReady);
    const maxTogether = this.#maxTogether();
    const isDue =
      first !== undefined &&
      (isIdle || together.length >= maxTogether || nowMs - first.queuedMs >= COLLECT_MS);
    if (isDue && (!alone || alone.runsCode || first.queuedMs <= alone.queuedMs)) {
      return this.#takeOut(together.slice(0, maxTogether));
    }
    return alone === undefined ? [] : this.#takeOut([alone]);
  }

  /** Milliseconds since the epoch: when those that are being collected have waited long enough. */
  dueMs(admits: Taking["admits"]): number | undefined {
    const first = this.#together.find(admits);
    return first && first.queuedMs + COLLECT_MS;
  }

  /** Whether no more that run code of their payers' may wait. */
  get isFullOfCode(): boolean {
    return this.#alone.filter(({ runsCode }) => runsCode).length >= MAX_CODE_QUEUED;
  }

  /** Milliseconds since the epoch: when the first that runs code of its payer's has waited for too long. */
  get codeUntilMs(): number | undefined {
    const first = this.#alone.find(({ runsCode }) => runsCode);
    return first && first.queuedMs + MAX_CODE_WAIT_MS;
  }

  /** Takes out those that `refusalOf` refuses, and code of payers' that has waited for too long. */
  drainRefused(
    nowMs: number,
    refusalOf: (item: Settling) => Refusal | undefined,
  ): readonly { readonly item: Settling; readonly refusal: Refusal }[] {
    const over = [...this.#together, ...this.#alone].flatMap((item) => {
      const isLate = item.runsCode && nowMs - item.queuedMs >= MAX_CODE_WAIT_MS;
      const refusal = refusalOf(item) ?? (isLate ? CROWDED : undefined);
      return refusal === undefined ? [] : [{ item, refusal }];
    });
    if (over.length > 0) this.#takeOut(over.map(({ item }) => item));
    return over;
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
