/**
 * `coinslot recover FILE`: finds the outcome of unresolved settlements without serving. A gateway does so
 * by itself; this is for when none runs, or before one is taken down for good.
 */
import { openBooks, type PaymentSummary } from "../app/books.ts";
import { recoverAll, type Outcome } from "../app/recover.ts";
import { printable, type Config } from "../config/config.ts";
import { loadOrExplain } from "./load.ts";
import { Tokens, viewOf } from "../app/payment-view.ts";

export interface RecoverOptions {
  readonly version: string;
  readonly timeoutMs: number;
}

/** Unresolved payments that are listed. */
const MAX_LISTED = 1_000;

/** Resolves with the exit code: 0 when nothing is left unresolved. */
export async function recover(file: string, options: RecoverOptions): Promise<number> {
  const config = await loadOrExplain(file);
  if (config === undefined) return 1;
  const tokens = new Tokens(config);
  let resolved = 0;
  const onOutcome = (outcome: Outcome): void => {
    resolved += 1;
    print(`${describeOutcome(outcome)}  ${name(outcome.before, tokens)}`);
  };
  try {
    const left = await recoverAll(config, { ...options, onOutcome });
    for (const { payment, reason } of left)
      print(`unresolved  ${name(payment, tokens)}: ${reason}`);
    print(`${resolved} resolved, ${left.length} left`);
    return left.length === 0 ? 0 : 1;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    process.stderr.write(`coinslot recover: ${printable(reason)}\n`);
    return isInUse(cause) ? await showUnresolved(config, tokens) : 1;
  }
}

/** A ledger in a file belongs to one process, and the one that has it recovers by itself. */
function isInUse(cause: unknown): boolean {
  return cause instanceof Error && cause.message.startsWith("another process is using the ledger");
}

async function showUnresolved(config: Config, tokens: Tokens): Promise<number> {
  const books = await openBooks(config);
  try {
    const left = await books.list({ states: ["SIGNED"], limit: MAX_LISTED });
    print("the process that has the ledger open finds the outcomes by itself, every few seconds");
    for (const payment of left) print(`unresolved  ${name(payment, tokens)}`);
    print(`${left.length} unresolved`);
    return left.length === 0 ? 0 : 1;
  } finally {
    await books.close();
  }
}

function describeOutcome({ after }: Outcome): string {
  if (after === undefined) return "dropped     nothing was signed, the payer keeps the money;";
  return after.state === "FAILED"
    ? `failed      ${after.failureCode ?? ""}: ${after.failureDetail ?? ""};`
    : `settled     in ${after.transaction ?? ""};`;
}

/** `0.01 USDC on base-sepolia, GET /weather, base-sepolia/0x…` */
function name(payment: PaymentSummary, tokens: Tokens): string {
  const { amount, symbol, amountAtomic, network, binding, key } = viewOf(payment, tokens);
  const money = amount === null ? `${amountAtomic} units` : `${amount} ${symbol ?? ""}`;
  return [`${money} on ${network}`, ...(binding === null ? [] : [binding]), key].join(", ");
}

function print(line: string): void {
  process.stdout.write(`${printable(line)}\n`);
}
