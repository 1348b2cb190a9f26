/**
 * What may happen to a payment, as data. A transition is asked of a ledger as {@link Transition}, crosses to another
 * process as it is, and `apply` in `machine.ts` is the one place that knows what it does to a row.
 */
import type { ErrorCode } from "../x402/error-code.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import type { HandedOver } from "./handed-over.ts";
import type { MeteredAmounts, MeteredSale } from "./metered.ts";
import type { PotFill } from "./pots.ts";
import type { Again, Fingerprint, SoldAnswer } from "./sold-answer.ts";
import type { RefundOutcome, RefundStep, RefundSummary } from "./refund-steps.ts";

export const PAYMENT_STATES = [
  "CLAIMED",
  "SIGNED",
  "SETTLED",
  "DELIVERING",
  "DELIVERED",
  "FAILED",
] as const;

export type PaymentState = (typeof PAYMENT_STATES)[number];

/**
 * - `OPEN`: none of its variants is known to be in a block.
 * - `INCLUDED`: all its payments are decided; watched until no reorganization can undo it.
 * - `CLOSED`: final, nothing is left to do.
 */
export type SubmissionState = "OPEN" | "INCLUDED" | "CLOSED";

/**
 * What somebody who shows a payment proves beside it: that he is the payer, with a new payment that is not used up.
 * `signed`: the chain did not say that it could be paid; that counts where the claimant is the same. `signed-in`: with
 * a text that says nothing of money, for one request; whoever has claimed the payment keeps it.
 */
export type PayerProof = "signed" | "valid" | "signed-in";

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
  /** Key of the route that sells it, for the books. */
  readonly route?: string | undefined;
  /** Opaque and unguessable: whoever shows it speaks for this claim towards the facilitator. */
  readonly idempotencyKey: string;
  readonly request: FacilitatorRequest;
  /**
   * What its client calls the purchase: one payment and one request have it, until the payment is given back, has
   * failed for certain or is swept away. Stored with the first use, by which a stranger cannot take it without paying.
   */
  readonly identifier?: string | undefined;
  /**
   * What is bought is a balance: when the payment is settled, so much is in that pot, in the same step. It is never paid
   * back as a payment is.
   */
  readonly fills?: PotFill | undefined;
  /** It is charged by use. */
  readonly isMetered?: boolean | undefined;
  /** The pot into which what it has not used comes in the step that delivers it; see `metered.ts`. */
  readonly change?: string | undefined;
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
/** What a row tells of its first use: its target is known by a digest alone. */
export type StoredTerms = Omit<ClaimTerms, "target">;

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
   * `Payments.changed`.
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
      readonly terms: StoredTerms;
      readonly facilitator: string | null;
      readonly isSigned?: true;
      readonly handedOverAt: HandedOver["handedOverAt"];
      readonly failure?: FailedPayment;
    }
  /**
   * Delivered for this target, and to be had again: `isKept`: the transition `replay` may give the answer; else, or
   * where that does not, `repeat` may let it be fetched again. `at`: under another target, to which this one has led.
   */
  | {
      readonly kind: "sold";
      readonly isKept: boolean;
      readonly at?: string;
      readonly settlement: SettledPayment;
      /** As of `settled`. */
      readonly idempotencyKey: string;
    }
  /** Delivered; or else paid, with another target's answer begun. */
  | { readonly kind: "spent"; readonly delivered: boolean; readonly transaction: string }
  /** Kept for the client that it was claimed or last delivered for, or for whoever proves to be the payer. */
  | { readonly kind: "withheld" }
  /** Paid, and each attempt to deliver it has failed: the payer may have more of them, or has had those of a day. */
  | { readonly kind: "exhausted"; readonly transaction: string; readonly isRenewable: boolean }
  /**
   * Bound to another method or path by its first use, or settled without a resource. Who may collect it is told what it
   * has bought (method and path, or target), once it is paid.
   */
  | {
      readonly kind: "foreign";
      readonly bought?: string;
      readonly settlement?: SettledPayment;
    }
  /** Another payment has its identifier, or has it for another request; nothing has changed. */
  | { readonly kind: "misnamed" }
  /** Paid to the seller in a transaction that is not ours: it waits for the operator (`resolve`). */
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
  /**
   * How many attempts that sold nothing and were nobody's failure (a head alone, a redirect, a download that its buyer
   * could not take whole) do not count, all together. Default: none, this one counts.
   */
  readonly uncounted?: number;
  /** It was the backend that failed, and not its buyer: no answer came, or one of 500 and above. */
  readonly isBackends?: boolean;
  /** Where it was the last attempt, and the backend has failed, its payment is to be paid back. */
  readonly isRefundedLast?: boolean;
  /**
   * From which target of the payment's own path the backend has led the buyer to `METHOD target`: the payment is for
   * both, and whoever comes back to the first when it is delivered is led on again.
   */
  readonly led?: { readonly from: string; readonly to: string };
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

/** What an operator decides. */
export interface Resolution {
  readonly verb: "deliver" | "goods" | "refund" | "note";
  /** With `refund`: the money is sent by us. Default: the operator has sent it by other means. */
  readonly isSent?: boolean;
  /**
   * With `refund` of a payment that has filled its payer's balance: what of that goes back, decimal digits, atomic units. It
   * is taken out of what is free there, and no more than the payment has put into it.
   */
  readonly creditsAtomic?: string;
  /** For the payment's history; may be "" but for a note. */
  readonly note: string;
  /** Who decided, for the history. */
  readonly by: string;
}

export type Resolved =
  | { readonly kind: "done"; readonly state: PaymentState }
  /** Nothing has changed. */
  | { readonly kind: "refused"; readonly reason: string };

/**
 * What each transition is given. Where the row's state does not allow it, and it has no outcome to say that with, it is
 * a {@link LedgerConflict}; a repeat of what is done already is fine.
 */
interface Given {
  /** A resource server's claim. Of any number of concurrent ones of one key, one is granted. */
  claim: { readonly terms: ClaimTerms };
  /**
   * Takes or finds the claim for a facilitator's settlement. The caller that shows the row's own idempotency key, the
   * same payment and the same requirements (network, asset, payTo, maxAmountRequired, resource) gets the row as it
   * stands; a claim handed over by it but not signed by us is granted too. Any other caller, or one without a key, is
   * granted only a row that does not exist, or a FAILED one without bytes anew: nothing was charged. A FAILED one with
   * bytes is never signed again, since those may still be sent, nor is a doubted one: each caller with the same
   * payment gets `failed`. A {@link ClaimHolder} is never granted a row anew: where its claim is gone it gets `taken`.
   */
  begin: {
    readonly request: FacilitatorRequest;
    readonly caller: string | ClaimHolder | undefined;
    /** Of a transfer of ours that pays back: as what the payment was sold that it is for. */
    readonly route?: string;
  };
  /**
   * The request that holds the payment is over, or its client has gone: from here on it is owed. Fine where this life
   * does not hold it. `unbegun`: the idempotency key of a claim that nobody was asked to settle, or certainly for
   * nothing; where it is there and could be `released`, it is dropped.
   */
  leave: { readonly unbegun?: string | undefined };
  /**
   * From here a remote facilitator may move the money: CLAIMED -> SIGNED without bytes of ours. Repeated with another
   * name where the one before it certainly saw nothing, and with the same name before that one is asked again: from
   * then on no other process may drop the claim as unseen. `head`: see {@link HandedOver.handedOverAt}; the first one
   * stays.
   */
  handedOver: { readonly facilitator: string; readonly head?: number | null };
  /** The payment is on chain: CLAIMED, SIGNED or FAILED -> SETTLED. */
  settled: { readonly settlement: SettledPayment };
  /**
   * It is on chain in a transaction that is not ours: SIGNED, FAILED or withdrawn, where it was signed or handed over,
   * -> SIGNED, held. Until the operator resolves it only `settled` changes it.
   */
  held: { readonly transaction: string };
  /** The payment failed for certain: CLAIMED or SIGNED -> FAILED. A repeat keeps the first reason. */
  failed: { readonly failure: Failing };
  /**
   * Nothing was signed or sent: the resource server's own claim is dropped, CLAIMED -> (none), and the payer may use
   * the authorization again. So is one that was handed over, where the caller is certain that the facilitator saw
   * nothing. Not so a row with bytes of ours, or one that waits for another process to sign it. `isBackends`: somebody
   * has worked for it, and it was not the payer who has spoilt that; nothing of it is stored.
   */
  released: { readonly isBackends?: boolean };
  /**
   * CLAIMED -> (none), for claims that `begin` itself made. A resource server's claim is left to it (`released`): were
   * it dropped here, its own release could drop the next caller's claim. One that was offered is left to whoever takes
   * it. One that was handed over is dropped too, where the caller is certain that the facilitator saw nothing.
   */
  abandoned: object;
  /**
   * SIGNED -> CLAIMED by this life: its transaction is in a block and did not move this payment's money, though the
   * authorization is unused; it may be signed again in another transaction. Everybody may have seen it by now: the
   * claim is not dropped any more. With `submission` only out of that one: another life may have signed it again.
   */
  withdrawn: { readonly submission?: string };
  /** A claim of ours that no account of ours can sign: some other life may take it. */
  offer: object;
  /**
   * An offered claim: from here it is CLAIMED by this life. `version`: that of its row when it was seen among the
   * offers.
   */
  take: { readonly version: number };
  /** SETTLED -> DELIVERING(n + 1), durable before the upstream sees anything. Without a sale: an operator's hand. */
  delivering: { readonly sale?: SaleTerms };
  /**
   * DELIVERING -> DELIVERED: sold, with the answer where it is no larger than {@link MAX_STORED_BODY_BYTES} and so can
   * be kept; `again` where it may be fetched again; `metered` where it is charged by what it has used.
   */
  delivered: {
    readonly sold?: SoldAnswer | undefined;
    readonly again?: Again | undefined;
    readonly metered?: MeteredSale | undefined;
  };
  /** DELIVERING -> SETTLED: the upstream failed or the client left. */
  undelivered: { readonly broken: BrokenDelivery };
  /** The kept answer is given to an identical request. It is owed until it is `collected`. */
  replay: { readonly asked: Fingerprint & Collector };
  /** What was sold is fetched again, for whoever may collect it: at most so many `times`. */
  repeat: { readonly asked: Collector & { readonly target: string; readonly times: number } };
  /** All of the kept answer was sent to whom this life has given it. Fine where another has given it since. */
  collected: object;
  /** The client has not read the answer, kept or to be had again, that this life has sent last: it is owed again. */
  unread: object;
  /**
   * The chain did not show that a doubted payment was paid. `nextMs`: when it is due again, milliseconds since the
   * epoch; null when it cannot be paid any more. Fine for a row that is not doubted.
   */
  lookedAgain: { readonly nextMs: number | null };
  /**
   * The backend has answered before the payment is settled, where its route sells so: nothing but a step in the history
   * of the claim, and the answer is kept where it is no larger than {@link MAX_STORED_BODY_BYTES}.
   */
  answered: { readonly idempotencyKey: string; readonly sold?: SoldAnswer | undefined };
  /** Carries out what the operator decided; see `resolution.ts`. */
  resolve: { readonly resolution: Resolution };
  /** What becomes of the refund of a payment; see `refunds.ts`. */
  refund: { readonly to: RefundStep };
  /** What its buyer may be told. Changes nothing. */
  status: object;
}

export type TransitionKind = keyof Given;

/**
 * `ours`: this life has taken it before from that version, as whoever asks again hears after a lost answer. `gone`: it
 * is not offered any more, or another life has it.
 */
export type TakeOutcome = "taken" | "ours" | "gone";

/** Where a payment stands, for its buyer. */
export interface PaymentStatus {
  readonly state: PaymentState;
  /** It is in a transaction that is not ours, and waits for the seller. */
  readonly isHeld: boolean;
  readonly network: string;
  readonly asset: string;
  /** Decimal digits, atomic units: what was signed. */
  readonly amount: string;
  /** That has paid it; null: it is not paid. */
  readonly transaction: string | null;
  /** Paid back by the seller by other means. */
  readonly isPaidBack: boolean;
  readonly refund: RefundSummary | null;
  /** What of it was used, where it was delivered by a route that charges so. */
  readonly metered: MeteredAmounts | null;
}

/** What comes of it; nothing of those that are not named. */
interface Outcomes {
  claim: ClaimOutcome;
  begin: BeginOutcome;
  /** False when the row is no longer CLAIMED by this life. */
  offer: boolean;
  take: TakeOutcome;
  /**
   * False when the row was not SETTLED (another delivery won), another request holds it, no attempt is left, or it
   * does not fit the sale any more: much may have happened while its settlement was waited for.
   */
  delivering: boolean;
  /** Whether it may be given: at most {@link MAX_REPLAYS} times, to the same request. */
  replay: boolean;
  /** Whether it may be fetched. */
  repeat: boolean;
  /** False when the row is not the claim with that idempotency key of this life any more: nothing may be charged. */
  answered: boolean;
  resolve: Resolved;
  refund: RefundOutcome;
  /** Undefined: there is no such payment, or no more. */
  status: PaymentStatus | undefined;
}

export type TransitionOf<Kind extends TransitionKind> = {
  [Each in Kind]: { readonly kind: Each } & Given[Each];
}[Kind];

export type Transition = TransitionOf<TransitionKind>;

export type OutcomeOf<Kind extends TransitionKind> = Kind extends keyof Outcomes
  ? Outcomes[Kind]
  : void;

/** Those that make a row where there is none: most find none, and a payment of long ago has left but a tombstone. */
export function isFirstUse(kind: TransitionKind): boolean {
  return kind === "claim" || kind === "begin";
}

/** Who does it, for the row and its history: that life, or the operator. */
export function actorOf(
  transition: { readonly kind: TransitionKind; readonly resolution?: Resolution },
  life: string,
): string {
  return transition.resolution?.by ?? life;
}

/**
 * Those that a crash may undo: a store may answer first and write a moment later, as long as everybody sees them at
 * once (decision record 30).
 */
export const UNDOABLE: ReadonlySet<TransitionKind> = new Set<TransitionKind>([
  "claim",
  "begin",
  "leave",
  "settled",
  "released",
  "abandoned",
  "answered",
  "delivered",
  "undelivered",
  "collected",
  "unread",
  "lookedAgain",
]);

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
/** How long an answer is kept that came before its payment was settled: an outcome may be unknown for long, milliseconds. */
export const ANSWERED_MS = 3_600_000;
/** Largest body of an answer that is kept, bytes. */
export const MAX_STORED_BODY_BYTES = 64 * 1024;
