/** What the ledger tells an operator. Reads only, and never in the way of a payment. */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import type { Days, Entry } from "./accounts.ts";
import type { CreditsSum } from "./credit-entries.ts";
import { readFill, type PotBalance } from "./pots.ts";
import type { RefundSummary } from "./refund-steps.ts";
import type { PaymentState, SubmissionState } from "./transition.ts";
import type { UsedElsewhere } from "./used-elsewhere.ts";

export interface PaymentFilter {
  readonly states?: readonly PaymentState[];
  /** Paid for a resource, and neither delivered nor being delivered now; held ones as well. */
  readonly undelivered?: boolean;
  /** Paid in a transaction that is not ours and waiting for the operator; false: all others. */
  readonly held?: boolean;
  /** Whose refund has failed and waits for the operator. */
  readonly unrefunded?: boolean;
  readonly network?: string;
  /** Any letter case. */
  readonly payer?: string;
  /** Claimed at this time or later, milliseconds since the epoch. */
  readonly sinceMs?: number;
  /** Claimed before this time. */
  readonly untilMs?: number;
  /** Newest first; at most this many. */
  readonly limit: number;
  /** Continues a list behind this payment. */
  readonly after?: PaymentKey;
}

export interface PaymentSummary {
  readonly key: PaymentKey;
  readonly state: PaymentState;
  readonly network: string;
  readonly asset: string;
  /** Decimal digits, atomic units: what the payer signed. */
  readonly amount: string;
  readonly payer: string;
  readonly payTo: string;
  /** Method and path that were bought; null for a settlement that another resource server asked for. */
  readonly binding: string | null;
  readonly target: string | null;
  /** The remote facilitator that it was handed to. */
  readonly facilitator: string | null;
  /** Null until it is settled. */
  readonly transaction: string | null;
  /** Not ours, and paid it: with SIGNED it is held, with FAILED the seller has paid it back. */
  readonly heldTransaction: string | null;
  /** Null: nobody has asked for one. */
  readonly refund: RefundSummary | null;
  /** It is a transfer of ours that pays another one back. */
  readonly isTransferBack: boolean;
  readonly attempts: number;
  /** Of a payment whose attempts are used up: from when on its payer's new signature gives them again; 0: at once. */
  readonly renewableMs: number;
  /** Its goods wait for a request: not delivered, or not all of the kept answer has been read. */
  readonly isLeft: boolean;
  /** Until when its answer is given again; null: none is kept, or it was given as often as it may be. */
  readonly keptUntilMs: number | null;
  /** Until when it may be fetched again, as often as its route allows; null: it may not. */
  readonly repeatUntilMs: number | null;
  /** `METHOD target` to which the backend has led its buyer on. */
  readonly ledTo: string | null;
  /** Of what was bought nothing but its head has been asked for. */
  readonly isHeadOnly: boolean;
  readonly failureCode: string | null;
  readonly failureDetail: string | null;
  readonly claimedMs: number;
  readonly updatedMs: number;
}

/** One line of a payment's history; written together with the transition that it tells of. */
export interface PaymentEvent {
  readonly atMs: number;
  /** The state after it. A claim that is dropped takes its history with it. */
  readonly state: PaymentState;
  /** For people: `attempt 2 of 3`, `handed to https://…`, `in 0x…`. */
  readonly note: string;
  /** The life of the process that did it. */
  readonly by: string;
}

export interface PaymentDetail extends PaymentSummary {
  readonly resource: string;
  readonly events: readonly PaymentEvent[];
  /** Every submission that carries it now, with all hashes that were signed for its account nonce. */
  readonly submission: {
    readonly id: string;
    readonly state: SubmissionState;
    readonly account: string;
    readonly accountNonce: number;
    readonly transactions: readonly string[];
  } | null;
}

/** A payment that was taken for a resource of ours. */
export interface SaleRecord {
  readonly key: PaymentKey;
  /** Method and path. */
  readonly binding: string;
  readonly payer: string;
  readonly state: (typeof SOLD_STATES)[number];
  readonly claimedMs: number;
  /** When it was delivered first; null: it is not. */
  readonly deliveredMs: number | null;
}

/** The states of a {@link SaleRecord}. */
export const SOLD_STATES = ["SETTLED", "DELIVERING", "DELIVERED"] as const;

export interface SalesPage {
  /** Claimed at this time or later, milliseconds since the epoch. */
  readonly sinceMs: number;
  /** The last one of the page before, which need not be there any more. */
  readonly after?: Pick<SaleRecord, "claimedMs" | "key"> | undefined;
  readonly limit: number;
}

export interface EndedPage {
  /** Claimed and ended before that time, milliseconds since the epoch. */
  readonly beforeMs: number;
  /** The last one of the page before, which need not be there any more. */
  readonly after?: Pick<PaymentSummary, "claimedMs" | "key"> | undefined;
  readonly limit: number;
}

/** What a payer has prepaid, and how it can be paid back. */
export interface PayerCredits {
  /** Of each pot that he has. */
  readonly balances: readonly (Pick<PotBalance, "free" | "leased"> & { readonly pot: string })[];
  /** Payments that have filled one of them and of which something is not paid back: newest first, at most {@link MAX_REFUNDABLE}. */
  readonly purchases: readonly RefundablePurchase[];
}

export interface RefundablePurchase {
  readonly key: PaymentKey;
  readonly network: string;
  /** Address of the token. */
  readonly asset: string;
  readonly pot: string;
  /** What it has put there and was not paid back, atomic units. */
  readonly amount: bigint;
  /** A part of it was paid back: what is left is not sent. */
  readonly isByHand: boolean;
}

export const MAX_REFUNDABLE = 256;

/** Reads columns that are named `key`, `network`, `asset`, `fills` and, no text where nothing was paid back, `refunded`. */
export function readRefundable({
  key,
  network,
  asset,
  fills,
  refunded,
}: Readonly<Record<string, unknown>>): RefundablePurchase {
  const { pot, amount } = readFill(String(fills));
  const before = typeof refunded === "string" ? BigInt(refunded) : 0n;
  // The column holds nothing but keys.
  return {
    key: String(key) as PaymentKey,
    network: String(network),
    asset: String(asset),
    pot,
    amount: amount - before,
    isByHand: before > 0n,
  };
}

/** For gauges. */
export interface PaymentCounts {
  /** Signed or handed over, outcome not known. */
  readonly unresolved: number;
  /** Paid in a transaction that is not ours: the operator has to decide. */
  readonly held: number;
  /** Paid for a resource and not delivered. */
  readonly undelivered: number;
  /** Claimed and offered, waiting for a life that can sign. */
  readonly offered: number;
  /** Refunds that are under way, and those that have failed: the operator has to decide. */
  readonly refunding: number;
  readonly unrefunded: number;
}

/** What the books say of one thing that its chain can confirm. */
export type Evidence = PaidEvidence | GasEvidence;

/** A payment that was paid on the days that are asked for, held ones as well. */
export interface PaidEvidence {
  readonly kind: "payment";
  readonly key: PaymentKey;
  readonly network: string;
  readonly asset: string;
  /** Decimal digits, atomic units. */
  readonly amount: string;
  readonly payTo: string;
  readonly transaction: string;
  /** Null for one that cannot be read any more. */
  readonly request: FacilitatorRequest | null;
}

/** What a submission that was signed on those days has cost. */
export interface GasEvidence {
  readonly kind: "gas";
  readonly network: string;
  /** All that were signed for its account nonce: one of them is in a block. */
  readonly transactions: readonly string[];
  /** Decimal digits, in the smallest unit of the network's own currency. */
  readonly feeAtomic: string;
  /** The shares of payments that were swept are not in it. */
  readonly isPart: boolean;
}

export interface Books {
  list(filter: PaymentFilter): Promise<readonly PaymentSummary[]>;
  /**
   * By key, by transaction (settled or signed) or by the payer's authorization nonce; any letter case.
   * Undefined when there is none.
   */
  show(name: string): Promise<PaymentDetail | undefined>;
  counts(): Promise<PaymentCounts>;
  /** The transaction of a payment of which only a tombstone is left, by its key in any letter case. */
  buried(key: string): Promise<string | undefined>;
  /** Payments that ended, in the order of their claims: what a sweep may take some day. */
  ended(page: EndedPage): Promise<readonly PaymentDetail[]>;
  /** What was sold, newest first. */
  sales(page: SalesPage): Promise<readonly SaleRecord[]>;
  /**
   * What was paid, paid back and burnt as gas on those days, summed up by everything that an entry tells. Read at one
   * moment; the longer a ledger keeps its payments, the longer it takes.
   */
  accounts(days: Days): Promise<readonly Entry[]>;
  /** What of the {@link accounts} of those days is still there one by one, page by page, the oldest first. */
  evidence(days: Days): AsyncIterable<readonly Evidence[]>;
  /** What is prepaid: what came in, what was used, and what is there; at one moment, since ever. */
  credits(): Promise<readonly CreditsSum[]>;
  creditsOf(payer: string): Promise<PayerCredits>;
  /** Newest first. */
  usedElsewhere(limit: number): Promise<readonly UsedElsewhere[]>;
}
