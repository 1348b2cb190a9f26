/**
 * The gateway's part in a sale, without HTTP: the paywall is asked, the upstream is called, the delivery is
 * recorded. What it answers, and what the upstream sees, is written into the journal.
 */
import { hash } from "node:crypto";
import type { Paid, WantedWork, Worked } from "../../src/payments/sale/admission.ts";

import { RECORDED_WITHIN_MS, type Paywall } from "../../src/payments/sale/paywall.ts";
import { type Time, waitWithin } from "../../src/time/time.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import type { Boundary } from "./faults.ts";
import type { Journal } from "./journal.ts";
import { LED_PATH, type SimulatedPayment } from "./payments.ts";
import type { Random } from "./random.ts";
import { THIEF } from "./thief.ts";
import type { Life } from "./virtual-time.ts";

export interface Asked {
  readonly payment: SimulatedPayment;
  readonly path: string;
  /** With its path: what is bought. */
  readonly target: string;
  /** The address that it comes from. */
  readonly client: string;
  readonly isGone: () => boolean;
  /** Hears that the buyer has left; what it returns ends that. */
  readonly onGone: (listener: () => void) => () => void;
  /** Gives the buyer the whole answer; whether there was still a buyer. */
  readonly give: (answer: Answer) => boolean;
}

/** `lost`: no answer came; the connection broke or the buyer left. */
export interface Answer {
  readonly status: 200 | 302 | 402 | 404 | 409 | 500 | 502 | 503 | "lost";
  readonly code?: string;
  /** Of 302: the query that was asked for, now at {@link LED_PATH}. */
  readonly target?: string;
}

/** What the upstream does at the moment. */
export interface UpstreamMood {
  /** How likely it answers 404, 500, or takes long. */
  refusing: number;
  failing: number;
  /** How likely an answer is too large to be kept, and its buyer leaves in its middle. */
  large: number;
  leaving: number;
  /** How likely it leads on to {@link LED_PATH}. */
  leading: number;
  /** How often what was sold may be fetched again. */
  readonly repeats: number;
  /** It works before it is settled. */
  readonly isAfter: boolean;
}

export interface PublicSideOptions {
  readonly life: Life;
  readonly paywall: Paywall;
  readonly requirements: PaymentRequirements;
  readonly boundary: Boundary;
  readonly random: Random;
  readonly mood: UpstreamMood;
  readonly journal: Journal;
  readonly time: Time;
}

/** For how long what was sold may be fetched again, milliseconds. */
const AGAIN_MS = 60_000;
/** As of the gateway: attempts of one payment that do not count, since they led on. */
const MAX_UNCOUNTED = 10;
const BODY_HASH = hash("sha256", "");
const KEPT = {
  bodyHash: BODY_HASH,
  response: { status: 200, headers: [], body: new Uint8Array() },
};
/** Longest way to the client, milliseconds. */
const CLIENT_MS = 40;
/** Longest way to the upstream, milliseconds. */
const UPSTREAM_MS = 40;

/** What came of work before the settlement. */
interface Work {
  status: 200 | 302 | 404 | 502;
  isLarge: boolean;
}

/** The request never reached the upstream, or its answer broke off. */
class UpstreamFault extends Error {}

/** A kept answer was not sent whole. */
class ClientFault extends Error {}

export class Front {
  readonly #options: PublicSideOptions;

  constructor(options: PublicSideOptions) {
    this.#options = options;
  }

  async serve(asked: Asked): Promise<void> {
    const { paywall, requirements, journal } = this.#options;
    const { payment, path, target, client, isGone, onGone, give } = asked;
    const isThief = client === THIEF;
    const incarnation = journal.incarnation(payment.key);
    const work: Work = { status: 502, isLarge: false };
    const { isAfter } = this.#options.mood;
    const admission = await paywall.admit({
      payment: payment.payload,
      accepts: [requirements],
      binding: `GET ${path}`,
      target,
      client,
      isGone,
      onGone,
      onReset: () => undefined,
      refusal: () => null,
      repeats: this.#options.mood.repeats,
      readBodyHash: async () => BODY_HASH,
      work: isAfter ? (wanted) => this.#work(asked, wanted, work) : undefined,
    });
    switch (admission.kind) {
      case "admitted": {
        const { paid } = admission;
        const sold = this.#sold(asked, paid);
        if (paid.answer === undefined) return this.#deliver(sold, paid);
        const isLarge = paid.answer === "here" && work.isLarge;
        return this.#give(sold, paid, isLarge);
      }
      case "unsold": {
        const { status } = work;
        const led = status === 302 ? { target: target.replace(/^[^?]*/, LED_PATH) } : {};
        give({ status, ...led });
        return;
      }
      case "replayed": {
        const sold = journal.keptFor(payment, admission.settlement, target);
        if (isThief) journal.stolen(sold, target);
        journal.replayed(sold, target);
        return await this.#giveKept(asked, sold, admission.collected);
      }
      case "led":
        give({ status: 302, target: admission.target });
        return;
      case "refused": {
        const { code } = admission.refusal;
        if (journal.isGenuine(payment))
          journal.refused({ payment, target, path, code, isThief, incarnation });
        give({ status: 402, code });
        return;
      }
      case "unservable":
        give({ status: 503 });
        return;
      case "owed":
        give({ status: 409 });
        return;
      case "abandoned":
        give({ status: "lost" });
        return;
      default:
        give({ status: 500 });
    }
  }

  /** It takes a while to be sent, and a life may end in the middle. */
  async #giveKept(
    { client, give }: Asked,
    sold: SimulatedPayment,
    collected: () => Promise<void>,
  ): Promise<void> {
    const { boundary, life, journal } = this.#options;
    const effect = (): boolean => {
      const isGiven = give({ status: 200 });
      if (isGiven && client !== THIEF) journal.had(sold);
      return isGiven;
    };
    const fault = (): Error => new ClientFault("the connection broke");
    try {
      const sent = { name: "client", mostMs: CLIENT_MS, fault, effect };
      if (await boundary.cross(life, sent)) await collected();
    } catch (cause) {
      if (!(cause instanceof ClientFault)) throw cause;
      give({ status: "lost" });
    }
  }

  /** With the payment that is sold in place of the one that was shown, which may only prove who its payer is. */
  #sold(asked: Asked, { idempotencyKey }: Paid): Asked {
    const { journal } = this.#options;
    const { client, target } = asked;
    const payment = journal.soldUnder(idempotencyKey);
    if (client === THIEF) journal.stolen(payment, target);
    return { ...asked, payment };
  }

  /** For a payment that is not settled, which may be an earlier one of the payer. */
  async #work(asked: Asked, wanted: WantedWork, work: Work): Promise<Worked> {
    const { boundary, life, journal, random, mood } = this.#options;
    const payment = journal.claimedUnder(wanted.idempotencyKey) ?? asked.payment;
    try {
      work.status = await boundary.cross(life, {
        name: "upstream",
        mostMs: UPSTREAM_MS,
        outlives: true,
        fault: () => new UpstreamFault("the upstream did not answer"),
        effect: () => {
          journal.worked(payment, asked.target, wanted.idempotencyKey, life);
          return this.#answerTo(asked.target, false);
        },
      });
    } catch (cause) {
      if (!(cause instanceof UpstreamFault)) throw cause;
      work.status = 502;
    }
    if (work.status !== 200) return { kind: "nothing", isBackends: work.status === 502 };
    journal.made(payment, asked.target);
    work.isLarge = random.chance(mood.large);
    return { kind: "goods", sold: work.isLarge ? undefined : KEPT };
  }

  /** As the gateway records it: see `attemptOf` there. */
  async #deliver(asked: Asked, paid: Paid): Promise<void> {
    let isSent = false;
    try {
      const status = await this.#ask(asked, paid.isRepeat, () => {
        isSent = true;
      });
      if (status === 302) return await this.#lead(asked, paid);
      if (status !== 200) return await this.#refuse(asked, paid, { status, isSent: true });
      await this.#give(asked, paid, this.#options.random.chance(this.#options.mood.large));
    } catch (cause) {
      if (!(cause instanceof UpstreamFault)) throw cause;
      await this.#refuse(asked, paid, { status: 502, isSent });
    }
  }

  /** Stored before the buyer is told, who may ask for it again at once; but he does not wait long for that. */
  async #refuse(
    { give }: Asked,
    paid: Paid,
    { status, isSent }: { readonly status: 404 | 502; readonly isSent: boolean },
  ): Promise<void> {
    const stored = paid.undelivered({ sent: isSent, served: null });
    await waitWithin(stored, this.#options.time.timeout(RECORDED_WITHIN_MS), undefined);
    give({ status });
    await stored;
  }

  /** Stored before the buyer can follow. */
  async #lead({ target, give }: Asked, paid: Paid): Promise<void> {
    const led = target.replace(/^[^?]*/, LED_PATH);
    const to = { from: target, to: `GET ${led}` };
    const attempt = { sent: true, served: null, uncounted: MAX_UNCOUNTED, led: to };
    const stored = paid.undelivered(attempt);
    await waitWithin(stored, this.#options.time.timeout(RECORDED_WITHIN_MS), undefined);
    give({ status: 302, target: led });
    await stored;
  }

  /** A good answer has come. */
  async #give(
    { payment, target, client, give }: Asked,
    paid: Paid,
    isLarge: boolean,
  ): Promise<void> {
    const { journal, random, mood, life } = this.#options;
    const isCut = isLarge && random.chance(mood.leaving);
    const isGiven = give({ status: isCut ? "lost" : 200 }) && !isCut;
    // Of a large answer a buyer who leaves may have a part; a small one is kept whole.
    if (isGiven && client !== THIEF) journal.had(payment);
    const isOut = isGiven || isLarge;
    const given = isOut ? journal.delivered(payment, target, life) : undefined;
    const { repeats } = mood;
    if (isLarge && !isGiven)
      await paid.undelivered({ sent: true, served: target, uncounted: repeats });
    else if (isLarge) await paid.delivered(undefined, repeats > 0 ? AGAIN_MS : undefined);
    else await paid.delivered({ ...KEPT, isUncollected: !isGiven });
    if (given !== undefined) journal.recorded(payment, given);
  }

  #ask(
    { payment, target }: Asked,
    isRepeat: boolean,
    onSent: () => void,
  ): Promise<200 | 302 | 404 | 502> {
    const { boundary, life, journal, mood } = this.#options;
    return boundary.cross(life, {
      name: "upstream",
      mostMs: UPSTREAM_MS,
      outlives: true,
      fault: () => new UpstreamFault("the upstream did not answer"),
      effect: () => {
        if (life.isAlive) onSent();
        journal.executed(payment, target, life, { isRepeat, repeats: mood.repeats });
        return this.#answerTo(target, isRepeat);
      },
    });
  }

  #answerTo(target: string, isRepeat: boolean): 200 | 302 | 404 | 502 {
    const { random, mood } = this.#options;
    if (random.chance(mood.refusing)) return 404;
    if (random.chance(mood.failing)) return 502;
    const isLed = mood.leading > 0 && !isRepeat && !target.startsWith(LED_PATH);
    return isLed && random.chance(mood.leading) ? 302 : 200;
  }
}
