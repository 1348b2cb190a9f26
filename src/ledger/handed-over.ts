/** Payments that were handed to a facilitator elsewhere, and what is known of where the chain stood then. */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";

/**
 * How long after its refusal a payment that was handed over is first looked for on the chain; each next pause is
 * twice as long, milliseconds.
 */
export const FIRST_DOUBT_MS = 5_000;
/** A payment whose outcome a remote facilitator, or the chain, knows. */
export interface HandedOver {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
  /** Key of the route that sells for it; null: nobody knows. */
  readonly route: string | null;
  readonly idempotencyKey: string;
  readonly facilitator: string;
  /**
   * The chain's newest block, or slot, as it was read before the first hand-over: only what is in a later one
   * can be of this payment. Null where no chain could be asked then, or an older program handed it over.
   */
  readonly handedOverAt: number | null;
  /** Milliseconds since the epoch of the last change of the row. */
  readonly sinceMs: number;
}
