/**
 * The gateway's part in a sale, without HTTP: the paywall is asked, the upstream is called, the delivery is
 * recorded. What it answers, and what the upstream sees, is written into the journal.
 */
import { createHash } from "node:crypto";
import type { Paid } from "../../src/gateway/payment/admission.ts";
import type { Paywall } from "../../src/gateway/payment/paywall.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import type { Boundary } from "./faults.ts";
import type { Journal } from "./journal.ts";
import type { SimulatedPayment } from "./payments.ts";
import type { Random } from "./random.ts";
import type { Life } from "./virtual-time.ts";

export interface Asked {
  readonly payment: SimulatedPayment;
  readonly path: string;
  /** With its path: what is bought. */
  readonly target: string;
  readonly isGone: () => boolean;
  /** Gives the buyer the whole answer; whether there was still a buyer. */
  readonly give: (answer: Answer) => boolean;
}

/** `lost`: no answer came; the connection broke or the buyer left. */
export interface Answer {
  readonly status: 200 | 402 | 404 | 500 | 502 | 503 | "lost";
  readonly code?: string;
}

/** What the upstream does at the moment. */
export interface UpstreamMood {
  /** How likely it answers 404, 500, or takes long. */
  refusing: number;
  failing: number;
  /** How likely an answer is too large to be kept, and its buyer leaves in its middle. */
  large: number;
  leaving: number;
}

export interface FrontOptions {
  readonly life: Life;
  readonly paywall: Paywall;
  readonly requirements: PaymentRequirements;
  readonly boundary: Boundary;
  readonly random: Random;
  readonly mood: UpstreamMood;
  readonly journal: Journal;
}

const BODY_HASH = createHash("sha256").update("").digest("hex");
const KEPT = {
  bodyHash: BODY_HASH,
  response: { status: 200, headers: [], body: new Uint8Array() },
};
/** Longest way to the upstream, milliseconds. */
const UPSTREAM_MS = 40;

/** The request never reached the upstream, or its answer broke off. */
class UpstreamFault extends Error {}

export class Front {
  readonly #options: FrontOptions;

  constructor(options: FrontOptions) {
    this.#options = options;
  }

  async serve(asked: Asked): Promise<void> {
    const { paywall, requirements, journal } = this.#options;
    const { payment, path, target, isGone, give } = asked;
    const incarnation = journal.incarnation(payment.key);
    const admission = await paywall.admit({
      payment: payment.payload,
      accepts: [requirements],
      binding: `GET ${path}`,
      target,
      client: "192.0.2.1",
      isGone,
      onGone: () => () => undefined,
      refusal: () => null,
      readBodyHash: async () => BODY_HASH,
    });
    switch (admission.kind) {
      case "admitted":
        return this.#deliver(asked, admission.paid);
      case "replayed":
        journal.replayed(payment, target);
        give({ status: 200 });
        return;
      case "refused": {
        const { code } = admission.refusal;
        if (journal.isGenuine(payment))
          journal.refused({ payment, target, path, code, incarnation });
        give({ status: 402, code });
        return;
      }
      case "unservable":
        give({ status: 503 });
        return;
      case "abandoned":
        give({ status: "lost" });
        return;
      default:
        give({ status: 500 });
    }
  }

  /** As the gateway records it: see `attemptOf` there. */
  async #deliver(asked: Asked, paid: Paid): Promise<void> {
    const { isGone, give } = asked;
    let isSent = false;
    try {
      const status = await this.#ask(asked, () => {
        isSent = true;
      });
      if (status !== 200) {
        give({ status });
        return await paid.undelivered({ sent: true, served: null });
      }
      await this.#give(asked, paid);
    } catch (cause) {
      if (!(cause instanceof UpstreamFault)) throw cause;
      if (!isGone()) give({ status: 502 });
      await paid.undelivered({ sent: isSent, served: null });
    }
  }

  /** A good answer has come. */
  async #give({ payment, target, give }: Asked, paid: Paid): Promise<void> {
    const { journal, random, mood, life } = this.#options;
    const isLarge = random.chance(mood.large);
    const isCut = isLarge && random.chance(mood.leaving);
    const isGiven = give({ status: isCut ? "lost" : 200 }) && !isCut;
    // Of a large answer a buyer who leaves may have a part; a small one is kept whole.
    const isOut = isGiven || isLarge;
    const given = isOut ? journal.delivered(payment, target, life) : undefined;
    if (isLarge && !isGiven) await paid.undelivered({ sent: true, served: target });
    else await paid.delivered(isLarge ? undefined : KEPT);
    if (given !== undefined) journal.recorded(payment, given);
  }

  #ask({ payment, target }: Asked, onSent: () => void): Promise<200 | 404 | 502> {
    const { boundary, life, journal, random, mood } = this.#options;
    return boundary.cross(life, {
      name: "upstream",
      mostMs: UPSTREAM_MS,
      outlives: true,
      fault: () => new UpstreamFault("the upstream did not answer"),
      effect: () => {
        if (life.isAlive) onSent();
        journal.executed(payment, target, life);
        if (random.chance(mood.refusing)) return 404;
        return random.chance(mood.failing) ? 502 : 200;
      },
    });
  }
}
