/**
 * The ledger's entries as double-entry bookkeeping: each moves an amount from one account to another, so that the
 * debits of a unit are its credits. What was settled for other sellers is none of ours and is told apart.
 */
import { ATTODOLLAR_DECIMALS, formatAmount } from "../x402/amount.ts";
import { findNetwork } from "../x402/network.ts";
import { NATIVE, type Entry, type EntryKind } from "../ledger/accounts.ts";
import type { Tokens } from "./payment-view.ts";

/** What lines may be told apart by, beside their account and unit. */
export const GROUPINGS = ["day", "month", "route", "payee", "network", "asset"] as const;

export type Grouping = (typeof GROUPINGS)[number];

/**
 * One account in one unit and group. The names and meanings of its members are a promise to scripts: members may be
 * added, none is renamed or removed.
 */
export interface BalanceLine {
  /** What was grouped by, in the order of {@link GROUPINGS}. */
  readonly group: Readonly<Partial<Record<Grouping, string>>>;
  readonly account: AccountName;
  readonly network: string;
  /** Address of the token, or `native`. */
  readonly asset: string;
  /** Null for a token that neither the network nor the configuration knows. */
  readonly symbol: string | null;
  readonly payments: number;
  readonly debitAtomic: string;
  readonly creditAtomic: string;
  /** In whole tokens, exact; null where the symbol is. */
  readonly debit: string | null;
  readonly credit: string | null;
  /** Of gas: its worth in dollars when it was burnt; null where nobody said what the currency was worth. */
  readonly dollars: string | null;
}

/**
 * - `payees`: what came to the addresses that routes are paid to.
 * - `sales`, `refunds`: what routes earned, and what of it was paid back.
 * - `refund wallets`: what we have paid back with, from the key that is for it.
 * - `held`: paid in transactions that are not ours, and not decided.
 * - `gas`, `refund gas`, `gas wallets`: what our transactions cost, what of that was for refunds, and the wallets that
 *   paid it.
 * - `credits`: what buyers have prepaid, in its family of networks: credited when it is bought, debited when it is used
 *   or paid back.
 * - `settled for others`: for other sellers, on both sides of no account.
 */
export type AccountName =
  | "payees"
  | "sales"
  | "refunds"
  | "refund wallets"
  | "held"
  | "gas"
  | "refund gas"
  | "gas wallets"
  | "credits"
  | "settled for others";

const SIDES: Readonly<Record<EntryKind, readonly [debit: AccountName, credit: AccountName]>> = {
  sale: ["payees", "sales"],
  refund: ["refunds", "payees"],
  "refund transfer": ["refunds", "refund wallets"],
  held: ["payees", "held"],
  gas: ["gas", "gas wallets"],
  "refund gas": ["refund gas", "gas wallets"],
  others: ["settled for others", "settled for others"],
  "credits bought": ["sales", "credits"],
  "credits used": ["credits", "sales"],
  "credits refunded": ["credits", "sales"],
};

const PAYEELESS: ReadonlySet<EntryKind> = new Set([
  "gas",
  "refund gas",
  "refund transfer",
  "credits bought",
  "credits used",
  "credits refunded",
]);

interface Sum {
  readonly line: Pick<BalanceLine, "group" | "account" | "network" | "asset">;
  payments: number;
  debit: bigint;
  credit: bigint;
  attodollars: bigint | null;
}

export function trialBalance(
  entries: readonly Entry[],
  by: readonly Grouping[],
  tokens: Tokens,
): readonly BalanceLine[] {
  const sums = new Map<string, Sum>();
  const add = (entry: Entry, account: AccountName, side: "debit" | "credit"): void => {
    const { network, asset } = entry;
    const group = groupOf(entry, by);
    const name = JSON.stringify([Object.values(group), network, asset, account]);
    const fresh = { payments: 0, debit: 0n, credit: 0n, attodollars: 0n };
    const sum: Sum = sums.get(name) ?? { line: { group, account, network, asset }, ...fresh };
    sum.payments += entry.count;
    sum[side] += entry.amount;
    const { attodollars } = entry;
    const isKnown = sum.attodollars !== null && attodollars !== null;
    sum.attodollars = isKnown ? (sum.attodollars ?? 0n) + attodollars : null;
    sums.set(name, sum);
  };
  for (const entry of entries) {
    const [debit, credit] = SIDES[entry.kind];
    add(entry, debit, "debit");
    add(entry, credit, "credit");
  }
  return [...sums]
    .toSorted(([left], [right]) => (left < right ? -1 : 1))
    .map(([, sum]) => shown(sum, tokens));
}

function groupOf(entry: Entry, by: readonly Grouping[]): BalanceLine["group"] {
  const values: Readonly<Record<Grouping, string>> = {
    day: entry.day,
    month: entry.day.slice(0, 7),
    route: entry.route,
    payee: PAYEELESS.has(entry.kind) ? "" : entry.account,
    network: entry.network,
    asset: entry.asset,
  };
  return Object.fromEntries(
    GROUPINGS.filter((each) => by.includes(each)).map((each) => [each, values[each]]),
  );
}

function shown({ line, payments, debit, credit, attodollars }: Sum, tokens: Tokens): BalanceLine {
  const { network, asset } = line;
  const token =
    asset === NATIVE ? findNetwork(network)?.nativeCurrency : tokens.find(network, asset);
  const amount = (atomic: bigint): string | null =>
    token === undefined ? null : formatAmount(atomic, token.decimals);
  return {
    ...line,
    symbol: token?.symbol ?? null,
    payments: line.account === "settled for others" ? payments / 2 : payments,
    debitAtomic: String(debit),
    creditAtomic: String(credit),
    debit: amount(debit),
    credit: amount(credit),
    dollars:
      asset === NATIVE && attodollars !== null
        ? formatAmount(attodollars, ATTODOLLAR_DECIMALS)
        : null,
  };
}
