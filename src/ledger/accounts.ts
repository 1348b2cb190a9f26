/**
 * The ledger as accounts: what each payment and each transaction of ours has moved, by day. What a sweep takes away is
 * added to totals first, so that the sums of a day are the same before and after.
 */
import { worthOf } from "../x402/amount.ts";
import { findNetwork } from "../x402/network.ts";
import { stateOf } from "./payment-row.ts";
import type { PaymentState } from "./transition.ts";

/**
 * - `sale`: paid to a seller for a route of ours.
 * - `others`: settled here for another resource server; the money is none of ours.
 * - `refund`: the seller has paid it back by other means, and has said so.
 * - `refund transfer`: we have paid it back, from the key that is for it.
 * - `held`: paid in a transaction that is not ours, and waiting for the operator.
 * - `gas`, `refund gas`: what a transaction of ours cost, and what of that was for refunds.
 * - `credits bought`, `credits used`: what of a sale its payer has prepaid, and what requests have used of that.
 * - `credits refunded`: what was taken out of a balance to be paid back.
 */
export const ENTRY_KINDS = [
  "sale",
  "others",
  "refund",
  "refund transfer",
  "held",
  "gas",
  "refund gas",
  "credits bought",
  "credits used",
  "credits refunded",
] as const;

export type EntryKind = (typeof ENTRY_KINDS)[number];

/** The asset of what is paid in a network's own currency. */
export const NATIVE = "native";

export interface Entry {
  /** UTC: `2026-11-27`. */
  readonly day: string;
  readonly kind: EntryKind;
  /** Key of the route, or what was bought where that is not known; "": of none. */
  readonly route: string;
  /** Of credits: the family of networks. */
  readonly network: string;
  /** Address of the token, or {@link NATIVE}; of credits its symbol. */
  readonly asset: string;
  /** Who was paid; of gas, and of what we have paid back, the account that paid it. */
  readonly account: string;
  /** Payments; of `credits used` requests, of gas none. */
  readonly count: number;
  /** Atomic units of the asset. */
  readonly amount: bigint;
  /** Of gas: its worth in attodollars when it was burnt; null where nobody said what the currency is worth. */
  readonly attodollars: bigint | null;
}

/** From the first day to the last one, both included. */
export interface Days {
  readonly from: string;
  readonly to: string;
}

/** A payment that was paid, as a store reads it. */
export interface PaidPayment {
  readonly state: PaymentState;
  readonly binding: string | null;
  readonly route: string | null;
  readonly network: string;
  readonly asset: string;
  readonly amount: string;
  readonly payTo: string;
  readonly payer: string;
  /** Whether its refund is ours to send: a transfer of its own stands for that. */
  readonly isRefundSent: boolean;
  /** When the ledger first knew that it was paid, milliseconds since the epoch. */
  readonly paidMs: number;
  /** When the seller said that it was paid back; null: it is not. */
  readonly refundedMs: number | null;
}

/** What the transaction of a submission cost us, in the smallest unit of the network's own currency. */
export interface SubmissionCost {
  /** Decimal digits. */
  readonly feeAtomic: string;
  /** Decimal digits, part of the fee. */
  readonly priorityAtomic: string;
  /** How many payments it moved: each bears an even part of the fee. */
  readonly moved: number;
  /** What a whole unit of that currency was worth then, attodollars in decimal digits; null: nobody said. */
  readonly priceAttodollars: string | null;
  /** The shares of payments that were swept have left it. */
  readonly isPart?: true;
}

/** A submission, as far as it has cost something. */
interface Costly {
  readonly network: string;
  readonly signedMs: number;
  /** All of one account. */
  readonly variants: readonly { readonly account: string; readonly transaction: string }[];
  readonly cost: SubmissionCost | null;
}

/** A line of a payment's history. */
interface HistoryLine {
  readonly atMs: number;
  readonly state: PaymentState;
  readonly note: string;
}

const DAY_MS = 86_400_000;

export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** Milliseconds since the epoch: the first of the days, and the first after them. */
export function spanOf({ from, to }: Days): { readonly fromMs: number; readonly endMs: number } {
  return { fromMs: Date.parse(from), endMs: Date.parse(to) + DAY_MS };
}

/** When a payment that is paid was so first, and when it was paid back, by its history; an old one may tell but its end. */
export function timesOf(
  state: PaymentState,
  events: readonly HistoryLine[],
): Pick<PaidPayment, "paidMs" | "refundedMs"> {
  const last = events.at(-1)?.atMs ?? 0;
  const paid = events.findIndex((event) => isPaying(event));
  const refunded = events.slice(paid + 1).find((event) => event.state === "FAILED");
  return {
    paidMs: events[paid]?.atMs ?? last,
    refundedMs: state === "FAILED" ? (refunded?.atMs ?? last) : null,
  };
}

function isPaying({ state, note }: HistoryLine): boolean {
  return state === "SETTLED" || state.startsWith("DELIVER") || note.startsWith("held: ");
}

export function entriesOf(paid: PaidPayment): readonly Entry[] {
  const { state, binding, network, asset, amount, payTo, payer, paidMs, refundedMs } = paid;
  const entry = (kind: EntryKind, ms: number): Entry => ({
    day: dayOf(ms),
    kind,
    route: routeOf(paid),
    network,
    asset,
    account: payTo,
    count: 1,
    amount: BigInt(amount),
    attodollars: null,
  });
  if (isTransferBack(paid)) {
    return state === "SIGNED" ? [] : [{ ...entry("refund transfer", paidMs), account: payer }];
  }
  if (state === "SIGNED") return [entry("held", paidMs)];
  if (binding === null) return [entry("others", paidMs)];
  const sale = entry("sale", paidMs);
  return refundedMs === null || paid.isRefundSent ? [sale] : [sale, entry("refund", refundedMs)];
}

/** Whether a payment that is paid by that transaction was moved by the submission. */
export function isMovedBy({ variants }: Pick<Costly, "variants">, transaction: unknown): boolean {
  return variants.some((each) => each.transaction === transaction);
}

/** As what a payment bears its part of the gas. */
export interface Bearer {
  readonly route: string;
  /** It pays another one back. */
  readonly isTransferBack: boolean;
}

/** What a submission cost, shared among the payments that it moved; the rest is of none. */
export function gasOf(submission: Costly, bearers: readonly Bearer[]): readonly Entry[] {
  const entries: Entry[] = [];
  let left = submission;
  for (const bearer of bearers) {
    const shared = shareOf(left, bearer);
    if (shared === undefined) break;
    entries.push(shared.entry);
    left = { ...left, cost: shared.left };
  }
  const { cost } = left;
  if (cost !== null && cost.feeAtomic !== "0")
    entries.push(gasEntry(left, cost, NOBODY, BigInt(cost.feeAtomic)));
  return entries;
}

/** The part of one of the payments that a submission moved, and what is left of its cost for the others. */
export function shareOf(
  submission: Costly,
  bearer: Bearer,
): { readonly entry: Entry; readonly left: SubmissionCost } | undefined {
  const { cost } = submission;
  if (cost === null || cost.moved < 1) return undefined;
  const fee = BigInt(cost.feeAtomic);
  const share = fee / BigInt(cost.moved);
  const left: SubmissionCost = {
    ...cost,
    feeAtomic: String(fee - share),
    moved: cost.moved - 1,
    isPart: true,
  };
  return { entry: gasEntry(submission, cost, bearer, share), left };
}

function gasEntry(
  { network, signedMs, variants }: Costly,
  { priceAttodollars }: SubmissionCost,
  { route, isTransferBack }: Bearer,
  amount: bigint,
): Entry {
  return {
    day: dayOf(signedMs),
    kind: isTransferBack ? "refund gas" : "gas",
    route,
    network,
    asset: NATIVE,
    account: variants[0]?.account ?? "",
    count: 0,
    amount,
    attodollars: priceAttodollars === null ? null : nativeWorth(network, amount, priceAttodollars),
  };
}

const NOBODY: Bearer = { route: "", isTransferBack: false };

function nativeWorth(network: string, amount: bigint, priceAttodollars: string): bigint | null {
  const currency = findNetwork(network)?.nativeCurrency;
  if (currency === undefined) return null;
  return worthOf(amount, currency.decimals, BigInt(priceAttodollars));
}

/** Sums of entries that differ in nothing but count and amounts. */
export class Totals {
  readonly #sums = new Map<string, Entry>();
  readonly #days: Days | undefined;

  /** With days: entries of others are left out. */
  constructor(days?: Days) {
    this.#days = days;
  }

  add(entries: readonly Entry[]): void {
    for (const entry of entries) {
      const { day, kind, route, network, asset, account } = entry;
      if (this.#days !== undefined && (day < this.#days.from || day > this.#days.to)) continue;
      const name = JSON.stringify([day, kind, route, network, asset, account]);
      const sum = this.#sums.get(name);
      this.#sums.set(name, sum === undefined ? entry : plus(sum, entry));
    }
  }

  list(): readonly Entry[] {
    return [...this.#sums.values()];
  }
}

export function plus(sum: Entry, entry: Entry): Entry {
  return {
    ...sum,
    count: sum.count + entry.count,
    amount: sum.amount + entry.amount,
    attodollars:
      sum.attodollars === null || entry.attodollars === null
        ? null
        : sum.attodollars + entry.attodollars,
  };
}

/** Reads a payment as a database driver returns it, whose columns bear the names of {@link PaidPayment}. */
export function readPaid(
  columns: Readonly<Record<string, unknown>>,
  times: Pick<PaidPayment, "paidMs" | "refundedMs">,
): PaidPayment {
  const { state, binding, route, network, asset, amount, payTo, payer, refundState } = columns;
  return {
    state: stateOf(state),
    binding: typeof binding === "string" ? binding : null,
    route: typeof route === "string" ? route : null,
    network: String(network),
    asset: String(asset),
    amount: String(amount),
    payTo: String(payTo),
    payer: String(payer),
    isRefundSent: typeof refundState === "string",
    ...times,
  };
}

/** What it was sold as: the key of its route, else what was bought; "": it was settled for another seller. */
function routeOf({
  route,
  binding,
}: {
  readonly route?: unknown;
  readonly binding?: unknown;
}): string {
  return typeof route === "string" ? route : typeof binding === "string" ? binding : "";
}

/** It has no binding, as what is settled for others, and yet a route. */
export function isTransferBack({
  route,
  binding,
}: {
  readonly route?: unknown;
  readonly binding?: unknown;
}): boolean {
  return typeof route === "string" && typeof binding !== "string";
}

/** Reads the columns `route` and `binding` of a payment. */
export function bearerOf(columns: {
  readonly route?: unknown;
  readonly binding?: unknown;
}): Bearer {
  return { route: routeOf(columns), isTransferBack: isTransferBack(columns) };
}

/** Reads a sum as a database driver returns it, whose columns bear the names of {@link Entry}. */
export function readEntry(columns: Readonly<Record<string, unknown>>): Entry {
  const { day, kind, route, network, asset, account, count, amount, attodollars } = columns;
  return {
    day: String(day),
    kind: ENTRY_KINDS.find((each) => each === kind) ?? "sale",
    route: String(route),
    network: String(network),
    asset: String(asset),
    account: String(account),
    count: Number(count),
    amount: BigInt(String(amount)),
    attodollars: typeof attodollars === "string" ? BigInt(attodollars) : null,
  };
}
