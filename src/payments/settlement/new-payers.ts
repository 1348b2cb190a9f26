/**
 * Payments in the air of payers who never paid here. Addresses cost nothing, and one call empties those of many
 * after we have signed: no budget for each of them bounds what they burn, so all of them have one together.
 * Over its brim they share few places, and who loses a payment keeps its place for a while. Whoever has paid is none
 * of them.
 */
import type { Time } from "../../time/time.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import { RevertedGas } from "./reverted-gas.ts";

/** What they have in the air at most: as many are lost before anything is asked of them. */
export const MAX_NEW = 100;
/** How long a place is kept that a payment was lost from while they are few, milliseconds. */
export const FEW_MS = 120_000;

export class NewPayers {
  readonly #time: Pick<Time, "now">;
  readonly #few: number;
  readonly #gas: RevertedGas;
  /** Whether each of them has one of the few places. */
  readonly #inAir = new Map<PaymentKey, boolean>();
  /** Until when the places of lost ones are kept, oldest first, milliseconds since the epoch. */
  #keptUntilMs: readonly number[] = [];

  /** `few`: places over the brim. */
  constructor(few: number, time: Pick<Time, "now">) {
    this.#time = time;
    this.#few = few;
    this.#gas = new RevertedGas(time);
  }

  /** Whether they have few places for now. */
  get areFew(): boolean {
    return this.#gas.isOpen;
  }

  /** Whether there is room for one more, beside so many that are not taken yet. */
  admits(beside: number): boolean {
    const inAir = this.#inAir.size + beside;
    if (!this.areFew) return inAir < MAX_NEW;
    const nowMs = this.#time.now();
    this.#keptUntilMs = this.#keptUntilMs.filter((untilMs) => untilMs > nowMs);
    return inAir + this.#keptUntilMs.length < this.#few;
  }

  take(key: PaymentKey): void {
    this.#inAir.set(key, this.areFew);
  }

  release(key: PaymentKey): void {
    this.#inAir.delete(key);
  }

  /** It did not move, and burnt so much gas; of others nothing is counted. True where that makes them few. */
  lost(key: PaymentKey, gas: number): boolean {
    const isOfFew = this.#inAir.get(key);
    if (isOfFew === undefined) return false;
    this.#inAir.delete(key);
    if (isOfFew) this.#keptUntilMs = [...this.#keptUntilMs, this.#time.now() + FEW_MS];
    return this.#gas.burnt(gas);
  }
}
