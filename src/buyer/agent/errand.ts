/** One call that an agent wants made: asked for its price, and presented with a payment, however its seller is spoken to. */
import type { Result } from "../../x402/result.ts";
import type { PaymentHeader } from "../exchange.ts";
import type { Quote } from "../offer.ts";
import type { PresentedOnce } from "../presentation.ts";
import type { ToldAnswer } from "./told-answer.ts";

/** What a seller says to a call without a payment. */
export type FirstAnswer =
  | { readonly kind: "price"; readonly quote: Quote }
  /** Nothing is asked for it: this is the answer, be it an error. */
  | { readonly kind: "answer"; readonly answer: ToldAnswer; readonly location: string | null };

/** Why there is neither a price nor an answer. */
export interface AskFault {
  /** A sentence. */
  readonly reason: string;
  /** The seller has not answered: asked again it may. */
  readonly isAway: boolean;
}

export interface ErrandOutcome extends Pick<
  PresentedOnce,
  "kind" | "receipt" | "reason" | "location"
> {
  /** The seller does not take this payment any more. */
  readonly isOver: boolean;
  /** It never left: nobody has seen the payment. */
  readonly neverLeft: boolean;
  /** Null: there is none. */
  readonly answer: ToldAnswer | null;
}

export interface PresentingOptions {
  readonly payment: PaymentHeader;
  /** It was sent before. */
  readonly wasSent: boolean;
  /** Where it was sent before; null: nowhere, or the seller does not tell sessions apart. */
  readonly session: string | null;
  /** Told where the answer can be asked for from now on; once for each attempt at most. */
  readonly onSession: (session: string) => void;
  readonly signal: AbortSignal;
}

export interface Errand extends AsyncDisposable {
  /** Whom it asks. */
  readonly url: URL;
  /** What for, in words that hold no secret: a query may. */
  readonly what: string;
  /** Everything that makes it this call and no other one. */
  readonly parts: readonly string[];
  ask(signal: AbortSignal): Promise<Result<FirstAnswer, AskFault>>;
  /** The seller's session that was asked: a payment may be good there alone. Null: it has none. */
  readonly session: string | null;
  /** Never rejects for what a seller does. */
  present(options: PresentingOptions): Promise<ErrandOutcome>;
  /**
   * Asks once as whoever has signed in, with nothing but that; null: it cannot be asked so. What it has cost of a
   * balance is told in the seller's words; null: nothing.
   */
  readonly askSignedIn: ((session: string, signal: AbortSignal) => Promise<SignedInAnswer>) | null;
}

export type SignedInAnswer =
  | { readonly kind: "price"; readonly reason: string }
  | { readonly kind: "answer"; readonly answer: ToldAnswer; readonly charged: string | null }
  /** It may have been answered, and paid for, without our hearing of it. */
  | { readonly kind: "lost"; readonly reason: string; readonly neverLeft: boolean };
