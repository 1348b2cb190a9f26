/**
 * What the ledger forgets of a payer who asks for it: payments that are over go as a sweep takes them, before
 * `store.keep` says so, and so does what else bears his name. What keeps a payment from being used twice stays, as the
 * digest of its key, and what it has moved stays in the sums of its day; neither names him, though the
 * chain does, where the transaction beside the digest is looked up.
 */
import type { PaymentKey } from "../x402/payment-key.ts";
import { fateOf, goesFromMs, type Candidate, type Fate } from "./sweep.ts";
import type { PaymentState } from "./transition.ts";

/**
 * So long after its last change a payment is not over for its payer either, milliseconds: hours and days count it for
 * limits, and its answer may be had again.
 */
const UNFORGETTABLE_MS = 86_400_000;
/** Payments that go in one step, and that one step looks at which only tells. */
const FORGOTTEN_TOGETHER = 200;
const MAX_LOOKED_AT = 10_000;
/** Of payments that are not over so many are named. */
const MAX_NAMED = 20;

export interface ForgetStep {
  readonly payer: string;
  /** Nothing goes: it is told what would. */
  readonly isTried: boolean;
}

/** A payment that is not over. */
export interface Unfinished {
  readonly key: PaymentKey;
  readonly state: PaymentState;
  /** When it may go if nothing happens to it, milliseconds since the epoch; null: somebody has to see to it first. */
  readonly fromMs: number | null;
}

export interface Forgotten {
  /** Payments without a row now, with their histories, requests and kept answers. */
  readonly payments: number;
  /** Of how many of them the digest and the transaction stay. */
  readonly buried: number;
  /** Signed transactions that carried nobody else's payment. */
  readonly submissions: number;
  /** Payments of his that were used elsewhere, as they were presented here. */
  readonly usedElsewhere: number;
  /** How many are not over. Where there are any nothing has gone. */
  readonly unfinished: number;
  /** The newest of those. */
  readonly named: readonly Unfinished[];
  /** There may be older ones: ask again. */
  readonly isMore: boolean;
}

export interface Forgetting {
  /** One bounded step. Where one of the payments that it looks at is not over, nothing goes. */
  forget(step: ForgetStep): Promise<Forgotten>;
}

/** A payment of the payer, as a store has read it. */
export interface PaymentOfPayer extends Candidate {
  readonly key: PaymentKey;
  /** Whether the chain is still to be asked for it. */
  readonly isDoubted: boolean;
}

/** How many payments a step looks at. */
export function lookedAt({ isTried }: ForgetStep): number {
  return isTried ? MAX_LOOKED_AT : FORGOTTEN_TOGETHER;
}

/** What becomes of each, the newest first. */
export interface ForgettingVerdict<Each extends PaymentOfPayer> {
  readonly going: readonly { readonly payment: Each; readonly fate: Exclude<Fate, "kept"> }[];
  readonly unfinished: readonly Unfinished[];
}

export function judgeForgetting<Each extends PaymentOfPayer>(
  payments: readonly Each[],
  nowMs: number,
): ForgettingVerdict<Each> {
  const going: { payment: Each; fate: Exclude<Fate, "kept"> }[] = [];
  const unfinished: Unfinished[] = [];
  for (const payment of payments) {
    const { key, state, updatedMs } = payment;
    const fate = payment.isDoubted ? "kept" : fateOf(payment, Infinity, nowMs);
    const fromMs = updatedMs + UNFORGETTABLE_MS;
    const overMs = fate === "kept" && !payment.isDoubted ? goesFromMs(payment) : null;
    if (overMs !== null) unfinished.push({ key, state, fromMs: Math.max(fromMs, overMs) });
    else if (fate === "kept") unfinished.push({ key, state, fromMs: null });
    else if (fromMs > nowMs) unfinished.push({ key, state, fromMs });
    else going.push({ payment, fate });
  }
  return { going: unfinished.length > 0 ? [] : going, unfinished };
}

/** What is told of a step. */
export function forgottenIn(
  step: ForgetStep,
  looked: number,
  { going, unfinished }: ForgettingVerdict<PaymentOfPayer>,
  { submissions, usedElsewhere }: Pick<Forgotten, "submissions" | "usedElsewhere">,
): Forgotten {
  return {
    payments: going.length,
    buried: going.filter(({ fate }) => fate === "buried").length,
    submissions,
    usedElsewhere,
    unfinished: unfinished.length,
    named: unfinished.slice(0, MAX_NAMED),
    isMore: unfinished.length === 0 && looked >= lookedAt(step),
  };
}
