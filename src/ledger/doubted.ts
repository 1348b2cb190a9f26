/**
 * Transitions of payments that others settle. Where the chain could be asked before the hand-over, a refusal is
 * doubted: who was given the authorization may have used it, or may use it yet.
 */
import type { BeginOutcome, ClaimOutcome } from "./ledger.ts";
import { after, conflict, DONE, type Moment, type Row, type Step } from "./machine-step.ts";
import { isPublic, isSignable } from "./payment-judgement.ts";
import { failureOf, termsOf, type PaymentRow } from "./payment-row.ts";

/**
 * A resource server's claim, or that of a facilitator which passes on what it was asked to settle. Recovery
 * asks again with the idempotency key, so there must be one.
 */
export function handOver(
  row: Row,
  { facilitator, head = null }: { readonly facilitator: string; readonly head?: number | null },
  { life }: Moment,
): Step<void> {
  if (row === undefined || row.idempotencyKey === null || !isSignable(row, life)) {
    throw conflict(row, "SIGNED");
  }
  const isRepeated = row.state === "SIGNED" && row.facilitator === facilitator;
  if (isRepeated && row.claimedBy === life) return DONE;
  // Of whoever was asked first: nobody knows what that one has seen.
  const handedOverAt = row.facilitator === null ? head : row.handedOverAt;
  const handed = { facilitator, handedOverAt, offered: false, claimedBy: life };
  const next = { ...after(row), ...handed, state: "SIGNED" } as const;
  const note = isRepeated ? `asked for again at ${facilitator}` : `handed to ${facilitator}`;
  return { outcome: undefined, next, note };
}

/** `nextMs`: when the chain is asked again, null where it has decided that nothing was paid. */
export function lookAgain(row: Row, nextMs: number | null): Step<void> {
  if (row === undefined || row.lookAgainMs === null) return DONE;
  const note = nextMs === null ? "the chain says so too" : "not paid, as far as the chain shows";
  const identifier = nextMs === null ? null : row.identifier;
  return { outcome: undefined, next: { ...after(row), lookAgainMs: nextMs, identifier }, note };
}

/** Of a FAILED one: its bytes may still be sent, or somebody else may settle it, or have done so. */
export function mayBePaid(row: PaymentRow): boolean {
  return row.submission !== null || row.lookAgainMs !== null || isPublic(row);
}

export function unresolvedClaim(row: PaymentRow): Extract<ClaimOutcome, { kind: "unresolved" }> {
  const isHandedOver = row.state !== "CLAIMED";
  const facilitator = isHandedOver ? row.facilitator : null;
  const handedOverAt = isHandedOver ? row.handedOverAt : null;
  const unresolved = {
    kind: "unresolved",
    terms: termsOf(row),
    facilitator,
    handedOverAt,
  } as const;
  return row.submission === null ? unresolved : { ...unresolved, isSigned: true };
}

export function failedClaim(row: PaymentRow): ClaimOutcome {
  const failure = failureOf(row);
  if (row.lookAgainMs === null) return { kind: "failed", failure };
  return { ...unresolvedClaim(row), failure };
}

/** Whoever did not begin it is told that it failed, and never gets what the chain shows of it later. */
export function failedBegin(row: PaymentRow, isSameCaller: boolean): BeginOutcome {
  const { facilitator, handedOverAt, lookAgainMs } = row;
  const failed = { kind: "failed", failure: failureOf(row) } as const;
  const isDoubted = isSameCaller && lookAgainMs !== null;
  if (!isDoubted || facilitator === null || handedOverAt === null) return failed;
  return { ...failed, doubted: { facilitator, handedOverAt } };
}
