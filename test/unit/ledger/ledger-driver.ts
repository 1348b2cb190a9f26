/** Drives a ledger into states, and tells which state it is in. */
import { expect } from "vitest";
import {
  LedgerConflict,
  MAX_DELIVERY_ATTEMPTS,
  type ClaimTerms,
  type Lease,
  type Ledger,
  type OfferedPayment,
  type Redemptions,
  type StoredResponse,
  type StoredSubmission,
  type StoredTerms,
  type StoredTransaction,
  type TransitionOf,
} from "../../../src/ledger/ledger.ts";
import type { SweepPlace, SweepStep } from "../../../src/ledger/sweep.ts";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";
import type { FacilitatorRequest } from "../../../src/x402/x402.ts";
import { PAYER, type ExamplePayment } from "./example-payment.ts";
import type { Cell, StartState } from "./ledger-transitions.ts";

export const NETWORK = "base-sepolia";
export const ACCOUNT = "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955";
export const BINDING = "GET /premium-data";
export const CALLER = "the idempotency key of the first use";
export const FACILITATOR = "https://facilitator.example.com";
export const OTHER_BINDING = "GET /something-else";
export const TARGET = "/premium-data?day=1";
export const OTHER_TARGET = "/premium-data?day=2";
export const SETTLEMENT = { transaction: "0xaa", network: NETWORK, payer: PAYER };
export const FAILURE = { code: "insufficient_funds", detail: "the payer has 0" } as const;

/** An answer that is kept, and what has to be asked to get it again. */
export const ANSWER = {
  status: 200,
  headers: [
    ["Content-Type", "application/octet-stream"],
    ["set-cookie", "a=1"],
    ["set-cookie", "b=2"],
  ] as const,
  body: new Uint8Array([0, 1, 2, 254, 255]),
};
export const CLAIMANT = "a client";
export const ASKED = { target: TARGET, bodyHash: "ab".repeat(32), claimant: CLAIMANT };
export const SALE = { binding: BINDING, target: TARGET };

/** Ways for a delivery to break: before the upstream saw it, before its answer, within its answer. */
export const UNSENT = { sent: false, served: null } as const;
export const UNANSWERED = { sent: true, served: null } as const;
export const CUT_OFF = { sent: true, served: TARGET } as const;

export function termsOf(
  { request }: { readonly request: FacilitatorRequest },
  changes: Partial<ClaimTerms> = {},
): ClaimTerms {
  const first = { idempotencyKey: CALLER, request, claimant: CLAIMANT };
  return { ...SALE, ...first, ...changes };
}

/** What the ledger tells of them. */
export function storedTermsOf(payment: { readonly request: FacilitatorRequest }): StoredTerms {
  const { target, ...stored } = termsOf(payment);
  expect(target).toBe(TARGET);
  return stored;
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

/** Bytes for an account nonce; `fee` tells the variants of one nonce apart. */
export function signWith(accountNonce: number, account = ACCOUNT, fee = 0): StoredTransaction {
  const raw = `0x02f8${account.slice(2, 10)}${accountNonce}f${fee}`;
  return { transaction: `${raw}HASH`, raw, account, accountNonce };
}

/** The lease of an account, which has to be free or ours. */
export async function leaseOf(ledger: Ledger, address = ACCOUNT): Promise<Lease> {
  const lease = await ledger.signing.lease(NETWORK, address);
  if (lease === undefined) throw new Error(`${address} is leased to another life`);
  return lease;
}

/** Signs payments together in one transaction of an account. */
export async function sign(
  ledger: Ledger,
  payments: readonly ExamplePayment[],
  { address = ACCOUNT, seed = 0 } = {},
): Promise<StoredSubmission> {
  const keys = payments.map(({ key }) => key);
  const account = { ...(await leaseOf(ledger, address)), seed };
  return ledger.signing.signed(keys, account, (nonce) => signWith(nonce, address));
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
  changes: Partial<ClaimTerms> = {},
): Promise<void> {
  const { key, request } = payment;
  const path: Record<StartState, () => Promise<unknown>> = {
    none: async () => undefined,
    claimed: async () => ledger.step(key, { kind: "claim", terms: termsOf(payment, changes) }),
    begun: async () => ledger.step(key, { kind: "begin", request, caller: CALLER }),
    offered: async () => [await path.claimed(), await ledger.step(key, { kind: "offer" })],
    begunoffered: async () => [await path.begun(), await ledger.step(key, { kind: "offer" })],
    begunHanded: async () => [
      await path.begun(),
      await ledger.step(key, { kind: "handedOver", facilitator: FACILITATOR }),
    ],
    signed: async () => [await path.claimed(), await sign(ledger, [payment])],
    handed: async () => [
      await path.claimed(),
      await ledger.step(key, { kind: "handedOver", facilitator: FACILITATOR }),
    ],
    handedsigned: async () => [await path.handed(), await sign(ledger, [payment])],
    settled: async () => [
      await path.signed(),
      await ledger.step(key, { kind: "settled", settlement: SETTLEMENT }),
    ],
    delivering: async () => [await path.settled(), await ledger.step(key, { kind: "delivering" })],
    retried: async () => [
      await path.delivering(),
      await ledger.step(key, { kind: "undelivered", broken: UNANSWERED }),
    ],
    served: async () => [
      await path.delivering(),
      await ledger.step(key, { kind: "undelivered", broken: CUT_OFF }),
    ],
    exhausted: async () => {
      await path.settled();
      for (let attempt = 0; attempt < MAX_DELIVERY_ATTEMPTS; attempt += 1) {
        await ledger.step(key, { kind: "delivering" });
        await ledger.step(key, { kind: "undelivered", broken: UNANSWERED });
      }
    },
    delivered: async () => [await path.delivering(), await ledger.step(key, { kind: "delivered" })],
    kept: async () => [await path.delivering(), await keep(ledger, payment)],
    failed: async () => [
      await path.signed(),
      await ledger.step(key, { kind: "failed", failure: FAILURE }),
    ],
    claimfailed: async () => [
      await path.claimed(),
      await ledger.step(key, { kind: "failed", failure: FAILURE }),
    ],
    begunfailed: async () => [
      await path.begun(),
      await ledger.step(key, { kind: "failed", failure: FAILURE }),
    ],
    public: async () => [await path.signed(), await ledger.step(key, { kind: "withdrawn" })],
    publicfailed: async () => [
      await path.public(),
      await ledger.step(key, { kind: "failed", failure: FAILURE }),
    ],
  };
  await path[state]();
}

/** Ends a delivery with an answer that is kept. */
export async function keep(ledger: Ledger, { key }: ExamplePayment): Promise<void> {
  await ledger.step(key, { kind: "delivered", sold: { ...ASKED, response: ANSWER } });
}

/** The kept answer, given again where it may be. */
export async function replayed(
  ledger: Pick<Redemptions, "step" | "answer">,
  key: PaymentKey,
  asked: TransitionOf<"replay">["asked"] = ASKED,
): Promise<StoredResponse | undefined> {
  const response = await ledger.answer(key);
  return (await ledger.step(key, { kind: "replay", asked })) ? response : undefined;
}

/** Makes one call of the transition table. */
export function perform(
  ledger: Ledger,
  payment: ExamplePayment,
  operation: Cell["operation"],
): Promise<string> {
  const { key, request } = payment;
  const calls: Record<Cell["operation"], () => Promise<unknown>> = {
    claim: async () => ledger.step(key, { kind: "claim", terms: termsOf(payment) }),
    claimOther: async () =>
      ledger.step(key, { kind: "claim", terms: termsOf(payment, { binding: OTHER_BINDING }) }),
    claimForged: async () =>
      ledger.step(key, { kind: "claim", terms: termsOf({ request: forged(request) }) }),
    claimTarget: async () =>
      ledger.step(key, { kind: "claim", terms: termsOf(payment, { target: OTHER_TARGET }) }),
    beginOwn: async () => ledger.step(key, { kind: "begin", request, caller: CALLER }),
    beginOther: async () => ledger.step(key, { kind: "begin", request, caller: "another key" }),
    beginBare: async () => ledger.step(key, { kind: "begin", request, caller: undefined }),
    beginForged: async () =>
      ledger.step(key, { kind: "begin", request: forged(request), caller: CALLER }),
    beginRepriced: async () =>
      ledger.step(key, { kind: "begin", request: repriced(request), caller: CALLER }),
    outcome: async () => ledger.outcome(key),
    handedOver: async () => ledger.step(key, { kind: "handedOver", facilitator: FACILITATOR }),
    signed: async () => sign(ledger, [payment]),
    settled: async () => ledger.step(key, { kind: "settled", settlement: SETTLEMENT }),
    settledOther: async () =>
      ledger.step(key, { kind: "settled", settlement: { ...SETTLEMENT, transaction: "0xbb" } }),
    failed: async () => ledger.step(key, { kind: "failed", failure: FAILURE }),
    withdrawn: async () => ledger.step(key, { kind: "withdrawn" }),
    offer: async () => ledger.step(key, { kind: "offer" }),
    released: async () => ledger.step(key, { kind: "released" }),
    abandoned: async () => ledger.step(key, { kind: "abandoned" }),
    delivering: async () => ledger.step(key, { kind: "delivering" }),
    delivered: async () => ledger.step(key, { kind: "delivered" }),
    unsent: async () => ledger.step(key, { kind: "undelivered", broken: UNSENT }),
    unanswered: async () => ledger.step(key, { kind: "undelivered", broken: UNANSWERED }),
    cutOff: async () => ledger.step(key, { kind: "undelivered", broken: CUT_OFF }),
    replay: async () => ledger.step(key, { kind: "replay", asked: ASKED }),
  };
  return word(calls[operation]());
}

/** Tells the states apart by what the ledger answers; the row is used up by asking. */
export async function observe(ledger: Ledger, payment: ExamplePayment): Promise<string> {
  const { key, request } = payment;
  const claim = await ledger.step(key, { kind: "claim", terms: termsOf(payment) });
  if (claim.kind === "granted") return "none";
  const attempts = claim.kind === "settled" ? claim.attempts : "";
  const elsewhere = await ledger.step(key, {
    kind: "claim",
    terms: termsOf(payment, { target: OTHER_TARGET }),
  });
  const outcome = await ledger.outcome(key);
  const begin = await ledger.step(key, { kind: "begin", request, caller: CALLER });
  const offered = (await takeOffers(ledger, NETWORK, 100)).some((each) => each.key === key);
  const sold = await word(ledger.step(key, { kind: "delivered" }));
  const withdrawn = await word(ledger.step(key, { kind: "withdrawn" }));
  const words = [claim.kind + attempts, elsewhere.kind, outcome.kind, begin.kind];
  return [...words, offered ? "offered" : "", sold, withdrawn].join(" ");
}

/** Those that were offered, and are this life's now. */
export async function takeOffers(
  ledger: Pick<Ledger, "queues" | "step">,
  network: string,
  limit: number,
): Promise<readonly OfferedPayment[]> {
  const offers = await ledger.queues.offers(network, limit);
  const take = ({ key, version }: OfferedPayment) => ledger.step(key, { kind: "take", version });
  const taken = await Promise.all(offers.map(take));
  return offers.filter((_, index) => taken[index] === "taken");
}

/** What {@link observe} sees in each state of the transition table. */
export const OBSERVED: Readonly<Record<string, string>> = {
  none: "none",
  claimed: "unresolved unresolved pending granted  conflict conflict",
  public: "unresolved unresolved pending granted  conflict conflict",
  offered: "unresolved unresolved pending pending offered conflict conflict",
  begun: "busy busy pending granted  conflict conflict",
  begunoffered: "busy busy pending pending offered conflict conflict",
  begunHanded: "busy busy pending granted  conflict conflict",
  begunOther: "busy busy pending taken  conflict conflict",
  begunSigned: "busy busy pending pending  conflict ok",
  begunSettled: "foreign foreign settled settled  conflict conflict",
  begunfailed: "foreign foreign failed failed  conflict conflict",
  otherClaim: "busy busy pending granted  conflict conflict",
  forgedClaim: "forged forged pending taken  conflict conflict",
  signed: "unresolved unresolved pending pending  conflict ok",
  handed: "unresolved unresolved pending granted  conflict conflict",
  handedsigned: "unresolved unresolved pending pending  conflict ok",
  settled: "settled0 settled settled settled  conflict conflict",
  retried: "settled1 settled settled settled  conflict conflict",
  served: "settled1 spent settled settled  conflict conflict",
  delivering: "busy busy settled settled  ok conflict",
  exhausted: "exhausted exhausted settled settled  conflict conflict",
  delivered: "spent spent settled settled  ok conflict",
  kept: "sold spent settled settled  ok conflict",
  failed: "failed failed failed failed  conflict conflict",
  publicfailed: "failed failed failed failed  conflict conflict",
  claimfailed: "failed failed failed failed  conflict conflict",
};

/** Sweeps to the end; resolves with the number of payments. */
export async function sweep(
  ledger: Ledger,
  beforeMs: number,
  archive?: SweepStep["archive"],
): Promise<number> {
  let payments = 0;
  // What was done a moment ago may not be stored yet, and no sweep looks for that; the books do.
  await ledger.books.counts();
  for (let from: SweepPlace | undefined, isFirst = true; isFirst || from !== undefined;) {
    isFirst = false;
    const swept = await ledger.upkeep.sweep({ beforeMs, from, archive });
    payments += swept.payments;
    from = swept.next;
  }
  return payments;
}
