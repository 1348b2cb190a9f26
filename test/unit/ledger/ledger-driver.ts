/** Drives a ledger into states, and tells which state it is in. */
import {
  LedgerConflict,
  MAX_DELIVERY_ATTEMPTS,
  type ClaimTerms,
  type Ledger,
  type StoredTransaction,
} from "../../../src/ledger/ledger.ts";
import type { FacilitatorRequest } from "../../../src/x402/x402.ts";
import { PAYER, type ExamplePayment } from "./example-payment.ts";
import type { Cell, StartState } from "./ledger-transitions.ts";

/** One life of a process: `shared` allows it beside another's, which has the database open. */
export interface Life {
  readonly bootId: string;
  readonly clock: () => number;
  readonly shared?: boolean;
}

/** An empty database that can be opened again and again, as a process does that restarts. */
export interface LedgerStore {
  open(life: Life): Promise<Ledger>;
  remove(): Promise<void>;
}

export const NETWORK = "base-sepolia";
export const ACCOUNT = "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955";
export const BINDING = "GET /premium-data";
export const CALLER = "the idempotency key of the first use";
export const OTHER_BINDING = "GET /something-else";
export const TARGET = "/premium-data?day=1";
export const OTHER_TARGET = "/premium-data?day=2";
export const SETTLEMENT = { transaction: "0xaa", network: NETWORK, payer: PAYER };
export const FAILURE = { code: "insufficient_funds", detail: "the payer has 0" } as const;

/** Ways for a delivery to break: before the upstream saw it, before its answer, within its answer. */
export const UNSENT = { sent: false, served: null } as const;
export const UNANSWERED = { sent: true, served: null } as const;
export const CUT_OFF = { sent: true, served: TARGET } as const;

export function termsOf(
  { request }: { readonly request: FacilitatorRequest },
  changes: Partial<ClaimTerms> = {},
): ClaimTerms {
  return { binding: BINDING, target: TARGET, idempotencyKey: CALLER, request, ...changes };
}

/** What somebody sends who knows a payment's payer and nonce, but not its signature. */
export function forged({ paymentPayload, ...rest }: FacilitatorRequest): FacilitatorRequest {
  const payload = { ...paymentPayload.payload, signature: `0x${"cd".repeat(65)}` };
  return { ...rest, paymentPayload: { ...paymentPayload, payload } };
}

/** The same payment for other requirements. */
export function repriced(
  request: FacilitatorRequest,
  change: Partial<FacilitatorRequest["paymentRequirements"]> = { maxAmountRequired: "9" },
): FacilitatorRequest {
  return { ...request, paymentRequirements: { ...request.paymentRequirements, ...change } };
}

export function signWith(accountNonce: number, account = ACCOUNT): StoredTransaction {
  const raw = `0x02f8${accountNonce}`;
  return { transaction: `hash of ${raw}`, raw, account, accountNonce };
}

export async function sign(ledger: Ledger, { key }: ExamplePayment): Promise<StoredTransaction> {
  const account = { network: NETWORK, address: ACCOUNT, seed: 0 };
  return ledger.signed(key, account, (nonce) => signWith(nonce));
}

/** How a call ended, in one word: an outcome's kind, what it returned, or `conflict`. */
export async function word(call: Promise<unknown>): Promise<string> {
  try {
    const value: unknown = await call;
    if (typeof value === "boolean") return String(value);
    if (typeof value !== "object" || value === null || !("kind" in value)) return "ok";
    return String(value.kind);
  } catch (error) {
    if (error instanceof LedgerConflict) return "conflict";
    throw error;
  }
}

/** Drives a payment that the ledger has not seen into a state. */
export async function bring(
  ledger: Ledger,
  payment: ExamplePayment,
  state: StartState,
): Promise<void> {
  const { key, request } = payment;
  const path: Record<StartState, () => Promise<unknown>> = {
    none: async () => undefined,
    claimed: async () => ledger.claim(key, termsOf(payment)),
    begun: async () => ledger.begin(key, request, CALLER),
    signed: async () => [await path.claimed(), await sign(ledger, payment)],
    handed: async () => [await path.claimed(), await ledger.handedOver(key)],
    settled: async () => [await path.signed(), await ledger.settled(key, SETTLEMENT)],
    delivering: async () => [await path.settled(), await ledger.delivering(key)],
    retried: async () => [await path.delivering(), await ledger.undelivered(key, UNANSWERED)],
    served: async () => [await path.delivering(), await ledger.undelivered(key, CUT_OFF)],
    exhausted: async () => {
      await path.settled();
      for (let attempt = 0; attempt < MAX_DELIVERY_ATTEMPTS; attempt += 1) {
        await ledger.delivering(key);
        await ledger.undelivered(key, UNANSWERED);
      }
    },
    delivered: async () => [await path.delivering(), await ledger.delivered(key)],
    failed: async () => [await path.signed(), await ledger.failed(key, FAILURE)],
    claimfailed: async () => [await path.claimed(), await ledger.failed(key, FAILURE)],
    begunfailed: async () => [await path.begun(), await ledger.failed(key, FAILURE)],
  };
  await path[state]();
}

/** Makes one call of the transition table. */
export function perform(
  ledger: Ledger,
  payment: ExamplePayment,
  operation: Cell["operation"],
): Promise<string> {
  const { key, request } = payment;
  const calls: Record<Cell["operation"], () => Promise<unknown>> = {
    claim: async () => ledger.claim(key, termsOf(payment)),
    claimOther: async () => ledger.claim(key, termsOf(payment, { binding: OTHER_BINDING })),
    claimForged: async () => ledger.claim(key, termsOf({ request: forged(request) })),
    claimTarget: async () => ledger.claim(key, termsOf(payment, { target: OTHER_TARGET })),
    beginOwn: async () => ledger.begin(key, request, CALLER),
    beginOther: async () => ledger.begin(key, request, "another key"),
    beginBare: async () => ledger.begin(key, request, undefined),
    beginForged: async () => ledger.begin(key, forged(request), CALLER),
    beginRepriced: async () => ledger.begin(key, repriced(request), CALLER),
    handedOver: async () => ledger.handedOver(key),
    signed: async () => sign(ledger, payment),
    settled: async () => ledger.settled(key, SETTLEMENT),
    settledOther: async () => ledger.settled(key, { ...SETTLEMENT, transaction: "0xbb" }),
    failed: async () => ledger.failed(key, FAILURE),
    released: async () => ledger.released(key),
    abandoned: async () => ledger.abandoned(key),
    delivering: async () => ledger.delivering(key),
    delivered: async () => ledger.delivered(key),
    unsent: async () => ledger.undelivered(key, UNSENT),
    unanswered: async () => ledger.undelivered(key, UNANSWERED),
    cutOff: async () => ledger.undelivered(key, CUT_OFF),
  };
  return word(calls[operation]());
}

/** Tells the states apart by what the ledger answers; the row is used up by asking. */
export async function observe(ledger: Ledger, payment: ExamplePayment): Promise<string> {
  const { key, request } = payment;
  const claim = await ledger.claim(key, termsOf(payment));
  const attempts = claim.kind === "settled" ? claim.attempts : "";
  if (claim.kind === "granted") return "none";
  const elsewhere = await ledger.claim(key, termsOf(payment, { target: OTHER_TARGET }));
  const begin = await ledger.begin(key, request, CALLER);
  const sold = await word(ledger.delivered(key));
  return `${claim.kind}${attempts} ${elsewhere.kind} ${begin.kind} ${sold}`;
}

/** What {@link observe} sees in each state of the transition table. */
export const OBSERVED: Readonly<Record<string, string>> = {
  none: "none",
  claimed: "unresolved unresolved granted conflict",
  begun: "busy busy granted conflict",
  begunOther: "busy busy taken conflict",
  begunSigned: "busy busy resume conflict",
  begunHanded: "busy busy granted conflict",
  begunSettled: "foreign foreign settled conflict",
  begunfailed: "foreign foreign failed conflict",
  otherClaim: "busy busy granted conflict",
  forgedClaim: "forged forged taken conflict",
  signed: "unresolved unresolved resume conflict",
  handed: "unresolved unresolved granted conflict",
  settled: "settled0 settled settled conflict",
  retried: "settled1 settled settled conflict",
  served: "settled1 spent settled conflict",
  delivering: "busy busy settled ok",
  exhausted: "spent spent settled conflict",
  delivered: "spent spent settled ok",
  failed: "failed failed failed conflict",
  claimfailed: "failed failed failed conflict",
};
