/** What a stored payment may be used for, and by whom: the questions that transitions are judged by. */
import { payerOf, samePayment } from "../x402/payment-key.ts";
import type { FacilitatorRequest, PaymentPayload } from "../x402/x402.ts";
import type { PaymentSummary } from "./books.ts";
import {
  MAX_DELIVERY_ATTEMPTS,
  MAX_RENEWALS,
  MAX_REPLAYS,
  RENEWAL_WINDOW_MS,
  type ClaimTerms,
  type Collector,
} from "./ledger.ts";
import { isOf, processOf } from "./life.ts";
import { requestOf, type PaymentRow } from "./payment-row.ts";
import { digestedTarget } from "./stored-target.ts";

export function isReplayable({ replays, replayUntilMs }: PaymentRow, nowMs: number): boolean {
  return replayUntilMs !== null && nowMs < replayUntilMs && replays < MAX_REPLAYS;
}

/** Whether its sold answer may be fetched again. */
export function isRepeatable(
  { repeatUntilMs, servedTarget }: PaymentRow,
  asked: Pick<ClaimTerms, "target">,
  nowMs: number,
): boolean {
  const isServed = servedTarget === digestedTarget(asked.target);
  return isServed && repeatUntilMs !== null && nowMs < repeatUntilMs;
}

/** The target to which the backend has led from that one, and that was served; null: it is another one. */
export function ledFrom(
  { target, ledTo, servedTarget }: PaymentRow,
  asked: Pick<ClaimTerms, "target">,
): string | null {
  const led = ledTo === null ? null : ledTo.slice(ledTo.indexOf(" ") + 1);
  const isThere = led !== null && digestedTarget(led) === servedTarget;
  return isThere && target === digestedTarget(asked.target) ? led : null;
}

/** Whether it is for such a request: for its own, or for that to which the backend has led its buyer. */
export function isFor(
  row: PaymentRow,
  { binding, target }: Pick<ClaimTerms, "binding" | "target">,
): boolean {
  if (row.binding === binding) return true;
  return row.ledTo !== null && row.ledTo === ledToFor({ binding, target });
}

/** What {@link PaymentRow.ledTo} is of a payment that was led to such a request. */
export function ledToFor({ binding, target }: Pick<ClaimTerms, "binding" | "target">): string {
  return `${binding.slice(0, binding.indexOf(" "))} ${target}`;
}

/** The outcome is not known yet. */
export function isOpen({ state }: PaymentRow): boolean {
  return state === "CLAIMED" || state === "SIGNED";
}

/** A transaction has shown it to everybody, and did not move it. */
export function isPublic({ leftBy }: PaymentRow): boolean {
  return leftBy !== null;
}

/** Paid in a transaction that is not ours: it waits for the operator, whatever the chain shows. */
export function isHeld({ state, heldTransaction }: PaymentRow): boolean {
  return state === "SIGNED" && heldTransaction !== null;
}

/** The seller has paid it back: nothing is owed, and no later look makes it paid. */
export function isRefunded({
  state,
  heldTransaction,
}: Pick<PaymentRow, "state" | "heldTransaction">): boolean {
  return state === "FAILED" && heldTransaction !== null;
}

/** Claimed by this life or a worker of it, or handed over without bytes of ours, by whichever life. */
export function isSignable(row: PaymentRow, life: string): boolean {
  if (row.state === "CLAIMED") return isOf(row.claimedBy, life);
  return row.state === "SIGNED" && row.submission === null && !isHeld(row);
}

/** A claim that its worker has left to the process, or that the process took from another one to sign it. */
function isLeftToProcess({ state, offered, claimedBy }: PaymentRow, life: string): boolean {
  return state === "CLAIMED" && !offered && claimedBy !== life && claimedBy === processOf(life);
}

/** What the settlement of a payment is judged by; texts for people may change in between. */
const ASKED = ["network", "asset", "payTo", "maxAmountRequired", "resource"] as const;

export function asksTheSame(left: FacilitatorRequest, right: FacilitatorRequest): boolean {
  const [one, other] = [left.paymentRequirements, right.paymentRequirements];
  return ASKED.every((name) => one[name] === other[name]);
}

/** Whether a life's request may have it: its own, or nobody's. */
export function isFree({ isLeft, holder }: PaymentRow, life: string): boolean {
  return isLeft || holder === life;
}

/** What a claim that goes on with an open payment changes of its row; undefined: nothing. */
export function takenOver(row: PaymentRow, life: string): Partial<PaymentRow> | undefined {
  const isTaken = isLeftToProcess(row, life);
  if (!isTaken && row.holder === life && !row.isLeft) return undefined;
  return { holder: life, isLeft: false, ...(isTaken && { claimedBy: life }) };
}

/** Whether the goods are for him: everybody can show a payment that is on chain. */
export function mayCollect({ claimant }: PaymentRow, by: Collector): boolean {
  if (by.proof === "valid" || by.proof === "signed-in") return true;
  return claimant !== null && claimant === by.claimant;
}

/** For whom what is left of it is kept once he has it. */
export function claimantAfter({ claimant }: PaymentRow, by: Collector): string | null {
  return by.proof === "signed-in" ? claimant : by.claimant;
}

/** Once a part of one target's answer is out, a repeat may fetch the rest, but nothing else. */
export function isForTarget({ servedTarget }: PaymentRow, target: string): boolean {
  return servedTarget === null || servedTarget === digestedTarget(target);
}

/** The attempts before the next one, and what a renewal changes; undefined: there is no next one. */
export function attemptsLeft(
  row: PaymentRow,
  { proof }: Collector,
  nowMs: number,
): Pick<PaymentRow, "attempts" | "renewals" | "renewedMs"> | undefined {
  const { attempts, renewals, renewedMs } = row;
  if (attempts < MAX_DELIVERY_ATTEMPTS) return { attempts, renewals, renewedMs };
  if (proof === undefined || !isRenewable(row, nowMs)) return undefined;
  if (isWindowOver(row, nowMs)) return { attempts: 0, renewals: 1, renewedMs: nowMs };
  return { attempts: 0, renewals: renewals + 1, renewedMs };
}

export function isRenewable(row: PaymentRow, nowMs: number): boolean {
  return row.renewals < MAX_RENEWALS || isWindowOver(row, nowMs);
}

function isWindowOver({ renewedMs }: PaymentRow, nowMs: number): boolean {
  return renewedMs === null || nowMs - renewedMs >= RENEWAL_WINDOW_MS;
}

type Waiting = Pick<
  PaymentSummary,
  "isLeft" | "keptUntilMs" | "renewableMs" | "repeatUntilMs" | "ledTo" | "isHeadOnly"
>;

/** What the books tell of a payment that waits for its buyer. */
export function waitingOf({
  isLeft,
  renewals,
  renewedMs,
  replays,
  replayUntilMs,
  repeats,
  repeatUntilMs,
  ledTo,
  servedTarget,
  state,
}: PaymentRow): Waiting {
  const isUsedUp = renewals >= MAX_RENEWALS && renewedMs !== null;
  return {
    isLeft,
    repeatUntilMs,
    ledTo,
    isHeadOnly: state === "SETTLED" && repeats > 0 && servedTarget === null && ledTo === null,
    keptUntilMs: replays < MAX_REPLAYS ? replayUntilMs : null,
    renewableMs: isUsedUp ? renewedMs + RENEWAL_WINDOW_MS : 0,
  };
}

/** Whether what has an identifier is another payment than the one that is shown with it, or is for another request. */
export function isMisnamed(
  { paymentPayload }: Pick<FacilitatorRequest, "paymentPayload">,
  { binding, target }: Pick<ClaimTerms, "binding" | "target">,
  named: PaymentRow | undefined,
): boolean {
  if (named === undefined) return false;
  const isSame = samePayment(requestOf(named).paymentPayload, paymentPayload);
  const isFirst = named.binding === binding && named.target === digestedTarget(target);
  return !isSame || !(isFirst || (named.ledTo !== null && isFor(named, { binding, target })));
}

/** Whether its payer may have the goods of it by such a request: they are paid and not had, or to be had again. */
export function isToBeHad(
  row: PaymentRow,
  sale: Pick<ClaimTerms, "binding" | "target">,
  nowMs: number,
): boolean {
  if (row.state === "CLAIMED" || row.state === "FAILED" || !isFor(row, sale)) return false;
  if (row.state !== "DELIVERED") return isForTarget(row, sale.target);
  return (
    isHadAgain(row, nowMs) &&
    (row.servedTarget === digestedTarget(sale.target) || ledFrom(row, sale) !== null)
  );
}

function isHadAgain(row: PaymentRow, nowMs: number): boolean {
  return isReplayable(row, nowMs) || nowMs < (row.repeatUntilMs ?? 0);
}

/** Whether that payer is owed the goods of it for such a sale, and no request waits for them. */
export function isOwed(
  row: PaymentRow,
  payment: PaymentPayload,
  sale: Pick<ClaimTerms, "binding" | "target">,
  nowMs: number,
): boolean {
  const { target } = sale;
  if (!row.isLeft || !isFor(row, sale) || row.network !== payment.network) return false;
  if (payerOf(requestOf(row).paymentPayload) !== payerOf(payment)) return false;
  if (row.state === "DELIVERED") {
    return isHadAgain(row, nowMs) && row.servedTarget === digestedTarget(target);
  }
  return row.state !== "FAILED" && isForTarget(row, target);
}
