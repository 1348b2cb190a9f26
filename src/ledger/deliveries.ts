/** Transitions of a payment that is paid: how it is delivered, and how what was sold is given again. */
import {
  ANSWERED_MS,
  MAX_DELIVERY_ATTEMPTS,
  MAX_REPLAYS,
  MAX_STORED_BODY_BYTES,
  REPLAY_MS,
  type BrokenDelivery,
  type Collector,
  type SaleTerms,
  type TransitionOf,
} from "./transition.ts";
import { after, conflict, DONE, type Moment, type Row, type Step } from "./machine-step.ts";
import {
  attemptsLeft,
  claimantAfter,
  isForTarget,
  isFree,
  isRepeatable,
  isReplayable,
  mayCollect,
} from "./payment-judgement.ts";
import type { Fingerprint, SoldAnswer } from "./sold-answer.ts";
import { digestedTarget } from "./stored-target.ts";
import { deliveredFacets } from "./metered.ts";
import { amountOf, requestOf, type PaymentRow } from "./payment-row.ts";
import { askedRefund } from "./refunds.ts";
import { paidBack } from "./resolution.ts";

export function deliver(row: Row, sale: SaleTerms | null, { life, nowMs }: Moment): Step<boolean> {
  if (row?.state !== "SETTLED" || !isFree(row, life)) return { outcome: false };
  if (sale !== null && !fits(row, sale)) return { outcome: false };
  const left = attemptsLeft(row, sale ?? NOBODY, nowMs);
  if (left === undefined) return { outcome: false };
  const attempts = left.attempts + 1;
  const held = { claimedBy: life, holder: life, isLeft: false };
  const claimant = sale === null ? row.claimant : claimantAfter(row, sale);
  const next = {
    ...after(row),
    ...left,
    ...held,
    claimant,
    state: "DELIVERING",
    attempts,
  } as const;
  return { outcome: true, next, note: `attempt ${attempts} of ${MAX_DELIVERY_ATTEMPTS}` };
}

function fits(row: PaymentRow, sale: SaleTerms): boolean {
  const isSame = row.idempotencyKey === sale.idempotencyKey && isForTarget(row, sale.target);
  return isSame && mayCollect(row, sale);
}

export function deliverAll(
  row: Row,
  { sold: given, again, metered }: Omit<TransitionOf<"delivered">, "kind">,
  moment: Moment,
): Step<void> {
  if (row?.state === "DELIVERED") return DONE;
  if (row?.state !== "DELIVERING" || row.claimedBy !== moment.life) {
    throw conflict(row, "DELIVERED");
  }
  const kept = keepable(given);
  const replayUntilMs = kept === null ? null : moment.nowMs + REPLAY_MS;
  const served = kept?.target ?? again?.target;
  const { note, ...facets } = deliveredFacets(row, metered, () => amountOf(requestOf(row)));
  const next: PaymentRow = {
    ...after(row),
    state: "DELIVERED",
    isLeft: kept?.isUncollected === true,
    servedTarget: served === undefined ? row.servedTarget : digestedTarget(served),
    bodyHash: kept?.bodyHash ?? null,
    replayUntilMs,
    repeats: 0,
    repeatUntilMs: again === undefined ? null : moment.nowMs + again.forMs,
    ...facets,
  };
  const notes = [
    ...(kept === null ? [] : ["the answer is kept"]),
    ...(note === undefined ? [] : [note]),
  ];
  const said = notes.join("; ");
  const answer = kept && replayUntilMs && { response: kept.response, untilMs: replayUntilMs };
  return { outcome: undefined, next, note: said, ...(answer && { answer }) };
}

function keepable(given: SoldAnswer | undefined): SoldAnswer | null {
  const isSmall = given !== undefined && given.response.body.byteLength <= MAX_STORED_BODY_BYTES;
  return isSmall ? given : null;
}

/**
 * Only of a claim that nothing was signed of: what is kept is the answer to that request alone, and a crash that undoes
 * the claim takes it along.
 */
export function answer(
  row: Row,
  { idempotencyKey, sold }: Omit<TransitionOf<"answered">, "kind">,
  { life, nowMs }: Moment,
): Step<boolean> {
  const isOurs = row?.state === "CLAIMED" && row.claimedBy === life && row.binding !== null;
  if (!isOurs || row.offered || row.idempotencyKey !== idempotencyKey) return { outcome: false };
  const kept = keepable(sold);
  const note = `answered by the backend${kept === null ? "" : " and kept"}, to be settled`;
  if (kept === null) return { outcome: true, next: after(row), note };
  const next = { ...after(row), servedTarget: digestedTarget(kept.target) };
  const response = { ...kept.response, bodyHash: kept.bodyHash };
  return { outcome: true, next, note, answer: { response, untilMs: nowMs + ANSWERED_MS } };
}

/** The last attempt ends in the refund, in one step: nobody has it delivered in between. */
export function undeliver(row: Row, broken: BrokenDelivery, { life }: Moment): Step<void> {
  if (row?.state === "SETTLED" && (row.attempts > 0 || !broken.sent)) return DONE;
  if (row?.state !== "DELIVERING" || row.claimedBy !== life) throw conflict(row, "SETTLED");
  const { sent, uncounted = 0, led, served } = broken;
  const isUncounted = sent && row.repeats < uncounted;
  const next = {
    ...after(row),
    state: "SETTLED",
    isLeft: row.binding !== null,
    attempts: sent && !isUncounted ? row.attempts : row.attempts - 1,
    repeats: isUncounted ? row.repeats + 1 : row.repeats,
    servedTarget: row.servedTarget ?? (served === null ? null : digestedTarget(served)),
    ...(led !== undefined && { target: digestedTarget(led.from), ledTo: led.to }),
  } as const;
  const note = undeliveredNote(broken);
  if (isRefundedByItself(broken) && row.binding !== null && row.fills === null && isUsedUp(next)) {
    const refunded = { ...paidBack(next, row.settledTransaction), version: next.version };
    const asked = { ...refunded, ...askedRefund(row, { isAutomatic: true }) };
    return {
      outcome: undefined,
      next: asked,
      note: `${note}; it was the last attempt: to be refunded`,
    };
  }
  return { outcome: undefined, next, note: isUncounted ? `${note}; it does not count` : note };
}

/** What a buyer can bring about by himself, an answer that refuses him or leaving before it, is the operator's affair. */
function isRefundedByItself({ isRefundedLast, isBackends }: BrokenDelivery): boolean {
  return isRefundedLast === true && isBackends === true;
}

/** Of what was begun to be served the payer has a part, and may fetch the rest. */
function isUsedUp({ attempts, servedTarget }: PaymentRow): boolean {
  return attempts >= MAX_DELIVERY_ATTEMPTS && servedTarget === null;
}

function undeliveredNote({ sent, served, uncounted = 0, led }: BrokenDelivery): string {
  if (!sent) return "nothing was sent";
  if (led !== undefined) return `led on to ${led.to.split("?", 1)[0]}`;
  return uncounted > 0 && served === null ? "its head alone was asked for" : "delivery broke";
}

/** `outcome`: whether the kept answer may be given. */
export function replay(row: Row, asked: Fingerprint & Collector, moment: Moment): Step<boolean> {
  const same =
    row !== undefined &&
    isReplayable(row, moment.nowMs) &&
    mayCollect(row, asked) &&
    row.servedTarget === digestedTarget(asked.target) &&
    row.bodyHash === asked.bodyHash;
  if (!same) return { outcome: false };
  const replays = row.replays + 1;
  const note = `answered again, ${replays} of ${MAX_REPLAYS}`;
  // Owed until it is known to have gone out: whoever gives it may die meanwhile.
  const claimant = claimantAfter(row, asked);
  const given = { replays, claimant, holder: moment.life, isLeft: true };
  return { outcome: true, next: { ...after(row), ...given }, note };
}

/** `outcome`: whether what was sold may be fetched again. */
export function repeat(
  row: Row,
  asked: TransitionOf<"repeat">["asked"],
  moment: Moment,
): Step<boolean> {
  const isTheirs = row?.state === "DELIVERED" && mayCollect(row, asked);
  if (!isTheirs || !isRepeatable(row, asked, moment.nowMs) || row.repeats >= asked.times) {
    return { outcome: false };
  }
  const repeats = row.repeats + 1;
  // As a kept answer that is given again.
  const held = { holder: moment.life, isLeft: true };
  const next = { ...after(row), ...held, repeats, claimant: claimantAfter(row, asked) };
  return { outcome: true, next, note: `fetched again, ${repeats} of ${asked.times}` };
}

/** All of what was given again was sent to whom this life gave it last. */
export function collect(row: Row, { life }: Moment): Step<void> {
  if (row?.state !== "DELIVERED" || row.holder !== life || !row.isLeft) return DONE;
  return { outcome: undefined, next: { ...after(row), isLeft: false }, note: "collected" };
}

/** The answer that was sent last, and can be had again, has not been read: only whoever sent it knows that. */
export function unread(row: Row, { life }: Moment): Step<void> {
  if (row?.state !== "DELIVERED" || row.binding === null) return DONE;
  const isHadAgain = row.replayUntilMs !== null || row.repeatUntilMs !== null;
  if (!isHadAgain || row.holder !== life || row.isLeft) return DONE;
  const note = "its answer was not read";
  return { outcome: undefined, next: { ...after(row), isLeft: true }, note };
}

/** An operator's hand, or a test's: no attempt more than there is. */
const NOBODY: Collector = { claimant: "" };
