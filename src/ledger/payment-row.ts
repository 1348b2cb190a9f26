/**
 * A stored payment as a value, and how it is read from a database's columns. What may become of it is in
 * `machine.ts`.
 */
import { LRUCache } from "lru-cache";
import { isErrorCode } from "../x402/error-code.ts";
import { findNetwork } from "../x402/network.ts";
import {
  isEvmPayload,
  payerOf,
  solanaTransactionOf,
  type PaymentKey,
} from "../x402/payment-key.ts";
import { parseStoredRequest } from "../x402/schema.ts";
import { messageHash } from "../x402/solana-transaction.ts";
import { EXACT_SCHEME, type FacilitatorRequest, type PaymentPayload } from "../x402/x402.ts";
import type { HandedOver } from "./handed-over.ts";
import { LedgerUnavailable } from "./ledger-fault.ts";
import {
  PAYMENT_STATES,
  type StoredTerms,
  type FailedPayment,
  type PaymentState,
  type SettledPayment,
} from "./transition.ts";
import { messageOf } from "../x402/result.ts";
import { storedTarget } from "./stored-target.ts";

/** One row of `payments`; null where a state has not the facet. */
export interface PaymentRow {
  readonly state: PaymentState;
  /** Counts the transitions, from 1: a row that was read is written only if nobody wrote it meanwhile. */
  readonly version: number;
  /** Null when a facilitator began the payment without a resource server. */
  readonly binding: string | null;
  /** As `stored-target.ts` has it, as is `servedTarget`. */
  readonly target: string | null;
  /**
   * Key of the route that sold it; null in rows that are older than this member, and of what a facilitator began, but
   * for a transfer of ours that pays back: as what that payment was sold.
   */
  readonly route: string | null;
  readonly idempotencyKey: string | null;
  /** JSON of the {@link FacilitatorRequest} that the first use brought. */
  readonly request: string;
  readonly network: string;
  readonly payer: string;
  /** The remote facilitator that it was handed to. */
  readonly facilitator: string | null;
  /** See {@link HandedOver.handedOverAt}. */
  readonly handedOverAt: number | null;
  /** When a payment that failed after its hand-over is looked for on the chain again, milliseconds. */
  readonly lookAgainMs: number | null;
  /**
   * The submission that carried it and did not move it: whoever has seen that one can show the payment, so that its
   * claim is never dropped.
   */
  readonly leftBy: string | null;
  /** True while the claim waits for a life that can sign it. */
  readonly offered: boolean;
  /** The submission of ours that carries it. */
  readonly submission: string | null;
  readonly settledTransaction: string | null;
  /**
   * SIGNED: the transaction that paid it and is not ours; it waits for the operator. FAILED: the one that had
   * paid it before the seller paid it back.
   */
  readonly heldTransaction: string | null;
  readonly attempts: number;
  /** The target whose answer was delivered, or had begun when its delivery broke. */
  readonly servedTarget: string | null;
  /** Of the request whose answer is kept: hex SHA-256 of its body. */
  readonly bodyHash: string | null;
  /** How often the kept answer was given again, and until when it may be, milliseconds. */
  readonly replays: number;
  readonly replayUntilMs: number | null;
  /** `METHOD target` to which the backend's redirect led: the payment is for that as it is for its own binding. */
  readonly ledTo: string | null;
  /**
   * SETTLED: attempts that did not count, see {@link BrokenDelivery.uncounted}. DELIVERED: how often its sold answer was
   * fetched again, and until when it may be, milliseconds.
   */
  readonly repeats: number;
  readonly repeatUntilMs: number | null;
  readonly failureCode: string | null;
  readonly failureDetail: string | null;
  /** The life of the process that claimed the payment, took it to sign it, or delivers it. */
  readonly claimedBy: string;
  /** The life whose request has it, or had it last; null in rows that are older than this member. */
  readonly holder: string | null;
  /** Paid, or possibly so, and not delivered, while no request of anybody waits for it; `machine.ts` keeps it. */
  readonly isLeft: boolean;
  /** {@link Collector.claimant} of whom it was claimed or last delivered for; null: not known. */
  readonly claimant: string | null;
  /** How often its payer had the attempts given again, since when, milliseconds. */
  readonly renewals: number;
  readonly renewedMs: number | null;
  /** {@link ClaimTerms.identifier} of the first use, as long as no other payment may have it. */
  readonly identifier: string | null;
  /** Where its refund stands, as `refunds.ts` has it; null: none was asked for. */
  readonly refundState: string | null;
  /** JSON of what else is known of the refund. */
  readonly refund: string | null;
  /** On whose day its refund counts, milliseconds; null: nothing of it is sent. */
  readonly refundCountedMs: number | null;
  /** JSON of what it puts into which pot in the step that settles it, as `pots.ts` has it; null: nothing. */
  readonly fills: string | null;
  /** JSON of what of it was used, as `metered.ts` has it; null: it is not charged by that, or not delivered. */
  readonly metered: string | null;
}

/** Reads a row as a database driver returns it, whose columns bear the names above. */
export function readPaymentRow(columns: Readonly<Record<string, unknown>>): PaymentRow {
  return {
    state: stateOf(columns.state),
    version: integer(columns, "version"),
    binding: textOrNull(columns, "binding"),
    target: storedTarget(textOrNull(columns, "target")),
    route: textOrNull(columns, "route"),
    idempotencyKey: textOrNull(columns, "idempotencyKey"),
    request: text(columns, "request"),
    network: text(columns, "network"),
    payer: text(columns, "payer"),
    facilitator: textOrNull(columns, "facilitator"),
    handedOverAt: integerOrNull(columns, "handedOverAt"),
    lookAgainMs: integerOrNull(columns, "lookAgainMs"),
    leftBy: textOrNull(columns, "leftBy"),
    offered: integer(columns, "offered") !== 0,
    submission: textOrNull(columns, "submission"),
    settledTransaction: textOrNull(columns, "settledTransaction"),
    heldTransaction: textOrNull(columns, "heldTransaction"),
    attempts: integer(columns, "attempts"),
    servedTarget: storedTarget(textOrNull(columns, "servedTarget")),
    bodyHash: textOrNull(columns, "bodyHash"),
    replays: integer(columns, "replays"),
    replayUntilMs: integerOrNull(columns, "replayUntilMs"),
    ledTo: textOrNull(columns, "ledTo"),
    repeats: integer(columns, "repeats"),
    repeatUntilMs: integerOrNull(columns, "repeatUntilMs"),
    failureCode: textOrNull(columns, "failureCode"),
    failureDetail: textOrNull(columns, "failureDetail"),
    claimedBy: text(columns, "claimedBy"),
    holder: textOrNull(columns, "holder"),
    isLeft: integer(columns, "isLeft") !== 0,
    claimant: textOrNull(columns, "claimant"),
    renewals: integer(columns, "renewals"),
    renewedMs: integerOrNull(columns, "renewedMs"),
    identifier: textOrNull(columns, "identifier"),
    refundState: textOrNull(columns, "refundState"),
    refund: textOrNull(columns, "refund"),
    refundCountedMs: integerOrNull(columns, "refundCountedMs"),
    fills: textOrNull(columns, "fills"),
    metered: textOrNull(columns, "metered"),
  };
}

/** Stored requests that are remembered as values, and the longest text of one, characters. */
const MAX_REMEMBERED = 1024;
const MAX_REMEMBERED_LENGTH = 8192;

/** By their text: each step of a payment reads its row anew, and what it was signed for never changes. */
const remembered = new LRUCache<string, FacilitatorRequest>({ max: MAX_REMEMBERED });

export function requestOf({ request }: PaymentRow): FacilitatorRequest {
  return requestIn(request);
}

/** Throws {@link LedgerUnavailable} for a text that is no request. */
export function requestIn(text: string): FacilitatorRequest {
  const known = remembered.get(text);
  if (known !== undefined) return known;
  const request = parseStoredRequest(JSON.parse(text));
  if (!request.ok) throw new LedgerUnavailable(`stored request: ${request.error.detail}`);
  if (text.length <= MAX_REMEMBERED_LENGTH) remembered.set(text, request.value);
  return request.value;
}

/** The text that {@link requestOf} reads again: without extensions, which say nothing of the payment. */
export function storedRequest(request: FacilitatorRequest): string {
  const kept = withoutExtensions(request);
  const { paymentPayload, paymentRequirements } = kept;
  const text = JSON.stringify({ paymentPayload, paymentRequirements });
  if (text.length <= MAX_REMEMBERED_LENGTH) remembered.set(text, kept);
  return text;
}

export function withoutExtensions(request: FacilitatorRequest): FacilitatorRequest {
  const { extensions, ...paymentPayload } = request.paymentPayload;
  return extensions === undefined ? request : { ...request, paymentPayload };
}

/** The amount that a settlement moves, decimal digits: what the payer signed, not what was asked. */
export function amountOf({ paymentPayload, paymentRequirements }: FacilitatorRequest): string {
  const { payload } = paymentPayload;
  return isEvmPayload(payload)
    ? payload.authorization.value
    : paymentRequirements.maxAmountRequired;
}

/**
 * `nonce/payer/network` of an authorization, lower case: what a payment can be found by without knowing its
 * asset. The nonce of a Solana payment is the hash of its message. Null for payload kinds without one.
 */
export function identityOf(payment: PaymentPayload): string | null {
  const nonce = nonceOf(payment);
  if (nonce === undefined) return null;
  return [nonce, payerOf(payment), payment.network].join("/").toLowerCase();
}

function nonceOf(payment: PaymentPayload): string | undefined {
  const { scheme, network, payload } = payment;
  const kind = findNetwork(network)?.kind;
  // Of any other scheme or network it is opaque, and may imitate one of ours.
  if (scheme !== EXACT_SCHEME || kind === undefined) return undefined;
  if (isEvmPayload(payload)) return payload.authorization.nonce;
  if (kind !== "solana") return undefined;
  const transaction = solanaTransactionOf(payment);
  return transaction.ok ? messageHash(transaction.value) : undefined;
}

/** Without its target, of which nobody asks again. */
export function termsOf(row: PaymentRow): StoredTerms {
  return {
    binding: present(row.binding, "binding"),
    ...(row.route !== null && { route: row.route }),
    idempotencyKey: present(row.idempotencyKey, "idempotencyKey"),
    request: requestOf(row),
    claimant: row.claimant ?? "",
  };
}

/** Of a row that was handed over. `sinceMs`: of its last change, milliseconds since the epoch. */
export function handedOverOf(row: PaymentRow, key: PaymentKey, sinceMs: number): HandedOver {
  return {
    key,
    request: requestOf(row),
    idempotencyKey: present(row.idempotencyKey, "idempotencyKey"),
    facilitator: present(row.facilitator, "facilitator"),
    handedOverAt: row.handedOverAt,
    route: row.route,
    sinceMs,
  };
}

export function settlementOf(row: PaymentRow): SettledPayment {
  const transaction = present(row.settledTransaction, "settledTransaction");
  return { transaction, network: row.network, payer: row.payer };
}

export function heldOf(row: PaymentRow): string {
  return present(row.heldTransaction, "heldTransaction");
}

export function failureOf(row: PaymentRow): FailedPayment {
  if (!isErrorCode(row.failureCode)) throw unreadable("failureCode");
  return { code: row.failureCode, detail: row.failureDetail ?? "" };
}

/**
 * Reads what it can of a database driver's rows, which also bear their `key`, and tells about the
 * others: one row that cannot be read does not keep recovery from the rest.
 */
export function readEach<Value>(
  rows: readonly Readonly<Record<string, unknown>>[],
  read: (row: PaymentRow, key: string, columns: Readonly<Record<string, unknown>>) => Value,
  onUnreadable: (key: string, reason: string) => void,
): readonly Value[] {
  return rows.flatMap((columns) => {
    const key = String(columns.key);
    try {
      return [read(readPaymentRow(columns), key, columns)];
    } catch (error) {
      onUnreadable(key, messageOf(error));
      return [];
    }
  });
}

/** A state as it is stored. Throws {@link LedgerUnavailable} for another text. */
export function stateOf(value: unknown): PaymentState {
  const state = PAYMENT_STATES.find((known) => known === value);
  return present(state ?? null, "state");
}

function text(columns: Readonly<Record<string, unknown>>, name: string): string {
  return present(textOrNull(columns, name), name);
}

function textOrNull(columns: Readonly<Record<string, unknown>>, name: string): string | null {
  const value = columns[name];
  if (value !== null && typeof value !== "string") throw unreadable(name);
  return value;
}

function integer(columns: Readonly<Record<string, unknown>>, name: string): number {
  return present(integerOrNull(columns, name), name);
}

function integerOrNull(columns: Readonly<Record<string, unknown>>, name: string): number | null {
  const value = columns[name];
  if (value !== null && typeof value !== "number") throw unreadable(name);
  return value;
}

export function present<Value>(value: Value | null, name: string): Value {
  if (value === null) throw unreadable(name);
  return value;
}

function unreadable(name: string): LedgerUnavailable {
  return new LedgerUnavailable(`a stored payment has no readable ${name}`);
}
