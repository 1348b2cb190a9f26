/**
 * `coinslot pay URL`: asks for the price, shows it, pays when that is wanted, and prints what was bought. Nothing
 * is signed before somebody agreed to it, and nothing that was signed is lost.
 */
import { dirname } from "node:path";
import { BoughtAnswerSink } from "../../buyer/answer-sink.ts";
import {
  exchange,
  NoAnswer,
  readBody,
  type BuyerAnswer,
  type BuyerRequest,
} from "../../buyer/exchange.ts";
import { MAX_QUOTE_BYTES, readQuote, type Quote } from "../../buyer/offer.ts";
import type { BuyerKey } from "../../buyer/buyer-key.ts";
import { placeOf } from "../../buyer/place.ts";
import { Heard, sentenceOf } from "../../buyer/presentation.ts";
import { chargedBy } from "../../buyer/receipt.ts";
import {
  helpOf,
  isOtherPlace,
  locationOf,
  MAX_REDIRECTS,
  redirected,
} from "../../buyer/redirect.ts";
import { amountText, limitFault, type Limit, type BuyerTerms } from "../../buyer/terms.ts";
import { chosenOf, offerView, weigh, type Weighed } from "../../buyer/weighing.ts";
import { PAYMENT_REQUIRED_HEADER } from "../../x402/header.ts";
import { err, ok, type Result, messageOf } from "../../x402/result.ts";
import type { X402Version } from "../../x402/x402.ts";
import { readKeptPayment } from "./kept-payment.ts";
import { Output } from "./pay-output.ts";
import { printable } from "../../config/config.ts";
import { showQuote } from "./pay-quote.ts";
import { readRequest, type RequestOptions } from "./pay-request.ts";
import { PAY_EXIT, settleUp } from "./pay-settle.ts";
import { toJson } from "../payments/payment-text.ts";
import { openKeyOrNone } from "./buyer-key-file.ts";
import { ask, fail, isInteractive, say } from "../terminal.ts";

export interface PayOptions extends RequestOptions {
  readonly key?: string;
  readonly network?: readonly string[];
  /** The version to pay in; default: the newest that the seller speaks. */
  readonly protocol?: X402Version;
  readonly max: Limit;
  readonly allowAsset?: readonly string[];
  readonly rpc?: string;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  /** Print what is prepaid there, and ask for nothing else. */
  readonly balance?: boolean;
  /** Pay from what is prepaid there, and from nothing else. */
  readonly credits?: boolean;
  readonly location?: boolean;
  readonly output?: string;
  readonly include?: boolean;
  readonly json?: boolean;
  /** The folder for a payment that stays unresolved. */
  readonly keep: string;
  /** The file of a kept payment. */
  readonly payment?: string;
  /** Longest silence of the server, milliseconds. */
  readonly timeout: number;
}

const NO_KEY =
  "there is no key: write --key file:PATH or --key env:NAME, or set COINSLOT_KEY; coinslot keygen makes one";

/** Resolves with the exit code, one of {@link PAY_EXIT}. */
export async function pay(address: string, options: PayOptions): Promise<number> {
  const isTold = options.dryRun === true || options.balance === true;
  if (options.json && !isTold && options.output === undefined) {
    return fail("pay", "--json needs --output FILE, as stdout is for the JSON", PAY_EXIT.usage);
  }
  const request = await readRequest(address, options);
  if (!request.ok) return fail("pay", request.error, PAY_EXIT.usage);
  let output: Output;
  try {
    output = await Output.open(isTold ? {} : options);
  } catch (cause) {
    return fail("pay", `the output cannot be written: ${messageOf(cause)}`);
  }
  const stop = new AbortController();
  const interrupt = (): void => stop.abort();
  process.once("SIGINT", interrupt);
  process.once("SIGTERM", interrupt);
  try {
    return await new Purchase({
      request: request.value,
      options,
      output,
      signal: stop.signal,
    }).run();
  } catch (cause) {
    return fail("pay", messageOf(cause));
  } finally {
    process.off("SIGINT", interrupt);
    process.off("SIGTERM", interrupt);
    await output.close();
  }
}

interface Parts {
  readonly request: BuyerRequest;
  readonly options: PayOptions;
  readonly output: Output;
  readonly signal: AbortSignal;
}

class Purchase {
  readonly #options: PayOptions;
  readonly #output: Output;
  readonly #signal: AbortSignal;
  #request: BuyerRequest;
  /** A redirect has led away from what was asked for: nobody agreed to pay there. */
  #isElsewhere = false;

  constructor({ request, options, output, signal }: Parts) {
    this.#request = request;
    this.#options = options;
    this.#output = output;
    this.#signal = signal;
  }

  async run(): Promise<number> {
    const { payment: file } = this.#options;
    if (file !== undefined) {
      const kept = await readKeptPayment(file, this.#request);
      if (!kept.ok) return fail("pay", `${file}: ${kept.error}`);
      const { amount, network, over } = kept.value;
      if (over !== undefined) say(`the seller did not take it any more: ${printable(over)}`);
      say(printable(`sending the payment in ${file} again: ${amount} on ${network}`));
      const again = { wasSent: true, folder: dirname(file) };
      return settleUp({ ...this.#settling, ...again, kept: kept.value });
    }
    if (this.#options.balance === true) {
      const purse = openKeyOrNone(this.#options.key);
      if (!purse.ok) return fail("pay", purse.error);
      if (purse.value === null) return fail("pay", NO_KEY, PAY_EXIT.notAgreed);
      const { payBalance } = await import("./pay-credits.ts");
      return payBalance(this.#asking, purse.value);
    }
    const answer = await this.#askForPrice();
    if (!answer.ok) return fail("pay", answer.error);
    if (answer.value.status !== 402) return this.#passOn(answer.value);
    const { origin } = this.#request.url;
    if (this.#isElsewhere) {
      answer.value.drop();
      const place = `it redirects to another place, ${origin}, which asks for payment`;
      return fail("pay", `${place}: ask there, if you trust it`);
    }
    const body = await readBody(answer.value, MAX_QUOTE_BYTES);
    if (body === undefined) {
      return fail(
        "pay",
        `the 402 answer is larger than ${MAX_QUOTE_BYTES} bytes, which no price is`,
      );
    }
    const header = answer.value.header(PAYMENT_REQUIRED_HEADER.toLowerCase());
    const quote = readQuote({ header, body }, this.#options.protocol);
    if (!quote.ok) return fail("pay", quote.error);
    const purse = openKeyOrNone(this.#options.key);
    if (!purse.ok) return fail("pay", purse.error);
    return this.#decide(quote.value, purse.value, helpOf(this.#request, answer.value));
  }

  /** Nothing was asked for: the answer is what was wanted, or an error, or leads elsewhere. */
  async #passOn(answer: BuyerAnswer): Promise<number> {
    const { status } = answer;
    await this.#output.begin(answer);
    const heard = new Heard(answer.body);
    await new BoughtAnswerSink(this.#output.write).take(heard);
    this.#output.endLine();
    const location = locationOf(this.#request, answer);
    const reason = status < 400 ? null : sentenceOf(answer, heard.bytes);
    // Whoever shows a session of his own pays by it.
    const charged = chargedBy(answer);
    const paid = charged === null ? "nothing was paid" : `paid ${charged} from the balance`;
    if (this.#options.json)
      this.#tell({ status, paid: charged !== null, charged, location, reason });
    if (location !== null) {
      const said = `${paid}: the answer is ${status}, a redirect to ${location}; -L follows it`;
      return fail("pay", said, PAY_EXIT.redirected);
    }
    say(printable(`${paid}: ${reason ?? `the answer is ${status}`}`));
    const help = helpOf(this.#request, answer);
    if (reason !== null && help !== null) say(`  the seller helps buyers at ${printable(help)}`);
    return reason === null ? PAY_EXIT.done : PAY_EXIT.failed;
  }

  async #askForPrice(): Promise<Result<BuyerAnswer, string>> {
    const { location: isFollowing, timeout } = this.#options;
    for (let redirects = 0; ; redirects += 1) {
      let answer: BuyerAnswer;
      try {
        const limits = { silenceMs: timeout, signal: this.#signal };
        answer = await exchange(this.#request, limits);
      } catch (cause) {
        if (cause instanceof NoAnswer) return err(cause.message);
        throw cause;
      }
      const location = locationOf(this.#request, answer);
      if (!isFollowing || location === null) return ok(answer);
      answer.drop();
      const next = redirected(this.#request, answer, location);
      if (!next.ok) return next;
      if (redirects >= MAX_REDIRECTS) return err(`more than ${MAX_REDIRECTS} redirects`);
      this.#isElsewhere ||= isOtherPlace(this.#request, next.value.url);
      this.#request = next.value;
    }
  }

  async #decide(quote: Quote, purse: BuyerKey | null, help: string | null): Promise<number> {
    const options = this.#options;
    const wishes = {
      family: purse?.kind ?? null,
      networks: options.network ?? [],
      allowedAssets: options.allowAsset ?? [],
    };
    const weighed = weigh(quote, wishes);
    showQuote(this.#request, quote, weighed, help);
    const terms = chosenOf(weighed);
    const objection =
      terms === null ? "none of the offers can be paid here" : limitFault(terms, options.max);
    const told = { version: quote.version, versions: quote.spoken, help };
    if (options.dryRun) {
      const would = terms === null ? "" : `would pay ${amountText(terms)} on ${terms.network.name}`;
      say(objection === undefined ? `dry run: ${would}` : `dry run: would not pay: ${objection}`);
      if (this.#options.json) {
        const chosen = terms?.offer.index ?? null;
        this.#tell({
          paid: false,
          ...told,
          reason: objection ?? null,
          chosen,
          offers: weighed.map(offerView),
        });
      }
      return PAY_EXIT.done;
    }
    if (terms === null || objection !== undefined || purse === null) {
      return this.#notPaid(objection ?? NO_KEY, weighed, told);
    }
    const refusal = await this.#askForConsent(terms, purse);
    if (refusal !== undefined) return this.#notPaid(refusal, weighed, told);
    if (options.credits === true) {
      const { payByCredits } = await import("./pay-credits.ts");
      return payByCredits({ ...this.#asking, output: this.#output }, purse);
    }
    // The libraries behind it take half a second to load, which a dry run need not wait for.
    const { signPayment } = await import("../../buyer/signing.ts");
    const signed = await signPayment({ purse, terms, quote, rpcUrl: this.#options.rpc });
    if (this.#signal.aborted) return this.#notPaid("interrupted", [], told);
    return settleUp({
      ...this.#settling,
      kept: {
        url: placeOf(this.#request.url),
        method: this.#request.method,
        version: signed.payment.version,
        xPayment: signed.payment.value,
        amount: amountText(terms),
        network: terms.network.name,
        payer: purse.address,
        validBefore: signed.validBefore,
      },
    });
  }

  #notPaid(reason: string, weighed: readonly Weighed[], told: object): number {
    if (this.#options.json)
      this.#tell({ paid: false, ...told, reason, offers: weighed.map(offerView) });
    return fail("pay", `not paid: ${reason}`, PAY_EXIT.notAgreed);
  }

  /** Undefined: agreed. */
  async #askForConsent(terms: BuyerTerms, purse: BuyerKey): Promise<string | undefined> {
    const { credits } = this.#options;
    const whence = credits
      ? `from what ${purse.address} has prepaid`
      : `on ${terms.network.name} from ${purse.address}`;
    const question = `pay ${amountText(terms)} ${whence}`;
    if (this.#options.yes) {
      say(question);
      return undefined;
    }
    if (!isInteractive()) return "there is no terminal to ask on; --yes pays without asking";
    const answer = await ask(`${question}? [y/N] `);
    return /^y(?:es)?$/i.test(answer) ? undefined : "you did not say yes";
  }

  get #asking() {
    const { timeout: silenceMs, json = false, network: networks = [] } = this.#options;
    return { request: this.#request, signal: this.#signal, silenceMs, json, networks };
  }

  get #settling() {
    const { timeout, json = false, output, keep: folder, location: follow = false } = this.#options;
    const body = output ?? null;
    const parts = { request: this.#request, output: this.#output, signal: this.#signal };
    return { ...parts, silenceMs: timeout, json, body, folder, follow, wasSent: false };
  }

  #tell(result: Readonly<Record<string, unknown>>): void {
    const { method, url } = this.#request;
    process.stdout.write(toJson({ url: placeOf(url), method, ...result }));
  }
}
