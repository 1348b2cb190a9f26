/** What is prepaid at a seller: how much is left of it (`--balance`), and a request that is paid from it (`--credits`). */
import { BoughtAnswerSink } from "../../buyer/answer-sink.ts";
import type { BuyerKey } from "../../buyer/buyer-key.ts";
import {
  exchange,
  NoAnswer,
  readBody,
  type BuyerAnswer,
  type BuyerRequest,
} from "../../buyer/exchange.ts";
import { MAX_QUOTE_BYTES, readQuote } from "../../buyer/offer.ts";
import { Heard, sentenceOf } from "../../buyer/presentation.ts";
import { chargedBy } from "../../buyer/receipt.ts";
import { locationOf } from "../../buyer/redirect.ts";
import { ask, openSession, refusalOf, signIn, type AskedToProve } from "../../buyer/sign-in.ts";
import { printable } from "../../config/config.ts";
import { parseUint256 } from "../../x402/amount.ts";
import { PAYMENT_REQUIRED_HEADER } from "../../x402/header.ts";
import { SESSION_HEADER } from "../../x402/session.ts";
import { SIGN_IN_HEADER } from "../../x402/sign-in.ts";
import { toJson } from "../payments/payment-text.ts";
import { fail, say } from "../terminal.ts";
import type { Output } from "./pay-output.ts";
import { placeOf } from "./pay-request.ts";
import { PAY_EXIT } from "./pay-settle.ts";

/** Where a seller tells what an account has prepaid. */
const BALANCE_PATH = "/.x402/balance";
/** Most balances of one account that are told. */
const MAX_BALANCES = 64;

export interface CreditsAsking extends Omit<AskedToProve, "url" | "purse"> {
  readonly request: BuyerRequest;
  readonly json: boolean;
}

interface Balance {
  readonly dollars: string;
  readonly token: string;
  readonly family: string;
}

/** Prints what is left, in dollars. */
export async function payBalance(asking: CreditsAsking, purse: BuyerKey): Promise<number> {
  const { url } = asking.request;
  try {
    const signing = { ...asking, url, purse };
    const signed = await signIn(signing);
    if (!signed.ok) return fail("pay", signed.error);
    const headers = [[SIGN_IN_HEADER, signed.value]] as const;
    const asked = await ask(signing, { method: "GET", path: BALANCE_PATH, headers });
    if (!asked.ok) return fail("pay", asked.error);
    const { answer, said } = asked.value;
    if (answer.status === 404) return fail("pay", `${url.host} takes no prepayment`);
    // Whoever has neither paid nor prepaid is a stranger there, and is told so.
    if (answer.status !== 200) return fail("pay", printable(refusalOf(answer, said)));
    const balances = readBalances(said);
    if (balances === undefined) return fail("pay", `${url.host} tells no balance that can be read`);
    return tellBalance(asking, purse, { balances, said });
  } catch (cause) {
    if (cause instanceof NoAnswer) return fail("pay", cause.message);
    throw cause;
  }
}

function tellBalance(
  { json }: CreditsAsking,
  { address }: BuyerKey,
  { balances, said }: { readonly balances: readonly Balance[]; readonly said: unknown },
): number {
  const { buy } = Object(said);
  if (json) process.stdout.write(toJson({ payer: address, credits: balances, buy: buy ?? null }));
  else if (balances.length === 0) process.stdout.write("$0\n");
  else
    for (const { dollars, token, family } of balances)
      process.stdout.write(printable(`$${dollars}  ${token} on ${family}`) + "\n");
  if (typeof buy === "string") say(`more is bought at ${printable(buy)}`);
  return PAY_EXIT.done;
}

function readBalances(said: unknown): readonly Balance[] | undefined {
  const { credits } = Object(said);
  if (!Array.isArray(credits) || credits.length > MAX_BALANCES) return undefined;
  const read = credits.map((each): Balance | undefined => {
    const { dollars, amount, token, family } = Object(each);
    const isAmount = typeof amount === "string" && parseUint256(amount) !== undefined;
    const isDollars =
      typeof dollars === "string" && /^[0-9]{1,78}(?:\.[0-9]{1,36})?$/.test(dollars);
    const isNamed = typeof token === "string" && typeof family === "string";
    return isAmount && isDollars && isNamed ? { dollars, token, family } : undefined;
  });
  const whole = read.filter((each) => each !== undefined);
  return whole.length === read.length ? whole : undefined;
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
