/**
 * A stored payment and what may be answered about it. Independent of the database, so that every
 * implementation of the ledger judges a row in the same way.
 */
import { isErrorCode } from "../x402/error-code.ts";
import { isEvmPayload } from "../x402/payment-key.ts";
import { parseFacilitatorRequest } from "../x402/schema.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import {
  LedgerUnavailable,
  MAX_DELIVERY_ATTEMPTS,
  type BeginOutcome,
  type ClaimOutcome,
  type ClaimTerms,
  type FailedPayment,
  type PaymentState,
  type SettledPayment,
  type StoredTransaction,
} from "./ledger.ts";

export const PAYMENT_STATES = [
  "CLAIMED",
  "SIGNED",
  "SETTLED",
  "DELIVERING",
  "DELIVERED",
  "FAILED",
] as const satisfies readonly PaymentState[];

/** One row of `payments`; null where a state has not the facet. */
export interface PaymentRow {
  readonly state: PaymentState;
  /** Null when a facilitator began the payment without a resource server. */
  readonly binding: string | null;
  readonly idempotencyKey: string | null;
  /** JSON of the {@link FacilitatorRequest} that the first use brought. */
  readonly request: string;
  readonly network: string;
  readonly payer: string;
  readonly account: string | null;
  readonly accountNonce: number | null;
  readonly raw: string | null;
  /** The transaction that `raw` is: the last of those signed for the payment. */
  readonly transaction: string | null;
  readonly settledTransaction: string | null;
  readonly attempts: number;
  readonly failureCode: string | null;
  readonly failureDetail: string | null;
}

/** Reads a row as a database driver returns it, whose columns bear the names above. */
export function readPaymentRow(columns: Readonly<Record<string, unknown>>): PaymentRow {
  return {
    state: stateOf(columns.state),
    binding: textOrNull(columns, "binding"),
    idempotencyKey: textOrNull(columns, "idempotencyKey"),
    request: present(textOrNull(columns, "request"), "request"),
    network: present(textOrNull(columns, "network"), "network"),
    payer: present(textOrNull(columns, "payer"), "payer"),
    account: textOrNull(columns, "account"),
    accountNonce: integerOrNull(columns, "accountNonce"),
    raw: textOrNull(columns, "raw"),
    transaction: textOrNull(columns, "transaction"),
    settledTransaction: textOrNull(columns, "settledTransaction"),
    attempts: present(integerOrNull(columns, "attempts"), "attempts"),
    failureCode: textOrNull(columns, "failureCode"),
    failureDetail: textOrNull(columns, "failureDetail"),
  };
}

/** What a resource server's claim meets in a row that exists. */
export function claimOutcome(row: PaymentRow, binding: string): ClaimOutcome {
  if (row.binding !== binding) return { kind: "foreign" };
  switch (row.state) {
    case "CLAIMED":
    case "DELIVERING":
      return { kind: "busy" };
    case "SIGNED":
      return { kind: "unresolved", terms: termsOf(row) };
    case "SETTLED":
      return row.attempts < MAX_DELIVERY_ATTEMPTS
        ? { kind: "settled", settlement: settlementOf(row), attempts: row.attempts }
        : { kind: "spent" };
    case "DELIVERED":
      return { kind: "spent" };
    case "FAILED":
      break;
  }
  return { kind: "failed", failure: failureOf(row) };
}

/** `anew`: the row is FAILED and another caller's, and may be taken over. */
export type FoundByBegin = BeginOutcome | { readonly kind: "anew" };

/** What a facilitator's settlement meets in a row that exists. */
export function beginOutcome(row: PaymentRow, idempotencyKey: string | undefined): FoundByBegin {
  const sameCaller = idempotencyKey !== undefined && row.idempotencyKey === idempotencyKey;
  if (!sameCaller) return row.state === "FAILED" ? { kind: "anew" } : { kind: "taken" };
  switch (row.state) {
    case "CLAIMED":
      return { kind: "granted" };
    case "SIGNED":
      return row.raw === null ? { kind: "granted" } : { kind: "resume", signed: signedOf(row) };
    case "SETTLED":
    case "DELIVERING":
    case "DELIVERED":
      return { kind: "settled", settlement: settlementOf(row) };
    case "FAILED":
      break;
  }
  return { kind: "failed", failure: failureOf(row) };
}

export function signedOf(row: PaymentRow): StoredTransaction {
  return {
    transaction: present(row.transaction, "transaction"),
    raw: present(row.raw, "raw"),
    account: present(row.account, "account"),
    accountNonce: present(row.accountNonce, "accountNonce"),
  };
}

export function requestOf(row: PaymentRow): FacilitatorRequest {
  const request = parseFacilitatorRequest(JSON.parse(row.request));
  if (!request.ok) throw new LedgerUnavailable(`stored request: ${request.error.detail}`);
  return request.value;
}

/** The amount that a settlement moves, decimal digits: what the payer signed, not what was asked. */
export function amountOf({ paymentPayload, paymentRequirements }: FacilitatorRequest): string {
  const { payload } = paymentPayload;
  return isEvmPayload(payload)
    ? payload.authorization.value
    : paymentRequirements.maxAmountRequired;
}

function termsOf(row: PaymentRow): ClaimTerms {
  return {
    binding: present(row.binding, "binding"),
    idempotencyKey: present(row.idempotencyKey, "idempotencyKey"),
    request: requestOf(row),
  };
}

function settlementOf(row: PaymentRow): SettledPayment {
  const transaction = present(row.settledTransaction, "settledTransaction");
  return { transaction, network: row.network, payer: row.payer };
}

function failureOf(row: PaymentRow): FailedPayment {
  if (!isErrorCode(row.failureCode)) throw unreadable("failureCode");
  return { code: row.failureCode, detail: row.failureDetail ?? "" };
}

function stateOf(value: unknown): PaymentState {
  const state = PAYMENT_STATES.find((known) => known === value);
  return present(state ?? null, "state");
}

function textOrNull(columns: Readonly<Record<string, unknown>>, name: string): string | null {
  const value = columns[name];
  if (value !== null && typeof value !== "string") throw unreadable(name);
  return value;
}

function integerOrNull(columns: Readonly<Record<string, unknown>>, name: string): number | null {
  const value = columns[name];
  if (value !== null && typeof value !== "number") throw unreadable(name);
  return value;
}

function present<Value>(value: Value | null, name: string): Value {
  if (value === null) throw unreadable(name);
  return value;
}

function unreadable(name: string): LedgerUnavailable {
  return new LedgerUnavailable(`a stored payment has no readable ${name}`);
}
