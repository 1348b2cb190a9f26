/**
 * Buyers of balances: they buy packs on the chain, spend one balance by many sessions at once, leave in the middle, and
 * write down what they were answered; and others who pay the model request by request, and have the change of it.
 */
import { setTimeout as pause } from "node:timers/promises";
import { PAYMENT_HEADERS } from "../../src/x402/header.ts";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { inHeader, quote, VERSIONS } from "../support/buyer.ts";
import { signPayment, type FreshAccount } from "../support/payer.ts";
import { openSessionAt } from "../support/sign-in.ts";
import type { Random } from "../simulation/random.ts";
import {
  expectedOf,
  MAX_CHAT,
  queryOf,
  QUOTE_PRICE,
  randomOrder,
  type Order,
} from "./credits-shop.ts";
import { RETRY_MS, type Payment } from "./customer.ts";
import type { Replicas } from "./replicas.ts";

/** Longest wait for one answer, milliseconds. */
const ANSWER_MS = 40_000;
/** Of the requests those whose buyer leaves. */
const LEAVING = 0.04;
/** Where the requests of those are charged, apart from the lives whose losses are reckoned. */
export const LEFT = "left";
/** Where payments buy the model's answers, and nobody spends a balance. */
export const PAID_CHAT = "/paid/chat";

/** Atomic units: what answers have cost that came whole, and what those may have cost of which nobody knows. */
export interface Tally {
  goods: bigint;
  maybe: bigint;
}

/** A payment on the chain, and how it ended. */
export interface Bought extends Payment {
  /** Atomic units. */
  readonly amount: bigint;
  readonly path: string;
  state: "open" | "delivered" | "refused";
}

/** One balance: who has it, and what he knows of it. */
export interface Wallet extends Tally {
  readonly payer: FreshAccount;
  readonly packs: Bought[];
  /** In dollars, as it stands in the path of the pack that he buys. */
  readonly pack: string;
  buying?: Promise<void> | undefined;
}

/** Who pays for one answer of the model's. */
export interface Stranger {
  readonly payer: FreshAccount;
  readonly order: Order;
  readonly isVersion2: boolean;
  readonly payments: Bought[];
  /** An answer came whole. */
  hasGoods: boolean;
}

export interface Mall {
  readonly replicas: Replicas;
  readonly chance: Random;
  /** By the route's place: a life's name, or {@link LEFT}. */
  readonly tallies: Map<string, Tally>;
  readonly counts: Record<string, number>;
  /** Answers that nothing explains. */
  readonly faults: string[];
}

export function newWallet(payer: FreshAccount, pack: string): Wallet {
  return { payer, pack, packs: [], goods: 0n, maybe: 0n };
}

function counted({ counts }: Pick<Mall, "counts">, what: string): void {
  counts[what] = (counts[what] ?? 0) + 1;
}

/** Of one of the gateways, however often that has to be tried; undefined: the signal has ended it. */
export async function openSession(
  { payer }: Pick<Wallet, "payer">,
  { replicas, chance }: Mall,
  signal: AbortSignal,
): Promise<string | undefined> {
  while (!signal.aborted) {
    try {
      return await openSessionAt(replicas.url(chance), payer);
    } catch {
      // All of them come from one address, which may sign in so often and no more.
      await pause(chance.between(RETRY_MS, 5 * RETRY_MS));
    }
  }
  return undefined;
}

/** One request that is paid from the balance. Resolves when its answer is over: with whether any gateway was there. */
export async function spend(
  wallet: Wallet,
  session: string,
  mall: Mall,
  signal: AbortSignal,
): Promise<boolean> {
  const { replicas, chance } = mall;
  if (chance.chance(LEAVING)) return leave(wallet, session, mall);
  const order = randomOrder(chance);
  const { url, life } = replicas.place(chance);
  const most = order.kind === "chat" ? MAX_CHAT : QUOTE_PRICE;
  const asked = request(order, session, AbortSignal.timeout(ANSWER_MS));
  const told = await tried(fetch(`${url}${pathOf(order, life)}`, asked));
  if (told === "absent") return false;
  if (told === "late") {
    tally(mall, wallet, life, { goods: 0n, maybe: most });
    counted(mall, "answers that came too late");
  } else if (told === "broken") counted(mall, "answers broken");
  else {
    counted(mall, `answers ${told.status}`);
    if (told.status === 402) await topUp(wallet, mall, signal);
    else tallyAnswer(told, order, life, { wallet, mall });
  }
  return true;
}

function tallyAnswer(
  { status, text }: Answered,
  order: Order,
  life: string,
  { wallet, mall }: { readonly wallet: Wallet; readonly mall: Mall },
): void {
  const { cost, ...expected } = expectedOf(order);
  if (status === expected.status && text === expected.text)
    return tally(mall, wallet, life, { goods: cost, maybe: 0n });
  // Of the gateway's own: its ledger cannot be asked who he is or for his balance, or its backend has broken off.
  if (status === 500 || status === 502 || status === 503) return;
  mall.faults.push(`${JSON.stringify(order)} was answered ${status} ${text.slice(0, 100)}`);
}

/** Leaves before there is an answer, or in the middle of it. */
async function leave(wallet: Wallet, session: string, mall: Mall): Promise<boolean> {
  const { replicas, chance } = mall;
  const order: Order = { ...randomOrder(chance, true), manner: "holds" };
  const leaving = new AbortController();
  if (chance.chance(0.3)) setTimeout(() => leaving.abort(), chance.between(1, 50));
  const url = `${replicas.url(chance)}${pathOf(order, LEFT)}`;
  const answer = await fetch(url, request(order, session, leaving.signal)).catch((cause) => {
    return isAbsent(cause) ? "absent" : "broken";
  });
  if (answer === "absent") return false;
  const most = order.kind === "chat" ? MAX_CHAT : QUOTE_PRICE;
  tally(mall, wallet, LEFT, { goods: 0n, maybe: most });
  counted(mall, "answers that were left");
  if (answer instanceof Response)
    await answer.body
      ?.getReader()
      .read()
      .catch(() => undefined);
  leaving.abort();
  return true;
}

function request({ kind }: Order, session: string, signal: AbortSignal): RequestInit {
  // A kept connection may lead to a worker whose life is over by then, though it does not know.
  const headers = { [SESSION_HEADER]: session, connection: "close" };
  const asked = { headers, signal, redirect: "manual" } as const;
  return kind === "quote" ? asked : { ...asked, method: "POST", body: '{"messages":[]}' };
}

function pathOf(order: Order, place: string): string {
  const name = order.kind === "chat" ? "chat" : `quotes/${order.tokens}`;
  return `/lives/${place}/${name}${queryOf(order)}`;
}

interface Answered {
  readonly status: number;
  readonly text: string;
}

/** `absent`: nobody listens there. */
type Told = Answered | "late" | "broken" | "absent";

function isAbsent(cause: unknown): boolean {
  return Object(Object(cause).cause).code === "ECONNREFUSED";
}

async function tried(asked: Promise<Response>): Promise<Told> {
  try {
    const answer = await asked;
    return { status: answer.status, text: await answer.text() };
  } catch (cause) {
    if (isAbsent(cause)) return "absent";
    return Object(cause).name === "TimeoutError" ? "late" : "broken";
  }
}

function tally({ tallies }: Mall, wallet: Wallet, place: string, { goods, maybe }: Tally): void {
  const own = tallies.get(place) ?? { goods: 0n, maybe: 0n };
  tallies.set(place, own);
  for (const each of [own, wallet]) {
    each.goods += goods;
    each.maybe += maybe;
  }
}

/** One pack at a time, whoever of his has found that there is too little. */
export function topUp(wallet: Wallet, mall: Mall, signal: AbortSignal): Promise<void> {
  wallet.buying ??= buyPack(wallet, mall, signal).finally(() => (wallet.buying = undefined));
  return wallet.buying;
}

async function buyPack(wallet: Wallet, mall: Mall, signal: AbortSignal): Promise<void> {
  const { packs, payer, pack } = wallet;
  const isVersion2 = packs.length % 2 === 1;
  const what = { path: `/.x402/credits/${pack}`, isVersion2 };
  const bought = await signFor(payer, what, mall, signal);
  if (bought === undefined) return;
  packs.push(bought);
  await show(bought, {}, mall, signal);
}

/** Pays for one answer, and once more where the first payment is refused for good. */
export async function buyChat(stranger: Stranger, mall: Mall, signal: AbortSignal): Promise<void> {
  const { payer, order, isVersion2, payments } = stranger;
  const what = { path: `${PAID_CHAT}${queryOf(order)}`, isVersion2, init: CHAT };
  let bought = payments.at(-1);
  if (bought === undefined || bought.state === "refused") {
    bought = await signFor(payer, what, mall, signal);
    if (bought === undefined) return;
    payments.push(bought);
  }
  const text = await show(bought, CHAT, mall, signal);
  if (text === null) return;
  if (text === expectedOf(order).text) stranger.hasGoods = true;
  else mall.faults.push(`${JSON.stringify(order)} was answered ${text.slice(0, 100)}`);
}

const CHAT = { method: "POST", body: '{"messages":[]}' };

interface Wanted {
  readonly path: string;
  readonly isVersion2: boolean;
  readonly init?: RequestInit;
}

async function signFor(
  payer: FreshAccount,
  { path, isVersion2, init = {} }: Wanted,
  { replicas, chance }: Mall,
  signal: AbortSignal,
): Promise<Bought | undefined> {
  while (!signal.aborted) {
    try {
      const patience = AbortSignal.timeout(ANSWER_MS);
      const requirements = await quote(replicas.url(chance) + path, { ...init, signal: patience });
      const payment = await signPayment({ account: payer.account, requirements });
      const { nonce, value } = payment.payload.authorization;
      const asked = { paymentPayload: payment, paymentRequirements: requirements };
      const header = inHeader(asked, VERSIONS[isVersion2 ? 1 : 0]);
      const from = payer.address;
      return { from, nonce, header, amount: BigInt(value), path, state: "open" };
    } catch {
      await pause(chance.between(50, RETRY_MS));
    }
  }
  return undefined;
}

/** Shows a payment until it is answered with goods, which are its text, or refused: null, as where the signal has ended it. */
export async function show(
  bought: Bought,
  init: RequestInit,
  mall: Mall,
  signal: AbortSignal,
): Promise<string | null> {
  const { replicas, chance } = mall;
  const isVersion1 = !isOfVersion2(bought);
  const name = PAYMENT_HEADERS[isVersion1 ? VERSIONS[0] : VERSIONS[1]];
  while (!signal.aborted) {
    const patience = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]);
    const asked = { ...init, headers: { [name]: bought.header }, signal: patience };
    const told = await tried(fetch(replicas.url(chance) + bought.path, asked));
    if (told instanceof Object) {
      counted(mall, `answers ${told.status} to payments`);
      if (told.status === 200) {
        bought.state = "delivered";
        return told.text;
      }
      if (told.status === 402) {
        if (bought.state === "open") bought.state = "refused";
        return null;
      }
    }
    await pause(chance.between(50, RETRY_MS));
  }
  return null;
}

function isOfVersion2({ header }: Pick<Bought, "header">): boolean {
  return Object(JSON.parse(atob(header))).x402Version === VERSIONS[1];
}
