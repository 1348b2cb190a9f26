/**
 * Where chains stand with payments before anybody is asked to settle them. What is used then is settled by
 * nobody any more, and what a chain shows later counts only behind the head that is read here.
 */
import { ChainError, type Observer, type Standing } from "../mechanism/mechanism.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import { FacilitatorFault } from "./facilitator.ts";

export class Standings {
  readonly #observers: ReadonlyMap<string, Observer>;
  /** As verifications have found them, each for the settlement that follows. */
  readonly #found = new WeakMap<FacilitatorRequest, Standing | null>();

  constructor(observers: ReadonlyMap<string, Observer>) {
    this.#observers = observers;
  }

  /**
   * For a verification; null where no chain can be asked about the payment.
   * @throws {FacilitatorFault} `unavailable` when it cannot be asked now
   */
  async find(request: FacilitatorRequest, signal: AbortSignal): Promise<Standing | null> {
    const standing = await this.#read(request, "unexpected_verify_error", signal);
    this.#found.set(request, standing);
    return standing;
  }

  /**
   * For a settlement, which follows a verification of the same request or not.
   * @throws {FacilitatorFault} as {@link find}
   */
  async take(request: FacilitatorRequest, signal: AbortSignal): Promise<Standing | null> {
    const found = this.#found.get(request);
    this.#found.delete(request);
    return found === undefined ? this.#read(request, "unexpected_settle_error", signal) : found;
  }

  /** Nothing was sent as yet; without a head the chain's word could not count once it is. */
  async #read(
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
