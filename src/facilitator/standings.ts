/**
 * Where chains stand with payments before anybody is asked to settle them. What is used then is settled by
 * nobody any more, and what a chain shows later counts only behind the head that is read here.
 */
import { ChainError, type Observer, type Standing } from "../mechanism/mechanism.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import { FacilitatorFault } from "../payments/facilitator.ts";

export class Standings {
  readonly #observers: ReadonlyMap<string, Observer>;
  constructor(observers: ReadonlyMap<string, Observer>) {
    this.#observers = observers;
  }

  /**
   * Null where no chain can be asked about the payment. Nothing was sent as yet; without a head the chain's word could
   * not count once it is.
   * @throws {FacilitatorFault} `unavailable` when it cannot be asked now
   */
  async read(
    request: FacilitatorRequest,
    code: FacilitatorFault["code"],
    signal: AbortSignal,
  ): Promise<Standing | null> {
    const observer = this.#observers.get(request.paymentRequirements.network);
    const parsed = observer?.parse(request);
    if (observer === undefined || !parsed?.ok) return null;
    try {
      return await observer.standing(parsed.value, signal);
    } catch (cause) {
      if (!(cause instanceof ChainError)) throw cause;
      const message = `the chain cannot be asked before a payment is handed over: ${cause.message}`;
      throw new FacilitatorFault("unavailable", code, message, { cause });
    }
  }
}
