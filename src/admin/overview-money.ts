/** What the overview tells of the books: sums by unit, day, route and network. */
import { NATIVE, type Entry } from "../ledger/accounts.ts";
import { isOfCredits } from "../ledger/credit-entries.ts";
import { formatAmount } from "../x402/amount.ts";
import { findNetwork } from "../x402/network.ts";
import type { EarnedView, MoneyView } from "../web/overview-view.ts";
import type { Tokens } from "./payment-view.ts";

const DAYS = 30;
const DAY_MS = 86_400_000;
/** Routes that are told apart. */
export const MAX_ROUTES = 10;
/** Units of several tokens of one symbol have different decimals: sums are made in those of the finest. */
const DECIMALS = 18;

/** Those that are shown, today among them: UTC, the oldest first. */
export function lastDays(nowMs: number): readonly string[] {
  return Array.from({ length: DAYS }, (_, index) => {
    return new Date(nowMs - (DAYS - 1 - index) * DAY_MS).toISOString().slice(0, 10);
  });
}

/** What was earned in one unit, whole or by one route or network: in units of {@link DECIMALS}. */
class Sums {
  readonly byUnit = new Map<string, bigint>();

  add(unit: string, amount: bigint): void {
    this.byUnit.set(unit, (this.byUnit.get(unit) ?? 0n) + amount);
  }

  of(unit: string): bigint {
    return this.byUnit.get(unit) ?? 0n;
  }

  toString(): string {
    const texts = [...this.byUnit].map(([unit, sum]) => `${formatAmount(sum, DECIMALS)} ${unit}`);
    return texts.length === 0 ? "0" : texts.join(", ");
  }
}

interface Row {
  sales: number;
  readonly today: Sums;
  readonly all: Sums;
  readonly gas: Sums;
}

export function moneyOf(
  entries: readonly Entry[],
  days: readonly string[],
  tokens: Tokens,
  nowMs: number,
): MoneyView {
  const today = days.at(-1) ?? "";
  const byDay = new Map(days.map((day) => [day, new Sums()]));
  const sales = new Map<string, number>();
  const refunded = new Sums();
  const routes = new Map<string, Row>();
  const networks = new Map<string, Row>();
  for (const entry of entries) {
    // Of what was sold before: earned is what was paid.
    if (isOfCredits(entry)) continue;
    const { unit, amount } = unitsOf(entry, tokens);
    const network = rowOf(networks, entry.network);
    if (entry.kind === "gas" || entry.kind === "refund gas") network.gas.add(unit, amount);
    if (entry.kind === "refund" || entry.kind === "refund transfer") refunded.add(unit, amount);
    if (entry.kind !== "sale") continue;
    sales.set(unit, (sales.get(unit) ?? 0) + entry.count);
    byDay.get(entry.day)?.add(unit, amount);
    for (const row of [network, rowOf(routes, entry.route)]) {
      row.sales += entry.count;
      row.all.add(unit, amount);
      if (entry.day === today) row.today.add(unit, amount);
    }
  }
  const bySales = [...routes].toSorted(([, left], [, right]) => right.sales - left.sales);
  return {
    at: new Date(nowMs).toISOString(),
    units: [...sales].map(([symbol, count]) => {
      const amounts = [...byDay].map(([day, sums]) => [day, sums.of(symbol)] as const);
      const best = amounts.reduce((most, [, amount]) => (amount > most ? amount : most), 1n);
      return {
        symbol,
        today: formatAmount(byDay.get(today)?.of(symbol) ?? 0n, DECIMALS),
        all: formatAmount(
          amounts.reduce((sum, [, amount]) => sum + amount, 0n),
          DECIMALS,
        ),
        refunded: formatAmount(refunded.of(symbol), DECIMALS),
        sales: count,
        days: amounts.map(([day, amount]) => {
          const permille = (amount * 1_000n) / best;
          const share = Number(permille) / 1_000;
          return { day, amount: formatAmount(amount, DECIMALS), share };
        }),
      };
    }),
    routes: {
      shown: bySales.slice(0, MAX_ROUTES).map(earnedOf),
      more: Math.max(0, bySales.length - MAX_ROUTES),
    },
    networks: [...networks].map(earnedOf),
  };
}

function rowOf(rows: Map<string, Row>, name: string): Row {
  const row = rows.get(name) ?? { sales: 0, today: new Sums(), all: new Sums(), gas: new Sums() };
  rows.set(name, row);
  return row;
}

function earnedOf([name, { sales, today, all, gas }]: readonly [string, Row]): EarnedView {
  const burnt = gas.byUnit.size === 0 ? "" : String(gas);
  return { name, sales, today: String(today), all: String(all), gas: burnt };
}

/** A token that nobody knows counts in its smallest unit, under its address. */
function unitsOf(
  { network, asset, amount }: Entry,
  tokens: Tokens,
): { readonly unit: string; readonly amount: bigint } {
  const known =
    asset === NATIVE ? findNetwork(network)?.nativeCurrency : tokens.find(network, asset);
  if (known === undefined || known.decimals > DECIMALS) {
    return { unit: asset, amount: amount * 10n ** BigInt(DECIMALS) };
  }
  return { unit: known.symbol, amount: amount * 10n ** BigInt(DECIMALS - known.decimals) };
}
