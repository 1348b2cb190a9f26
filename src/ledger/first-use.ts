/** How a payment comes into the ledger. */
import { payerOf } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import type { Moment } from "./machine-step.ts";
import { storedRequest, type PaymentRow } from "./payment-row.ts";
import { storedPot } from "./metered.ts";
import { storedFill, type PotFill } from "./pots.ts";
import { digestedTarget } from "./stored-target.ts";

/** What makes a row: a resource server's terms, or a facilitator's, which have no binding and no target. */
export interface FirstUse {
  readonly binding: string | null;
  readonly target: string | null;
  readonly route?: string | undefined;
  readonly idempotencyKey: string | null;
  readonly request: FacilitatorRequest;
  readonly claimant: string | null;
  readonly identifier?: string | undefined;
  readonly fills?: PotFill | undefined;
  readonly change?: string | undefined;
}

/** The row that a first use makes. */
export function firstRow(first: FirstUse, { life }: Moment): PaymentRow {
  const { binding, target, route = null, idempotencyKey, request, claimant } = first;
  return {
    state: "CLAIMED",
    version: 1,
    binding,
    target: target === null ? null : digestedTarget(target),
    route,
    idempotencyKey,
    request: storedRequest(request),
    network: request.paymentPayload.network,
    payer: payerOf(request.paymentPayload),
    facilitator: null,
    handedOverAt: null,
    lookAgainMs: null,
    leftBy: null,
    offered: false,
    submission: null,
    settledTransaction: null,
    heldTransaction: null,
    attempts: 0,
    servedTarget: null,
    bodyHash: null,
    replays: 0,
    replayUntilMs: null,
    ledTo: null,
    repeats: 0,
    repeatUntilMs: null,
    failureCode: null,
    failureDetail: null,
    claimedBy: life,
    holder: life,
    isLeft: false,
    claimant,
    renewals: 0,
    renewedMs: null,
    identifier: first.identifier ?? null,
    refundState: null,
    refund: null,
    refundCountedMs: null,
    fills: first.fills === undefined ? null : storedFill(first.fills),
    metered: storedPot(first.change),
  };
}
