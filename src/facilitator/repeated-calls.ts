/**
 * Calls of `/settle` in version 2 that bring no `Idempotency-Key` and were told that the outcome is not known yet, or
 * nothing. Their clients send the same payment again, and mean the same settlement: whoever does so next asks under the
 * key of the call before. Once for each such answer, so that one payment still buys one grant; and what a gateway that
 * is known has asked for is told to no other caller, since a transaction in the air shows a payment to everybody. In
 * memory: after a restart the repetition is refused as a used payment, as it would be without this.
 */
import { createHash, randomUUID } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { SettleOptions } from "../payments/facilitator.ts";
import { paymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import type { Caller } from "./callers.ts";

/** Calls that are remembered, the latest ones. */
const MAX_REMEMBERED = 10_000;

type Key = Pick<SettleOptions, "idempotencyKey" | "isNewKey">;

export class RepeatedCalls {
  readonly #keys = new LRUCache<string, string>({ max: MAX_REMEMBERED });

  /** The key under which a call without one settles: a new one, or that of the call which it repeats. */
  take(request: FacilitatorRequest, caller: Caller): Key {
    const name = nameOf(request, caller);
    const before = name === undefined ? undefined : this.#keys.get(name);
    if (name === undefined || before === undefined) {
      return { idempotencyKey: randomUUID(), isNewKey: true };
    }
    this.#keys.delete(name);
    return { idempotencyKey: before };
  }

  /**
   * A call under that key has ended without an outcome.
   * @param isBegun whether it is certain that something was begun under a new key; else it takes no other's place
   */
  remember(
    request: FacilitatorRequest,
    caller: Caller,
    { idempotencyKey, isNewKey, isBegun }: Key & { readonly isBegun: boolean },
  ): void {
    const name = nameOf(request, caller);
    if (name === undefined || idempotencyKey === undefined) return;
    if (isNewKey === true && !isBegun && this.#keys.has(name)) return;
    this.#keys.set(name, idempotencyKey);
  }
}

/**
 * Callers without a name may call from anywhere, each time. Whoever shows another signature, or asks for something else,
 * repeats nothing: he would be refused, and the one who does would be so after him. Undefined: of a payment that has no
 * key nothing is ever begun, and its payload is of any shape.
 */
function nameOf(
  { paymentPayload, paymentRequirements }: FacilitatorRequest,
  { gateway }: Caller,
): string | undefined {
  const key = paymentKey({ paymentPayload, paymentRequirements });
  if (!key.ok) return undefined;
  const { payTo, maxAmountRequired, resource } = paymentRequirements;
  const asked = [key.value, payTo, maxAmountRequired, resource];
  const call = JSON.stringify([gateway, paymentPayload.payload, asked]);
  return createHash("sha256").update(call).digest("base64");
}
