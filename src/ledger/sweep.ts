/**
 * What of the ledger may go, and how it goes: payments that ended long ago become tombstones, and nothing that
 * somebody may still be owed is ever touched. What a sweep does at once is little, since payments wait meanwhile.
 */
import { isEvmPayload } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import type { PaymentDetail } from "./books.ts";
import type { PaymentState, SubmissionState } from "./transition.ts";

/**
 * So long after its `validBefore` no block takes an authorization any more, and what a block has said of it is
 * final, milliseconds: the slowest of the networks is final within a quarter of an hour.
 */
const FINAL_MS = 86_400_000;

/**
 * A failed payment whose authorization never ends is forgotten so long after its last change, milliseconds: nothing
 * was sold for it, so that whoever shows it then pays with it, once.
 */
export const FAILED_FOR_MS = 30 * 86_400_000;

/** Where one step of a sweep ended; for nobody but the store that told it. */
export interface SweepPlace {
  readonly stage: "payments" | "submissions";
  readonly ms: number;
  readonly id: number | string;
}

export interface SweepStep {
  /** What ended before that time goes, milliseconds since the epoch. */
  readonly beforeMs: number;
  /** Where the step before this one ended; undefined at first. */
  readonly from: SweepPlace | undefined;
  /** Awaited before they are deleted; where it rejects, nothing is. It may see one payment more than once. */
  readonly archive: ((payments: readonly PaymentDetail[]) => Promise<void>) | undefined;
}

export interface Swept {
  /** Payments that have no row any more. */
  readonly payments: number;
  /** Undefined at the end. */
  readonly next: SweepPlace | undefined;
}

export interface Sweeping {
  /**
   * One bounded step: looks at some of the oldest payments or submissions behind a place. Delivered payments,
   * those that were settled for another resource server, and those that were paid back become tombstones; other failed
   * ones whose authorization can never be used again are dropped; so are closed submissions that carry no payment any more and have left none
   * behind that is not decided yet, and what is remembered of payments that were used elsewhere. Where another replica is at it, that is the end.
   */
  sweep(step: SweepStep): Promise<Swept>;
}

/** A payment as a sweep looks at it. */
export interface Candidate {
  readonly state: PaymentState;
  readonly isForOthers: boolean;
  /** It was paid, and its seller has paid it back. */
  readonly isPaidBack: boolean;
  /** Null: nobody has asked for a refund. */
  readonly refundState: string | null;
  readonly updatedMs: number;
  /** Of the submission that carries it; null: none. */
  readonly submissionState: SubmissionState | null;
  /** Read only where it is asked for: of a payment that failed. */
  readonly request: () => FacilitatorRequest;
}

/** `buried`: a tombstone stays; `dropped`: nothing has to. */
export type Fate = "kept" | "buried" | "dropped";

export function fateOf(candidate: Candidate, beforeMs: number, nowMs: number): Fate {
  const { state, isForOthers, isPaidBack, refundState, updatedMs, submissionState } = candidate;
  if (updatedMs >= beforeMs) return "kept";
  // It is to be sent, or the operator has to decide. One that was sent counts on no day by then: nothing goes within one.
  if (refundState !== null && refundState !== "REFUNDED") return "kept";
  // Its bytes may be sent again, and what they did is not final.
  if (submissionState !== null && submissionState !== "CLOSED") return "kept";
  if (state === "DELIVERED" || (state === "SETTLED" && isForOthers)) return "buried";
  if (state !== "FAILED") return "kept";
  if (isPaidBack) return "buried";
  return overFromMs(candidate) <= nowMs ? "dropped" : "kept";
}

/** From when on one that is kept may go though nothing happens to it; null: somebody has to see to it first. */
export function goesFromMs(candidate: Candidate): number | null {
  if (candidate.state !== "FAILED") return null;
  const overMs = overFromMs(candidate);
  return fateOf(candidate, Infinity, overMs) === "dropped" ? overMs : null;
}

/**
 * From when on the authorization of a failed payment can never be used again, or has not been for long: until then the
 * chain may say that it was paid after all. Solana's blockhashes are forgotten within minutes, and durable nonces are not taken.
 */
function overFromMs({ request, updatedMs }: Candidate): number {
  const { payload } = request().paymentPayload;
  const endMs = isEvmPayload(payload)
    ? Number(payload.authorization.validBefore) * 1000
    : updatedMs;
  return Math.min(endMs + FINAL_MS, updatedMs + FAILED_FOR_MS) + 1;
}
