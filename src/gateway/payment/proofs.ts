/**
 * New payments that were presented by payers who are owed something, and what each of them is to collect. A client
 * that repeats its request, perhaps at the same time, presents the same one: it pays for nothing else. Known by their
 * keys, in memory; nothing of their signatures is.
 */
import type { OwedPayment } from "../../ledger/ledger.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";

/** How many of them are remembered. */
const MAX_REMEMBERED = 1024;

export class Proofs {
  readonly #owed = new Map<PaymentKey, readonly OwedPayment[]>();

  /** Undefined: it was not presented as one. */
  find(key: PaymentKey): readonly OwedPayment[] | undefined {
    return this.#owed.get(key);
  }

  remember(key: PaymentKey, owed: readonly OwedPayment[]): void {
    const [oldest] = this.#owed.keys();
    if (this.#owed.size >= MAX_REMEMBERED && oldest !== undefined) this.#owed.delete(oldest);
    this.#owed.set(key, owed);
  }

  /** It is charged itself. */
  forget(key: PaymentKey): void {
    this.#owed.delete(key);
  }
}
