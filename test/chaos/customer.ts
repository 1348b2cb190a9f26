/**
 * A customer who buys one item and behaves as the protocol asks: sends the same payment again after 5xx and
 * broken connections, signs anew only after a 402. Some are impatient, some click twice.
 */
import { setTimeout as pause } from "node:timers/promises";
import { encodePaymentHeader } from "../../src/x402/header.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import { signPayment, type FreshAccount } from "../support/payer.ts";
import type { Random } from "../simulation/random.ts";
import { goodsOf } from "./shop.ts";

/** Longest wait for one answer, milliseconds. */
const ANSWER_MS = 40_000;
/** Payments that one customer signs at most. */
const MAX_PAYMENTS = 4;
/** How soon an impatient customer leaves, milliseconds, at most. */
const IMPATIENCE_MS = 1_500;
/** Pause before the same payment is sent again, milliseconds, at most. */
const RETRY_MS = 1_000;

export interface Payment {
  readonly from: string;
  readonly nonce: string;
  readonly header: string;
}

export interface Purchase {
  readonly item: string;
  /** Oldest first; a new one only after a 402 for the one before. */
  readonly payments: Payment[];
  /** The goods have arrived. */
  delivered: boolean;
  /** The last 402, while nothing is delivered. */
  refusal: string | undefined;
  /** Answers by status; 0 is a broken connection, -1 one that the customer broke. */
  readonly answers: Record<number, number>;
}

export interface Market {
  /** One of the gateways, whether it is up or not. */
  readonly gateway: () => string;
  readonly chance: Random;
  /** Shares of the requests; both 0 once calm. */
  readonly habits: { aborts: number; duplicates: number };
}

export function newPurchase(item: string): Purchase {
  return { item, payments: [], delivered: false, refusal: undefined, answers: {} };
}

/** Buys until the goods are there, or there is nothing left to do, or the signal ends it. */
export async function buy(
  purchase: Purchase,
  payer: FreshAccount,
  market: Market,
  signal: AbortSignal,
): Promise<void> {
  while (!isOver(purchase) && !signal.aborted) {
    const payment = await currentPayment(purchase, payer, market, signal);
    if (payment === undefined) return;
    await present(purchase, payment, market, signal);
    if (!isOver(purchase)) await pause(market.chance.between(50, RETRY_MS));
  }
}

/** Bought, or told for good that the money is with the seller. */
function isOver({ delivered, refusal }: Purchase): boolean {
  return delivered || (refusal !== undefined && isPaidFor(refusal));
}

/** A 402 that says so is not a reason to pay again. */
export function isPaidFor(refusal: string): boolean {
  return /paid in 0x|used before/.test(refusal);
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
  payments.push({ from: payer.address, nonce, header: encodePaymentHeader(payment) });
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
    const leaves = chance.chance(habits.aborts);
    const patience = leaves ? chance.between(1, IMPATIENCE_MS) : ANSWER_MS;
    return presentOnce(purchase, payment, market.gateway(), [
      signal,
      AbortSignal.timeout(patience),
    ]);
  });
  await Promise.all(requests);
}

async function presentOnce(
  purchase: Purchase,
  { header }: Payment,
  gateway: string,
  signals: AbortSignal[],
): Promise<void> {
  const signal = AbortSignal.any(signals);
  try {
    const headers = { "X-PAYMENT": header };
    const answer = await fetch(`${gateway}/items/${purchase.item}`, { headers, signal });
    const text = await answer.text();
    count(purchase, answer.status);
    if (answer.status === 200 && text === goodsOf(purchase.item)) {
      purchase.delivered = true;
    } else if (answer.status === 402) {
      purchase.refusal = String(Object(JSON.parse(text)).error);
    }
  } catch {
    count(purchase, signal.aborted ? -1 : 0);
  }
}

function count({ answers }: Purchase, status: number): void {
  answers[status] = (answers[status] ?? 0) + 1;
}
