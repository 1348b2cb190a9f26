/**
 * `coinslot books FILE`: what was sold, paid back and burnt as gas, as a trial balance, read from the ledger beside a
 * running gateway or without one. Changes nothing.
 */
import {
  isBalanced,
  isOfCredits,
  openBooks,
  type Books,
  type CreditsSum,
  type Days,
  type Entry,
} from "../../admin/books.ts";
import { Tokens } from "../../admin/payment-view.ts";
import { trialBalance, type Grouping } from "../../admin/trial-balance.ts";
import type { Config } from "../../config/config.ts";
import { checkBooks } from "../../diagnosis/books-check.ts";
import { formatAmount } from "../../x402/amount.ts";
import { messageOf } from "../../x402/result.ts";
import { loadOrExplain } from "../load.ts";
import { ProgressLine } from "../terminal.ts";
import {
  toBalance,
  toBalanceCsv,
  toFindings,
  type BooksReport,
  type CreditsLine,
  type UnresolvedSum,
  type Verification,
} from "./books-text.ts";
import { toJson } from "../payments/payment-text.ts";

export interface BooksOptions {
  /** Days, UTC, both included; default: from the first of this month to today. */
  readonly from?: string;
  readonly to?: string;
  readonly by: readonly Grouping[];
  readonly format: "table" | "csv" | "json";
  /** Holds them against the chains. */
  readonly verify?: boolean;
}

/** Unresolved payments that are read at once. */
const PAGE = 1_000;

/** Resolves with the exit code: 1 where the file is refused, the store closed, or something not as its chain has it. */
export async function books(file: string, options: BooksOptions): Promise<number> {
  const config = await loadOrExplain(file, {});
  if (config === undefined) return 1;
  const today = new Date().toISOString().slice(0, 10);
  const { from = `${today.slice(0, 7)}-01`, to = today, by, format, verify } = options;
  let opened: Awaited<ReturnType<typeof openBooks>> | undefined;
  try {
    opened = await openBooks(config);
    const tokens = new Tokens(config);
    const entries = await opened.accounts({ from, to });
    const lines = trialBalance(entries, by, tokens);
    const unresolved = await unresolvedIn(opened, tokens);
    const sums = await opened.credits();
    const credits = sums.map((each) => creditsIn(each, tokens));
    const balance = { from, to, by, lines, unresolved, credits };
    if (verify !== true) {
      process.stdout.write(textOf(balance, format));
      return 0;
    }
    const check = await verified(config, opened, { from, to }, paymentsIn(entries));
    const differences = [...check.differences, ...credits.flatMap(unbalanced)];
    const verification = { ...check, differences };
    process.stdout.write(textOf({ ...balance, verification }, format));
    if (format !== "json") process.stderr.write(toFindings(verification));
    return verification.differences.length + verification.unchecked.length === 0 ? 0 : 1;
  } catch (cause) {
    process.stderr.write(`coinslot books: ${messageOf(cause)}\n`);
    return 1;
  } finally {
    await opened?.close();
  }
}

/** Of the payments in the sums those that are still there, and all that transactions of ours have cost. */
async function verified(
  config: Config,
  opened: Books,
  days: Days,
  payments: number,
): Promise<Verification> {
  const line = new ProgressLine();
  try {
    const evidence = opened.evidence(days);
    const told = (count: number): void => line.show(`held against the chains: ${count}`);
    const check = await checkBooks(config, evidence, told);
    const found = [...check.differences, ...check.unchecked];
    const there = check.payments + found.filter(({ kind }) => kind === "payment").length;
    return { ...check, swept: Math.max(0, payments - there) };
  } finally {
    line.clear();
  }
}

function paymentsIn(entries: readonly Entry[]): number {
  const paid = entries.filter(
    (entry) => entry.kind !== "refund" && entry.kind !== "gas" && !isOfCredits(entry),
  );
  return paid.reduce((sum, { count }) => sum + count, 0);
}

function creditsIn(sum: CreditsSum, tokens: Tokens): CreditsLine {
  const { family, token, pots: balances, bought, used, refunded, free, leased } = sum;
  const decimals = tokens.find(family, token)?.decimals;
  const amount = (atomic: bigint): string =>
    decimals === undefined ? String(atomic) : formatAmount(atomic, decimals);
  return {
    family,
    token,
    balances,
    bought: amount(bought),
    used: amount(used),
    refunded: amount(refunded),
    left: amount(free + leased),
    leased: amount(leased),
    isBalanced: isBalanced(sum),
  };
}

function unbalanced(line: CreditsLine) {
  const { family, token, bought, used, refunded, left } = line;
  if (line.isBalanced) return [];
  const detail = `${bought} were bought, ${used} used, ${refunded} paid back, and ${left} are left`;
  return [{ kind: "credits", name: token, network: family, detail } as const];
}

function textOf(balance: BooksReport, format: BooksOptions["format"]): string {
  if (format === "json") return toJson(balance);
  return format === "csv" ? toBalanceCsv(balance) : toBalance(balance);
}

async function unresolvedIn(opened: Books, tokens: Tokens): Promise<readonly UnresolvedSum[]> {
  const sums = new Map<
    string,
    { network: string; asset: string; payments: number; atomic: bigint }
  >();
  for (let after: { readonly after?: Awaited<ReturnType<Books["list"]>>[number]["key"] } = {}; ;) {
    const page = await opened.list({ states: ["SIGNED"], held: false, limit: PAGE, ...after });
    for (const { network, asset, amount } of page) {
      const name = `${network} ${asset}`;
      const sum = sums.get(name) ?? { network, asset, payments: 0, atomic: 0n };
      sums.set(name, { ...sum, payments: sum.payments + 1, atomic: sum.atomic + BigInt(amount) });
    }
    const last = page.at(-1);
    if (page.length < PAGE || last === undefined) break;
    after = { after: last.key };
  }
  return [...sums.values()].map(({ network, asset, payments, atomic }) => {
    const token = tokens.find(network, asset);
    const amount = token === undefined ? null : formatAmount(atomic, token.decimals);
    const amounts = { amountAtomic: String(atomic), amount };
    return { network, asset, symbol: token?.symbol ?? null, payments, ...amounts };
  });
}
