/** Drives a ledger into states, and tells which state it is in. */
import {
  LedgerConflict,
  MAX_DELIVERY_ATTEMPTS,
  type ClaimTerms,
  type Ledger,
  type StoredTransaction,
} from "../../../src/ledger/ledger.ts";
import { PAYER, type ExamplePayment } from "./example-payment.ts";
import type { Cell, StartState } from "./ledger-transitions.ts";

/** An empty database that can be opened again and again, as a process does that restarts. */
export interface LedgerStore {
  open(life: { readonly bootId: string; readonly clock: () => number }): Promise<Ledger>;
  remove(): Promise<void>;
}

export const NETWORK = "base-sepolia";
export const ACCOUNT = "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955";
export const BINDING = "GET /premium-data";
export const CALLER = "the idempotency key of the first use";
export const OTHER_BINDING = "GET /something-else";
export const SETTLEMENT = { transaction: "0xaa", network: NETWORK, payer: PAYER };
export const FAILURE = { code: "insufficient_funds", detail: "the payer has 0" } as const;

export function termsOf({ request }: ExamplePayment, binding = BINDING): ClaimTerms {
  return { binding, idempotencyKey: CALLER, request };
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
    retried: async () => [await path.delivering(), await ledger.undelivered(key)],
    exhausted: async () => {
      await path.settled();
      for (let attempt = 0; attempt < MAX_DELIVERY_ATTEMPTS; attempt += 1) {
        await ledger.delivering(key);
        await ledger.undelivered(key);
      }
    },
    delivered: async () => [await path.delivering(), await ledger.delivered(key)],
    failed: async () => [await path.signed(), await ledger.failed(key, FAILURE)],
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
    claimOther: async () => ledger.claim(key, termsOf(payment, OTHER_BINDING)),
    beginOwn: async () => ledger.begin(key, request, CALLER),
    beginOther: async () => ledger.begin(key, request, "another key"),
    beginBare: async () => ledger.begin(key, request, undefined),
    handedOver: async () => ledger.handedOver(key),
    signed: async () => sign(ledger, payment),
    settled: async () => ledger.settled(key, SETTLEMENT),
    settledOther: async () => ledger.settled(key, { ...SETTLEMENT, transaction: "0xbb" }),
    failed: async () => ledger.failed(key, FAILURE),
    released: async () => ledger.released(key),
    abandoned: async () => ledger.abandoned(key),
    delivering: async () => ledger.delivering(key),
    delivered: async () => ledger.delivered(key),
    undelivered: async () => ledger.undelivered(key),
  };
  return word(calls[operation]());
}

/** Tells the states apart by what the ledger answers; the row is used up by asking. */
export async function observe(ledger: Ledger, payment: ExamplePayment): Promise<string> {
  const { key, request } = payment;
  const claim = await ledger.claim(key, termsOf(payment));
  const attempts = claim.kind === "settled" ? claim.attempts : "";
  if (claim.kind === "granted") return "none";
  const begin = await ledger.begin(key, request, CALLER);
  const sold = await word(ledger.delivered(key));
  return `${claim.kind}${attempts} ${begin.kind} ${sold}`;
}

/** What {@link observe} sees in each state of the transition table. */
export const OBSERVED: Readonly<Record<string, string>> = {
  none: "none",
  claimed: "busy granted conflict",
  begun: "foreign granted conflict",
  begunOther: "foreign taken conflict",
  begunSigned: "foreign resume conflict",
  begunHanded: "foreign granted conflict",
  begunSettled: "foreign settled conflict",
  begunfailed: "foreign failed conflict",
  otherClaim: "foreign granted conflict",
  signed: "unresolved resume conflict",
  handed: "unresolved granted conflict",
  settled: "settled0 settled conflict",
  retried: "settled1 settled conflict",
  delivering: "busy settled ok",
  exhausted: "spent settled conflict",
  delivered: "spent settled ok",
  failed: "failed failed conflict",
};
