/**
 * The ledger: which payments were claimed, signed, settled and delivered. One row a payment, keyed by
 * {@link PaymentKey}, and `machine.ts` is the one place that says which transitions there are. When its promise
 * resolves a transition is seen by everybody, and durable but where a crash may undo it ({@link UNDOABLE}, and
 * `concluded`; decision record 30).
 *
 *     (none) -> CLAIMED -> SIGNED -> SETTLED -> DELIVERING(n) -> DELIVERED
 *                  |          |         ^            |
 *                  +- dropped +- FAILED +-- broken --+     (n is kept if anything was sent)
 *
 * A transaction that we signed is a {@link StoredSubmission}: it carries one payment or several, and all
 * the bytes that were ever signed for its account nonce.
 * Several processes ("lives") may share one ledger, and have lives of workers within theirs. From its claim to its
 * delivery a payment belongs to one request, that of the life which holds it; what that request leaves, or a dead
 * life leaves behind, is owed: whoever may collect it goes on with it (decision record 17).
 */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest, PaymentPayload } from "../x402/x402.ts";
import type { Books } from "./books.ts";
import type { Budgets } from "./budgets.ts";
import type { KeptCertificates } from "./certificates.ts";
import type { Outbox } from "./outbox.ts";
import type { Pauses } from "./pauses.ts";
import type { Pots } from "./pots.ts";
import type { SoldOffers } from "./sold-offers.ts";
import type { Queues } from "./queues.ts";
import type { OwedPayment, SignInRecords } from "./sign-ins.ts";
import type { Signing } from "./signing.ts";
import type { Upkeep } from "./upkeep.ts";
import type { Rowless } from "./used-elsewhere.ts";
import type {
  ClaimTerms,
  FailedPayment,
  OutcomeOf,
  SettledPayment,
  TransitionKind,
  TransitionOf,
} from "./transition.ts";
import type { StoredResponse } from "./sold-answer.ts";
export type { SubmissionCost } from "./accounts.ts";
export { FIRST_DOUBT_MS, type HandedOver } from "./handed-over.ts";
export { LedgerConflict, LedgerUnavailable } from "./ledger-fault.ts";
export { NOT_METERED, type MeteredSale } from "./metered.ts";
export { creditsPot, quotaOwner, quotaPot, spendablePots, usesPot } from "./pots.ts";
export type { PotBalance, PotDraw, PotDrawn, PotFill, Pots } from "./pots.ts";
export * from "./refund-steps.ts";
export type { OfferedPayment, Queues } from "./queues.ts";
export type { BoughtSale, OwedPayment, SignInRecords } from "./sign-ins.ts";
export type * from "./signing.ts";
export * from "./sold-answer.ts";
export * from "./transition.ts";

/** What the ledger knows when a payment is presented. */
export interface Recalled {
  /** That of the payment's first use, whatever asset and price it named; undefined: it was never claimed. */
  readonly request: FacilitatorRequest | undefined;
  /**
   * For a payment whose nonce is new: others of the same payer for the same binding that are paid, or may be, whose
   * goods nobody has and no request waits for; the oldest first, at most {@link MAX_OWED}.
   */
  readonly owed: readonly OwedPayment[];
  /** Another payment has the sale's identifier, or this one has it for another request. */
  readonly isMisnamed?: boolean;
}

/** Nothing else is looked up for it. */
export const MISNAMED: Recalled = { request: undefined, owed: [], isMisnamed: true };

/** What a payment is presented for. */
export type RecalledSale = Pick<ClaimTerms, "binding" | "target" | "identifier">;

/** One payment at a time. */
export interface Payments {
  /**
   * Asks one transition of one payment, by this life: read, judged and written at once. Rejects with
   * {@link LedgerConflict} where the row's state does not allow it.
   */
  step<Kind extends TransitionKind>(
    key: PaymentKey,
    transition: TransitionOf<Kind>,
  ): Promise<OutcomeOf<Kind>>;
  /** Resolves when the row may be of another version, at times too soon, or the signal ends. Never rejects. */
  changed(key: PaymentKey, version: number, signal: AbortSignal): Promise<void>;
}

/** The resource server's view. */
export interface Redemptions extends Payments, Rowless {
  /** Who signs in, and what he has bought. */
  readonly signIns: SignInRecords;
  /** What is spent in memory: balances that were prepaid, and quotas. */
  readonly pots: Pots;
  /**
   * What is known of a payment that is presented for a sale. Reads only, so that a worthless payment costs no
   * write.
   */
  recall(payment: PaymentPayload, sale: RecalledSale): Promise<Recalled>;
  /** The answer that is kept with a payment, for whoever may have it (`replay`). */
  answer(key: PaymentKey): Promise<StoredResponse | undefined>;
}

/** What is known of a settlement. */
export type SettlementOutcome =
  /** `transaction`: one of ours carries it, and may be sent by now. */
  | { readonly kind: "pending"; readonly version: number; readonly transaction?: string }
  | { readonly kind: "settled"; readonly settlement: SettledPayment }
  | { readonly kind: "held"; readonly transaction: string }
  | { readonly kind: "failed"; readonly failure: FailedPayment }
  /** The claim was dropped: nothing was signed. */
  | { readonly kind: "gone" };

/** The facilitator's view. */
export interface Settlements extends Payments {
  /** What our accounts sign. */
  readonly signing: Signing;
  /** What waits to be gone on with. */
  readonly queues: Queues;
  outcome(key: PaymentKey): Promise<SettlementOutcome>;
}

export interface Ledger extends Redemptions, Settlements {
  /** What is done beside the sales. */
  readonly upkeep: Upkeep;
  /** What an operator asks: lists, histories, counts. */
  readonly books: Books;
  /** What other gateways sold through us. */
  readonly sold: SoldOffers;
  /** What was sold and burnt in this hour. */
  readonly budgets: Budgets;
  /** What is not sold for a while. */
  readonly pauses: Pauses;
  /** Certificates that an authority gives, and what it takes to get them. */
  readonly certificates: KeptCertificates;
  /** What others are to be told. */
  readonly outbox: Outbox;
  /** Unix seconds of the last change of a route's public terms; stored on first sight and on change. */
  termsChangedAt(route: string, termsHash: string, now: number): Promise<number>;
  /** The share of a worker process: each life of each worker has another name, without "/". */
  worker(name: string): WorkerLife;
  /** Resolves when a trivial write succeeds; throws otherwise (readiness). */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/**
 * The resource server's view for one life of a worker process. What it claims is busy for its siblings until it
 * is settled by the process; what it delivers is its own.
 */
export interface WorkerLife extends Redemptions {
  /**
   * The life is over: its claims are dropped and its deliveries broken, as {@link Upkeep.reap} does for a
   * process. Not so the claims of `kept`, whose settlement goes on without a request. Resolves with the number of payments freed.
   */
  end(kept: ReadonlySet<PaymentKey>): Promise<number>;
}
