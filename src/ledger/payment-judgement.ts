/** What a stored payment may be used for, and by whom: the questions that transitions are judged by. */
import type { FacilitatorRequest } from "../x402/x402.ts";
import { MAX_REPLAYS } from "./ledger.ts";
import { isOf, processOf } from "./life.ts";
import type { PaymentRow } from "./payment-row.ts";

export function isReplayable({ replays, replayUntilMs }: PaymentRow, nowMs: number): boolean {
  return replayUntilMs !== null && nowMs < replayUntilMs && replays < MAX_REPLAYS;
}

/** The outcome is not known yet. */
export function isOpen({ state }: PaymentRow): boolean {
  return state === "CLAIMED" || state === "SIGNED";
}

/** Claimed by this life or a worker of it, or handed over without bytes of ours, by whichever life. */
export function isSignable({ state, claimedBy, submission }: PaymentRow, life: string): boolean {
  if (state === "CLAIMED") return isOf(claimedBy, life);
  return state === "SIGNED" && submission === null;
}

/** A claim that its worker has left to the process, or that the process took from another one to sign it. */
export function isLeft({ state, offered, claimedBy }: PaymentRow, life: string): boolean {
  return state === "CLAIMED" && !offered && claimedBy !== life && claimedBy === processOf(life);
}

/** What the settlement of a payment is judged by; texts for people may change in between. */
const ASKED = ["network", "asset", "payTo", "maxAmountRequired", "resource"] as const;

export function asksTheSame(left: FacilitatorRequest, right: FacilitatorRequest): boolean {
  const [one, other] = [left.paymentRequirements, right.paymentRequirements];
  return ASKED.every((name) => one[name] === other[name]);
}
