/** Payments that wait to be gone on with. */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import type { HandedOver } from "./handed-over.ts";
import type { OpenRefund, OpenRefundState } from "./refund-steps.ts";

export interface OfferedPayment {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
  /** A transaction of ours that carried it did not move it: `withdrawn`. */
  readonly isPublic: boolean;
  /** Of its row. */
  readonly version: number;
}

export interface Queues {
  /** SIGNED rows that were handed to a remote facilitator and wait for their outcome, oldest first. */
  handedOvers(limit: number): Promise<readonly HandedOver[]>;
  /**
   * FAILED rows that are due to be looked for on the chain, the longest due first: a facilitator that was
   * given the authorization has refused it, and the chain can be asked whether it was used all the same.
   */
  doubted(limit: number): Promise<readonly HandedOver[]>;
  /** Claims of one network that are offered, oldest first; each is for the life that first takes it. */
  offers(network: string, limit: number): Promise<readonly OfferedPayment[]>;
  /** Resolves when a claim may have been offered on any network, or when the signal ends. Never rejects. */
  offered(signal: AbortSignal): Promise<void>;

  /**
   * Payments of a network whose refund is under way, that which was changed longest ago first. One that is only asked for
   * waits until no reorganization can be expected to undo the payment: its submission is closed, or nothing of ours
   * carries it, and the refund was asked for {@link UNWATCHED_MS} ago. `state`: only those; default: whichever.
   */
  refunds(network: string, limit: number, state?: OpenRefundState): Promise<readonly OpenRefund[]>;
}
