/**
 * The state machine of a payment: which transitions there are, for every implementation of the ledger.
 * Pure: a row (or none) and a question become an answer and the row to write. Whoever stores it writes
 * `next` in the same database transaction in which it read the row, and only if it is still that version.
 */
import { digestedTarget } from "./stored-target.ts";
import { samePayment } from "../x402/payment-key.ts";
import {
  FIRST_DOUBT_MS,
  type BeginOutcome,
  type ClaimHolder,
  type ClaimOutcome,
  type ClaimTerms,
  type Failing,
  type OutcomeOf,
  type SettledPayment,
  type SettlementOutcome,
  type TakeOutcome,
  type TransitionKind,
  type TransitionOf,
} from "./ledger.ts";
import {
  failedBegin,
  failedClaim,
  handOver,
  lookAgain,
  mayBePaid,
  unresolvedClaim,
} from "./doubted.ts";
import {
  answer,
  collect,
  deliver,
  deliverAll,
  repeat,
  replay,
  undeliver,
  unread,
} from "./deliveries.ts";
import { firstRow, type FirstUse } from "./first-use.ts";
import { refund, statusOf, type CountedRefunds } from "./refunds.ts";
import { isOf, processOf } from "./life.ts";
import { after, conflict, DONE, type Moment, type Row, type Step } from "./machine-step.ts";
import {
  asksTheSame,
  attemptsLeft,
  isFor,
  isForTarget,
  isFree,
  isHeld,
  isMisnamed,
  isOpen,
  isPublic,
  isRefunded,
  isRenewable,
  isRepeatable,
  isReplayable,
  isSignable,
  ledFrom,
  mayCollect,
  takenOver,
} from "./payment-judgement.ts";
import type { PotRow } from "./pots.ts";
import {
  failureOf,
  heldOf,
  requestOf,
  settlementOf,
  termsOf,
  type PaymentRow,
} from "./payment-row.ts";
import { hold, resolve } from "./resolution.ts";
import { beginBuried, claimBuried, type Tombstone } from "./tombstone.ts";

export type { Moment, Step } from "./machine-step.ts";

/**
 * What a transition makes of a row. Throws {@link LedgerConflict} where the row's state does not allow it.
 */
export function apply<Kind extends TransitionKind>(
  row: Row,
  transition: TransitionOf<Kind>,
  moment: Moment,
  beside: FoundBeside = {},
): Step<OutcomeOf<Kind>> {
  const judge: Judges[Kind] = JUDGES[transition.kind];
  return judge(row, transition, moment, beside);
}

/** What a {@link isFirstUse first use} is judged by beside the payment's row. */
export interface FoundBeside {
  /** What is left of a payment that has no row. */
  readonly buried?: Tombstone | undefined;
  /** The payment that has the identifier of a claim ({@link identifierOf}), be it another one or the same. */
  readonly named?: Row;
  /** Of a refund that {@link isCounted}: what others count on this day. */
  readonly counted?: CountedRefunds | undefined;
  /** Of a refund of credits: the pot that the payment has filled. */
  readonly pot?: PotRow | undefined;
}

/** Whether what else was paid back on that day has to be read with the row, while no other may be counted. */
export function isCounted({
  to,
}: {
  readonly kind: TransitionKind;
  readonly to?: { readonly kind: string };
}): boolean {
  return to?.kind === "sending";
}

/** The identifier by which a claim's {@link FoundBeside.named} is found; undefined: none is to be found. */
export function identifierOf({
  terms,
}: {
  readonly kind: TransitionKind;
  readonly terms?: ClaimTerms;
}): string | undefined {
  return terms?.identifier;
}

type Judges = {
  readonly [Kind in TransitionKind]: (
    row: Row,
    given: TransitionOf<Kind>,
    moment: Moment,
    beside: FoundBeside,
  ) => Step<OutcomeOf<Kind>>;
};

const JUDGES: Judges = {
  claim: (row, { terms }, moment, { buried, named }) =>
    buried === undefined ? claim(row, terms, moment, named) : { outcome: claimBuried(buried) },
  begin: (row, { request, caller, route }, moment, { buried }) =>
    buried === undefined
      ? begin(row, { request, route }, caller, moment)
      : { outcome: beginBuried(buried, request, caller) },
  leave: (row, { unbegun }, moment) => leave(row, moment, unbegun),
  handedOver: handOver,
  settled: (row, { settlement }) => settle(row, settlement),
  held: (row, { transaction }) => hold(row, transaction),
  failed: (row, { failure }, moment) => fail(row, failure, moment),
  released: (row, _, moment) => release(row, moment),
  abandoned: (row, _, moment) => abandon(row, moment),
  withdrawn: (row, { submission }, moment) => withdraw(row, moment, submission),
  offer: (row, _, moment) => offer(row, moment),
  take: (row, { version }, moment) => take(row, version, moment),
  delivering: (row, { sale }, moment) => deliver(row, sale ?? null, moment),
  delivered: (row, given, moment) => deliverAll(row, given, moment),
  undelivered: (row, { broken }, moment) => undeliver(row, broken, moment),
  replay: (row, { asked }, moment) => replay(row, asked, moment),
  repeat: (row, { asked }, moment) => repeat(row, asked, moment),
  collected: (row, _, moment) => collect(row, moment),
  unread: (row, _, moment) => unread(row, moment),
  answered: (row, given, moment) => answer(row, given, moment),
  lookedAgain: (row, { nextMs }) => lookAgain(row, nextMs),
  resolve: (row, { resolution }, _, { pot }) => resolve(row, resolution, pot),
  refund: (row, { to }, moment, { counted }) => refund(row, to, moment, counted),
  status: (row) => ({ outcome: row && statusOf(row) }),
};

/** A resource server's claim. */
function claim(row: Row, terms: ClaimTerms, moment: Moment, named: Row): Step<ClaimOutcome> {
  const isTaken = row === undefined && named !== undefined;
  if (isTaken || isMisnamed(terms.request, terms, named)) return { outcome: { kind: "misnamed" } };
  if (row === undefined) {
    return { outcome: { kind: "granted" }, next: firstRow(terms, moment), note: terms.binding };
  }
  const outcome = repeatedClaim(row, terms, moment);
  const isOngoing = outcome.kind === "unresolved" && isOpen(row);
  const taken = isOngoing ? takenOver(row, moment.life) : undefined;
  if (taken === undefined) return { outcome };
  return { outcome, next: { ...after(row), ...taken }, note: "taken over by another request" };
}

function repeatedClaim(row: PaymentRow, terms: ClaimTerms, moment: Moment): ClaimOutcome {
  // First of all, since every other answer gives something away.
  if (!samePayment(requestOf(row).paymentPayload, terms.request.paymentPayload)) {
    return { kind: "forged" };
  }
  if (isHeld(row)) return { kind: "held", transaction: heldOf(row) };
  const busy = { kind: "busy", version: row.version } as const;
  // "foreign" asks for another payment, which is wrong while this one may yet turn out unpaid.
  if (!isFor(row, terms)) return isOpen(row) ? busy : foreign(row, terms);
  // What was made for another target is settled, and not for this request.
  if (isOpen(row) && !isForTarget(row, terms.target)) return busy;
  if (row.state === "FAILED") return failedClaim(row);
  if (row.state === "DELIVERED") return sold(row, terms, moment);
  // What a request waits for is not owed yet: a payer who signed anew for it would be charged.
  if (!mayCollect(row, terms)) return row.isLeft ? { kind: "withheld" } : busy;
  if (row.state === "DELIVERING" || !isFree(row, moment.life)) return busy;
  if (row.state === "SETTLED") return deliverable(row, terms, moment);
  const isOthers = row.claimedBy !== moment.life && row.claimedBy !== processOf(moment.life);
  if (row.state === "CLAIMED" && isOthers) return busy;
  return unresolvedClaim(row);
}

/** Who paid for something else is told what, and nobody else. */
function foreign(row: PaymentRow, terms: ClaimTerms): ClaimOutcome {
  const isTold = row.settledTransaction !== null && row.binding !== null && mayCollect(row, terms);
  return isTold
    ? { kind: "foreign", bought: row.ledTo ?? row.binding, settlement: settlementOf(row) }
    : { kind: "foreign" };
}

function sold(row: PaymentRow, terms: ClaimTerms, { nowMs }: Moment): ClaimOutcome {
  const isServed = row.servedTarget === digestedTarget(terms.target);
  const at = isServed ? null : ledFrom(row, terms);
  const isKept = isReplayable(row, nowMs) && (isServed || at !== null);
  const isAgain = isKept || isRepeatable(row, { target: at ?? terms.target }, nowMs);
  if (isAgain && mayCollect(row, terms)) {
    const { idempotencyKey } = termsOf(row);
    const found = { isKept, ...(at !== null && { at }) };
    return { kind: "sold", ...found, settlement: settlementOf(row), idempotencyKey };
  }
  return isAgain && row.isLeft ? { kind: "withheld" } : spent(row);
}

function deliverable(row: PaymentRow, terms: ClaimTerms, { nowMs }: Moment): ClaimOutcome {
  if (!isForTarget(row, terms.target)) return spent(row);
  const settlement = settlementOf(row);
  const left = attemptsLeft(row, terms, nowMs);
  if (left === undefined) {
    const isRenewableNow = isRenewable(row, nowMs);
    return {
      kind: "exhausted",
      transaction: settlement.transaction,
      isRenewable: isRenewableNow,
    };
  }
  const { idempotencyKey } = termsOf(row);
  return { kind: "settled", settlement, attempts: left.attempts, idempotencyKey };
}

function spent(row: PaymentRow): ClaimOutcome {
  const { transaction } = settlementOf(row);
  return { kind: "spent", delivered: row.state === "DELIVERED", transaction };
}

/** A facilitator's settlement. */
function begin(
  row: Row,
  asked: Pick<FirstUse, "request" | "route">,
  caller: string | ClaimHolder | undefined,
  moment: Moment,
): Step<BeginOutcome> {
  if (typeof caller !== "object") return beginUnder(row, asked, caller, moment);
  const { claimedUnder } = caller;
  if (row?.idempotencyKey !== claimedUnder) return { outcome: { kind: "taken" } };
  return beginUnder(row, asked, claimedUnder, moment);
}

function beginUnder(
  row: Row,
  { request, route }: Pick<FirstUse, "request" | "route">,
  idempotencyKey: string | undefined,
  moment: Moment,
): Step<BeginOutcome> {
  const mine = { idempotencyKey: idempotencyKey ?? null, request, route };
  const first = { binding: null, target: null, claimant: null, ...mine };
  const granted = { outcome: { kind: "granted" }, note: "asked to settle" } as const;
  if (row === undefined) return { ...granted, next: firstRow(first, moment) };
  const stored = requestOf(row);
  const same = samePayment(stored.paymentPayload, request.paymentPayload);
  const sameCaller = idempotencyKey !== undefined && row.idempotencyKey === idempotencyKey;
  if (row.state === "FAILED" && (mayBePaid(row) || isRefunded(row))) {
    // Nothing is ever signed beside that.
    return { outcome: same ? failedBegin(row, sameCaller) : { kind: "taken" } };
  }
  if (!sameCaller && row.state === "FAILED") {
    return { ...granted, next: { ...firstRow(first, moment), version: row.version + 1 } };
  }
  if (!sameCaller || !same || !asksTheSame(stored, request)) return { outcome: { kind: "taken" } };
  return { outcome: repeatedBegin(row, moment) };
}

/** The same caller's same settlement again. */
function repeatedBegin(row: PaymentRow, { life }: Moment): BeginOutcome {
  switch (row.state) {
    case "CLAIMED":
      if (!isOf(row.claimedBy, life) || row.offered) return { kind: "pending" };
      return { kind: "granted", ...(isPublic(row) && { isPublic: true }) };
    case "SIGNED":
      if (isHeld(row)) return { kind: "held", transaction: heldOf(row) };
      // Handed over by the caller, to us: what it handed over is what it asks for.
      if (row.submission !== null || row.facilitator === null) return { kind: "pending" };
      return {
        kind: "granted",
        facilitator: row.facilitator,
        handedOverAt: row.handedOverAt,
      };
    case "SETTLED":
    case "DELIVERING":
    case "DELIVERED":
      return { kind: "settled", settlement: settlementOf(row) };
    case "FAILED":
      return failedBegin(row, true);
  }
}

export function outcome(row: Row): SettlementOutcome {
  if (row === undefined) return { kind: "gone" };
  if (isHeld(row)) return { kind: "held", transaction: heldOf(row) };
  switch (row.state) {
    case "CLAIMED":
    case "SIGNED":
      return {
        kind: "pending",
        version: row.version,
        // A submission is named after its first transaction.
        ...(row.state === "SIGNED" && row.submission !== null && { transaction: row.submission }),
      };
    case "FAILED":
      return { kind: "failed", failure: failureOf(row) };
    case "SETTLED":
    case "DELIVERING":
    case "DELIVERED":
      return { kind: "settled", settlement: settlementOf(row) };
  }
}

/** One of the payments that a new submission carries. */
export function sign(row: Row, submission: string, { life }: Moment): Step<void> {
  if (row === undefined || !isSignable(row, life)) throw conflict(row, "SIGNED");
  const next = { ...after(row), state: "SIGNED", submission, offered: false } as const;
  return { outcome: undefined, next, note: `signed in ${submission}` };
}

/**
 * Also out of FAILED: where the chain says later that the money moved, the buyer gets what was paid. The payer stays
 * who signed, by whom it is found when it is owed, whatever a facilitator elsewhere calls him.
 */
function settle(row: Row, { transaction }: SettledPayment): Step<void> {
  if (row !== undefined && (row.settledTransaction === transaction || isRefunded(row))) return DONE;
  if (row === undefined || (!isOpen(row) && row.state !== "FAILED")) throw conflict(row, "SETTLED");
  const next: PaymentRow = {
    ...after(row),
    state: "SETTLED",
    settledTransaction: transaction,
    heldTransaction: null,
    offered: false,
    lookAgainMs: null,
    failureCode: null,
    failureDetail: null,
    // Whoever asked for one that had failed was told so, and has gone.
    isLeft: row.isLeft || (row.state === "FAILED" && row.binding !== null),
  };
  return { outcome: undefined, next, note: `in ${transaction}` };
}

/**
 * `isUnsigned`: only what nobody has signed or offered by now. Who was given the authorization may have used it,
 * or may use it yet: where the chain can be asked, the failure is doubted until the chain has decided.
 */
function fail(row: Row, { code, detail, isUnsigned }: Failing, { nowMs }: Moment): Step<void> {
  if (row?.state === "FAILED") return DONE;
  if (row === undefined || !isOpen(row) || isHeld(row)) throw conflict(row, "FAILED");
  const isAtWork = row.state !== "CLAIMED" || row.offered;
  if (isUnsigned === true && isAtWork) throw conflict(row, "FAILED");
  const failure = { failureCode: code, failureDetail: detail, offered: false, isLeft: false };
  const isDoubted = row.handedOverAt !== null && row.submission === null;
  const lookAgainMs = isDoubted ? nowMs + FIRST_DOUBT_MS : null;
  const identifier = isDoubted ? row.identifier : null;
  // Whoever watches what it was left by is to see it, should another past of the chain have moved it there.
  const submission = row.submission ?? row.leftBy;
  const doubts = { lookAgainMs, identifier, submission };
  const next = { ...after(row), ...failure, ...doubts, state: "FAILED" } as const;
  return { outcome: undefined, next, note: `${code}: ${detail}` };
}

/** `from`: only out of that submission; whoever was taken for dead may not know of a later one. */
function withdraw(row: Row, { life }: Moment, from?: string): Step<void> {
  if (row?.state !== "SIGNED" || row.submission === null || isHeld(row)) {
    throw conflict(row, "CLAIMED");
  }
  if (from !== undefined && row.submission !== from) throw conflict(row, "CLAIMED");
  const freed = { submission: null, leftBy: row.submission, claimedBy: life };
  const next = { ...after(row), ...freed, state: "CLAIMED" } as const;
  return { outcome: undefined, next, note: `not moved by ${row.submission}; signed again` };
}

/**
 * The resource server drops its own claim. One that another life took is not its own any more: to sign it,
 * or to ask again for it where it was handed over, which may have been seen by now. Nor is one that is public, which
 * the next one who shows it would have.
 */
function release(row: Row, { life }: Moment): Step<void> {
  if (row === undefined) return DONE;
  if (row.claimedBy !== life || !isDroppable(row, life)) throw conflict(row, "(none)");
  return { outcome: undefined, next: null };
}

function isDroppable(row: PaymentRow, life: string): boolean {
  return row.binding !== null && isSignable(row, life) && !row.offered && !isPublic(row);
}

/** The facilitator drops a claim that it made itself; a resource server's is left to it. */
function abandon(row: Row, { life }: Moment): Step<void> {
  if (row === undefined || row.binding !== null || row.offered) return DONE;
  const isHandedOver = row.state === "SIGNED" && row.submission === null && !isHeld(row);
  if (isPublic(row) || (row.state !== "CLAIMED" && !isHandedOver)) throw conflict(row, "(none)");
  // Offered, and taken by another life: left to it.
  if (row.claimedBy !== life) return DONE;
  return { outcome: undefined, next: null };
}

function offer(row: Row, { life }: Moment): Step<boolean> {
  if (row?.state !== "CLAIMED" || !isOf(row.claimedBy, life)) return { outcome: false };
  if (row.offered) return { outcome: true };
  return { outcome: true, next: { ...after(row), offered: true }, note: WAITS };
}

function take(row: Row, version: number, { life }: Moment): Step<TakeOutcome> {
  if (row?.state !== "CLAIMED") return { outcome: "gone" };
  if (!row.offered) {
    const isOurs = row.claimedBy === life && row.version === version + 1;
    return { outcome: isOurs ? "ours" : "gone" };
  }
  if (row.version !== version) return { outcome: "gone" };
  const next = { ...after(row), offered: false, claimedBy: life };
  return { outcome: "taken", next, note: "taken to be signed" };
}

/**
 * The request that holds it is over, or its client has gone; what it has not got is owed from here on. A claim of
 * a worker may be gone on with by the process. One that was to be dropped is: left alone, it would be charged when its
 * payment is shown again, whatever its payer is owed by then.
 */
function leave(row: Row, { life }: Moment, unbegun?: string): Step<void> {
  if (row === undefined || !isInWork(row)) return DONE;
  if (unbegun !== undefined && unbegun === row.idempotencyKey) {
    const isOurs = processOf(row.claimedBy) === processOf(life);
    if (isOurs && isDroppable(row, processOf(life))) return { outcome: undefined, next: null };
  }
  // Also one that the worker's death has left already, while its settlement went on.
  const isClaim = row.state === "CLAIMED" && row.claimedBy === life && life !== processOf(life);
  if (!isClaim && (row.holder !== life || row.isLeft)) return DONE;
  const claimedBy = isClaim ? processOf(life) : row.claimedBy;
  return { outcome: undefined, next: { ...after(row), isLeft: true, claimedBy }, note: LEFT };
}

/** Claimed for a resource, and not decided or not delivered. */
function isInWork({ state, binding }: PaymentRow): boolean {
  return binding !== null && state !== "FAILED" && state !== "DELIVERED";
}

/**
 * What the death of lives makes of a row; `outcome`: whether anything. An offered claim belongs to whoever takes it,
 * and a `kept` one to a settlement that goes on: the life that offered it last may only have passed it on, and the
 * buyer may wait elsewhere. One that is public is offered: dropped, it would go to whoever shows it first. An attempt
 * that dies with us is not the buyer's.
 */
export function reap(row: Row, isOver: (life: string) => boolean, isKept = false): Step<boolean> {
  if (row === undefined) return { outcome: false };
  const isClaimOver = isOver(row.claimedBy);
  let waits = false;
  if (row.state === "CLAIMED" && isClaimOver && !row.offered && !isKept) {
    if (!isPublic(row)) return { outcome: true, next: null };
    waits = true;
  }
  if (row.state === "DELIVERING" && isClaimOver) {
    const isLeft = row.binding !== null;
    const given = { state: "SETTLED", isLeft, attempts: row.attempts - 1 } as const;
    const note = "its delivery died with the process; the attempt does not count";
    return { outcome: true, next: { ...after(row), ...given }, note };
  }
  const isHolderOver = row.holder !== null && !row.isLeft && isOver(row.holder);
  const leaves = isHolderOver && isInWork(row) && row.state !== "DELIVERING";
  if (!leaves && !waits) return { outcome: false };
  const next = { ...after(row), offered: row.offered || waits, isLeft: row.isLeft || leaves };
  const notes = [...(leaves ? [LEFT] : []), ...(waits ? [WAITS] : [])];
  return { outcome: true, next, note: notes.join("; ") };
}

const LEFT = "no request waits for it any more";
const WAITS = "waits for a signer";
