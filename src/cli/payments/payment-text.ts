/**
 * Payments as text: a table and a page for people, JSON and CSV for programs. Payers, facilitators and
 * nodes write parts of what is shown, so nothing of it reaches a terminal that a terminal would obey.
 */
import { printable } from "../../config/config.ts";
import { explorerLink, findNetwork } from "../../x402/network.ts";
import type {
  PaymentDetailView,
  PaymentView,
  UsedElsewhereView,
} from "../../admin/payment-view.ts";

/** The columns of the CSV form, in their order; new ones are added at the end. */
const COLUMNS = [
  "key",
  "state",
  "network",
  "asset",
  "symbol",
  "amountAtomic",
  "amount",
  "payer",
  "payTo",
  "binding",
  "target",
  "facilitator",
  "transaction",
  "attempts",
  "failureCode",
  "failureDetail",
  "claimedAt",
  "updatedAt",
  "heldTransaction",
] as const satisfies readonly Exclude<keyof PaymentView, "refund" | "isRefund">[];
/** What of a refund is in the CSV form, behind these. */
const REFUND_COLUMNS = [
  "refundState",
  "refundTransaction",
  "refundDetail",
  "refundCreditsAtomic",
] as const;

/** Widest that what was bought is shown in the table, characters. */
const MAX_BINDING = 32;
const WORDS: Readonly<Record<string, string>> = {
  ASKED: "REFUNDING",
  SENDING: "REFUNDING",
  REFUNDED: "REFUNDED",
};
const STATE_COLORS: Readonly<Record<string, number>> = {
  REFUNDING: 33,
  "REFUND FAILED": 31,
  SIGNED: 33,
  HELD: 31,
  SETTLED: 33,
  DELIVERED: 32,
  FAILED: 31,
};

/** One JSON document and a line break. */
export function toJson(value: unknown): string {
  // JSON.stringify escapes what is below the space, and nothing else that a terminal obeys.
  const text = JSON.stringify(value, null, 2).replace(
    /[\p{Cf}\p{Zl}\p{Zp}\u007f-\u009f]/gu,
    (character) =>
      Array.from(
        { length: character.length },
        (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`,
      ).join(""),
  );
  return `${text}\n`;
}

/** RFC 4180: a line of names first, CRLF at the ends. */
export function toCsv(payments: readonly PaymentView[]): string {
  const lines = payments.map((payment) => {
    const {
      state = null,
      transaction = null,
      detail = null,
      creditsAtomic = null,
    } = payment.refund ?? {};
    return [...COLUMNS.map((name) => payment[name]), state, transaction, detail, creditsAtomic];
  });
  return toCsvLines([[...COLUMNS, ...REFUND_COLUMNS], ...lines]);
}

/** RFC 4180. */
export function toCsvLines(lines: readonly (readonly (string | number | null)[])[]): string {
  return lines.map((line) => `${line.map(csvCell).join(",")}\r\n`).join("");
}

/** What begins like a formula gets an apostrophe: spreadsheets then take it for the text that it is. */
function csvCell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = oneLine(value);
  const harmless = /^[=+\-@＝＋－＠]/.test(text) ? `'${text}` : text;
  return /[",]|^\s|\s$/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}

/** A table for people; `color` for terminals that want it. `named`: payments by the key that --resolve takes. */
export function toTable(payments: readonly PaymentView[], color: boolean, named = false): string {
  const head = ["CLAIMED", "STATE", "TRIES", "AMOUNT", "NETWORK", "PAYER", "BOUGHT"];
  head.push(named ? "KEY" : "NONCE");
  const rows = payments.map((payment) => [
    toSeconds(payment.claimedAt),
    stateOf(payment),
    String(payment.attempts),
    amountOf(payment),
    payment.network,
    shortened(payment.payer),
    clipped(payment.binding ?? (payment.isRefund ? "(a refund)" : "(settled for others)")),
    named ? payment.key : payment.key.slice(payment.key.lastIndexOf("/") + 1),
  ]);
  return toColumns([head, ...rows], color);
}

/** For people; the keys in full, since a buyer who asks is found by them. */
export function toUsedElsewhereTable(payments: readonly UsedElsewhereView[]): string {
  if (payments.length === 0) return "no payments\n";
  const head = ["SEEN", "AMOUNT", "ASKED FOR", "KEY"];
  const rows = payments.map(({ seenAt, amount, symbol, amountAtomic, binding, key }) => [
    toSeconds(seenAt),
    amountOf({ amount, symbol, amountAtomic }),
    clipped(binding),
    key,
  ]);
  return toColumns([head, ...rows], false);
}

/** Lines of cells, of which the first has the titles; the second cell is a state where there is colour. */
export function toColumns(table: readonly (readonly string[])[], color: boolean): string {
  const lines = table.map((row) => row.map(oneLine));
  const [head = []] = lines;
  const widths = head.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  return lines
    .map((line, number) => {
      const cells = line.map((cell, index) => {
        const padded = index === line.length - 1 ? cell : cell.padEnd(widths[index] ?? 0);
        return color && number > 0 && index === 1 ? painted(cell, padded) : padded;
      });
      return `${cells.join("  ")}\n`;
    })
    .join("");
}

type Submission = NonNullable<PaymentDetailView["submission"]>;
type Row = readonly [label: string, text: string | null];

/** Everything about one payment, for people. */
export function toPage(payment: PaymentDetailView, color: boolean): string {
  const { submission, events, network } = payment;
  const facts: Row[] = [
    ["payment", payment.key],
    ["state", stateOf(payment)],
    ["amount", `${amountOf(payment)} (${payment.amountAtomic} atomic units of ${payment.asset})`],
    ["network", payment.network],
    ["payer", payment.payer],
    ["paid to", payment.payTo],
    ["bought", payment.binding],
    ["target", payment.target],
    ["resource", payment.resource],
    ["facilitator", payment.facilitator],
    ["transaction", payment.transaction],
    [payment.state === "FAILED" ? "was paid in" : "held", payment.heldTransaction],
    ["explorer", explorerOf(payment)],
    ["refund", refundOf(payment)],
    ["attempts", String(payment.attempts)],
    [
      "failure",
      payment.failureCode === null
        ? null
        : `${payment.failureCode}: ${payment.failureDetail ?? ""}`,
    ],
    ["claimed", toSeconds(payment.claimedAt)],
    ["changed", toSeconds(payment.updatedAt)],
  ];
  const signed: Row[] =
    submission === null
      ? []
      : [
          ["account", accountOf(submission, network)],
          ["state", submission.state],
          ...submission.transactions.map((hash): Row => ["signed", hash]),
        ];
  const history = events.map(({ at, state, note, by }): Row => {
    return [toSeconds(at), `${state.padEnd(10)}  ${note === "" ? "" : `${note}  `}(${by})`];
  });
  return [
    section("", facts, color),
    section("submission", signed, color),
    section("history", history, color),
    `what to do\n  ${oneLine(payment.advice)}\n`,
  ]
    .filter((part) => part !== "")
    .join("\n");
}

function section(title: string, rows: readonly Row[], color: boolean): string {
  const shown = rows.filter((row): row is readonly [string, string] => row[1] !== null);
  if (shown.length === 0) return "";
  const width = Math.max(...shown.map(([label]) => label.length));
  const indent = title === "" ? "" : "  ";
  const lines = shown.map(([label, text]) => {
    const line = oneLine(text);
    const value = color && label === "state" ? painted(text, line) : line;
    return `${indent}${label.padEnd(width)}  ${value}\n`;
  });
  return `${title === "" ? "" : `${title}\n`}${lines.join("")}`;
}

function amountOf({
  amount,
  symbol,
  amountAtomic,
}: Pick<PaymentView, "amount" | "symbol" | "amountAtomic">): string {
  return amount === null || symbol === null ? `${amountAtomic} units` : `${amount} ${symbol}`;
}

function explorerOf({ network, transaction, heldTransaction }: PaymentView): string | null {
  const known = findNetwork(network);
  const shown = transaction ?? heldTransaction;
  return known === undefined || shown === null ? null : explorerLink(known, shown);
}

function refundOf({ network, refund }: PaymentView): string | null {
  if (refund === null) return null;
  const { state, transaction, detail, credits, creditsAtomic } = refund;
  const known = findNetwork(network);
  const link = known && transaction !== null ? explorerLink(known, transaction) : null;
  const part = creditsAtomic === null ? null : `${credits ?? creditsAtomic} of the buyer's balance`;
  return [state, part, transaction, link, detail].filter((part) => part !== null).join("  ");
}

/** On Solana the nonce is a mere count of ours. */
function accountOf({ account, accountNonce }: Submission, network: string): string {
  return findNetwork(network)?.kind === "solana" ? account : `${account}, nonce ${accountNonce}`;
}

/** A payment that is held is SIGNED to scripts, and one that is refunded as it was before. */
function stateOf({ state, heldTransaction, refund }: PaymentView): string {
  if (refund !== null)
    return refund.state === "FAILED" ? "REFUND FAILED" : (WORDS[refund.state] ?? state);
  return state === "SIGNED" && heldTransaction !== null ? "HELD" : state;
}

function painted(state: string, text: string): string {
  const code = STATE_COLORS[state];
  return code === undefined ? text : `\u001b[${code}m${text}\u001b[0m`;
}

function shortened(address: string): string {
  return address.length > 14 ? `${address.slice(0, 6)}…${address.slice(-4)}` : address;
}

function clipped(text: string): string {
  return text.length > MAX_BINDING ? `${text.slice(0, MAX_BINDING - 1)}…` : text;
}

/** `2026-08-01 12:00:00Z` */
function toSeconds(iso: string): string {
  return iso.replace("T", " ").replace(/\.\d+Z$/, "Z");
}

/** Without control and direction characters, line breaks included. */
function oneLine(text: string): string {
  return printable(text).replaceAll("\t", " ");
}
