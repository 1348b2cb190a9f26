/** An answer that is charged by use, as it passes: what it has used, and what of the most that it costs. */
import type { MeteredSale } from "../ledger/ledger.ts";
import { AnswerMeter } from "../metering/answer-meter.ts";
import { costOf, readEach, type MeterTerms } from "../metering/meter.ts";
import { unread, type Decimal, type UsageReading } from "../metering/usage.ts";
import { formatAmount } from "../x402/amount.ts";
import { CHARGED_HEADER, USAGE_HEADER } from "./answers.ts";
import { valuesOf } from "./message/field-values.ts";
import type { AnswerTap } from "./upstream/upstream.ts";

/** Longest that an answer is read on after its buyer has left, milliseconds. */
export const READ_ON_MS = 30_000;

/** What a route is charged by, made ready for requests. */
export class Metering {
  /** The same for all methods of one route, and for no other. */
  readonly terms: MeterTerms;
  readonly each: Decimal;
  /** What a backend is asked for, beside what its client asks: an answer that can be read. */
  readonly requestHeaders: readonly string[];

  /** @throws Error for a price that no file may have */
  constructor(terms: MeterTerms) {
    const each = readEach(terms.each);
    if (each === undefined) throw new Error(`no price: ${terms.each}`);
    this.terms = terms;
    this.each = each;
    const readsBody = terms.of.some(({ kind }) => kind !== "header");
    this.requestHeaders = readsBody ? ["Accept-Encoding", "identity"] : [];
  }
}

/** Of what is paid: the token, and the most that it may cost. */
export interface MostCharged {
  readonly symbol: string;
  readonly decimals: number;
  /** Atomic units. */
  readonly amount: bigint;
}

export class MeteredAnswer implements AnswerTap {
  readonly readOnMs = READ_ON_MS;
  readonly #metering: Metering;
  readonly #most: MostCharged;
  readonly #meter: AnswerMeter;
  #reading: UsageReading | null = null;
  #isBegun = false;
  #isBroken = false;

  constructor(metering: Metering, most: MostCharged) {
    this.#metering = metering;
    this.#most = most;
    this.#meter = new AnswerMeter(metering.terms.of);
  }

  begin(lines: readonly string[]): readonly string[] {
    this.#isBegun = true;
    // What another target has broken off before it is no part of this one.
    this.#isBroken = false;
    this.#reading = this.#meter.begin((name) => valuesOf(lines, name));
    return this.#lines();
  }

  take(bytes: Uint8Array): void {
    if (this.#reading === null) this.#meter.take(bytes);
  }

  get isOpen(): boolean {
    return this.#isBegun && !this.#meter.isOver;
  }

  end(): readonly string[] {
    if (!this.#isBegun || this.#reading !== null) return [];
    this.#reading = this.#meter.end();
    return this.#lines();
  }

  broke(): void {
    this.#isBroken = true;
  }

  /** The backend has not ended it. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** What it costs, as far as it was read. */
  get sale(): MeteredSale {
    const reading = (this.#reading ??= this.#isBegun ? this.#meter.cut() : unread("left"));
    const { amount } = this.#most;
    if (reading.kind === "unread") return { charged: amount, usage: null, reason: reading.reason };
    const { usage } = reading;
    const cost = costOf(usage, this.#metering.each, this.#most.decimals);
    return cost > amount
      ? { charged: amount, usage: usage.text, reason: "above-max" }
      : { charged: cost, usage: usage.text, reason: null };
  }

  /** Raw lines that tell its buyer, where it is known before its head goes out. */
  #lines(): readonly string[] {
    if (this.#reading === null) return [];
    const { charged, usage, reason } = this.sale;
    const { symbol, decimals } = this.#most;
    const why = reason === null ? "" : `; reason=${reason}`;
    const told = `${usage ?? "none"}${why}`;
    return [CHARGED_HEADER, `${formatAmount(charged, decimals)} ${symbol}`, USAGE_HEADER, told];
  }
}
