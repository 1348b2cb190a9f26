/**
 * A stored payment and what may be answered about it. Independent of the database, so that every
 * implementation of the ledger judges a row in the same way.
 */
import { isErrorCode } from "../x402/error-code.ts";
import { isEvmPayload, samePayment } from "../x402/payment-key.ts";
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
  readonly target: string | null;
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
  /** The target whose answer had begun when its delivery broke. */
  readonly servedTarget: string | null;
  readonly failureCode: string | null;
  readonly failureDetail: string | null;
  /** The life of the process that claimed the payment, or delivers it. */
  readonly claimedBy: string;
}

/** Reads a row as a database driver returns it, whose columns bear the names above. */
export function readPaymentRow(columns: Readonly<Record<string, unknown>>): PaymentRow {
  return {
    state: stateOf(columns.state),
    binding: textOrNull(columns, "binding"),
    target: textOrNull(columns, "target"),
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
    servedTarget: textOrNull(columns, "servedTarget"),
    failureCode: textOrNull(columns, "failureCode"),
    failureDetail: textOrNull(columns, "failureDetail"),
    claimedBy: present(textOrNull(columns, "claimedBy"), "claimedBy"),
  };
}

/** What a resource server's claim meets in a row that exists, in this life (`bootId`) of its process. */
export function claimOutcome(row: PaymentRow, terms: ClaimTerms, bootId: string): ClaimOutcome {
  // First of all, since every other answer gives something away.
  if (!samePayment(requestOf(row).paymentPayload, terms.request.paymentPayload)) {
    return { kind: "forged" };
  }
  if (row.binding !== terms.binding) {
    // "foreign" asks for another payment, which is wrong while this one may yet turn out unpaid.
    const open = row.state === "CLAIMED" || row.state === "SIGNED";
    return { kind: open ? "busy" : "foreign" };
  }
  if (row.state === "CLAIMED" && row.claimedBy !== bootId) return { kind: "busy" };
  return repeatedClaim(row, terms.target);
}

/** The payer's own payment again, on the binding that it was used for. */
function repeatedClaim(row: PaymentRow, target: string): ClaimOutcome {
  switch (row.state) {
    case "CLAIMED":
    case "SIGNED":
      return { kind: "unresolved", terms: termsOf(row) };
    case "SETTLED":
      return isDeliverable(row, target)
        ? { kind: "settled", settlement: settlementOf(row), attempts: row.attempts }
        : spent(row);
    case "DELIVERING":
      return { kind: "busy" };
    case "DELIVERED":
      return spent(row);
    case "FAILED":
      break;
  }
  return { kind: "failed", failure: failureOf(row) };
}

/** Once a part of one target's answer is out, a repeat may fetch the rest, but nothing else. */
function isDeliverable({ attempts, servedTarget }: PaymentRow, target: string): boolean {
  const sameTarget = servedTarget === null || servedTarget === target;
  return sameTarget && attempts < MAX_DELIVERY_ATTEMPTS;
}

function spent(row: PaymentRow): ClaimOutcome {
  const { transaction } = settlementOf(row);
  return { kind: "spent", delivered: row.state === "DELIVERED", transaction };
}

/** `anew`: the row is FAILED without bytes and another caller's, and may be taken over. */
export type FoundByBegin = BeginOutcome | { readonly kind: "anew" };

/** What a facilitator's settlement meets in a row that exists. */
export function beginOutcome(
  row: PaymentRow,
  request: FacilitatorRequest,
  idempotencyKey: string | undefined,
): FoundByBegin {
  const stored = requestOf(row);
  const same = samePayment(stored.paymentPayload, request.paymentPayload);
  if (row.state === "FAILED" && row.raw !== null) {
    return same ? { kind: "failed", failure: failureOf(row) } : { kind: "taken" };
  }
  const sameCaller = idempotencyKey !== undefined && row.idempotencyKey === idempotencyKey;
  if (!sameCaller) return row.state === "FAILED" ? { kind: "anew" } : { kind: "taken" };
  if (!same || !asksTheSame(stored, request)) return { kind: "taken" };
  return repeatedBegin(row);
}

/** The same caller's same settlement again. */
function repeatedBegin(row: PaymentRow): BeginOutcome {
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

/** What the settlement of a payment is judged by; texts for people may change in between. */
const ASKED = ["network", "asset", "payTo", "maxAmountRequired", "resource"] as const;

function asksTheSame(left: FacilitatorRequest, right: FacilitatorRequest): boolean {
  const [one, other] = [left.paymentRequirements, right.paymentRequirements];
  return ASKED.every((name) => one[name] === other[name]);
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
    target: present(row.target, "target"),
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

/**
 * Reads what it can of a database driver's rows, which also bear their `key`, and tells about the
 * others: one row that cannot be read does not keep recovery from the rest.
 */
export function readEach<Value>(
  rows: readonly Readonly<Record<string, unknown>>[],
  read: (row: PaymentRow, key: string) => Value,
  onUnreadable: (key: string, reason: string) => void,
): readonly Value[] {
  return rows.flatMap((columns) => {
    const key = String(columns.key);
    try {
      return [read(readPaymentRow(columns), key)];
    } catch (error) {
      onUnreadable(key, error instanceof Error ? error.message : String(error));
      return [];
    }
  });
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
