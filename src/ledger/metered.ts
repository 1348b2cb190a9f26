/**
 * What a delivered answer has used, where its route is charged by that: what is left of the payment is its buyer's. Into
 * which pot is fixed by its first use, when it is known who has signed it, and it is there in the step that delivers.
 */
import { LedgerUnavailable } from "./ledger-fault.ts";
import { storedFill } from "./pots.ts";

/** As whoever has delivered it says. */
export interface MeteredSale {
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

/** Its route was charged by use when it was paid, and is not any more: all of it was for what it has bought. */
export const NOT_METERED = "not-metered";
const UNMETERED: MeteredSale = { charged: 0n, usage: null, reason: NOT_METERED };

/** What of a row is stored with it. */
interface Facets {
  readonly metered: string | null;
  readonly fills: string | null;
}

/** Of a first use: where what is left comes; null: it is not charged by use. */
export function storedPot(pot: string | undefined): string | null {
  return pot === undefined ? null : JSON.stringify({ pot });
}

/**
 * What a delivery makes of a payment. What was paid at a fixed price is charged as a whole.
 * @param amountOf decimal digits, atomic units: what was paid
 */
export function deliveredFacets(
  { metered, fills }: Facets,
  sale: MeteredSale | undefined,
  amountOf: () => string,
): Partial<Facets> & { readonly note?: string } {
  const pot = potIn(metered);
  if (pot === undefined && (sale ?? UNMETERED).reason === NOT_METERED) return {};
  const paid = BigInt(amountOf());
  const { usage, reason } = sale ?? UNMETERED;
  const isCharged = pot !== undefined && sale !== undefined && fills === null;
  const charged = isCharged && sale.charged < paid ? sale.charged : paid;
  const why = pot === undefined ? "fixed-price" : reason;
  const change = paid - charged;
  const amounts = { charged: String(charged), change: String(change), usage, reason: why };
  const filled = change > 0n && pot !== undefined && { fills: storedFill({ pot, amount: change }) };
  return { metered: JSON.stringify(amounts), ...filled, note: meteredNote(amounts) };
}

/** For the history of a payment. */
function meteredNote({ charged, change, usage, reason }: MeteredAmounts): string {
  const what = usage === null ? "" : ` for ${usage} used`;
  const why = reason === null ? "" : ` (${reason})`;
  return `${charged} charged${what}${why}, ${change} in its buyer's balance`;
}

/** Null: it is not charged by use, or not delivered. Throws {@link LedgerUnavailable} for a text that is none. */
export function readMetered(text: string | null): MeteredAmounts | null {
  if (text === null) return null;
  const { pot, charged, change, usage, reason } = Object(JSON.parse(text));
  if (typeof pot === "string") return null;
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

function potIn(text: string | null): string | undefined {
  if (text === null) return undefined;
  const { pot } = Object(JSON.parse(text));
  return typeof pot === "string" ? pot : undefined;
}
