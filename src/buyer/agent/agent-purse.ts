/**
 * Buys what an agent asks for, within what its owner allows: reserves in the book, signs, writes down what it signed, and
 * only then sends it. A call that is repeated gets what is kept of it, or presents the same payment again; while a
 * signature of it can still be settled no second one is made.
 */
import { systemTime, type Time } from "../../time/time.ts";
import { parseDollars } from "../../x402/amount.ts";
import { err, messageOf, ok, type Result } from "../../x402/result.ts";
import type { BuyerKey } from "../buyer-key.ts";
import type { PaymentHeader } from "../exchange.ts";
import type { Quote } from "../offer.ts";
import { openSession } from "../sign-in.ts";
import { amountText, LIMIT_DECIMALS, type BuyerTerms } from "../terms.ts";
import { chosenOf, weigh, type Weighed } from "../weighing.ts";
import {
  budgetFault,
  dollarsOf,
  sellerAt,
  type Allowance,
  type AllowedSeller,
  type Dollars,
} from "./allowance.ts";
import type { AskFault, Errand, FirstAnswer, ErrandOutcome } from "./errand.ts";
import {
  keyOf,
  type AgentPurchase,
  type PurchaseBook,
  type PurchaseOutcome,
  type Way,
} from "./purchase-book.ts";
import type { ToldAnswer } from "./told-answer.ts";

/** Calls that are made at a time; more are turned away. */
export const MAX_CALLS_AT_ONCE = 64;
/** So long after it was bought the same call is taken for a repetition of it, milliseconds. */
export const REPEATED_WITHIN_MS = 15 * 60_000;
/** The longest that a seller may take to name its price, and to answer what is paid, all repetitions in it, milliseconds. */
export const LONGEST_QUESTION_MS = 10 * 60_000;
export const LONGEST_ANSWER_MS = 60 * 60_000;
/** The largest payment that is kept and sent, characters: it says again what its seller has said. */
const MAX_PAYMENT = 64 * 1024;
/** How long a Solana payment can be settled: its blockhash is good for 150 slots, about a minute; milliseconds. */
const BLOCKHASH_MS = 150_000;
/** Clocks differ: a payment counts as void so long after its end, milliseconds. */
const CLOCKS_MS = 60_000;

export interface AgentPurseOptions {
  readonly book: PurchaseBook;
  readonly allowance: Allowance;
  /** Null: nothing can be paid. */
  readonly key: BuyerKey | null;
  /** Solana: the node that is asked for a blockhash; undefined: a public one. */
  readonly rpcUrl?: string | undefined;
  /** Longest silence of a seller, milliseconds. */
  readonly silenceMs: number;
  /** Ends everything. */
  readonly signal: AbortSignal;
  readonly time?: Time;
  /** Default: at the seller. */
  readonly signIn?: typeof openSession;
}

export interface WantedCall {
  readonly errand: Errand;
  readonly way: Way;
  /** Another one makes it another purchase. */
  readonly occasion: string;
  /** Ends it as long as nothing is signed. */
  readonly signal: AbortSignal;
  /** What a person has agreed to pay; null: nobody was asked. */
  readonly agreed: Agreement | null;
}

/** What a person is asked, and agrees to. */
export interface Agreement {
  readonly dollars: Dollars;
  readonly network: string;
  readonly payTo: string;
}

/** What would be paid. */
export interface OfferedPrice extends Agreement {
  /** For people. */
  readonly amount: string;
  readonly seller: AllowedSeller;
  readonly terms: BuyerTerms;
}

export type Bought =
  /** Nothing was asked for it. */
  | { readonly kind: "free"; readonly answer: ToldAnswer; readonly location: string | null }
  /** `isRepeated`: it was bought before, and is told again. */
  | { readonly kind: "served"; readonly purchase: AgentPurchase; readonly isRepeated: boolean }
  /** Paid, or perhaps paid, or refused while it can still be settled. */
  | { readonly kind: "unserved"; readonly purchase: AgentPurchase; readonly advice: string }
  /** A person has to agree first. */
  | { readonly kind: "ask"; readonly price: OfferedPrice }
  /** Nothing is signed. */
  | {
      readonly kind: "not bought";
      readonly reason: string;
      readonly weighed: readonly Weighed[];
      /** What to do about it; null: nothing that an agent could. */
      readonly advice: string | null;
    };

/** What a call would cost. */
export interface Estimate {
  readonly first: FirstAnswer;
  readonly weighed: readonly Weighed[];
  /** Null: none of the offers can be paid. */
  readonly price: OfferedPrice | null;
  /** Why it would not be bought; undefined: it would. */
  readonly objection: string | undefined;
}

export class AgentPurse {
  readonly #options: AgentPurseOptions;
  readonly #time: Time;
  /** By key of the call. */
  readonly #calls = new Map<string, Promise<Bought>>();
  #estimates = 0;

  constructor(options: AgentPurseOptions) {
    this.#options = options;
    this.#time = options.time ?? systemTime;
  }

  /** Who says a little now and then is silent for no moment: everything ends some time. */
  #within(ms: number, ...signals: readonly AbortSignal[]): AbortSignal {
    return AbortSignal.any([this.#options.signal, this.#time.timeout(ms), ...signals]);
  }

  /** Asks without paying. */
  async estimate(errand: Errand, signal: AbortSignal): Promise<Result<Estimate, AskFault>> {
    const seller = sellerAt(errand.url, this.#options.allowance.sellers);
    if (!seller.ok) return err({ reason: seller.error, isAway: false });
    if (this.#calls.size + this.#estimates >= MAX_CALLS_AT_ONCE)
      return err({ reason: BUSY, isAway: false });
    this.#estimates += 1;
    try {
      const first = await errand.ask(this.#within(LONGEST_QUESTION_MS, signal));
      return first.ok ? ok(this.#estimated(first.value, seller.value)) : first;
    } finally {
      this.#estimates -= 1;
    }
  }

  #estimated(first: FirstAnswer, seller: AllowedSeller): Estimate {
    if (first.kind === "answer") return { first, weighed: [], price: null, objection: undefined };
    const { allowance, key } = this.#options;
    const { networks } = allowance;
    const weighed = weigh(first.quote, {
      family: key?.kind ?? null,
      networks,
      allowedAssets: null,
    });
    const terms = chosenOf(weighed);
    if (terms === null)
      return { first, weighed, price: null, objection: "none of the offers can be paid here" };
    const dollars = dollarsOf(terms);
    if (!dollars.ok) return { first, weighed, price: null, objection: dollars.error };
    const price: OfferedPrice = {
      dollars: dollars.value,
      amount: amountText(terms),
      network: terms.network.name,
      payTo: terms.offer.payTo,
      seller,
      terms,
    };
    return { first, weighed, price, objection: this.#objection(price) };
  }

  #objection({ dollars, seller }: OfferedPrice): string | undefined {
    const { allowance, key, book } = this.#options;
    if (allowance.isDry) return DRY;
    if (key === null) return "there is no key to pay with: the owner gives one with --key";
    return budgetFault(dollars, seller, allowance, book.spent(this.#time.now(), seller.name));
  }

  /** The same call at the same time is made once, and told to everybody who has asked for it. */
  async buy(wanted: WantedCall): Promise<Bought> {
    const { errand, way, occasion } = wanted;
    const seller = sellerAt(errand.url, this.#options.allowance.sellers);
    if (!seller.ok) return notBought(seller.error);
    const key = keyOf([...errand.parts, way, occasion]);
    const running = this.#calls.get(key);
    if (running !== undefined) return running;
    if (this.#calls.size + this.#estimates >= MAX_CALLS_AT_ONCE) return notBought(BUSY);
    const call = this.#buy(wanted, seller.value, key).finally(() => this.#calls.delete(key));
    this.#calls.set(key, call);
    return call;
  }

  async #buy(wanted: WantedCall, seller: AllowedSeller, key: string): Promise<Bought> {
    const before = this.#options.book.latest(key);
    const known = before && (await this.#again(before, wanted));
    if (known !== undefined) return known;
    return wanted.way === "payment"
      ? this.#pay(wanted, seller, key)
      : this.#useAccount(wanted, seller, key);
  }

  /** What the same call has brought before; undefined: it is a new one. */
  async #again(
    before: AgentPurchase,
    { errand, occasion }: WantedCall,
  ): Promise<Bought | undefined> {
    const { state, answer, payment, id, way } = before;
    const now = this.#time.now();
    if (state === "void" || state === "reserved") return undefined;
    const isNamed = occasion !== "";
    if (state === "served") {
      if (!isNamed && now - before.at > REPEATED_WITHIN_MS) return undefined;
      if (answer !== null) return { kind: "served", purchase: before, isRepeated: true };
      return { kind: "unserved", purchase: before, advice: NOT_KEPT };
    }
    if (way === "account") return { kind: "unserved", purchase: before, advice: ACCOUNT_LOST };
    if (state === "over" || payment === null)
      return { kind: "unserved", purchase: before, advice: OVER };
    // What was signed could be settled by whoever is shown it.
    if (this.#options.allowance.isDry) return { kind: "unserved", purchase: before, advice: DRY };
    const isVoid = now > before.liveUntil;
    const isNew = !isNamed && now - before.at > REPEATED_WITHIN_MS;
    // That it has refused what nobody can settle any more is its seller's word alone: it may have settled it before.
    if (state === "refused" && isVoid)
      return isNew ? undefined : { kind: "unserved", purchase: before, advice: REFUSED };
    const outcome = await this.#present(id, errand, { payment, session: before.session, state });
    const isRefused = outcome.kind === "unserved" && outcome.purchase.state === "refused";
    return isRefused && isVoid && isNew ? undefined : outcome;
  }

  async #pay(wanted: WantedCall, seller: AllowedSeller, key: string): Promise<Bought> {
    const { errand } = wanted;
    const allowed = await this.#allowed(wanted, seller);
    if (allowed.kind !== "allowed") return allowed;
    const { price, quote, purse } = allowed;
    const reserved = this.#reserve(wanted, key, allowed);
    if (!reserved.ok) return notBought(reserved.error);
    const id = reserved.value;
    const { session } = errand;
    const signed = await this.#sign(id, { terms: price.terms, quote, session }, purse);
    return signed.ok
      ? this.#present(id, errand, { payment: signed.value, session, state: "reserved" })
      : notBought(signed.error);
  }

  /** From the check of the budgets to the reservation nothing else runs in this process, which has the book alone. */
  #reserve(
    { errand, way }: WantedCall,
    key: string,
    { price, purse }: Allowed,
  ): Result<number, string> {
    const objection = this.#objection(price);
    if (objection !== undefined) return err(objection);
    const { dollars, amount, network, payTo, seller } = price;
    const terms =
      way === "payment"
        ? { amount, network, payTo }
        : { amount: `${amount} at most, of an account`, network: "", payTo: "" };
    const at = this.#time.now();
    const whose = { seller: seller.name, what: errand.what, payer: purse.address };
    return this.#options.book.reserve({ ...whose, ...terms, key, way, at, dollars });
  }

  /** Asks what it costs, and whether that may be spent, whichever way. */
  async #allowed(
    { errand, agreed, signal }: WantedCall,
    seller: AllowedSeller,
  ): Promise<Bought | Allowed> {
    const { allowance, key: purse } = this.#options;
    const first = await errand.ask(this.#within(LONGEST_QUESTION_MS, signal));
    if (!first.ok) return { ...notBought(first.error.reason), advice: adviceOf(first.error) };
    const { price, objection, weighed } = this.#estimated(first.value, seller);
    if (first.value.kind === "answer") return { ...first.value, kind: "free" };
    if (price === null || objection !== undefined || purse === null)
      return notBought(objection ?? "there is nothing to pay with", weighed);
    const { confirmAbove } = allowance;
    if (confirmAbove !== null && price.dollars > confirmAbove && !isSame(price, agreed))
      return { kind: "ask", price };
    if (signal.aborted) return notBought("it was cancelled");
    return { kind: "allowed", price, quote: first.value.quote, purse };
  }

  /** Durable before it is told; a sentence where it could not be, and then nothing is left of it. */
  async #sign(
    id: number,
    { terms, quote, session }: Agreed,
    purse: BuyerKey,
  ): Promise<Result<PaymentHeader, string>> {
    const { book, rpcUrl } = this.#options;
    try {
      // The libraries behind it take half a second to load.
      const { signPayment } = await import("../signing.ts");
      const { payment, validBefore } = await signPayment({ purse, terms, quote, rpcUrl });
      if (payment.value.length > MAX_PAYMENT)
        throw new Error("the seller wants more said again than a payment has room for");
      const endsAt = validBefore === null ? this.#time.now() + BLOCKHASH_MS : validBefore * 1_000;
      book.keep(id, { payment, liveUntil: endsAt + CLOCKS_MS, session });
      return ok(payment);
    } catch (cause) {
      const reason = messageOf(cause);
      book.conclude(id, { state: "void", transaction: null, reason, answer: null });
      return err(`it could not be signed: ${reason}`);
    }
  }

  async #present(
    id: number,
    errand: Errand,
    { payment, session, state: before }: Shown,
  ): Promise<Bought> {
    const { book } = this.#options;
    // Whoever has asked may leave: what was signed is seen through.
    const signal = this.#within(LONGEST_ANSWER_MS);
    // A refusal was heard: that it was taken then need not be feared.
    const wasSent = before === "open";
    const onSession = (moved: string): void => book.moved(id, moved);
    const presented = await errand.present({ payment, wasSent, session, onSession, signal });
    const { receipt, answer, location } = presented;
    const reason = location === null ? presented.reason : `it leads to ${location}: ask there`;
    const transaction = receipt?.success === true ? receipt.transaction : null;
    const state = stateOf(presented, before);
    const isKept = state === "served";
    const outcome = { state, transaction, reason, answer: isKept ? answer : null };
    const purchase = this.#concluded(id, outcome);
    if (purchase === undefined) return notBought("the book has lost the purchase");
    if (state === "served") return { kind: "served", purchase, isRepeated: false };
    if (state === "void") return { ...notBought(`nothing was paid: ${reason}`), advice: AWAY };
    const advice =
      state === "refused"
        ? `the seller refuses the payment, which is void from ${isoOf(purchase.liveUntil)} on. ${REFUSED}`
        : state === "over"
          ? OVER
          : "make the same call again: the same payment is presented, and nothing is charged twice";
    return { kind: "unserved", purchase, advice };
  }

  /** What has come is told, be there no room to write it: then the same call presents the same payment again. */
  #concluded(id: number, outcome: PurchaseOutcome): AgentPurchase | undefined {
    const { book } = this.#options;
    try {
      book.conclude(id, outcome);
      return book.byId(id);
    } catch (cause) {
      const purchase = book.byId(id);
      return purchase && { ...purchase, ...outcome, reason: `not written: ${messageOf(cause)}` };
    }
  }

  /**
   * By a session: a pass, a grant, or a balance there. Sent once, since a second request may be debited again. What it would cost
   * without all that is the most that it may cost with it.
   */
  async #useAccount(wanted: WantedCall, seller: AllowedSeller, key: string): Promise<Bought> {
    const { errand } = wanted;
    const { book } = this.#options;
    if (errand.askSignedIn === null) return notBought("a tool is paid by a payment only");
    const allowed = await this.#allowed(wanted, seller);
    if (allowed.kind !== "allowed") return allowed;
    const { price, purse } = allowed;
    const signal = AbortSignal.any([wanted.signal, this.#options.signal]);
    const session = await this.#openSession(errand.url, purse, signal);
    if (!session.ok) return { ...notBought(session.error.reason), advice: adviceOf(session.error) };
    const reserved = this.#reserve(wanted, key, allowed);
    if (!reserved.ok) return notBought(reserved.error);
    const id = reserved.value;
    book.keep(id, { payment: null, liveUntil: 0, session: null });
    const told = await errand.askSignedIn(session.value, signal);
    const known = { transaction: null, answer: null };
    // Some sell that there is nothing, too.
    if (told.kind === "answer" && ((told.answer.status ?? 0) < 400 || told.charged !== null)) {
      const { charged, answer } = told;
      const reason = charged === null ? "nothing was debited" : `debited ${charged}`;
      const debited = charged === null ? 0n : debitedDollars(charged, price);
      book.conclude(id, { ...known, state: "served", reason, answer, dollars: debited });
    } else if (told.kind === "lost" && !told.neverLeft) {
      book.conclude(id, { ...known, state: "over", reason: told.reason });
    } else {
      const reason = told.kind === "answer" ? `the answer is ${told.answer.status}` : told.reason;
      book.conclude(id, { ...known, state: "void", reason });
      if (told.kind === "answer") return { kind: "free", answer: told.answer, location: null };
      const advice = told.kind === "lost" ? AWAY : null;
      return { ...notBought(`the account does not pay for it: ${reason}`), advice };
    }
    const purchase = book.byId(id);
    if (purchase === undefined) return notBought("the book has lost the purchase");
    if (purchase.state === "served") return { kind: "served", purchase, isRepeated: false };
    return { kind: "unserved", purchase, advice: ACCOUNT_LOST };
  }

  async #openSession(
    url: URL,
    purse: BuyerKey,
    signal: AbortSignal,
  ): Promise<Result<string, AskFault>> {
    const { allowance, silenceMs, signIn = openSession } = this.#options;
    const { networks } = allowance;
    try {
      const session = await signIn({ url, purse, networks, silenceMs, signal });
      return session.ok ? session : err({ reason: session.error, isAway: false });
    } catch (cause) {
      return err({ reason: messageOf(cause), isAway: true });
    }
  }

  /** Resolves when no call is under way. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#calls.values());
  }
}

/** Nothing speaks against it. */
interface Allowed {
  readonly kind: "allowed";
  readonly price: OfferedPrice;
  readonly quote: Quote;
  readonly purse: BuyerKey;
}

/** What is to be signed, and where it is shown. */
interface Agreed {
  readonly terms: BuyerTerms;
  readonly quote: Quote;
  readonly session: string | null;
}

/** A payment, and what is known of it before it is shown. */
interface Shown {
  readonly payment: PaymentHeader;
  readonly session: string | null;
  readonly state: AgentPurchase["state"];
}

const BUSY = `${MAX_CALLS_AT_ONCE} calls are being made already: ask again when one of them is over`;
const DRY = "this is a dry run: the owner has nothing signed";
const AWAY =
  "no answer came, and the seller has no payment: make the same call again when it may be back";
const NOT_KEPT =
  "it was bought and answered, and the answer is not kept any more; another occasion buys it anew";
const OVER =
  "the seller does not take the payment any more: show the seller the transaction, where there is one; another occasion buys it anew";
const REFUSED =
  "That it was not taken is the seller's word: another occasion buys it anew, and without one the same call does, a quarter of an hour after the first";
const ACCOUNT_LOST =
  "the answer was lost, and the account may have paid for it: `balance` tells what is left, and another occasion asks anew";

function notBought(
  reason: string,
  weighed: readonly Weighed[] = [],
): Extract<Bought, { readonly kind: "not bought" }> {
  return { kind: "not bought", reason, weighed, advice: null };
}

/** Null: it would bring the same again. */
export function adviceOf({ isAway }: AskFault): string | null {
  return isAway ? AWAY : null;
}

function isSame(price: OfferedPrice, agreed: Agreement | null): boolean {
  if (agreed === null) return false;
  const { dollars, network, payTo } = price;
  return dollars <= agreed.dollars && network === agreed.network && payTo === agreed.payTo;
}

/** What a seller says that it has taken of a balance; what it cost otherwise where nobody knows what that is worth. */
function debitedDollars(charged: string, { dollars, terms }: OfferedPrice): Dollars {
  const [amount = "", symbol] = charged.split(" ");
  if (symbol !== terms.token?.symbol) return dollars;
  const told = parseDollars(`$${amount}`, LIMIT_DECIMALS);
  if (told.ok) return told.value;
  return told.error.kind === "zero" ? 0n : dollars;
}

function stateOf(
  { kind, isOver, neverLeft }: ErrandOutcome,
  before: AgentPurchase["state"],
): AgentPurchase["state"] {
  if (kind === "served") return "served";
  if (kind === "refused") return neverLeft && before === "reserved" ? "void" : "refused";
  return isOver ? "over" : "open";
}

function isoOf(ms: number): string {
  return new Date(ms).toISOString();
}
