/** One payment's way through the paywall, as those see it who work on it there. */
import type { ClaimTerms } from "../../ledger/ledger.ts";
import type { Payment } from "../facilitator.ts";
import type { Admission, GoodsRequest } from "./admission.ts";
import type { SoldClaim } from "./goods.ts";

/** How a payment is taken off with. */
export interface Takeoff {
  readonly signal: AbortSignal;
  /** Nobody had it a moment ago, when it was looked up what its payer is owed. */
  readonly isNew: boolean;
  /** As of `Identified`: the payer's key has signed it, as far as is proven. Default: it is not known, since it was claimed before. */
  readonly hasKey?: boolean;
  /** What is answered where nobody has it, in place of charging it. */
  readonly unclaimed?: Admission | undefined;
}

/** One payment's way from the claim to the recorded delivery. */
export interface Flight extends Takeoff {
  readonly payment: Payment;
  readonly presented: GoodsRequest;
  readonly terms: ClaimTerms;
  /** Ends the flight; the next one may begin. */
  readonly land: () => void;
  readonly course: Course;
}

/** How far one has come whose backend works before it is settled. */
export interface Course {
  /** Nobody was asked to settle its claim: whoever leaves now leaves nothing that may be charged. */
  isUncharged: boolean;
  /** The backend has worked for it. */
  isWorked: boolean;
}

/** How one look at the ledger ended. `unsure`: it failed as the delivery was to begin, and may have stored that it began. */
export type ClaimTurn = Admission | SoldClaim | "unsure" | "wait-over" | "lost";

/**
 * Whoever had the payment has dropped it, and its payer may have become owed something since then: nobody is charged
 * for it before that is looked up.
 */
export const ANEW = "anew";
export type Own = Admission | typeof ANEW;
