/**
 * A customer who buys one item and behaves as the protocol asks: sends the same payment again after 5xx and
 * broken connections, signs anew after a 402, whatever it says. Some are impatient, some click twice.
 */
import { setTimeout as pause } from "node:timers/promises";
import { PAYMENT_HEADERS } from "../../src/x402/header.ts";
import type { PaymentRequirements, X402Version } from "../../src/x402/x402.ts";
import { inHeader } from "../support/buyer.ts";
import { signPayment, type FreshAccount } from "../support/payer.ts";
import type { Random } from "../simulation/random.ts";
import { goodsOf } from "./shop.ts";

/** Longest wait for one answer, milliseconds. */
const ANSWER_MS = 40_000;
/** Payments that one customer signs at most. */
const MAX_PAYMENTS = 4;
/** How soon an impatient customer leaves, milliseconds, at most. */
const IMPATIENCE_MS = 1_500;
/** Answers without goods or a price after which a customer gives up what is sold out. */
const HOPELESS = 8;
/** Pause before the next try, milliseconds, at most. */
export const RETRY_MS = 1_000;

export interface Payment {
  readonly from: string;
  readonly nonce: string;
  readonly header: string;
}

export interface Purchase {
  readonly item: string;
  /** Whether its client signs anew at each try, or only after a 402 for the payment before. */
  readonly isStock: boolean;
  /** The shop has it no more: its customer gives up, and wants his money back. */
  readonly isSoldOut: boolean;
  /** What its client speaks. */
  readonly version: X402Version;
  /** Oldest first. */
  readonly payments: Payment[];
  /** The goods have arrived. */
  delivered: boolean;
  /** The last 402, while nothing is delivered. */
  refusal: string | undefined;
  /** Nonces of the payments that were answered 402 while nothing was delivered. */
  readonly refused: Set<string>;
  /** Answers by status; 0 is a broken connection, -1 one that the customer broke. */
  readonly answers: Record<number, number>;
  /** Each try: when, where, with which payment, and how it ended. Read where a purchase has gone wrong. */
  readonly diary: string[];
}

export interface Market {
  /** One of the gateways, whether it is up or not. */
  readonly gateway: () => string;
  readonly chance: Random;
  /** Shares of the requests; both 0 once calm. */
  readonly habits: { aborts: number; duplicates: number };
}

export function newPurchase(
  told: Pick<Purchase, "item" | "isStock" | "isSoldOut" | "version">,
): Purchase {
  const nothing = { payments: [], delivered: false, refusal: undefined };
  return { ...told, ...nothing, refused: new Set(), answers: {}, diary: [] };
}

/** Buys until the goods are there, or there is nothing left to do, or the signal ends it. */
export async function buy(
  purchase: Purchase,
  payer: FreshAccount,
  market: Market,
  signal: AbortSignal,
): Promise<void> {
  while (!purchase.delivered && !signal.aborted && !hasGivenUp(purchase)) {
    const payment = await currentPayment(purchase, payer, market, signal);
    if (payment === undefined) return;
    await present(purchase, payment, market, signal);
    if (!purchase.delivered) await pause(market.chance.between(50, RETRY_MS));
  }
}

/** After the first refusal too: who is paid back would buy it again. */
function hasGivenUp({ isSoldOut, answers, refusal, payments }: Purchase): boolean {
  if (!isSoldOut) return false;
  const failed = Object.entries(answers).filter(
    ([status]) => Number(status) >= 400 && status !== "402",
  );
  const failures = failed.reduce((sum, [, times]) => sum + times, 0);
  return failures >= HOPELESS || (payments.length > 0 && refusal !== undefined);
}

async function currentPayment(
  purchase: Purchase,
  payer: FreshAccount,
  market: Market,
  signal: AbortSignal,
): Promise<Payment | undefined> {
  const { payments, refusal } = purchase;
  if (payments.length > 0 && refusal === undefined) return payments.at(-1);
  if (payments.length >= MAX_PAYMENTS) return undefined;
  const requirements = await quote(purchase, market, signal);
  if (requirements === undefined) return undefined;
  const payment = await signPayment({ account: payer.account, requirements });
  const { nonce } = payment.payload.authorization;
  const request = { paymentPayload: payment, paymentRequirements: requirements };
  payments.push({ from: payer.address, nonce, header: inHeader(request, purchase.version) });
  purchase.refusal = undefined;
  return payments.at(-1);
}

async function quote(
  { item }: Purchase,
  { gateway, chance }: Market,
  signal: AbortSignal,
): Promise<PaymentRequirements | undefined> {
  while (!signal.aborted) {
    try {
      const answer = await fetch(`${gateway()}/items/${item}`, {
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      const body = await answer.json();
      if (answer.status === 402) return Object(body).accepts[0];
    } catch {
      // The gateway is down just now.
    }
    await pause(chance.between(50, RETRY_MS));
  }
  return undefined;
}

async function present(
  purchase: Purchase,
  payment: Payment,
  market: Market,
  signal: AbortSignal,
): Promise<void> {
  const { chance, habits } = market;
  const twice = chance.chance(habits.duplicates);
  const requests = Array.from({ length: twice ? 2 : 1 }, () => {
    return presentOnce(purchase, payment, market.gateway(), [
      signal,
      AbortSignal.timeout(patienceOf(market)),
    ]);
  });
  await Promise.all(requests);
}

async function presentOnce(
  purchase: Purchase,
  payment: Payment,
  gateway: string,
  signals: AbortSignal[],
): Promise<void> {
  const signal = AbortSignal.any(signals);
  const sentMs = Date.now();
  const ended = (status: number): void => {
    count(purchase, status);
    note(purchase, { sentMs, gateway, payment, status });
  };
  try {
    const headers = { [PAYMENT_HEADERS[purchase.version]]: payment.header };
    const answer = await fetch(`${gateway}/items/${purchase.item}`, { headers, signal });
    const text = await answer.text();
    ended(answer.status);
    if (answer.status === 200 && text === goodsOf(purchase.item)) {
      purchase.delivered = true;
    } else if (answer.status === 402) {
      tellOf(purchase, payment, text);
    }
  } catch {
    ended(signal.aborted ? -1 : 0);
  }
}

interface Try {
  readonly sentMs: number;
  readonly gateway: string;
  readonly payment: Payment | undefined;
  readonly status: number;
}

export function note({ diary }: Purchase, { sentMs, gateway, payment, status }: Try): void {
  const times = `${new Date(sentMs).toISOString()} to ${new Date().toISOString()}`;
  diary.push(`${times} ${gateway} ${payment?.nonce ?? "no payment"}: ${status}`);
}

/** How long a customer waits for an answer, milliseconds. */
export function patienceOf({ chance, habits }: Market): number {
  return chance.chance(habits.aborts) ? chance.between(1, IMPATIENCE_MS) : ANSWER_MS;
}

/** Writes down what a 402 says. */
export function tellOf(purchase: Purchase, payment: Payment | undefined, body: string): void {
  purchase.refusal = String(Object(JSON.parse(body)).error);
  if (payment !== undefined && !purchase.delivered) purchase.refused.add(payment.nonce);
}

export function count({ answers }: Purchase, status: number): void {
  answers[status] = (answers[status] ?? 0) + 1;
}
