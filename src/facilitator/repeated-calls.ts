/**
 * Calls of `/settle` in version 2 that bring no `Idempotency-Key` and were told that the outcome is not known yet. Their
 * clients send the same payment again, and mean the same settlement: whoever does so next asks under the key of the
 * call before. Once for each such answer, so that one payment still buys one grant. In memory: after a restart the
 * repetition is refused as a used payment, as it would be without this.
 */
import { randomUUID } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { SettleOptions } from "../payments/facilitator.ts";
import { paymentKey, type PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";

/** Calls that are remembered, the latest ones. */
const MAX_REMEMBERED = 10_000;

export class RepeatedCalls {
  readonly #keys = new LRUCache<PaymentKey, string>({ max: MAX_REMEMBERED });

  /** The key under which a call without one settles: a new one, or that of the call which it repeats. */
  take(request: FacilitatorRequest): Pick<SettleOptions, "idempotencyKey" | "isNewKey"> {
    const key = paymentKey(request);
    const before = key.ok ? this.#keys.get(key.value) : undefined;
    if (!key.ok || before === undefined) return { idempotencyKey: randomUUID(), isNewKey: true };
    this.#keys.delete(key.value);
    return { idempotencyKey: before };
  }

  /** Its outcome is not known, and it was settled under that key. */
  remember(
    request: FacilitatorRequest,
    { idempotencyKey }: Pick<SettleOptions, "idempotencyKey">,
  ): void {
    const key = paymentKey(request);
    if (key.ok && idempotencyKey !== undefined) this.#keys.set(key.value, idempotencyKey);
  }
}
