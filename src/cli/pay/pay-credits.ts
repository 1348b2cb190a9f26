/** What is prepaid at a seller: how much is left of it (`--balance`), and a request that is paid from it (`--credits`). */
import { BoughtAnswerSink } from "../../buyer/answer-sink.ts";
import { askBalance, type ToldBalance } from "../../buyer/balance.ts";
import type { BuyerKey } from "../../buyer/buyer-key.ts";
import {
  exchange,
  NoAnswer,
  readBody,
  type BuyerAnswer,
  type BuyerRequest,
} from "../../buyer/exchange.ts";
import { MAX_QUOTE_BYTES, readQuote } from "../../buyer/offer.ts";
import { placeOf } from "../../buyer/place.ts";
import { Heard, sentenceOf } from "../../buyer/presentation.ts";
import { chargedBy } from "../../buyer/receipt.ts";
import { locationOf } from "../../buyer/redirect.ts";
import { openSession, type AskedToProve } from "../../buyer/sign-in.ts";
import { printable } from "../../config/config.ts";
import { PAYMENT_REQUIRED_HEADER } from "../../x402/header.ts";
import { SESSION_HEADER } from "../../x402/session.ts";
import { toJson } from "../payments/payment-text.ts";
import { fail, say } from "../terminal.ts";
import type { Output } from "./pay-output.ts";
import { PAY_EXIT } from "./pay-settle.ts";

export interface CreditsAsking extends Omit<AskedToProve, "url" | "purse"> {
  readonly request: BuyerRequest;
  readonly json: boolean;
}

/** Prints what is left, in dollars. */
export async function payBalance(asking: CreditsAsking, purse: BuyerKey): Promise<number> {
  const { url } = asking.request;
  try {
    const told = await askBalance({ ...asking, url, purse });
    if (!told.ok) return fail("pay", printable(told.error));
    return tellBalance(asking, purse, told.value);
  } catch (cause) {
    if (cause instanceof NoAnswer) return fail("pay", cause.message);
    throw cause;
  }
}

function tellBalance(
  { json }: CreditsAsking,
  { address }: BuyerKey,
  { balances, buy }: ToldBalance,
): number {
  if (json) process.stdout.write(toJson({ payer: address, credits: balances, buy }));
  else if (balances.length === 0) process.stdout.write("$0\n");
  else
    for (const { dollars, token, family } of balances)
      process.stdout.write(printable(`$${dollars}  ${token} on ${family}`) + "\n");
  if (buy !== null) say(`more is bought at ${printable(buy)}`);
  return PAY_EXIT.done;
}

export interface CreditsPurchase extends CreditsAsking {
  readonly output: Output;
}

/** Asks once, as whoever has prepaid: an answer that is lost may have been paid for, and asking again would be another request. */
export async function payByCredits(buying: CreditsPurchase, purse: BuyerKey): Promise<number> {
  const { request, silenceMs, signal } = buying;
  let isAsked = false;
  try {
    const session = await openSession({ ...buying, url: request.url, purse });
    if (!session.ok)
      return fail("pay", `not paid: ${printable(session.error)}`, PAY_EXIT.notAgreed);
    const headers = [...request.headers, [SESSION_HEADER, session.value] as const];
    isAsked = true;
    const answer = await exchange({ ...request, headers }, { silenceMs, signal });
    return await conclude(buying, answer);
  } catch (cause) {
    if (!(cause instanceof NoAnswer)) throw cause;
    if (!isAsked || !cause.mayHaveArrived) return fail("pay", `not paid: ${cause.message}`);
    const said = `there is no answer, and the balance may have paid for it: ${cause.message}`;
    return fail("pay", `${said}; --balance tells what is left`, PAY_EXIT.unserved);
  }
}

async function conclude(
  { request, output, json }: CreditsPurchase,
  answer: BuyerAnswer,
): Promise<number> {
  const { status } = answer;
  const charged = chargedBy(answer);
  const tell = (more: object): void => {
    const { method, url } = request;
    const told = { url: placeOf(url), method, status, paid: charged !== null, charged };
    if (json) process.stdout.write(toJson({ ...told, ...more }));
  };
  if (status === 402) {
    const body = await readBody(answer, MAX_QUOTE_BYTES);
    const header = answer.header(PAYMENT_REQUIRED_HEADER.toLowerCase());
    const quote = body && readQuote({ header, body }, undefined);
    const reason = quote?.ok ? quote.value.error : "the balance does not pay for it";
    tell({ location: null, reason });
    const advice = "--balance tells what is left; without --credits it is paid on chain";
    return fail(
      "pay",
      `not paid from a balance: ${printable(reason)}; ${advice}`,
      PAY_EXIT.notAgreed,
    );
  }
  await output.begin(answer);
  const heard = new Heard(answer.body);
  let cut: string | null = null;
  try {
    await new BoughtAnswerSink(output.write).take(heard);
  } catch (cause) {
    cut = cause instanceof Error ? cause.message : String(cause);
  }
  output.endLine();
  const location = locationOf(request, answer);
  const reason = cut ?? (status < 400 ? null : sentenceOf(answer, heard.bytes));
  tell({ location, reason });
  const paid = charged === null ? "nothing was paid" : `paid ${charged} from the balance`;
  say(printable(reason === null ? paid : `${paid}: ${reason}`));
  if (location !== null)
    return fail("pay", `the answer is a redirect to ${printable(location)}`, PAY_EXIT.redirected);
  if (cut !== null) return PAY_EXIT.unserved;
  return status < 400 ? PAY_EXIT.done : PAY_EXIT.failed;
}
