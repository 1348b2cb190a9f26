/**
 * Payments of one network that wait to be signed. While an account has nothing in the air it takes what is
 * there at once; otherwise payments are collected, so that one transaction carries many of them.
 */
import type { PaymentKey } from "../../x402/payment-key.ts";
import type { Refusal } from "../../x402/result.ts";
import type { SignablePayment } from "./pending-payment.ts";

/** Payments that wait at most; more are turned away. */
export const MAX_QUEUED = 1_024;
/** Longest that a payment is held back for others to join it, milliseconds. */
export const COLLECT_MS = 100;
/** Of payments that may wait in vain for a place, those of one kind that wait at most; and for how long, milliseconds. */
export const MAX_CROWD = 64;
export const MAX_CROWD_WAIT_MS = 10_000;

export interface QueueRules {
  /** Payments that one transaction carries at most, as things stand. */
  readonly maxTogether: () => number;
  /** Why one that may wait in vain for its place is refused then; undefined for all others. */
  readonly crowding: (item: SignablePayment) => Refusal | undefined;
}

/** What one account can be given now. */
export interface Taking {
  readonly account: string;
  readonly nowMs: number;
  /** It has nothing in the air. */
  readonly isIdle: boolean;
  /** Whether there is a place for it, beside others that go with it. */
  readonly admits: (item: SignablePayment, beside?: readonly SignablePayment[]) => boolean;
}

export class PaymentQueue {
  readonly #rules: QueueRules;
  #together: SignablePayment[] = [];
  #alone: SignablePayment[] = [];

  constructor(rules: QueueRules) {
    this.#rules = rules;
  }

  get size(): number {
    return this.#together.length + this.#alone.length;
  }

  add(item: SignablePayment): void {
    (item.isAlone ? this.#alone : this.#together).push(item);
  }

  /** Puts back what was taken, before all others. */
  putBack(items: readonly SignablePayment[]): void {
    this.#together.unshift(...items.filter(({ isAlone }) => !isAlone));
    this.#alone.unshift(...items.filter(({ isAlone }) => isAlone));
  }

  /**
   * What one account is to sign now, oldest first; those that there is no place for hold up nobody, and
   * code of payers' runs when nobody else waits.
   */
  take({ account, nowMs, isIdle, admits }: Taking): readonly SignablePayment[] {
    const isFor = (item: SignablePayment): boolean => (item.account ?? account) === account;
    const isReady = (item: SignablePayment): boolean => isFor(item) && admits(item);
    const together = this.#together.filter(isReady);
    const [first] = together;
    const alone =
      this.#alone.find((item) => !item.checked.runsCode && isReady(item)) ??
      this.#alone.find(isReady);
    const maxTogether = this.#rules.maxTogether();
    const isDue =
      first !== undefined &&
      (isIdle || together.length >= maxTogether || nowMs - first.queuedMs >= COLLECT_MS);
    if (isDue && (!alone || alone.checked.runsCode || first.queuedMs <= alone.queuedMs)) {
      const going: SignablePayment[] = [];
      for (const item of together) {
        if (going.length < maxTogether && admits(item, going)) going.push(item);
      }
      return this.#takeOut(going);
    }
    return alone === undefined ? [] : this.#takeOut([alone]);
  }

  /** Milliseconds since the epoch: when those that are being collected have waited long enough. */
  dueMs(admits: Taking["admits"]): number | undefined {
    const first = this.#together.find((item) => admits(item));
    return first && first.queuedMs + COLLECT_MS;
  }

  /** Milliseconds since the epoch: when the first that may wait in vain has waited for too long. */
  get crowdUntilMs(): number | undefined {
    const crowd = this.#all.filter((item) => this.#rules.crowding(item) !== undefined);
    if (crowd.length === 0) return undefined;
    return Math.min(...crowd.map(({ queuedMs }) => queuedMs)) + MAX_CROWD_WAIT_MS;
  }

  /** Takes out those that `refusalOf` refuses, and of each crowd those that have waited for too long or are too many. */
  drainRefused(
    nowMs: number,
    refusalOf: (item: SignablePayment) => Refusal | undefined,
  ): readonly { readonly item: SignablePayment; readonly refusal: Refusal }[] {
    const crowds = new Map<Refusal | undefined, number>();
    const over = this.#all.flatMap((item) => {
      const crowding = this.#rules.crowding(item);
      const size = (crowds.get(crowding) ?? 0) + 1;
      crowds.set(crowding, size);
      const isOver = size > MAX_CROWD || nowMs - item.queuedMs >= MAX_CROWD_WAIT_MS;
      const refusal = refusalOf(item) ?? (isOver ? crowding : undefined);
      return refusal === undefined ? [] : [{ item, refusal }];
    });
    if (over.length > 0) this.#takeOut(over.map(({ item }) => item));
    return over;
  }

  /** Calls one back; undefined when it is not here any more. */
  remove(key: PaymentKey): SignablePayment | undefined {
    const found = this.#all.find((item) => item.key === key);
    if (found !== undefined) this.#takeOut([found]);
    return found;
  }

  /** Takes out those for which `isWanted`; all, where nothing is said. */
  drain(isWanted: (item: SignablePayment) => boolean = () => true): readonly SignablePayment[] {
    return this.#takeOut(this.#all.filter(isWanted));
  }

  get #all(): readonly SignablePayment[] {
    return [...this.#together, ...this.#alone];
  }

  #takeOut(items: readonly SignablePayment[]): readonly SignablePayment[] {
    const taken = new Set(items);
    this.#together = this.#together.filter((item) => !taken.has(item));
    this.#alone = this.#alone.filter((item) => !taken.has(item));
    return items;
  }
}
