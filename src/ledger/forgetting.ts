/**
 * What the ledger forgets of a payer who asks for it: payments that are over go as a sweep takes them, before
 * `store.keep` says so, and so does what else bears his name. What keeps a payment from being used twice stays, as the
 * digest of its key, and what it has moved stays in the sums of its day; neither names him, though the
 * chain does, where the transaction beside the digest is looked up.
 */
import type { PaymentKey } from "../x402/payment-key.ts";
import { messageOf } from "../x402/result.ts";
import { LedgerUnavailable } from "./ledger-fault.ts";
import { fateOf, goesFromMs, type Candidate, type Fate } from "./sweep.ts";
import type { PaymentState } from "./transition.ts";

/**
 * So long after its last change a payment is not over for its payer either, milliseconds: hours and days count it for
 * limits, and its answer may be had again.
 */
const UNFORGETTABLE_MS = 86_400_000;
/**
 * Payments that go in one step, that one step looks at which only tells, and messages that one step looks at: with SQLite
 * every sale waits meanwhile.
 */
export const FORGOTTEN_TOGETHER = 25;
export const LOOKED_AT_TOGETHER = 200;
export const MESSAGES_TOGETHER = 1_000;
/** Of payments that are not over so many are named. */
const MAX_NAMED = 20;

/** Where a step goes on: of payments at older ones than this. For nobody but the store that told it. */
export interface ForgetPlace {
  /** What he has paid, what was sent to him in return, and what else bears his name. */
  readonly stage: "payments" | "transfers" | "rest";
  readonly ms: number;
  readonly id: number;
}

export interface ForgetStep {
  readonly payer: string;
  /** Nothing goes: it is told what would. */
  readonly isTried: boolean;
  /** The {@link ForgottenInStep.next} of the step before; undefined at first. */
  readonly from?: ForgetPlace | undefined;
}

/** A payment that is not over. */
export interface Unfinished {
  readonly key: PaymentKey;
  readonly state: PaymentState;
  /** When it may go if nothing happens to it, milliseconds since the epoch; null: somebody has to see to it first. */
  readonly fromMs: number | null;
}

/** What has gone of a payer, or would. */
export interface Forgotten {
  /** Payments without a row now, with their histories, requests and kept answers. */
  readonly payments: number;
  /** Of how many of them the digest and the transaction stay. */
  readonly buried: number;
  /** Signed transactions that carried nobody else's payment. */
  readonly submissions: number;
  /** Payments of his that were used elsewhere, as they were presented here. */
  readonly usedElsewhere: number;
  /** How many are not over; one more where something prepaid is not used. Where there are any nothing has gone. */
  readonly unfinished: number;
  /** The newest of those. */
  readonly named: readonly Unfinished[];
}

export interface ForgottenInStep extends Forgotten {
  /** Where the next step goes on; null: that was the last one. */
  readonly next: ForgetPlace | null;
}

export interface Forgetting {
  /** One bounded step. Where one of the payments that it looks at is not over, nothing goes, and no further step follows. */
  forget(step: ForgetStep): Promise<ForgottenInStep>;
}

/** A payment of the payer, as a store has read it. */
export interface PaymentOfPayer extends Candidate {
  readonly key: PaymentKey;
  /** Whether the chain is still to be asked for it. */
  readonly isDoubted: boolean;
}

/** How many payments a step looks at. */
export function lookedAt({ isTried }: Pick<ForgetStep, "isTried">): number {
  return isTried ? LOOKED_AT_TOGETHER : FORGOTTEN_TOGETHER;
}

/** Where a step of it goes on. */
export function placeOf({ from }: ForgetStep): ForgetPlace {
  return from ?? startOf("payments");
}

/** The newest of a stage comes first; of the rest the oldest. */
function startOf(stage: ForgetPlace["stage"]): ForgetPlace {
  const first = stage === "rest" ? 0 : Number.MAX_SAFE_INTEGER;
  return { stage, ms: first, id: first };
}

/** What is told of a step that has looked at payments, or transfers, in the order of their places. */
export function forgottenIn(
  step: ForgetStep,
  looked: readonly Pick<ForgetPlace, "ms" | "id">[],
  { going, unfinished }: ForgettingVerdict<PaymentOfPayer>,
  submissions = 0,
): ForgottenInStep {
  const { stage } = placeOf(step);
  const last = looked.length < lookedAt(step) ? undefined : looked.at(-1);
  const behind = startOf(stage === "payments" ? "transfers" : "rest");
  // What is gone is in nobody's way: what has come meanwhile is looked at, too.
  const next = last === undefined ? behind : step.isTried ? { stage, ...last } : startOf(stage);
  return {
    ...NOTHING,
    payments: going.length,
    buried: going.filter(({ fate }) => fate === "buried").length,
    submissions,
    unfinished: unfinished.length,
    named: unfinished.slice(0, MAX_NAMED),
    next: unfinished.length > 0 && !step.isTried ? null : next,
  };
}

/** The same of the rest. @param messages the places of those that it has looked at, in their order */
export function forgottenRest(usedElsewhere: number, messages: readonly number[]): ForgottenInStep {
  const last = messages.length < MESSAGES_TOGETHER ? undefined : messages.at(-1);
  const next = last === undefined ? null : ({ stage: "rest", ms: 0, id: last } as const);
  return { ...NOTHING, usedElsewhere, next };
}

/** Whether it is the first of all steps, in which it is looked at what the payer has prepaid. */
export function isFirstStep(step: ForgetStep): boolean {
  const { stage, ms } = placeOf(step);
  return stage === "payments" && ms === startOf(stage).ms;
}

/** Of a payer who has prepaid something and not used it: as long as it is his, he cannot be forgotten. */
export function prepaid(): ForgottenInStep {
  return { ...NOTHING, unfinished: 1 };
}

const NOTHING: ForgottenInStep = {
  payments: 0,
  buried: 0,
  submissions: 0,
  usedElsewhere: 0,
  unfinished: 0,
  named: [],
  next: null,
};

/** All steps, one after the other: what they have told together. What they throw says what is gone by then. */
export async function forgetAll(
  forget: (step: ForgetStep) => Promise<ForgottenInStep>,
  asked: Pick<ForgetStep, "payer" | "isTried">,
): Promise<Forgotten> {
  let { next: from, ...sum }: ForgottenInStep = { ...NOTHING, next: startOf("payments") };
  while (from !== null) {
    const { next, ...gone }: ForgottenInStep = await forget({ ...asked, from }).catch(
      (cause: unknown) => {
        if (asked.isTried || sum.payments === 0) throw cause;
        const gone = `${sum.payments} payments are erased, and then no more: ask again for the rest`;
        throw new LedgerUnavailable(`${gone} (${messageOf(cause)})`, { cause });
      },
    );
    sum = {
      payments: sum.payments + gone.payments,
      buried: sum.buried + gone.buried,
      submissions: sum.submissions + gone.submissions,
      usedElsewhere: sum.usedElsewhere + gone.usedElsewhere,
      unfinished: sum.unfinished + gone.unfinished,
      named: [...sum.named, ...gone.named].slice(0, MAX_NAMED),
    };
    from = next;
  }
  // Where something is not over nothing would go.
  const isKept = asked.isTried && sum.unfinished > 0;
  return isKept ? { ...sum, payments: 0, buried: 0 } : sum;
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
