/** What a delivered answer has used, where its route is charged by that: a part of the payment is its buyer's again. */
import { LedgerUnavailable } from "./ledger-fault.ts";
import { storedFill } from "./pots.ts";

/** As whoever has delivered it says. */
export interface MeteredSale {
  /** Of what its payer has prepaid: what was paid and is not charged goes into it, in the same step. */
  readonly pot: string;
  /** Atomic units, 0 or more; what is above what was paid is not charged. */
  readonly charged: bigint;
  /** What was counted, as the answer has said it; null: it has not, or not readably. */
  readonly usage: string | null;
  /** Why {@link charged} is not what that costs; null: it is. */
  readonly reason: string | null;
}

/** As it is stored, and told. */
export interface MeteredAmounts {
  /** Decimal digits, atomic units. */
  readonly charged: string;
  /** The same: what its buyer has in his balance. */
  readonly change: string;
  readonly usage: string | null;
  readonly reason: string | null;
}

/** @param paid atomic units */
export function meteredAmounts(
  { charged, usage, reason }: MeteredSale,
  paid: bigint,
): MeteredAmounts {
  const most = charged < paid ? charged : paid;
  return { charged: String(most), change: String(paid - most), usage, reason };
}

/** What is put into the pot; null: nothing is left. */
export function changeOf({ pot }: MeteredSale, { change }: MeteredAmounts): string | null {
  return change === "0" ? null : storedFill({ pot, amount: BigInt(change) });
}

/** For the history of a payment. */
export function meteredNote({ charged, change, usage, reason }: MeteredAmounts): string {
  const what = usage === null ? "" : ` for ${usage} used`;
  const why = reason === null ? "" : ` (${reason})`;
  return `${charged} charged${what}${why}, ${change} in its buyer's balance`;
}

/** Throws {@link LedgerUnavailable} for a text that is none. */
export function readMetered(text: string | null): MeteredAmounts | null {
  if (text === null) return null;
  const { charged, change, usage, reason } = Object(JSON.parse(text));
  if (typeof charged !== "string" || typeof change !== "string") {
    throw new LedgerUnavailable("a stored payment says not readably what of it was used");
  }
  return {
    charged,
    change,
    usage: typeof usage === "string" ? usage : null,
    reason: typeof reason === "string" ? reason : null,
  };
}
