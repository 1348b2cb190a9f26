/**
 * The ledger: which payments were claimed, signed, settled and delivered. One row a payment, keyed by
 * {@link PaymentKey}; every transition is durable when its promise resolves.
 *
 *     (none) -> CLAIMED -> SIGNED -> SETTLED -> DELIVERING(n) -> DELIVERED
 *                  |          |         ^            |
 *                  +- dropped +- FAILED +-- broken --+     (n is kept if anything was sent)
 *
 * Two views of the same rows: {@link Redemptions} is what a resource server needs (was this payment
 * already sold?), {@link Settlements} what a facilitator needs (what did we sign, is it on chain?).
 */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { ErrorCode } from "../x402/error-code.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";

export type PaymentState = "CLAIMED" | "SIGNED" | "SETTLED" | "DELIVERING" | "DELIVERED" | "FAILED";

/** What a payment bought, fixed by its first use. */
export interface ClaimTerms {
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

/** What an attempt to claim a payment met. */
export type ClaimOutcome =
  /** No row was there: the caller owns the payment and must settle or release it. */
  | { readonly kind: "granted" }
  /** Paid and not yet delivered, attempts left: deliver it, charge nothing. */
  | { readonly kind: "settled"; readonly settlement: SettledPayment; readonly attempts: number }
  /**
   * The key is taken, but by another payment than the one presented: payer and nonce are public once a
   * payment is on chain, its signature alone shows who it belongs to.
   */
  | { readonly kind: "forged" }
  /**
   * Somebody is delivering it now, or it is being settled elsewhere: for another binding, by another
   * process, by a facilitator's caller.
   */
  | { readonly kind: "busy" }
  /**
   * Claimed by this process, signed or handed over; the outcome is not known yet. `terms` are those of
   * the first use: the settlement is resumed with its stored requirements and idempotency key, never
   * judged by a newer price. A caller that is settling the payment itself does not ask.
   */
  | { readonly kind: "unresolved"; readonly terms: ClaimTerms }
  /** Delivered; or else paid, with no attempts left or with another target's answer begun. */
  | { readonly kind: "spent"; readonly delivered: boolean; readonly transaction: string }
  /** Bound to another method or path by its first use, or settled without a resource. */
  | { readonly kind: "foreign" }
  /** Failed for certain: the payer keeps the money and must sign anew. */
  | { readonly kind: "failed"; readonly failure: FailedPayment };

/** How a delivery ended that did not reach its end. */
export interface BrokenDelivery {
  /** Whether the upstream may have seen the request; where it did not, the attempt is given back. */
  readonly sent: boolean;
  /** The target whose answer (status below 400) had begun, or null; the first one stored stays. */
  readonly served: string | null;
}

/** The resource server's view. */
export interface Redemptions {
  /** Atomic: of any number of concurrent claims of one key, one is granted. */
  claim(key: PaymentKey, terms: ClaimTerms): Promise<ClaimOutcome>;
  /** Whether there is a row: reads only, so that a worthless payment costs no write. */
  isRecorded(key: PaymentKey): Promise<boolean>;
  /** From here a remote facilitator may move the money: CLAIMED -> SIGNED without bytes of ours. */
  handedOver(key: PaymentKey): Promise<void>;
  /** The payment is on chain: CLAIMED or SIGNED -> SETTLED. Idempotent for the same transaction. */
  settled(key: PaymentKey, settlement: SettledPayment): Promise<void>;
  /** The payment failed for certain: CLAIMED or SIGNED -> FAILED. A repeat keeps the first reason. */
  failed(key: PaymentKey, failure: FailedPayment): Promise<void>;
  /**
   * Nothing was signed or sent: the resource server's own claim is dropped, CLAIMED -> (none), and the
   * payer may use the authorization again. So is one that was handed over, where the caller is certain
   * that the facilitator saw nothing. A repeat finds no row and is fine; a row with bytes of ours is a
   * {@link LedgerConflict}.
   */
  released(key: PaymentKey): Promise<void>;
  /**
   * SETTLED -> DELIVERING(n + 1), durable before the upstream sees anything. False when the row was not
   * SETTLED (another delivery won) or no attempt is left.
   */
  delivering(key: PaymentKey): Promise<boolean>;
  /** DELIVERING -> DELIVERED: sold. A repeat is fine. */
  delivered(key: PaymentKey): Promise<void>;
  /**
   * DELIVERING -> SETTLED: the upstream failed or the client left. A repeat is fine, and changes
   * nothing.
   */
  undelivered(key: PaymentKey, broken: BrokenDelivery): Promise<void>;
}

/** A settlement that was signed and whose outcome is not known. */
export interface UnfinishedSettlement {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
  readonly signed: StoredTransaction;
}

/** Signed bytes as stored before broadcast. */
export interface StoredTransaction {
  readonly transaction: string;
  readonly raw: string;
  readonly account: string;
  readonly accountNonce: number;
}

/** What a facilitator met when it began a settlement. */
export type BeginOutcome =
  /** Ours to settle: a fresh row, or the claim that carries the same idempotency key. */
  | { readonly kind: "granted" }
  /** Signed before: the same bytes are to be sent and watched, nothing is signed anew. */
  | { readonly kind: "resume"; readonly signed: StoredTransaction }
  /** Settled under the same idempotency key: the same answer again. */
  | { readonly kind: "settled"; readonly settlement: SettledPayment }
  /** Failed for certain under the same idempotency key, or with bytes that may not be replaced. */
  | { readonly kind: "failed"; readonly failure: FailedPayment }
  /** Another caller owns or owned this payment: one payment never buys two grants. */
  | { readonly kind: "taken" };

/** The facilitator's view. */
export interface Settlements {
  /**
   * Takes or finds the claim for a settlement. The caller that shows the row's own `idempotencyKey`,
   * the same payment and the same requirements (network, asset, payTo, maxAmountRequired, resource)
   * gets the row as it stands; a claim handed over by it but not signed by us is granted too. Any
   * other caller, or one without a key, is granted only a row that does not exist, or a FAILED one
   * without bytes anew: nothing was charged. A FAILED one with bytes is never signed again, since
   * those may still be sent: each caller with the same payment gets `failed`.
   */
  begin(
    key: PaymentKey,
    request: FacilitatorRequest,
    idempotencyKey: string | undefined,
  ): Promise<BeginOutcome>;
  /**
   * CLAIMED -> SIGNED in one database transaction: allocates the account's next nonce, calls `sign`
   * with it and stores the bytes. `seed` is the chain's next nonce, used when we have none stored or
   * when the chain is ahead of us. Throws, allocating nothing, when `sign` throws. A row handed over
   * without bytes takes them too; one that has bytes already is a {@link LedgerConflict}, so that of
   * two callers only one goes on. After {@link LedgerUnavailable} the bytes may nevertheless be stored,
   * and recovery would send them: the outcome is unknown, not failed.
   */
  signed(
    key: PaymentKey,
    account: { readonly network: string; readonly address: string; readonly seed: number },
    sign: (accountNonce: number) => StoredTransaction,
  ): Promise<StoredTransaction>;
  /** CLAIMED or SIGNED -> SETTLED; see {@link Redemptions.settled}. */
  settled(key: PaymentKey, settlement: SettledPayment): Promise<void>;
  /** CLAIMED or SIGNED -> FAILED. */
  failed(key: PaymentKey, failure: FailedPayment): Promise<void>;
  /**
   * CLAIMED -> (none), for claims that `begin` itself made. A resource server's claim is left to it
   * (`released`): were it dropped here, its own release could drop the next caller's claim.
   */
  abandoned(key: PaymentKey): Promise<void>;
  /**
   * Every SIGNED row that holds bytes of ours, oldest signature first. A row that cannot be read is
   * left out and reported, so that it does not hold up the others.
   */
  unfinished(): Promise<readonly UnfinishedSettlement[]>;
  /**
   * What was signed for FAILED payments with this account nonce or a later one, ascending. A nonce that
   * the chain has not seen blocks all later ones of the account, so recovery sends these bytes too.
   */
  unusedNonces(
    network: string,
    address: string,
    from: number,
  ): Promise<readonly StoredTransaction[]>;
  /** The next nonce we would allocate, or undefined when the account was never used. */
  nextAccountNonce(network: string, address: string): Promise<number | undefined>;
}

export interface Ledger extends Redemptions, Settlements {
  /** Unix seconds of the last change of a route's public terms; stored on first sight and on change. */
  termsChangedAt(route: string, termsHash: string, now: number): Promise<number>;
  /** Resolves when a trivial write succeeds; throws otherwise (readiness). */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/** Deliveries per payment, upstream executions at most (limits of the delivery guarantee). */
export const MAX_DELIVERY_ATTEMPTS = 3;

/**
 * A transition that the row's state does not allow: a bug, another process working on our file, or a
 * concurrent caller with the same idempotency key that was first.
 */
export class LedgerConflict extends Error {
  override readonly name = "LedgerConflict";
  readonly code = "LEDGER_CONFLICT";
}

/** The database cannot be asked or cannot store: disk full, corrupt, locked, closed, of a newer schema. */
export class LedgerUnavailable extends Error {
  override readonly name = "LedgerUnavailable";
  readonly code = "LEDGER_UNAVAILABLE";
}
