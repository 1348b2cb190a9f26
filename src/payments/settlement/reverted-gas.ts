/**
 * Gas that transactions of ours burn without moving money: a breaker on how much of it there is a minute.
 * A bucket fills with it and leaks; when it is over its brim, code of payers' is run for nobody, and nothing
 * signed for whoever's payment did not move lately, until half of it has leaked away. New payers have a bucket of
 * their own (`new-payers.ts`).
 */
import type { Time } from "../../time/time.ts";
import type { Refusal } from "../../x402/result.ts";

/** What may be burnt in one go before the breaker opens: the limit of three or four smart wallets, gas. */
export const MAX_REVERTED_GAS = 1_000_000;
/** What leaks away, and so may be burnt without an end: about one settlement's, gas a minute. */
export const REVERTED_GAS_PER_MINUTE = 100_000;

const REFUSAL: Refusal = {
  code: "invalid_transaction_state",
  detail:
    "payments of smart wallets, and of payers whose last one did not move, are not taken for now, since too " +
    "many transactions were reverted; try again later, or pay from an address without code",
};

export class RevertedGas {
  readonly #time: Pick<Time, "now">;
  #level = 0;
  #atMs = 0;
  #isOpen = false;

  constructor(time: Pick<Time, "now">) {
    this.#time = time;
  }

  /** True where this is what opens the breaker. */
  burnt(gas: number): boolean {
    this.#leak();
    this.#level += gas;
    const opens = !this.#isOpen && this.#level > MAX_REVERTED_GAS;
    this.#isOpen ||= opens;
    return opens;
  }

  /** Over its brim, or not half empty since. */
  get isOpen(): boolean {
    this.#leak();
    return this.#isOpen;
  }

  /** Why no code of payers' is run for now; undefined where it is. */
  refusal(): Refusal | undefined {
    return this.isOpen ? REFUSAL : undefined;
  }

  #leak(): void {
    const nowMs = this.#time.now();
    // A clock that was set back lets nothing out.
    const passedMs = Math.max(0, nowMs - this.#atMs);
    this.#atMs = nowMs;
    this.#level = Math.max(0, this.#level - (passedMs / 60_000) * REVERTED_GAS_PER_MINUTE);
    if (this.#level <= MAX_REVERTED_GAS / 2) this.#isOpen = false;
  }
}
