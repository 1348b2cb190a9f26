/** Payments that were handed to a facilitator elsewhere. */
import type { FacilitatorRequest } from "../x402/x402.ts";
import type { Send } from "./circuit.ts";
import type { InTurn, SettleOptions } from "../payments/facilitator.ts";
import type { RemoteFacilitator } from "./remote.ts";

/** A remote facilitator, and the way on which requests to it are counted. */
export interface AskedFacilitator {
  readonly remote: RemoteFacilitator;
  readonly send: Send;
}

/** A payment that is handed over. */
export interface Handed {
  readonly request: FacilitatorRequest;
  /** The chain's head before the first hand-over; null where it is not known. */
  readonly head: number | null;
}

/** A settlement that was handed over before. */
export interface Repeat {
  /** As it was handed over. */
  readonly name: string;
  /** Undefined where it is not configured any more. */
  readonly asked: AskedFacilitator | undefined;
  readonly idempotencyKey: string;
  readonly signal: AbortSignal;
  readonly inTurn?: InTurn;
  readonly gone?: AbortSignal;
  /**
   * Awaited before it is asked again. Whoever handed it over first may still be waiting in another process,
   * and must not drop the claim as unseen once it is asked for from here.
   */
  readonly onHandOver?: SettleOptions["onHandOver"];
}

/** Whom the payment was handed to, and how to ask again. */
export type HandedTo = Pick<Repeat, "asked" | "idempotencyKey" | "signal" | "onHandOver">;
