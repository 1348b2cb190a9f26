/**
 * The operator's overview: what the books, the metrics and the networks say, as one page. The metrics are read whenever it
 * is shown, the books at most once a minute, and both less often where that takes long.
 */
import type { PaymentCounts } from "../ledger/books.ts";
import type { MetricsSnapshot } from "../telemetry/metric-registry.ts";
import { waitWithin, type Time } from "../time/time.ts";
import { findNetwork } from "../x402/network.ts";
import { messageOf } from "../x402/result.ts";
import { shellWord } from "../web/catalogue-command.ts";
import { overviewPage, OVERVIEW_POLICY } from "../web/overview-page.ts";
import type { MoneyView, NeedView, OverviewView } from "../web/overview-view.ts";
import { MAX_ROUTES } from "./overview-money.ts";
import { flowOf, gaugesOf, startOf, valueOf, waitsOf } from "./overview-metrics.ts";

/** Pause between two readings of the books, milliseconds, and how many times as long as the last one took it is at least. */
const BOOKS_MS = 60_000;
const PAUSES = 20;
/** The longest pause between two readings of the books, milliseconds: a machine that slept meanwhile took long for nothing. */
const MAX_BOOKS_MS = 3_600_000;
/** The longest that a page is shown again which took long to make, milliseconds: browsers ask as often. */
const MAX_SHOWN_MS = 5_000;
/** So long the first reading is waited for, milliseconds. */
const FIRST_MS = 1_000;
/** Settlements that an account should pay for: as the alert CoinslotWalletLow has it. */
const FEW_SETTLEMENTS = 200;

export interface OverviewGround {
  readonly metrics: () => Promise<MetricsSnapshot>;
  readonly readiness: () => Promise<{
    readonly isReady: boolean;
    readonly said: readonly string[];
  }>;
  readonly counts: () => Promise<PaymentCounts>;
  /** Reads the books and sums them up without holding up this thread; `nowMs` since the epoch. */
  readonly money: (nowMs: number) => Promise<MoneyView>;
  /** The file of the configuration, for commands. */
  readonly file: string;
  readonly time: Time;
}

export class Overview {
  readonly policy = OVERVIEW_POLICY;
  readonly #ground: OverviewGround;
  #money: OverviewView["money"] = "The books are being read.";
  #reading: Promise<void> | undefined;
  #nextMs = 0;
  #shown: Promise<string> = Promise.resolve("");
  /** Infinity: it is being made. */
  #shownUntilMs = 0;

  constructor(ground: OverviewGround) {
    this.#ground = ground;
  }

  /** The whole page, as of now; one that took long to make is shown for a while, to all who look. */
  async page(): Promise<string> {
    const { time } = this.#ground;
    const first = this.#nextMs === 0;
    const reading = this.#readBooks();
    if (first) await waitWithin(reading, time.timeout(FIRST_MS), undefined);
    const beganMs = time.now();
    const isBeingMade = this.#shownUntilMs === Infinity;
    if (isBeingMade || isBefore(this.#shownUntilMs, beganMs, MAX_SHOWN_MS)) return this.#shown;
    this.#shownUntilMs = Infinity;
    this.#shown = this.#make().finally(() => {
      const nowMs = time.now();
      this.#shownUntilMs = nowMs + Math.min(MAX_SHOWN_MS, PAUSES * (nowMs - beganMs));
    });
    return this.#shown;
  }

  async #make(): Promise<string> {
    const { time, metrics, readiness } = this.#ground;
    const [told, { isReady, said }] = await Promise.all([metrics(), readiness()]);
    return overviewPage({
      at: new Date(time.now()).toISOString(),
      isReady,
      said,
      needs: await this.#needs(told),
      money: this.#money,
      flow: { since: startOf(told, time.now()), steps: flowOf(told) },
      waits: waitsOf(told, MAX_ROUTES),
    });
  }

  /** Resolves when they are read that are to be read now. Never rejects. */
  #readBooks(): Promise<void> {
    const isEarly = isBefore(this.#nextMs, this.#ground.time.now(), MAX_BOOKS_MS);
    if (this.#reading === undefined && !isEarly) {
      this.#reading = this.#read().finally(() => (this.#reading = undefined));
    }
    return this.#reading ?? Promise.resolve();
  }

  async #read(): Promise<void> {
    const { time, money } = this.#ground;
    const beganMs = time.now();
    this.#nextMs = beganMs + BOOKS_MS;
    try {
      this.#money = await money(beganMs);
    } catch (cause) {
      this.#money = `The books cannot be read: ${messageOf(cause)}`;
    }
    const pauseMs = Math.min(PAUSES * (time.now() - beganMs), MAX_BOOKS_MS);
    this.#nextMs = Math.max(this.#nextMs, time.now() + pauseMs);
  }

  async #needs(told: MetricsSnapshot): Promise<readonly NeedView[]> {
    const { file, counts } = this.#ground;
    const { held, undelivered, unrefunded } = await counts();
    const payments = `coinslot payments ${pathWord(file)}`;
    const needs: NeedView[] = [];
    const need = (count: number, one: string, many: string, command: string): void => {
      if (count > 0) needs.push({ text: count === 1 ? one : `${count} ${many}`, command });
    };
    need(
      held,
      "A payment came in a transaction that is not ours, and waits for you to say what becomes of it",
      "payments came in transactions that are not ours, and wait for you to say what becomes of them",
      `${payments} --held`,
    );
    need(
      undelivered,
      "A payment was settled and what it bought was not delivered",
      "payments were settled and what they bought was not delivered",
      `${payments} --undelivered`,
    );
    need(
      unrefunded,
      "A refund has failed, or is over what may be paid back on a day",
      "refunds have failed, or are over what may be paid back on a day",
      `${payments} --unrefunded`,
    );
    for (const { labels } of gaugesOf(told, "coinslot_network_closed_reason")) {
      const text = `${labels["network"] ?? ""} is closed: ${labels["reason"] ?? ""}`;
      needs.push({ text, command: `coinslot doctor ${pathWord(file)}` });
    }
    for (const { labels, value } of gaugesOf(told, "coinslot_wallet_settlements_left")) {
      if (value >= FEW_SETTLEMENTS) continue;
      const { network = "", address = "" } = labels;
      const currency = findNetwork(network)?.nativeCurrency.symbol ?? "the network's currency";
      const text = `The account ${address} pays for ${value} more settlements on ${network}: send it ${currency}`;
      needs.push({ text, command: "" });
    }
    if (valueOf(told, "coinslot_config_last_reload_successful") === 0) {
      const text =
        "The configuration was refused when it was last read, and an older one is in use, or it is in force only in part";
      needs.push({ text, command: `coinslot check ${pathWord(file)}` });
    }
    return needs;
  }
}

/** What is farther ahead than it is ever put was put there by a clock that was set back since. */
function isBefore(untilMs: number, nowMs: number, mostMs: number): boolean {
  return nowMs < untilMs && untilMs - nowMs <= mostMs;
}

/** A path as one word of a command line, in quotes where a shell would read it otherwise. */
function pathWord(path: string): string {
  return /^[\w./:@%+=,-]+$/.test(path) ? path : shellWord(path);
}
