/** A trial balance as text: a table for people, CSV for programs. */
import { GROUPINGS, type BalanceLine, type Grouping } from "../../admin/trial-balance.ts";
import { printable } from "../../config/config.ts";
import type { BooksCheck, BooksFinding } from "../../diagnosis/books-check.ts";
import { toColumns, toCsvLines } from "../payments/payment-text.ts";

/** Payments of which it is not known whether they are paid: in no account until it is. */
export interface UnresolvedSum {
  readonly network: string;
  readonly asset: string;
  readonly symbol: string | null;
  readonly payments: number;
  readonly amountAtomic: string;
  readonly amount: string | null;
}

/** What `--verify` has found. */
export interface Verification extends BooksCheck {
  /** Payments in the sums that are no more there to be held against their chain. */
  readonly swept: number;
}

/** What buyers have prepaid in one token on one family of networks, since ever: whole tokens. */
export interface CreditsLine {
  readonly family: string;
  readonly token: string;
  /** Buyers with a balance. */
  readonly balances: number;
  readonly bought: string;
  readonly used: string;
  /** Taken out to be paid back; what could not be sent is bought again. */
  readonly refunded: string;
  /** What is in balances, and what of that processes spend now. */
  readonly left: string;
  readonly leased: string;
  /** What was bought is what was used, what was paid back and what is left. */
  readonly isBalanced: boolean;
}

export interface BooksReport {
  readonly from: string;
  readonly to: string;
  readonly by: readonly Grouping[];
  readonly lines: readonly BalanceLine[];
  /** As of now, whatever the days. */
  readonly unresolved: readonly UnresolvedSum[];
  /** As of now, whatever the days. */
  readonly credits: readonly CreditsLine[];
  readonly verification?: Verification;
}

/** The columns of the CSV form behind what is grouped by, in their order; new ones are added at the end. */
const COLUMNS = [
  "account",
  "network",
  "asset",
  "symbol",
  "payments",
  "debitAtomic",
  "creditAtomic",
  "debit",
  "credit",
  "dollars",
] as const satisfies readonly (keyof BalanceLine)[];

/** Groupings with a column of their own: one of the same name as another column says the same. */
function headed(by: readonly Grouping[]): readonly Grouping[] {
  return GROUPINGS.filter((each) => by.includes(each) && each !== "network" && each !== "asset");
}

/** RFC 4180. */
export function toBalanceCsv({ by, lines }: BooksReport): string {
  const names = headed(by);
  return toCsvLines([
    [...names, ...COLUMNS],
    ...lines.map((line) => [
      ...names.map((each) => line.group[each] ?? ""),
      ...COLUMNS.map((name) => line[name]),
    ]),
  ]);
}

export function toBalance(report: BooksReport): string {
  const { from, to, by, lines, unresolved, credits } = report;
  const groups = headed(by);
  const head = [
    ...groups.map((each) => each.toUpperCase()),
    "ACCOUNT",
    "DEBIT",
    "CREDIT",
    "UNIT",
    "PAYMENTS",
    "DOLLARS",
  ];
  const rows = lines.map((line) => [
    ...groups.map((each) => line.group[each] || "-"),
    line.account,
    amountOf(line.debitAtomic, line.debit),
    amountOf(line.creditAtomic, line.credit),
    unitOf(line),
    line.asset === "native" ? "" : String(line.payments),
    line.dollars === null ? "" : `$${line.dollars}`,
  ]);
  const title = `from ${from} to ${to}, UTC\n`;
  const body =
    lines.length === 0 ? "nothing was paid on those days\n" : toColumns([head, ...rows], false);
  const below = [...credits.map(prepaid), ...unresolved.map(pending)];
  return title + body + sumsOf(lines) + below.join("");
}

/** For people, beside the sums. */
export function toFindings({
  payments,
  transactions,
  swept,
  differences,
  unchecked,
}: Verification): string {
  const lines = [
    `held against the chains: ${payments} payments and the cost of ${transactions} transactions are as told`,
    ...(swept > 0 ? [`swept, and in the sums alone: ${swept} payments`] : []),
    ...differences.map((each) => `DIFFERS: ${told(each)}`),
    ...unchecked.map((each) => `not checked: ${told(each)}`),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

function told({ kind, name, network, detail }: BooksFinding): string {
  return printable(`${kind} ${name} on ${network}: ${detail}`);
}

/** Of each unit what was debited is what was credited. */
function sumsOf(lines: readonly BalanceLine[]): string {
  const sums = new Map<string, { readonly debit: bigint; readonly credit: bigint }>();
  for (const line of lines) {
    const unit = unitOf(line);
    const { debit, credit } = sums.get(unit) ?? { debit: 0n, credit: 0n };
    const more = {
      debit: debit + BigInt(line.debitAtomic),
      credit: credit + BigInt(line.creditAtomic),
    };
    sums.set(unit, more);
  }
  return [...sums]
    .map(([unit, { debit, credit }]) =>
      debit === credit
        ? `${unit}: balanced\n`
        : `${unit}: NOT BALANCED: debits ${debit}, credits ${credit}, atomic units\n`,
    )
    .join("");
}

function prepaid({
  family,
  token,
  balances,
  bought,
  used,
  refunded,
  left,
  leased,
  isBalanced,
}: CreditsLine): string {
  const is = isBalanced ? "=" : "IS NOT";
  const inUse = leased === "0" ? "" : `, ${leased} of that in use`;
  const back = refunded === "0" ? "" : ` + ${refunded} refunded`;
  const sum = `${bought} bought ${is} ${used} used${back} + ${left} left`;
  return `credits, ${token} on ${family}: ${sum} (${balances} balances${inUse})\n`;
}

function pending({
  network,
  asset,
  symbol,
  payments,
  amount,
  amountAtomic,
}: UnresolvedSum): string {
  const what = `${amountOf(amountAtomic, amount)} ${unitOf({ network, asset, symbol })}`;
  return `not in these books: ${payments} payments over ${what} of which it is not known whether they are paid\n`;
}

function amountOf(atomic: string, amount: string | null): string {
  return atomic === "0" ? "" : (amount ?? atomic);
}

function unitOf({
  network,
  asset,
  symbol,
}: Pick<BalanceLine, "network" | "asset" | "symbol">): string {
  return `${symbol ?? `atomic units of ${asset}`} on ${network}`;
}
