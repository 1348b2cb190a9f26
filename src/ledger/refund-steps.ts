/** What may happen to the refund of a payment, as data; what each does is in `refunds.ts`. */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";

export const REFUND_STATES = ["ASKED", "SENDING", "REFUNDED", "FAILED"] as const;

export type RefundState = (typeof REFUND_STATES)[number];

/** Of a refund that is under way. */
export type OpenRefundState = Exclude<RefundState, "REFUNDED" | "FAILED">;

/** So long after its refund was asked for a payment is final that nobody here watches, milliseconds. */
export const UNWATCHED_MS = 3_600_000;

/** What whoever shows a payment is told that was paid back. */
export const PAID_BACK = {
  code: "invalid_transaction_state",
  detail: "this payment was refunded by the seller; sign a new one",
} as const;

/** A transfer that pays back, signed by the key for it: stored before anybody sees it. */
export interface RefundTransfer {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
  /** Of the claim of its own row. */
  readonly idempotencyKey: string;
  /** Milliseconds since the epoch. */
  readonly signedMs: number;
}

/** What somebody may be told of a refund. */
export interface RefundSummary {
  readonly state: RefundState;
  readonly transaction: string | null;
  readonly detail: string | null;
  /** Key of the transfer's own row. */
  readonly transfer: PaymentKey | null;
  /** What of the payment is paid back out of its payer's balance, atomic units; null: all of it. */
  readonly creditsAtomic: string | null;
}

/** Each is for the attempt that whoever asks has seen: what another process has done meanwhile stays. */
export type RefundStep =
  /** `attempt`: of this transfer, one more than there were. `maxAtomic`: what may be paid back on one day. */
  | {
      readonly kind: "sending";
      readonly attempt: number;
      readonly transfer: RefundTransfer;
      readonly maxAtomic: bigint;
    }
  /** Why it waits. `isRefusal`: the transfer itself was refused, not only kept back here. */
  | {
      readonly kind: "told";
      readonly attempt: number;
      readonly detail: string;
      readonly isRefusal: boolean;
    }
  | { readonly kind: "refunded"; readonly attempt: number; readonly transaction: string }
  /** Only where no transfer of it can ever be moved any more. */
  | { readonly kind: "failed"; readonly attempt: number; readonly detail: string };

/**
 * `over`: it would be more than may be paid back on this day; `over share`: than may be so by itself to its payer. `gone`:
 * it is not there any more as it was seen.
 */
export type RefundOutcome = "done" | "over" | "over share" | "gone";

/** What of a refund is not a column. */
export interface RefundFacts {
  /** Transfers that were signed for it so far. */
  readonly attempt: number;
  /** Nobody has asked for it: it is paid back by itself. */
  readonly isAutomatic: boolean;
  /** The last one. */
  readonly transfer: RefundTransfer | null;
  /** That has paid it back. */
  readonly transaction: string | null;
  /** Why it is not sent now, or has failed. */
  readonly detail: string | null;
  /** Why the last transfer was refused while it counted, whatever was told since. */
  readonly refusal: string | null;
  /** Taken out of its payer's balance for it, atomic units; null: it is the payment that is paid back. */
  readonly creditsAtomic: bigint | null;
}

/** A refund that is under way. */
export interface OpenRefund extends RefundFacts {
  /** The payment that it is for. */
  readonly key: PaymentKey;
  readonly state: RefundState;
  readonly network: string;
  readonly asset: string;
  /** Atomic units: what the payer signed and was settled, or what of that is taken out of his balance. */
  readonly amountAtomic: bigint;
  /** What was paid, and in which transaction, where one is known. */
  readonly sale: FacilitatorRequest;
  readonly paidIn: string | null;
  /** To whom it goes: the payer. */
  readonly to: string;
  /** As what it was sold, for the books, and under which URL. */
  readonly route: string;
  readonly resource: string;
}
