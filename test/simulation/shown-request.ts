/** A buyer's request, and the payment that it waits for: the one that it shows, or one that its payer is owed. */
import type { RequestFacts } from "../../src/telemetry/request-context.ts";
import type { PaymentKey } from "../../src/x402/payment-key.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** While a request waits for a payment; `toMs`: infinite until then. */
export interface Wait {
  readonly key: PaymentKey;
  readonly fromMs: number;
  toMs: number;
}

/** The paywall notes in these facts which payment it works on. */
export class ShownRequest implements RequestFacts {
  readonly requestId = "";
  readonly #time: VirtualTime;
  readonly #waits: Wait[];
  #wait: Wait;

  /** `waits`: those of all requests. */
  constructor(shown: PaymentKey, time: VirtualTime, waits: Wait[]) {
    this.#time = time;
    this.#waits = waits;
    this.#wait = this.#begin(shown);
  }

  get payment(): PaymentKey {
    return this.#wait.key;
  }

  set payment(key: PaymentKey) {
    // What goes on when its buyer has left is nobody's wait.
    if (this.#wait.toMs < Infinity) return;
    this.end();
    this.#wait = this.#begin(key);
  }

  end(): void {
    this.#wait.toMs = this.#time.nowMs;
  }

  #begin(key: PaymentKey): Wait {
    const wait = { key, fromMs: this.#time.nowMs, toMs: Infinity };
    this.#waits.push(wait);
    return wait;
  }
}
