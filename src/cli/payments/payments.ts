/**
 * `coinslot payments FILE`: what was claimed, paid and delivered, read from the ledger beside a running
 * gateway or without one. Changes nothing, but where the operator resolves a payment (`--resolve`).
 */
import { adviceOn } from "../../admin/advice.ts";
import { openBooks, type Books, type PaymentFilter, type PaymentState } from "../../admin/books.ts";
import { operatorName, resolvePayment } from "../../app/resolutions.ts";
import { printable, type Config } from "../../config/config.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import { loadOrExplain } from "../load.ts";
import { toCsv, toJson, toPage, toTable, toUsedElsewhereTable } from "./payment-text.ts";
import { detailOf, Tokens, usedElsewhereView, viewOf } from "../../admin/payment-view.ts";
import { wantsColor } from "../terminal.ts";
import { messageOf } from "../../x402/result.ts";

/** Longest text of a note, characters. */
const MAX_NOTE = 500;

export interface PaymentsOptions {
  readonly json?: boolean;
  readonly csv?: boolean;
  readonly state?: readonly PaymentState[];
  readonly undelivered?: boolean;
  readonly held?: boolean;
  readonly unrefunded?: boolean;
  readonly network?: string;
  readonly payer?: string;
  /** Milliseconds since the epoch. */
  readonly since?: number;
  readonly until?: number;
  readonly limit: number;
  /** Key of the last payment of the page before. */
  readonly after?: string;
  /** Key, transaction or nonce of one payment. */
  readonly show?: string;
  /** The whole key of one payment, and what is to become of it. */
  readonly resolve?: string;
  readonly deliver?: boolean;
  readonly goods?: boolean;
  readonly refund?: boolean;
  /** With `refund`: the operator has sent it. */
  readonly byHand?: boolean;
  readonly note?: string;
  /** Address of a payer whose unspent credits go back to him, and how much of them: `$1.50`. */
  readonly refundCredits?: string;
  readonly amount?: string;
  /** Address of a payer. */
  readonly forget?: string;
  readonly dryRun?: boolean;
  /** Payments that were used before they were presented here. */
  readonly usedElsewhere?: boolean;
  /** Path of a file. */
  readonly export?: string;
  /** With `export`: milliseconds since the epoch; default: now. */
  readonly before?: number;
}

/** Resolves with the exit code: 1 where the file is refused, the store closed, or nothing is found. */
export async function payments(file: string, options: PaymentsOptions): Promise<number> {
  const config = await loadOrExplain(file, options);
  if (config === undefined) return 1;
  if (options.resolve !== undefined) return resolve(config, options.resolve, options);
  let books: Awaited<ReturnType<typeof openBooks>> | undefined;
  try {
    if (options.forget !== undefined) {
      const { forget } = await import("./payments-forget.ts");
      return await forget(config, options.forget, options);
    }
    if (options.refundCredits !== undefined) {
      const { refundCredits } = await import("./refund-credits.ts");
      return await refundCredits(config, options.refundCredits, options);
    }
    books = await openBooks(config);
    const { show: name, usedElsewhere, export: path, before: beforeMs = Date.now() } = options;
    if (name !== undefined) return await show(books, config, name, options);
    if (usedElsewhere === true) {
      const tokens = new Tokens(config);
      const found = (await books.usedElsewhere(options.limit)).map((each) =>
        usedElsewhereView(each, tokens),
      );
      process.stdout.write(
        options.json ? toJson({ usedElsewhere: found }) : toUsedElsewhereTable(found),
      );
      return 0;
    }
    if (path === undefined) return await list(books, config, options);
    const { exportPayments } = await import("./payments-export.ts");
    const written = await exportPayments(books, config, { path, beforeMs });
    process.stdout.write(`${written} payments written to ${path}\n`);
    return 0;
  } catch (cause) {
    return told(cause);
  } finally {
    await books?.close();
  }
}

function told(cause: unknown): number {
  const reason = messageOf(cause);
  process.stderr.write(`coinslot payments: ${reason}\n`);
  return 1;
}

async function resolve(
  config: Config,
  key: string,
  { deliver, goods, refund, byHand, note = "", json }: PaymentsOptions,
): Promise<number> {
  const verb = deliver ? "deliver" : goods ? "goods" : refund ? "refund" : "note";
  try {
    const { resolved, payment } = await resolvePayment(config, key, {
      verb,
      note: note.slice(0, MAX_NOTE),
      by: operatorName(),
      isByHand: byHand === true,
    });
    const view = payment && viewOf(payment, new Tokens(config));
    if (json) process.stdout.write(toJson({ resolved, payment: view ?? null }));
    else if (resolved.kind === "refused")
      process.stderr.write(`not resolved: ${resolved.reason}\n`);
    else if (verb === "refund" && payment?.refund != null) process.stdout.write(TO_BE_SENT);
    else process.stdout.write(`${DONE[verb]}\n`);
    return resolved.kind === "done" ? 0 : 1;
  } catch (cause) {
    return told(cause);
  }
}

const TO_BE_SENT =
  "to be refunded: a running gateway sends it once the payment is final, within a minute or so, and `--show` tells its " +
  "transaction; nothing is delivered for it any more\n";

const DONE = {
  goods: "delivered: what the backend answered was what is sold",
  deliver: "to be delivered: the buyer has to send the same payment again",
  refund:
    "marked as paid back: nothing is delivered for it, and the buyer is told to sign a new payment",
  note: "noted",
} as const;

async function list(books: Books, config: Config, options: PaymentsOptions): Promise<number> {
  const { limit } = options;
  // One more than is shown tells whether there are more.
  const found = await books.list({ ...filterOf(options), limit: limit + 1 });
  const tokens = new Tokens(config);
  const shown = found.slice(0, limit).map((payment) => viewOf(payment, tokens));
  const next = found.length > limit ? (shown.at(-1)?.key ?? null) : null;
  if (options.json) {
    process.stdout.write(toJson({ payments: shown, next }));
  } else if (options.csv) {
    process.stdout.write(toCsv(shown));
  } else if (shown.length === 0) {
    process.stdout.write("no payments\n");
  } else {
    const named = options.held === true || options.unrefunded === true;
    process.stdout.write(toTable(shown, wantsColor(process.stdout), named));
  }
  if (next !== null && !options.json) {
    const all = `the newest ${shown.length} are shown`;
    process.stderr.write(`${all}; for the next ones add --after ${next}\n`);
  }
  return 0;
}

async function show(
  books: Books,
  config: Config,
  name: string,
  { json }: PaymentsOptions,
): Promise<number> {
  const payment = await books.show(name);
  if (payment === undefined) {
    // It may be over so long ago that only its key and transaction are left.
    const transaction = await books.buried(name);
    process.stderr.write(
      transaction === undefined
        ? "no payment has this key, transaction or nonce\n"
        : `paid in ${printable(transaction)} and over; what else was known of it is in the archive, ` +
            "where one is kept (store.archive)\n",
    );
    return 1;
  }
  const view = detailOf(payment, adviceOn(payment, Date.now()), new Tokens(config));
  process.stdout.write(json ? toJson(view) : toPage(view, wantsColor(process.stdout)));
  return 0;
}

function filterOf(options: PaymentsOptions): Omit<PaymentFilter, "limit"> {
  const { state, undelivered, held, unrefunded, network, payer, since, until, after } = options;
  return {
    ...(state === undefined ? {} : { states: state }),
    ...(undelivered === undefined ? {} : { undelivered }),
    ...(held === undefined ? {} : { held }),
    ...(unrefunded === undefined ? {} : { unrefunded }),
    ...(network === undefined ? {} : { network }),
    ...(payer === undefined ? {} : { payer }),
    ...(since === undefined ? {} : { sinceMs: since }),
    ...(until === undefined ? {} : { untilMs: until }),
    ...(after === undefined ? {} : { after: after as PaymentKey }),
  };
}
