/** The paid part of `coinslot pay`: presents the payment, prints what it bought, and keeps what is not resolved. */
import { BoughtAnswerSink } from "../../buyer/answer-sink.ts";
import type { BuyerAnswer, BuyerRequest } from "../../buyer/exchange.ts";
import { present, type PresentedOnce } from "../../buyer/presentation.ts";
import { printable } from "../../config/config.ts";
import { keepPayment, type KeptPayment } from "./kept-payment.ts";
import type { Output } from "./pay-output.ts";
import { toJson } from "../payments/payment-text.ts";
import { fail, paint, ProgressLine, say } from "../terminal.ts";
import { PAYMENT_HEADERS } from "../../x402/header.ts";
import { messageOf } from "../../x402/result.ts";

/** The exit codes of `pay`; its help explains them. */
export const PAY_EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  notAgreed: 3,
  unserved: 4,
  refused: 5,
  redirected: 6,
} as const;

const WAITING = "paying: the seller settles before it answers";
/** What a seller answers where the buyer's account holds less than the price. */
const NO_FUNDS = "insufficient_funds";

export interface SettleCommand {
  readonly request: BuyerRequest;
  readonly output: Output;
  readonly signal: AbortSignal;
  readonly silenceMs: number;
  readonly json: boolean;
  /** Path of the file that gets the body; null: stdout. */
  readonly body: string | null;
  readonly kept: KeptPayment;
  /** It was sent before. */
  readonly wasSent: boolean;
  /** Whether redirects are followed. */
  readonly follow: boolean;
  /** Where the payment is kept when it stays unresolved. */
  readonly folder: string;
}

/** Resolves with the exit code. */
export async function settleUp(settling: SettleCommand): Promise<number> {
  const { request, output, signal, silenceMs, kept, wasSent, follow } = settling;
  const sink = new BoughtAnswerSink(output.write);
  let presented: PresentedOnce;
  const display = new ProgressLine();
  display.show(WAITING);
  const onRepeat = (reason: string, pauseMs: number): void => {
    display.clear();
    say(`${printable(reason)}: the same payment is sent again in ${pauseMs / 1_000} s`);
    display.show(WAITING);
  };
  const onHead = (answer: BuyerAnswer): Promise<void> => {
    display.clear();
    return output.begin(answer);
  };
  try {
    const payment = { version: kept.version, value: kept.xPayment };
    const common = { request, payment, sink, silenceMs, signal, wasSent, follow };
    presented = await present({ ...common, onHead, onRepeat });
  } catch (cause) {
    // A full disk, or a reader that left: the answer is gone, the payment is not.
    const unknown = { status: null, receipt: null, location: null, help: null, isOver: false };
    presented = { kind: "unserved", reason: messageOf(cause), ...unknown };
  }
  display.clear();
  output.endLine();
  showReceipt(presented, kept);
  const file = isKept(presented, request) ? await keep(presented, settling) : null;
  if (settling.json) process.stdout.write(toJson(viewOf(presented, settling, file)));
  const code = conclude(presented, settling, file);
  const { help } = presented;
  if (help !== null && presented.kind !== "served")
    say(`  the seller helps buyers at ${printable(help)}`);
  return code;
}

/** Within its origin a redirect can still be followed with the payment; elsewhere it is no payment. */
function isKept({ kind, location }: PresentedOnce, { url }: BuyerRequest): boolean {
  return kind === "unserved" || (kind === "redirected" && isWithin(url, location));
}

function isWithin({ origin }: URL, location: string | null): boolean {
  return location !== null && URL.canParse(location) && new URL(location).origin === origin;
}

function keep(presented: PresentedOnce, { kept, folder }: SettleCommand): Promise<string | null> {
  const { isOver, reason, receipt } = presented;
  const { over: _, ...rest } = kept;
  return keepPayment(
    {
      ...rest,
      ...(receipt?.success === true && { transaction: receipt.transaction }),
      ...(isOver && { over: reason }),
    },
    folder,
  );
}

function isPaid({ receipt }: PresentedOnce, { transaction }: KeptPayment): boolean {
  return receipt?.success === true || transaction !== undefined;
}

function conclude(presented: PresentedOnce, settling: SettleCommand, file: string | null): number {
  const { kept } = settling;
  const { kind, receipt, reason } = presented;
  if (kind === "served") return PAY_EXIT.done;
  if (kind === "unserved") return concludeUnserved(presented, kept, file);
  if (kind === "redirected") return concludeRedirected(presented, settling, file);
  const told = receipt?.errorReason ? ` (${receipt.errorReason})` : "";
  const code = fail("pay", `the payment was not settled: ${reason}${told}`, PAY_EXIT.refused);
  tellLocation(presented);
  if (reason.includes(NO_FUNDS)) {
    say(
      `  the price is in a token: send some of it to ${printable(kept.payer)} on ${kept.network}`,
    );
  }
  const { status } = presented;
  if (status !== null && status !== 402 && status >= 400 && status < 500) {
    say("  the seller answered that the request itself is wrong: change it and repeat the command");
  }
  if (kept.validBefore !== null) {
    say(`  the seller could still settle what you signed until ${isoOf(kept.validBefore)}`);
  }
  return code;
}

function concludeUnserved(
  presented: PresentedOnce,
  kept: KeptPayment,
  file: string | null,
): number {
  const { status, reason, isOver } = presented;
  const wasPaid = isPaid(presented, kept);
  const said = wasPaid ? "paid, but not served" : "it is not known whether this was paid";
  const code = fail("pay", `${said}: ${reason}`, PAY_EXIT.unserved);
  tellLocation(presented);
  if (file === null) {
    const header = PAYMENT_HEADERS[kept.version];
    say(
      `the payment could not be kept in a file; this is it, ${isOver ? "" : "to be "}sent as ${header}:`,
    );
    say(kept.xPayment);
    return code;
  }
  const name = printable(file);
  if (isOver) {
    say(
      `the payment is kept in ${name}; the seller does not take it any more, do not send it again:`,
    );
    say("  do what the seller says above, or show it what you have paid");
    return code;
  }
  say(`the payment is kept in ${name}; nothing is charged twice when it is sent again:`);
  say(`  repeat the command with --payment ${name} in place of --key and --yes`);
  if (status !== null && status >= 400 && status < 500) {
    say("  the seller answered that the request itself is wrong: change it, or ask the seller");
  }
  if (!wasPaid && kept.validBefore !== null) {
    say(`  unless it is settled before, it is void from ${isoOf(kept.validBefore)} on`);
  }
  return code;
}

function concludeRedirected(
  { location, reason }: PresentedOnce,
  { request, follow }: SettleCommand,
  file: string | null,
): number {
  const why = reason === "" ? "" : `: ${reason}`;
  const place = location ?? "";
  const code = fail(
    "pay",
    `paid, and the answer is a redirect to ${place}${why}`,
    PAY_EXIT.redirected,
  );
  if (!isWithin(request.url, location)) {
    if (!follow) say("  what is paid for is there: ask for it without a payment; -L would have");
  } else if (file !== null) {
    const name = printable(file);
    say(`the payment is kept in ${name}; the seller may take it there, too, at no further cost:`);
    say(`  repeat the command with -L --payment ${name} in place of --key and --yes`);
  }
  return code;
}

function tellLocation({ location }: PresentedOnce): void {
  if (location !== null) say(`  it led to ${printable(location)}`);
}

function isoOf(seconds: number): string {
  return new Date(seconds * 1_000).toISOString();
}

function showReceipt({ receipt, kind }: PresentedOnce, kept: KeptPayment): void {
  if (receipt === null) {
    if (kind === "served") say(paint("yellow", "the answer came without a receipt"));
    return;
  }
  if (!receipt.success) return;
  say(`${paint("green", "paid")} ${printable(kept.amount)} on ${printable(receipt.network)}`);
  say(`  transaction  ${printable(receipt.transaction)}`);
  say(`  payer        ${printable(receipt.payer)}`);
  if (receipt.explorer !== null) say(`  explorer     ${receipt.explorer}`);
  if (receipt.network !== kept.network) {
    say(paint("yellow", `  the receipt is of another network than ${kept.network}`));
  }
}

function viewOf(
  presented: PresentedOnce,
  { request, body, kept }: SettleCommand,
  keptIn: string | null,
): Readonly<Record<string, unknown>> {
  const { kind, status, receipt, reason, location, help, isOver } = presented;
  const otherwise = receipt?.success ?? (kind === "refused" ? false : null);
  return {
    url: kept.url,
    method: request.method,
    status,
    outcome: kind,
    paid: isPaid(presented, kept) ? true : otherwise,
    reason: reason === "" ? null : reason,
    payment: { amount: kept.amount, network: kept.network, payer: kept.payer },
    version: kept.version,
    receipt,
    body,
    keptIn,
    mayBeSentAgain: keptIn !== null && !isOver,
    location,
    help,
  };
}
