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
import type { SubmissionCost } from "./accounts.ts";
import type { Books } from "./books.ts";
import type { Budgets } from "./budgets.ts";
import type { KeptCertificates } from "./certificates.ts";
import type { Outbox } from "./outbox.ts";
import type { Pauses } from "./pauses.ts";
import type { Pots } from "./pots.ts";
import type { Draws, Purses } from "./purse.ts";
import type { HandedOver } from "./handed-over.ts";
import type { SoldOffers } from "./sold-offers.ts";
import type { SignInUses } from "./sign-ins.ts";
import type { OpenRefund, OpenRefundState } from "./refund-steps.ts";
import type { Forgetting } from "./forgetting.ts";
import type { Sweeping } from "./sweep.ts";
import type { Unattended } from "./unattended.ts";
import type { Rowless } from "./used-elsewhere.ts";
import type {
  ClaimTerms,
  FailedPayment,
  OutcomeOf,
  PaymentState,
  SettledPayment,
  SubmissionState,
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

/** What a payer asks for who has signed in. */
export type BoughtSale = Pick<ClaimTerms, "binding" | "target">;

/** What a payment is presented for. */
export type RecalledSale = Pick<ClaimTerms, "binding" | "target" | "identifier">;

export interface OwedPayment {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
}

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
export interface Redemptions extends Payments, Rowless, SignInUses {
  /** What is spent in memory: balances that were prepaid, and quotas. */
  readonly pots: Pots;
  /**
   * What is known of a payment that is presented for a sale. Reads only, so that a worthless payment costs no
   * write.
   */
  recall(payment: PaymentPayload, sale: RecalledSale): Promise<Recalled>;
  /**
   * What a payer has bought by such a request that he has not got, or may have again: what he has not got first, then
   * the newest; at most {@link MAX_OWED}, of a bounded number of his newest payments. No network is looked at.
   */
  bought(payer: string, sale: BoughtSale): Promise<readonly OwedPayment[]>;
  /** The answer that is kept with a payment, for whoever may have it (`replay`). */
  answer(key: PaymentKey): Promise<StoredResponse | undefined>;
  /** SIGNED rows that were handed to a remote facilitator and wait for their outcome, oldest first. */
  handedOvers(limit: number): Promise<readonly HandedOver[]>;
  /**
   * FAILED rows that are due to be looked for on the chain, the longest due first: a facilitator that was
   * given the authorization has refused it, and the chain can be asked whether it was used all the same.
   */
  doubted(limit: number): Promise<readonly HandedOver[]>;
}

/** Signed bytes as stored before broadcast. */
export interface StoredTransaction {
  readonly transaction: string;
  readonly raw: string;
  readonly account: string;
  readonly accountNonce: number;
}

/** One account nonce of ours, and everything that was signed for it. */
export interface StoredSubmission {
  /** The first transaction that was signed for it. */
  readonly id: string;
  readonly network: string;
  readonly state: SubmissionState;
  /** Oldest first, at least one; all of one account and nonce. */
  readonly variants: readonly StoredTransaction[];
  /** Milliseconds since the epoch: when the newest variant was signed. */
  readonly signedMs: number;
  readonly payments: readonly SubmittedPayment[];
}

export interface SubmittedPayment {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
  /** Key of the route that sells for it; null: it is settled for somebody else, or nobody knows. */
  readonly route: string | null;
  /** It pays another one back. */
  readonly isTransferBack: boolean;
  readonly state: PaymentState;
  /** Null until it is settled. */
  readonly settledTransaction: string | null;
  /** The transaction, not ours, that paid it; null where it is not held. */
  readonly heldTransaction: string | null;
}

/** The right of one life to sign with one account. */
export interface Lease {
  readonly network: string;
  readonly address: string;
  /** Fencing token: greater with each new holder. Signing with an older one is a {@link LedgerConflict}. */
  readonly epoch: number;
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
export interface Settlements extends Payments, Purses {
  outcome(key: PaymentKey): Promise<SettlementOutcome>;
  /**
   * The right to sign with an account: granted when nobody holds it, its holder is dead, or it is ours
   * already (same epoch). Lasts as long as this life, or until it is given back.
   */
  lease(network: string, address: string): Promise<Lease | undefined>;
  /** Gives the account back. Fine when it is no longer ours. */
  unlease(lease: Lease): Promise<void>;
  /**
   * CLAIMED -> SIGNED for every key at once, in one database transaction that allocates the account's next
   * nonce, calls `sign` with it and stores the bytes. `seed` is the chain's next nonce, used when we have
   * none stored or when the chain is ahead of us. Throws, allocating nothing, when `sign` throws. All or
   * nothing: one key that is not CLAIMED by this life (or handed over without bytes), or a lease that is
   * no longer ours, is a {@link LedgerConflict}. After {@link LedgerUnavailable} the bytes may nevertheless
   * be stored, and recovery would send them: the outcome is unknown, not failed. The payments are given back
   * in the order of the keys. Where one does not fit into its purse: {@link LedgerOverdraft}.
   */
  signed(
    keys: readonly PaymentKey[],
    account: Lease & { readonly seed: number },
    sign: (accountNonce: number) => StoredTransaction,
    draws?: Draws,
  ): Promise<StoredSubmission>;
  /**
   * One more variant for a submission's account nonce, stored before it is sent. {@link LedgerConflict}
   * when the lease is no longer ours, or the submission is CLOSED or has another nonce.
   */
  replaced(lease: Lease, submission: string, variant: StoredTransaction): Promise<void>;
  /**
   * Where the submission stands, and what it cost where that is known. A repeat is fine; INCLUDED -> OPEN is a
   * reorganization.
   */
  concluded(submission: string, state: SubmissionState, cost?: SubmissionCost): Promise<void>;
  /** Whether some life signed that transaction on this ledger: of all others we do not know whose sale it is. */
  hasSigned(transaction: string): Promise<boolean>;
  /** Claims of one network that are offered, oldest first; each is for the life that first takes it. */
  offers(network: string, limit: number): Promise<readonly OfferedPayment[]>;
  /** Resolves when a claim may have been offered on any network, or when the signal ends. Never rejects. */
  offered(signal: AbortSignal): Promise<void>;

  /**
   * Submissions of one account that are not CLOSED, in the order of their nonces. A row that cannot be
   * read is left out and reported, so that it does not hold up the others.
   */
  unfinished(network: string, address: string): Promise<readonly StoredSubmission[]>;
  /** The next nonce we would allocate, or undefined when the account was never used. */
  nextAccountNonce(network: string, address: string): Promise<number | undefined>;
}

export interface OfferedPayment {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
  /** A transaction of ours that carried it did not move it: `withdrawn`. */
  readonly isPublic: boolean;
  /** Of its row. */
  readonly version: number;
}

export interface Ledger extends Redemptions, Settlements, Sweeping, Forgetting, Unattended {
  /**
   * Carries out what operators asked for beside this process, where they cannot write to the store themselves.
   * Resolves with how many there were.
   */
  resolveAsked(): Promise<number>;
  /**
   * Payments of a network whose refund is under way, that which was changed longest ago first. One that is only asked for
   * waits until no reorganization can be expected to undo the payment: its submission is closed, or nothing of ours
   * carries it, and the refund was asked for {@link UNWATCHED_MS} ago. `state`: only those; default: whichever.
   */
  refunds(network: string, limit: number, state?: OpenRefundState): Promise<readonly OpenRefund[]>;
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
  /** The secret by which challenges are made: made once, and the same for all who share the ledger. */
  signInKey(): Promise<Uint8Array>;
  /**
   * Frees what dead lives left: claims without a signature are dropped, or offered where a transaction has
   * shown them to everybody; broken deliveries may be tried again; what they had leased of pots is in those again. Also
   * forgets kept answers whose time is over.
   * Resolves with the number of payments freed.
   */
  reap(): Promise<number>;
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
   * The life is over: its claims are dropped and its deliveries broken, as {@link Ledger.reap} does for a
   * process. Not so the claims of `kept`, whose settlement goes on without a request. Resolves with the number of payments freed.
   */
  end(kept: ReadonlySet<PaymentKey>): Promise<number>;
}
