/**
 * The answers of the process with the money, read by a worker: what is not of the right shape is no answer.
 * Checked is what the request path decides by; texts for people are checked to be texts.
 */
import type { Barred, Declined, Granted, Settled } from "../payments/sale/admission.ts";
import {
  Payment,
  type Identified,
  type Recognized,
  type Membership,
  type ServiceTransitionKind,
} from "../payments/sale/payment-service.ts";
import type {
  ClaimOutcome,
  OutcomeOf,
  PayerProof,
  PaymentStatus,
  StoredResponse,
  TransitionOf,
} from "../ledger/ledger.ts";
import { isNetworkName } from "../x402/network.ts";
import type { PaymentKey } from "../x402/payment-key.ts";
import type { Holding } from "../x402/holding.ts";
import { err, ok, type Refusal, type Result } from "../x402/result.ts";
import type { ProvenAccount } from "../x402/session.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import { ChannelFault } from "./fault.ts";

type Fields = Readonly<Record<string, unknown>>;

type Readers = { readonly [Kind in ServiceTransitionKind]: (value: unknown) => OutcomeOf<Kind> };

const OUTCOMES: Readers = {
  claim: readClaim,
  released: () => undefined,
  leave: () => undefined,
  delivering: readFlag,
  delivered: () => undefined,
  undelivered: () => undefined,
  replay: readFlag,
  repeat: readFlag,
  answered: readFlag,
  status: readStatus,
  collected: () => undefined,
  unread: () => undefined,
};

/** Each reader throws {@link ChannelFault} for what is no such answer. */
export function readOutcome<Kind extends ServiceTransitionKind>(
  kind: Kind,
  value: unknown,
): OutcomeOf<Kind> {
  return OUTCOMES[kind](value);
}

/** What a worker asks for. It is a process of ours: that it may ask for such a transition is all that is checked. */
export function readTransition(value: unknown): TransitionOf<ServiceTransitionKind> {
  const { kind } = record(value);
  check(typeof kind === "string" && Object.hasOwn(OUTCOMES, kind));
  return value as TransitionOf<ServiceTransitionKind>;
}

/** Of a payment only what it was read from. */
export type SentPayment = Pick<Payment, "key" | "request">;

export interface SentIdentified extends Omit<Identified, "payment" | "owed"> {
  readonly payment: SentPayment;
  readonly owed: readonly SentPayment[];
}

export function readIdentified(
  value: unknown,
): Result<Identified, Refusal | "misnamed" | "repriced" | Barred> {
  const fields = record(value);
  const { error } = fields;
  if (fields["ok"] === false) {
    if (error === "misnamed" || error === "repriced") return err(error);
    return err(record(error)["kind"] === "barred" ? barred(error) : refusal(error));
  }
  const { payment, isClaimed, owed, isProof, isDoubtful, hasKey } = record(fields["value"]);
  check(typeof isClaimed === "boolean" && typeof isProof === "boolean" && Array.isArray(owed));
  check(typeof isDoubtful === "boolean" && typeof hasKey === "boolean");
  const all = Array.isArray(owed) ? owed.map(paymentOf) : [];
  const known = {
    isClaimed: isClaimed === true,
    isProof: isProof === true,
    isDoubtful: isDoubtful === true,
    hasKey: hasKey === true,
  };
  return ok({ payment: paymentOf(payment), owed: all, ...known });
}

const MEMBERSHIPS: ReadonlySet<unknown> = new Set<Membership>(["none", "priced", "free"]);

export function readRecognized(value: unknown): Result<Recognized, Declined> {
  const fields = record(value);
  if (fields["ok"] === false) return readDeclined(fields["error"]);
  const { account, membership, granted, bought } = record(fields["value"]);
  check(Array.isArray(bought) && Array.isArray(granted));
  check(MEMBERSHIPS.has(membership));
  const payments = (bought as readonly unknown[]).map(paymentOf);
  return ok({
    account: accountOf(account),
    membership: membership as Membership,
    granted: (granted as readonly unknown[]).map(grantedOf),
    bought: payments,
  });
}

export function readOpened(value: unknown): Result<ProvenAccount, Declined> {
  const fields = record(value);
  return fields["ok"] === false ? readDeclined(fields["error"]) : ok(accountOf(fields["value"]));
}

export function readHoldings(value: unknown): readonly Holding[] | null {
  if (value === null) return null;
  check(Array.isArray(value));
  const all = value as readonly unknown[];
  for (const each of all) check(each === null || typeof each === "boolean");
  return all as readonly Holding[];
}

function readDeclined(value: unknown): Result<never, Declined> {
  const error = record(value);
  if (error["kind"] === "limited") count(error["seconds"]);
  else readSettled(error);
  check(error["kind"] !== "settled");
  return err(value as Declined);
}

function accountOf(value: unknown): ProvenAccount {
  const { address, network, hasKey } = record(value);
  text(address);
  text(network);
  check(typeof hasKey === "boolean" && isNetworkName(String(network)));
  return value as ProvenAccount;
}

function grantedOf(value: unknown): Granted {
  const { key, untilMs } = record(value);
  text(key);
  count(untilMs);
  return value as Granted;
}

function paymentOf(value: unknown): Payment {
  const { key, request } = record(value);
  text(key);
  return new Payment(key as PaymentKey, requestOf(request));
}

export function readProof(value: unknown): PayerProof | Declined {
  if (value === "signed" || value === "valid") return value;
  const settled = readSettled(value);
  check(settled.kind !== "settled");
  return settled as Declined;
}

function readClaim(value: unknown): ClaimOutcome {
  const fields = record(value);
  switch (fields["kind"]) {
    case "granted":
    case "forged":
    case "withheld":
    case "misnamed":
      break;
    case "foreign":
      if (fields["bought"] === undefined) break;
      text(fields["bought"]);
      settlement(fields["settlement"]);
      break;
    case "exhausted":
      text(fields["transaction"]);
      check(typeof fields["isRenewable"] === "boolean");
      break;
    case "settled":
      settlement(fields["settlement"]);
      count(fields["attempts"]);
      text(fields["idempotencyKey"]);
      break;
    case "sold":
      check(typeof fields["isKept"] === "boolean");
      if (fields["at"] !== undefined) text(fields["at"]);
      settlement(fields["settlement"]);
      text(fields["idempotencyKey"]);
      break;
    case "busy":
      count(fields["version"]);
      break;
    case "unresolved": {
      const { terms: first, facilitator, handedOverAt, isSigned, failure } = fields;
      terms(first);
      if (facilitator !== null) text(facilitator);
      if (handedOverAt !== null) count(handedOverAt);
      check(isSigned === undefined || isSigned === true);
      if (failure !== undefined) refusal(failure);
      break;
    }
    case "spent":
      check(typeof fields["delivered"] === "boolean");
      text(fields["transaction"]);
      break;
    case "held":
      text(fields["transaction"]);
      break;
    case "failed":
      refusal(fields["failure"]);
      break;
    default:
      check(false);
  }
  return value as ClaimOutcome;
}

export function readVetted(value: unknown): Declined | "good" {
  if (value === "good") return value;
  const settled = readSettled(value);
  check(settled.kind !== "settled");
  return settled as Declined;
}

export function readSettled(value: unknown): Settled {
  const fields = record(value);
  switch (fields["kind"]) {
    case "settled":
      settlement(fields["settlement"]);
      count(fields["attempts"]);
      text(fields["idempotencyKey"]);
      break;
    case "refused":
      refusal(fields["refusal"]);
      if (fields["settlement"] !== undefined)
        check(record(fields["settlement"])["success"] === false);
      break;
    case "unavailable":
      refusal(fields["refusal"]);
      break;
    case "unknown":
      if (fields["transaction"] !== undefined) text(fields["transaction"]);
      text(fields["detail"]);
      break;
    case "owed":
      text(fields["detail"]);
      break;
    case "barred":
      barred(fields);
      break;
    default:
      check(false);
  }
  if (fields["unbegun"] !== undefined) text(fields["unbegun"]);
  return value as Settled;
}

function readStatus(value: unknown): PaymentStatus | undefined {
  if (value === undefined) return undefined;
  const { state, network, asset, amount, refund } = record(value);
  for (const each of [state, network, asset, amount]) text(each);
  if (refund !== null) text(record(refund)["state"]);
  return value as PaymentStatus;
}

function readFlag(value: unknown): boolean {
  check(typeof value === "boolean");
  return value === true;
}

export function readStoredResponse(value: unknown): StoredResponse | undefined {
  if (value === undefined) return undefined;
  const { status, headers, body } = record(value);
  count(status);
  check(body instanceof Uint8Array && Array.isArray(headers));
  for (const line of Array.isArray(headers) ? headers : []) {
    check(
      Array.isArray(line) && line.length === 2 && line.every((part) => typeof part === "string"),
    );
  }
  return value as StoredResponse;
}

function requestOf(value: unknown): FacilitatorRequest {
  const { paymentPayload, paymentRequirements } = record(value);
  const { network, scheme, payload } = record(paymentPayload);
  const { asset, payTo, maxAmountRequired, maxTimeoutSeconds } = record(paymentRequirements);
  for (const each of [network, scheme, asset, payTo, maxAmountRequired]) text(each);
  record(payload);
  count(maxTimeoutSeconds);
  return value as FacilitatorRequest;
}

function terms(value: unknown): void {
  const { binding, route = "", idempotencyKey, claimant, request } = record(value);
  for (const each of [binding, route, idempotencyKey, claimant]) text(each);
  requestOf(request);
}

function settlement(value: unknown): void {
  const { transaction, network, payer } = record(value);
  for (const each of [transaction, network, payer]) text(each);
}

function refusal(value: unknown): Refusal {
  const { code, detail } = record(value);
  text(code);
  text(detail);
  return value as Refusal;
}

function barred(value: unknown): Barred {
  const { status, refusal: told, seconds } = record(value);
  check(status === 403 || status === 429 || status === 503);
  refusal(told);
  if (seconds !== null) count(seconds);
  return value as Barred;
}

function record(value: unknown): Fields {
  check(typeof value === "object" && value !== null);
  return value as Fields;
}

function text(value: unknown): void {
  check(typeof value === "string");
}

function count(value: unknown): void {
  check(Number.isSafeInteger(value));
}

function check(isRight: boolean): void {
  if (!isRight)
    throw new ChannelFault("unreadable", "the process with the money said something else");
}
