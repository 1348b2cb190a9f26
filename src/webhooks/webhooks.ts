/**
 * Gives what waits in the outbox to its receivers, each by a loop of its own, so that one which is down holds up no other:
 * takes what is due, posts it, and says what became of it; what was not said is due again when its time is over. Several
 * processes may do so on one ledger.
 */
import { randomUUID } from "node:crypto";
import type { Given, MessageCount, OutboxMessage, Outbox } from "../ledger/outbox.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Time } from "../time/time.ts";
import { Receiver, SENT_AT_ONCE, type Answered, type ReceiverSettings } from "./receiver.ts";

/** Pause between two looks at what is due, milliseconds. */
const LOOK_MS = 500;
/** Pause after the first failure of a message, milliseconds; each further one doubles it, and at most it is so long. */
export const FIRST_RETRY_MS = 1_000;
export const MAX_RETRY_MS = 6 * 3_600_000;
/** So much of a pause, up or down, is left to chance: what failed together does not come back together. */
const JITTER = 0.2;
/** A message is given up so long after it was written, or replayed, milliseconds. */
export const TRIED_FOR_MS = 3 * 86_400_000;
/** And not before so many attempts: it may have waited for days behind another, or while no gateway ran. */
const LEAST_ATTEMPTS = 12;
/** Longest pause of a receiver that has taken nothing of what was sent at once, milliseconds. */
const MAX_REST_MS = 60_000;
/** Pauses between two counts of the outbox, between two tidyings, and between the steps of one, milliseconds. */
const COUNT_MS = 5_000;
const TIDY_MS = 60_000;
const TIDY_STEP_MS = 50;

export interface WebhooksOptions {
  readonly outbox: Pick<Outbox, "take" | "given" | "counts" | "tidy">;
  readonly telemetry: Pick<Telemetry, "logger"> & {
    readonly metrics: Pick<Telemetry["metrics"], "webhooks">;
  };
  readonly time: Time;
  /** What a receiver is told beside what is stored: how much it is in whole tokens. */
  readonly present?: (data: string) => string;
  /** From 0 to 1. */
  readonly random?: () => number;
}

interface Running {
  readonly name: string;
  stop(): Promise<void>;
}

export class Webhooks {
  readonly #options: WebhooksOptions;
  readonly #stopping = new AbortController();
  #running: readonly Running[] = [];
  /** Whether somebody may have been taken away for whom something waits, and of whom that was told. */
  #mayBeLeft = false;
  readonly #left = new Set<string>();
  #watching: Promise<void> | undefined;

  constructor(options: WebhooksOptions) {
    this.#options = options;
  }

  /**
   * Gives to these from here on, also to one that was gone, and to nobody once it is stopped; resolves when those before
   * them have ended.
   */
  async serve(settings: readonly ReceiverSettings[]): Promise<void> {
    const before = this.#running;
    this.#running = this.#stopping.signal.aborted ? [] : settings.map((each) => this.#start(each));
    this.#mayBeLeft = true;
    for (const { name } of settings) this.#left.delete(name);
    // What is stored goes in time, also where nobody is told anything any more.
    if (!this.#stopping.signal.aborted) this.#watching ??= this.#watch();
    await Promise.all(before.map((each) => each.stop()));
    const { webhooks } = this.#options.telemetry.metrics;
    for (const { name } of before) if (!this.#names.includes(name)) webhooks.end(name);
  }

  get #names(): readonly string[] {
    return this.#running.map(({ name }) => name);
  }

  /** Ends when what is under way has. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.serve([]);
    await this.#watching;
  }

  #start(settings: ReceiverSettings): Running {
    const stopping = new AbortController();
    const receiver = new Receiver(settings, this.#options.time);
    this.#options.telemetry.metrics.webhooks.begin(settings.name);
    const running = this.#give(receiver, stopping.signal);
    return {
      name: settings.name,
      async stop() {
        stopping.abort();
        await running;
        await receiver.close();
      },
    };
  }

  async #give(receiver: Receiver, signal: AbortSignal): Promise<void> {
    const { outbox, telemetry, time } = this.#options;
    const { name } = receiver.settings;
    let restMs = LOOK_MS;
    while (!signal.aborted) {
      try {
        const taker = randomUUID();
        const taken = await outbox.take(name, taker, SENT_AT_ONCE);
        const answers = await Promise.all(taken.map((each) => this.#post(receiver, each, signal)));
        const given = taken.map((each, index) => {
          return this.#judge(receiver, each, answers[index], signal);
        });
        if (given.length > 0) await outbox.given(taker, given);
        if (answers.some((each) => each.kind === "failed" && each.isGone)) {
          const said =
            "a receiver of webhooks says that it is gone: it is told nothing more until a reload or restart";
          telemetry.logger.error({ receiver: name }, said);
          return;
        }
        const isDown = answers.every(({ kind }) => kind === "failed");
        restMs = given.length === 0 || !isDown ? LOOK_MS : Math.min(2 * restMs, MAX_REST_MS);
        if (given.length > 0 && !isDown) continue;
      } catch (cause) {
        const said = "what others are to be told cannot be read or written; trying again";
        telemetry.logger.warn({ err: cause, receiver: name }, said);
      }
      await time.sleep(restMs, signal);
    }
  }

  #post(receiver: Receiver, message: OutboxMessage, signal: AbortSignal): Promise<Answered> {
    const { present = (data) => data } = this.#options;
    return receiver.post({ ...message, data: present(message.data) }, signal);
  }

  #judge(
    { settings: { name } }: Receiver,
    { place, id, type, subject, attempts, sinceMs, dueMs }: OutboxMessage,
    answer: Answered | undefined,
    signal: AbortSignal,
  ): Given {
    const { telemetry, time } = this.#options;
    const { logger, metrics } = telemetry;
    if (answer?.kind === "delivered") {
      metrics.webhooks.attempt(name, "delivered");
      return { place, state: "DELIVERED", dueMs, error: null };
    }
    const error = answer?.detail ?? "it was not sent";
    const nowMs = time.now();
    // Broken off by us: whoever comes next sends it at once.
    if (signal.aborted) return { place, state: "WAITING", dueMs: nowMs, error };
    const nextMs = nowMs + this.#pause(attempts);
    const facts = { receiver: name, id, type, subject, attempts, error };
    if (nextMs - sinceMs > TRIED_FOR_MS && attempts >= LEAST_ATTEMPTS) {
      metrics.webhooks.attempt(name, "given-up");
      logger.error(facts, "a webhook was not taken for days and is given up; it can be replayed");
      return { place, state: "FAILED", dueMs, error };
    }
    metrics.webhooks.attempt(name, "failed");
    logger.debug(facts, "a webhook was not taken; it is sent again");
    return { place, state: "WAITING", dueMs: nextMs, error };
  }

  /** After so many attempts. */
  #pause(attempts: number): number {
    const { random = Math.random } = this.#options;
    const pauseMs = Math.min(FIRST_RETRY_MS * 2 ** (attempts - 1), MAX_RETRY_MS);
    return Math.round(pauseMs * (1 + JITTER * (2 * random() - 1)));
  }

  async #watch(): Promise<void> {
    const { outbox, telemetry, time } = this.#options;
    const { signal } = this.#stopping;
    const { webhooks } = telemetry.metrics;
    let tidyMs = time.now();
    while (!signal.aborted) {
      try {
        const isCounted = this.#running.length > 0 || this.#mayBeLeft;
        this.#mayBeLeft = false;
        const counts = isCounted ? await outbox.counts() : [];
        webhooks.waiting(counts, this.#names, time.now());
        // Who is stopped serves nobody, and has taken nobody away.
        if (!signal.aborted) this.#tellOfLeft(counts);
        if (time.now() >= tidyMs) {
          tidyMs = time.now() + TIDY_MS;
          await this.#tidy();
        }
      } catch (cause) {
        telemetry.logger.warn({ err: cause }, "what others are to be told cannot be counted");
      }
      await time.sleep(COUNT_MS, signal);
    }
  }

  /** Once of each that was taken away, since nothing else tells of it from then on. */
  #tellOfLeft(counts: readonly MessageCount[]): void {
    for (const { recipient: receiver, waiting, failed } of counts) {
      if (this.#names.includes(receiver) || this.#left.has(receiver)) continue;
      this.#left.add(receiver);
      const said =
        "a receiver of webhooks is not configured any more: what waits for it is sent if it comes back, and goes after 14 days";
      this.#options.telemetry.logger.warn({ receiver, waiting, failed }, said);
    }
  }

  /** To its end: more may come in a minute than goes in one step. */
  async #tidy(): Promise<void> {
    const { outbox, telemetry, time } = this.#options;
    const { signal } = this.#stopping;
    let dropped = 0;
    try {
      for (let isMore = true; isMore && !signal.aborted;) {
        const tidied = await outbox.tidy();
        dropped += tidied.dropped;
        ({ isMore } = tidied);
        if (isMore) await time.sleep(TIDY_STEP_MS, signal);
      }
    } finally {
      telemetry.metrics.webhooks.dropped(dropped);
      const said = "webhooks that nobody has taken were dropped: they were too old, or too many";
      if (dropped > 0) telemetry.logger.error({ dropped }, said);
    }
  }
}
