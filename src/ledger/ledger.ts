/**
 * The ledger: which payments were claimed, signed, settled and delivered. One row a payment, keyed by
 * {@link PaymentKey}, and `machine.ts` is the one place that says which transitions there are. When its promise
 * resolves a transition is seen by everybody, and durable but where a crash may undo it: `claim`, `begin`,
 * `released`, `abandoned`, `leave`, `settled`, `undelivered`, `delivered`, `concluded` (decision record 30).
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
import type { ErrorCode } from "../x402/error-code.ts";
import type { FacilitatorRequest, PaymentPayload } from "../x402/x402.ts";
import type { Books } from "./books.ts";
import type { Draws, Purses } from "./purse.ts";
import type { HandedOver } from "./handed-over.ts";
import type { SoldOffers } from "./sold-offers.ts";
import type { Sweeping } from "./sweep.ts";
import type { Unattended } from "./unattended.ts";
import type { Rowless } from "./used-elsewhere.ts";
import type { WorkerLife } from "./worker-life.ts";
import type { Resolution, Resolved } from "./resolution.ts";
export { FIRST_DOUBT_MS, type HandedOver } from "./handed-over.ts";
export { LedgerConflict, LedgerUnavailable } from "./ledger-fault.ts";
export type { WorkerLife } from "./worker-life.ts";
export type { Resolution, Resolved } from "./resolution.ts";

export type PaymentState = "CLAIMED" | "SIGNED" | "SETTLED" | "DELIVERING" | "DELIVERED" | "FAILED";

/**
 * What somebody who shows a payment proves beside it: that he is the payer, with a new payment that is not used up.
 * `signed`: the chain did not say that it could be paid; that counts where the claimant is the same.
 */
export type PayerProof = "signed" | "valid";

/** Who wants a payment's goods. Once it is on chain everybody can show the payment itself. */
export interface Collector {
  /** Opaque: the same for requests of one client, as far as addresses tell clients apart. */
  readonly claimant: string;
  readonly proof?: PayerProof | undefined;
}

/** What a payment bought, fixed by its first use. */
export interface ClaimTerms extends Collector {
  /** Method and canonical path: another binding is refused ("foreign"). */
  readonly binding: string;
  /** Canonical path and query: once an answer for one target has begun, another is refused ("spent"). */
  readonly target: string;
  /** Opaque and unguessable: whoever shows it speaks for this claim towards the facilitator. */
  readonly idempotencyKey: string;
  readonly request: FacilitatorRequest;
}

/** A payment that is on chain. */
export interface SettledPayment {
  readonly transaction: string;
  readonly network: string;
  readonly payer: string;
}

/** What became of a definite failure. */
export interface FailedPayment {
  readonly code: ErrorCode;
  readonly detail: string;
}
/** A payment that fails now; `isUnsigned`: only if nobody has signed or offered it by now. */
export interface Failing extends FailedPayment {
  readonly isUnsigned?: boolean;
}

/** What an attempt to claim a payment met. */
export type ClaimOutcome =
  /** No row was there: the caller owns the payment and must settle or release it. */
  | { readonly kind: "granted" }
  /** Paid and not yet delivered, attempts left: deliver it, charge nothing. */
  | {
      readonly kind: "settled";
      readonly settlement: SettledPayment;
      readonly attempts: number;
      /** Opaque, one for each payment: the upstream's `Idempotency-Key`. */
      readonly idempotencyKey: string;
    }
  /**
   * The key is taken, but by another payment than the one presented: payer and nonce may be guessed or
   * seen, the signature is the payer's own until the payment is on chain.
   */
  | { readonly kind: "forged" }
  /**
   * Another request holds it: it waits for its settlement, or for its goods. `version` is for
   * {@link Redemptions.changed}.
   */
  | { readonly kind: "busy"; readonly version: number }
  /**
   * Claimed, signed or handed over, and in no other request's hands; the outcome is not known yet. `terms` are those of
   * the first use: the settlement is resumed with its stored requirements and idempotency key, never
   * judged by a newer price. `facilitator` is the remote one that it was handed to; `isSigned`: in bytes of ours.
   * With `failure` that facilitator has refused it, and the chain may still show that it was paid.
   */
  | {
      readonly kind: "unresolved";
      readonly terms: ClaimTerms;
      readonly facilitator: string | null;
      readonly isSigned?: true;
      readonly handedOverAt: HandedOver["handedOverAt"];
      readonly failure?: FailedPayment;
    }
  /** Delivered for this target, and the answer is kept: {@link Redemptions.replay} may return it. */
  | { readonly kind: "replayable"; readonly settlement: SettledPayment }
  /** Delivered; or else paid, with another target's answer begun. */
  | { readonly kind: "spent"; readonly delivered: boolean; readonly transaction: string }
  /** Kept for the client that it was claimed or last delivered for, or for whoever proves to be the payer. */
  | { readonly kind: "withheld" }
  /** Paid, and each attempt to deliver it has failed: the payer may have more of them, or has had those of a day. */
  | { readonly kind: "exhausted"; readonly transaction: string; readonly isRenewable: boolean }
  /** Bound to another method or path by its first use, or settled without a resource. */
  | { readonly kind: "foreign" }
  /** Paid to the seller in a transaction that is not ours: it waits for the operator ({@link Ledger.resolve}). */
  | { readonly kind: "held"; readonly transaction: string }
  /** Failed for certain: the payer keeps the money and must sign anew. */
  | { readonly kind: "failed"; readonly failure: FailedPayment };

/** What a delivery is for, and for whom: what is left of it is kept for the same one. */
export interface SaleTerms extends Collector {
  /**
   * Of the claim that was settled: a life that was taken for dead may have lost its own, and the payment may
   * be bound to something else by now.
   */
  readonly idempotencyKey: string;
  /** Once the answer for one target has begun, another is not delivered. */
  readonly target: string;
}

/** How a delivery ended that did not reach its end. */
export interface BrokenDelivery {
  /** Whether the upstream may have seen the request; where it did not, the attempt is given back. */
  readonly sent: boolean;
  /** The target whose answer (status below 400) had begun, or null; the first one stored stays. */
  readonly served: string | null;
}

/** An answer that was sold, kept for the buyer who did not get all of it. */
export interface StoredResponse {
  readonly status: number;
  /** Names and values as they were sent, in order. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

/** What was asked when a stored answer was given: only the same is answered with it again. */
export interface Fingerprint {
  /** Canonical path and query. */
  readonly target: string;
  /** Hex SHA-256 of the request's body, and of what asks for a part of the answer. */
  readonly bodyHash: string;
}

/** An answer to be kept. `isUncollected`: its buyer had left before he had all of it, so that it is still owed. */
export interface SoldAnswer extends Fingerprint {
  readonly response: StoredResponse;
  readonly isUncollected?: boolean;
}

/** What the ledger knows when a payment is presented. */
export interface Recalled {
  /** That of the payment's first use, whatever asset and price it named; undefined: it was never claimed. */
  readonly request: FacilitatorRequest | undefined;
  /**
   * For a payment whose nonce is new: others of the same payer for the same binding that are paid, or may be, whose
   * goods nobody has and no request waits for; the oldest first, at most {@link MAX_OWED}.
   */
  readonly owed: readonly OwedPayment[];
}

export interface OwedPayment {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
}

/** The resource server's view. */
export interface Redemptions extends Rowless {
  /** Atomic: of any number of concurrent claims of one key, one is granted. */
  claim(key: PaymentKey, terms: ClaimTerms): Promise<ClaimOutcome>;
  /**
   * What is known of a payment that is presented for a sale. Reads only, so that a worthless payment costs no
   * write.
   */
  recall(payment: PaymentPayload, sale: Pick<ClaimTerms, "binding" | "target">): Promise<Recalled>;
  /**
   * The request that holds the payment is over, or its client has gone: from here on it is owed. Fine where
   * this life does not hold it.
   */
  leave(key: PaymentKey): Promise<void>;
  /** Resolves when the row may be of another version, at times too soon, or the signal ends. Never rejects. */
  changed(key: PaymentKey, version: number, signal: AbortSignal): Promise<void>;
  /**
   * From here a remote facilitator may move the money: CLAIMED -> SIGNED without bytes of ours. Repeated
   * with another name where the one before it certainly saw nothing, and with the same name before that one
   * is asked again: from then on no other process may drop the claim as unseen. `head`: see
   * {@link HandedOver.handedOverAt}; the first one stays.
   */
  handedOver(key: PaymentKey, facilitator: string, head?: number | null): Promise<void>;
  /** The payment is on chain: CLAIMED, SIGNED or FAILED -> SETTLED. Idempotent for the same transaction. */
  settled(key: PaymentKey, settlement: SettledPayment): Promise<void>;
  /**
   * It is on chain in a transaction that is not ours: SIGNED, FAILED or withdrawn, where it was signed or handed
   * over, -> SIGNED, held. Until the operator resolves it only {@link settled} changes it. A repeat is fine.
   */
  held(key: PaymentKey, transaction: string): Promise<void>;
  /** The payment failed for certain: CLAIMED or SIGNED -> FAILED. A repeat keeps the first reason. */
  failed(key: PaymentKey, failure: Failing): Promise<void>;
  /**
   * Nothing was signed or sent: the resource server's own claim is dropped, CLAIMED -> (none), and the
   * payer may use the authorization again. So is one that was handed over, where the caller is certain
   * that the facilitator saw nothing. A repeat finds no row and is fine; a row with bytes of ours, or one
   * that waits for another process to sign it, is a {@link LedgerConflict}.
   */
  released(key: PaymentKey): Promise<void>;
  /**
   * SETTLED -> DELIVERING(n + 1), durable before the upstream sees anything. False when the row was not
   * SETTLED (another delivery won), another request holds it, no attempt is left, or the row does not fit the
   * sale any more: much may have happened while its settlement was waited for.
   */
  delivering(key: PaymentKey, sale?: SaleTerms): Promise<boolean>;
  /**
   * DELIVERING -> DELIVERED: sold, with the answer where it is small enough to be kept. A repeat is fine.
   */
  delivered(key: PaymentKey, sold?: SoldAnswer): Promise<void>;
  /** DELIVERING -> SETTLED: the upstream failed or the client left. A repeat changes nothing. */
  undelivered(key: PaymentKey, broken: BrokenDelivery): Promise<void>;
  /**
   * The kept answer to an identical request, at most {@link MAX_REPLAYS} times; undefined otherwise. It is owed
   * until it is {@link collected}.
   */
  replay(key: PaymentKey, asked: Fingerprint & Collector): Promise<StoredResponse | undefined>;
  /** All of the kept answer was sent to whom this life has given it. Fine where another has given it since. */
  collected(key: PaymentKey): Promise<void>;
  /** The client of the kept answer that this life has sent last has not read it: it is owed again. */
  unread(key: PaymentKey): Promise<void>;
  /** SIGNED rows that were handed to a remote facilitator and wait for their outcome, oldest first. */
  handedOvers(limit: number): Promise<readonly HandedOver[]>;
  /**
   * FAILED rows that are due to be looked for on the chain, the longest due first: a facilitator that was
   * given the authorization has refused it, and the chain can be asked whether it was used all the same.
   */
  doubted(limit: number): Promise<readonly HandedOver[]>;
  /**
   * The chain did not show that a doubted payment was paid. `nextMs`: when it is due again, milliseconds since
   * the epoch; null when it cannot be paid any more. Fine for a row that is not doubted.
   */
  lookedAgain(key: PaymentKey, nextMs: number | null): Promise<void>;
}

/** Signed bytes as stored before broadcast. */
export interface StoredTransaction {
  readonly transaction: string;
  readonly raw: string;
  readonly account: string;
  readonly accountNonce: number;
}

/**
 * - `OPEN`: none of its variants is known to be in a block.
 * - `INCLUDED`: all its payments are decided; watched until no reorganization can undo it.
 * - `CLOSED`: final, nothing is left to do.
 */
export type SubmissionState = "OPEN" | "INCLUDED" | "CLOSED";

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

/** A caller that has claimed the payment itself: a row in place of a lost claim would be bound to nothing. */
export interface ClaimHolder {
  readonly claimedUnder: string;
}

/** What a facilitator met when it began a settlement. */
export type BeginOutcome =
  /**
   * Ours to settle: a fresh row, or the claim that carries the same idempotency key. `isPublic`: a transaction of
   * ours has shown it, and it is never dropped. `facilitator`: the remote one that it was handed to before, and where
   * the chain stood then.
   */
  | {
      readonly kind: "granted";
      readonly isPublic?: true;
      readonly facilitator?: string;
      readonly handedOverAt?: HandedOver["handedOverAt"];
    }
  /** Signed, or waiting for a signature, under the same idempotency key: see `outcome` and `changed`. */
  | { readonly kind: "pending" }
  /** Settled under the same idempotency key: the same answer again. */
  | { readonly kind: "settled"; readonly settlement: SettledPayment }
  /** Begun under the same idempotency key, and paid in a transaction that is not ours. */
  | { readonly kind: "held"; readonly transaction: string }
  /**
   * Failed under the same idempotency key, or with bytes that may not be replaced. `doubted`, for the first
   * caller only: the chain may still show that it was paid.
   */
  | {
      readonly kind: "failed";
      readonly failure: FailedPayment;
      readonly doubted?: {
        readonly facilitator: string;
        readonly handedOverAt: number;
      };
    }
  /** Another caller owns or owned this payment: one payment never buys two grants. */
  | { readonly kind: "taken" };

/** What is known of a settlement. */
export type SettlementOutcome =
  | { readonly kind: "pending"; readonly version: number }
  | { readonly kind: "settled"; readonly settlement: SettledPayment }
  | { readonly kind: "held"; readonly transaction: string }
  | { readonly kind: "failed"; readonly failure: FailedPayment }
  /** The claim was dropped: nothing was signed. */
  | { readonly kind: "gone" };

/** The facilitator's view. */
export interface Settlements extends Purses {
  /**
   * Takes or finds the claim for a settlement. The caller that shows the row's own `idempotencyKey`,
   * the same payment and the same requirements (network, asset, payTo, maxAmountRequired, resource)
   * gets the row as it stands; a claim handed over by it but not signed by us is granted too. Any
   * other caller, or one without a key, is granted only a row that does not exist, or a FAILED one
   * without bytes anew: nothing was charged. A FAILED one with bytes is never signed again, since
   * those may still be sent, nor is a doubted one: each caller with the same payment gets `failed`. A
   * {@link ClaimHolder} is
   * never granted a row anew: where its claim is gone it gets `taken`.
   */
  begin(
    key: PaymentKey,
    request: FacilitatorRequest,
    idempotencyKey: string | ClaimHolder | undefined,
  ): Promise<BeginOutcome>;
  outcome(key: PaymentKey): Promise<SettlementOutcome>;
  /** See {@link Redemptions.changed}. */
  changed(key: PaymentKey, version: number, signal: AbortSignal): Promise<void>;
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
  /** Where the submission stands. A repeat is fine; INCLUDED -> OPEN is a reorganization. */
  concluded(submission: string, state: SubmissionState): Promise<void>;
  /** CLAIMED, SIGNED or FAILED -> SETTLED; see {@link Redemptions.settled}. */
  settled(key: PaymentKey, settlement: SettledPayment): Promise<void>;
  /** See {@link Redemptions.held}. */
  held(key: PaymentKey, transaction: string): Promise<void>;
  /** Whether some life signed that transaction on this ledger: of all others we do not know whose sale it is. */
  hasSigned(transaction: string): Promise<boolean>;
  /**
   * CLAIMED or SIGNED -> FAILED. `isUnsigned`: only what nobody has signed or offered by now, else a
   * {@link LedgerConflict}.
   */
  failed(key: PaymentKey, failure: Failing): Promise<void>;
  /**
   * SIGNED -> CLAIMED by this life: its transaction is in a block and did not move this payment's money,
   * though the authorization is unused; it may be signed again in another transaction. Everybody may
   * have seen it by now: the claim is not dropped any more. With `submission` only out of that one, else a
   * {@link LedgerConflict}: another life may have signed it again already.
   */
  withdrawn(key: PaymentKey, submission?: string): Promise<void>;
  /**
   * CLAIMED -> (none), for claims that `begin` itself made. A resource server's claim is left to it
   * (`released`): were it dropped here, its own release could drop the next caller's claim. One that was
   * offered is left to whoever takes it. One that was handed over is dropped too, where the caller is
   * certain that the facilitator saw nothing.
   */
  abandoned(key: PaymentKey): Promise<void>;

  /**
   * A claim of ours that no account of ours can sign: some other life may take it. False when the row is
   * no longer CLAIMED by this life.
   */
  offer(key: PaymentKey): Promise<boolean>;
  /** Takes offered claims of one network, oldest first: from here they are CLAIMED by this life. */
  takeOffered(network: string, limit: number): Promise<readonly OfferedPayment[]>;
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
  /** A transaction of ours that carried it did not move it: {@link Settlements.withdrawn}. */
  readonly isPublic: boolean;
}

export interface Ledger extends Redemptions, Settlements, Sweeping, Unattended {
  /** Carries out what the operator decided about one payment; see `resolution.ts`. */
  resolve(key: PaymentKey, resolution: Resolution): Promise<Resolved>;
  /**
   * Carries out what operators asked for beside this process, where they cannot write to the store themselves.
   * Resolves with how many there were.
   */
  resolveAsked(): Promise<number>;
  /** What an operator asks: lists, histories, counts. */
  readonly books: Books;
  /** What other gateways sold through us. */
  readonly sold: SoldOffers;
  /** Unix seconds of the last change of a route's public terms; stored on first sight and on change. */
  termsChangedAt(route: string, termsHash: string, now: number): Promise<number>;
  /**
   * Frees what dead lives left: claims without a signature are dropped, or offered where a transaction has
   * shown them to everybody; broken deliveries may be tried again. Also forgets kept answers whose time is over.
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
 * Deliveries of one payment, until its payer proves himself for as many again. One that our own death cut short does
 * not count, so this does not bound how often an upstream is asked.
 */
export const MAX_DELIVERY_ATTEMPTS = 3;
/** How often a payer's new signature gives the attempts again within {@link RENEWAL_WINDOW_MS}. */
export const MAX_RENEWALS = 3;
/** A day, milliseconds. */
export const RENEWAL_WINDOW_MS = 86_400_000;
/** Payments of one payer that are told as owed at once. */
export const MAX_OWED = 8;
/** How often a kept answer is given again. */
export const MAX_REPLAYS = 3;
/** How long an answer is kept, milliseconds. */
export const REPLAY_MS = 600_000;
/** Largest body of an answer that is kept, bytes. */
export const MAX_STORED_BODY_BYTES = 64 * 1024;
