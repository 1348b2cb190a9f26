/**
 * `coinslot recover FILE`: finds the outcome of unresolved settlements without serving. A gateway does so
 * by itself; this is for when none runs, or before one is taken down for good.
 */
import { openBooks, type PaymentSummary } from "../../admin/books.ts";
import {
  describeOrphanedSigner,
  recoverAll,
  type Outcome,
  type OrphanedSigner,
} from "../../app/recover.ts";
import type { Config } from "../../config/config.ts";
import { loadOrExplain } from "../load.ts";
import { Tokens, viewOf } from "../../admin/payment-view.ts";
import { toJson } from "./payment-text.ts";
import { fail, print, ProgressLine } from "../terminal.ts";
import { messageOf } from "../../x402/result.ts";

export interface RecoverCommandOptions {
  readonly version: string;
  readonly timeoutMs: number;
  readonly json?: boolean | undefined;
}

/** Unresolved payments that are listed. */
const MAX_LISTED = 1_000;
const RUNNING =
  "the process that has the ledger open finds the outcomes by itself, every few seconds";

/** Resolves with the exit code: 0 when nothing is left unresolved. */
export async function recover(file: string, options: RecoverCommandOptions): Promise<number> {
  const { version, timeoutMs, json } = options;
  const config = await loadOrExplain(file, { json });
  if (config === undefined) return 1;
  const report = new Report(config, json);
  const display = new ProgressLine();
  try {
    const onOutcome = (outcome: Outcome): void => {
      display.clear();
      report.resolved(outcome);
    };
    const onLook = (left: number): void => display.show(`${left} unresolved; looking for them`);
    const onStranger = (stranger: OrphanedSigner): void => report.stranger(stranger);
    const told = { onStranger, onOutcome, onLook };
    const left = await recoverAll(config, { version, timeoutMs, ...told });
    display.clear();
    for (const { payment, reason } of left) report.left(payment, reason);
    return report.end();
  } catch (cause) {
    display.clear();
    const code = fail("recover", messageOf(cause));
    return isInUse(cause) ? await showUnresolved(config, report) : code;
  }
}

/** A ledger in a file belongs to one process, and the one that has it recovers by itself. */
function isInUse(cause: unknown): boolean {
  return cause instanceof Error && cause.message.startsWith("another process is using the ledger");
}

async function showUnresolved(config: Config, report: Report): Promise<number> {
  const books = await openBooks(config);
  try {
    const left = await books.list({ states: ["SIGNED"], held: false, limit: MAX_LISTED });
    report.note(RUNNING);
    for (const payment of left) report.left(payment, null);
    return report.end();
  } finally {
    await books.close();
  }
}

/** Tells as it goes, or all at the end as `{ ok, note, strangers, resolved, left }`, payments as `payments --json` has them. */
class Report {
  readonly #tokens: Tokens;
  readonly #json: boolean;
  readonly #strangers: object[] = [];
  readonly #resolved: object[] = [];
  readonly #left: object[] = [];
  #note: string | null = null;

  constructor(config: Config, json = false) {
    this.#tokens = new Tokens(config);
    this.#json = json;
  }

  resolved(outcome: Outcome): void {
    const { before, after } = outcome;
    const payment = viewOf(after ?? before, this.#tokens);
    this.#resolved.push({ outcome: after === undefined ? "dropped" : after.state, payment });
    this.#tell(`${describeOutcome(outcome)}  ${name(before, this.#tokens)}`);
  }

  left(payment: PaymentSummary, reason: string | null): void {
    this.#left.push({ payment: viewOf(payment, this.#tokens), reason });
    const why = reason === null ? "" : `: ${reason}`;
    this.#tell(`unresolved  ${name(payment, this.#tokens)}${why}`);
  }

  /** `warning     base-sepolia, 0x…: 2 open, the oldest since 2026-…: what is to be done` */
  stranger(stranger: OrphanedSigner): void {
    const { network, address, open, oldestMs } = stranger;
    const oldest = new Date(oldestMs).toISOString();
    const warning = describeOrphanedSigner(stranger);
    this.#strangers.push({ network, account: address, open, oldest, warning });
    this.#tell(
      `warning     ${network}, ${address}: ${open} open, the oldest of ${oldest}: ${warning}`,
    );
  }

  note(text: string): void {
    this.#note = text;
    this.#tell(text);
  }

  /** The exit code. */
  end(): number {
    const isDone = this.#left.length === 0;
    const found = this.#note === null ? `${this.#resolved.length} resolved, ` : "";
    this.#tell(`${found}${this.#left.length} ${this.#note === null ? "left" : "unresolved"}`);
    const [note, strangers] = [this.#note, this.#strangers];
    const [resolved, left] = [this.#resolved, this.#left];
    if (this.#json) process.stdout.write(toJson({ ok: isDone, note, strangers, resolved, left }));
    return isDone ? 0 : 1;
  }

  #tell(line: string): void {
    if (!this.#json) print(line);
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
