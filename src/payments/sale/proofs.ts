/**
 * New payments that were presented by payers who are owed something, and what each of them is to collect. A client
 * that repeats its request, perhaps at the same time, presents the same one: it pays for nothing else. Known by their
 * keys, in memory; nothing of their signatures is.
 */
import type { OwedPayment } from "../../ledger/ledger.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";

/** How many of them are remembered. */
export const MAX_REMEMBERED = 1024;
/** How many of one payer, who signs as many as he likes for nothing. */
export const MAX_REMEMBERED_OF_PAYER = 16;

interface Remembered {
  readonly payer: string;
  readonly owed: readonly OwedPayment[];
}

export class Proofs {
  /** The oldest first. */
  readonly #proofs = new Map<PaymentKey, Remembered>();
  /** Each payer's own, the oldest first. */
  readonly #ofPayers = new Map<string, Set<PaymentKey>>();

  /** Undefined: it was not presented as one. */
  find(key: PaymentKey): readonly OwedPayment[] | undefined {
    return this.#proofs.get(key)?.owed;
  }

  /** The payer's oldest one makes room where he has his share, else the oldest of all. */
  remember(key: PaymentKey, payer: string, owed: readonly OwedPayment[]): void {
    if (!this.#proofs.has(key)) {
      const own = this.#ofPayers.get(payer) ?? new Set();
      const [oldest] = own.size >= MAX_REMEMBERED_OF_PAYER ? own : this.#proofs.keys();
      const isFull = own.size >= MAX_REMEMBERED_OF_PAYER || this.#proofs.size >= MAX_REMEMBERED;
      if (isFull && oldest !== undefined) this.forget(oldest);
      this.#ofPayers.set(payer, own.add(key));
    }
    this.#proofs.set(key, { payer, owed });
  }

  /** It is charged itself. */
  forget(key: PaymentKey): void {
    const payer = this.#proofs.get(key)?.payer;
    this.#proofs.delete(key);
    if (payer === undefined) return;
    const own = this.#ofPayers.get(payer);
    own?.delete(key);
    if (own?.size === 0) this.#ofPayers.delete(payer);
  }
}
