/**
 * Looks at the chain for payments that were refused, asked for by whoever presents one again. What a stranger
 * presents over and over costs no more looks than this allows.
 */
import { LRUCache } from "lru-cache";
import type { Time } from "../time/time.ts";
import type { PaymentKey } from "../x402/payment-key.ts";
import type { SettleResponse } from "../x402/x402.ts";
import { FacilitatorFault } from "../payments/facilitator.ts";

/** Between two looks for one payment, milliseconds. */
const PAUSE_MS = 5_000;
/** Looks at the same time. */
const MAX_AT_ONCE = 8;
/** Payments whose last look is remembered; beyond them the oldest are forgotten. */
const MAX_REMEMBERED = 1_000;

export class SecondLooks {
  readonly #time: Pick<Time, "now">;
  /** When a payment was looked for, milliseconds since the epoch; the oldest first. */
  readonly #lookedMs = new LRUCache<string, number>({ max: MAX_REMEMBERED });
  #running = 0;

  constructor(time: Pick<Time, "now">) {
    this.#time = time;
  }

  /**
   * Undefined without a look where one was taken a moment ago.
   * @throws {FacilitatorFault} `unknown` where too many are under way
   */
  async take(
    key: PaymentKey,
    look: () => Promise<SettleResponse | undefined>,
  ): Promise<SettleResponse | undefined> {
    const nowMs = this.#time.now();
    const lastMs = this.#lookedMs.get(key);
    if (lastMs !== undefined && nowMs - lastMs < PAUSE_MS) return undefined;
    if (this.#running >= MAX_AT_ONCE) {
      throw new FacilitatorFault(
        "unknown",
        "unexpected_settle_error",
        "too many look for payments",
      );
    }
    this.#lookedMs.set(key, nowMs);
    this.#running += 1;
    try {
      return await look();
    } finally {
      this.#running -= 1;
    }
  }
}
