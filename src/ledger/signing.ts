/** What our accounts have signed, and the right to sign with them. */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import type { SubmissionCost } from "./accounts.ts";
import type { Draws, Purses } from "./purse.ts";
import type { PaymentState, SubmissionState } from "./transition.ts";
import type { Unattended } from "./unattended.ts";

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

export interface Signing extends Purses, Unattended {
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
  /**
   * Submissions of one account that are not CLOSED, in the order of their nonces. A row that cannot be
   * read is left out and reported, so that it does not hold up the others.
   */
  unfinished(network: string, address: string): Promise<readonly StoredSubmission[]>;
  /** The next nonce we would allocate, or undefined when the account was never used. */
  nextAccountNonce(network: string, address: string): Promise<number | undefined>;
}
