/**
 * What was sold and burnt in an hour of the clock (UTC), counted by all who share a ledger. A sale counts from its
 * reservation, which comes after its payment was found good and before anything of it is signed, and is given back where
 * the payment is dropped or fails unpaid: what was paid back since was sold. Gas counts when it is known what a
 * transaction cost.
 */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { SubmissionCost } from "./accounts.ts";

export const HOUR_MS = 3_600_000;

/** All sales together, beside those of each payer. */
export const SALES = "sales";

/** The number of an hour of the clock. */
export function hourOf(ms: number): number {
  return Math.floor(ms / HOUR_MS);
}

/** Hours that are kept though they are over: the clock of whoever forgets them may be ahead of the others'. */
const KEPT_HOURS = 24;

/** The first hour that is kept at that time. */
export function keptFrom(nowMs: number): number {
  return hourOf(nowMs) - KEPT_HOURS;
}

/** What a payer's sales are counted as, who has one name in any letter case. */
export function payerBudget(payer: string): string {
  return `payer ${payer.toLowerCase()}`;
}

/** What gas on a network is counted as, in the smallest unit of its own currency. */
export function gasBudget(network: string): string {
  return `gas ${network}`;
}

/** A sale as budgets count it: whole millionths of a dollar, which are exact up to nine billion dollars. */
export interface BudgetedSale {
  readonly payer: string;
  readonly worth: number;
  /** The most that one payer may buy for in an hour; null: as much as he likes. */
  readonly perPayer: number | null;
  /** The most that is sold for in an hour, to all; null: no limit. */
  readonly sales: number | null;
}

/** Nothing was reserved with anything but `reserved`; `untilMs`: then the hour is over, and the next one begins at 0. */
export type Reserved =
  | { readonly kind: "reserved" }
  | { readonly kind: "over"; readonly whose: "payer" | "sales"; readonly untilMs: number };

export interface Budgets {
  /**
   * Counts the sale of a claimed payment in this hour, or refuses it: of any number of them at once no more are counted
   * than fit. A repeat is fine. {@link LedgerConflict} where the payment has no row.
   */
  reserve(key: PaymentKey, sale: BudgetedSale): Promise<Reserved>;
  /** What is counted in this hour under those names; those that are left out have nothing. */
  counted(names: readonly string[]): Promise<ReadonlyMap<string, number>>;
}

/** Whether a sale fits beside what is counted already. */
export function judgeSale(
  counted: ReadonlyMap<string, number>,
  { payer, worth, perPayer, sales }: BudgetedSale,
  nowMs: number,
): Reserved {
  const untilMs = (hourOf(nowMs) + 1) * HOUR_MS;
  const fits = (name: string, most: number | null): boolean =>
    most === null || (counted.get(name) ?? 0) + worth <= most;
  if (!fits(payerBudget(payer), perPayer)) return { kind: "over", whose: "payer", untilMs };
  if (!fits(SALES, sales)) return { kind: "over", whose: "sales", untilMs };
  return { kind: "reserved" };
}

/** By how much more gas is counted than before, as a number: a budget need not be exact to a wei. */
export function moreGas(before: SubmissionCost | null, after: SubmissionCost | null): number {
  const more = BigInt(after?.feeAtomic ?? "0") - BigInt(before?.feeAtomic ?? "0");
  return Number(more);
}
