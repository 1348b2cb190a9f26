/**
 * Recovery of payments that were handed to a facilitator elsewhere and whose outcome nobody waits for:
 * taken up at start and then again and again, with no client asking. The chain decides where it can be
 * asked, else the same facilitator's success; a refusal of a repeated request decides nothing, so without
 * an RPC endpoint a payment may stay unresolved for as long as its facilitator says no more. Payments that
 * their facilitator has refused are looked for on the chain too, until it says that nobody can settle them.
 */
import type { HandedOver, Ledger } from "../ledger/ledger.ts";
import { paymentId } from "../telemetry/request-context.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Time } from "../time/time.ts";
import type { PaymentKey } from "../x402/payment-key.ts";
import type { SettleResponse } from "../x402/x402.ts";
import { FacilitatorFault, HeldPayment } from "../payments/facilitator.ts";
import type { FacilitatorRouter } from "./facilitator-router.ts";
import type { Recovery } from "../payments/settlement/recovery.ts";

/** Pause between two rounds, milliseconds. */
const ROUND_MS = 5_000;
/** Longest that one payment may take in one round, milliseconds. */
const PAYMENT_TIMEOUT_MS = 15_000;
/** Payments that are worked on at the same time. */
const MAX_TOGETHER = 8;
/** Refused payments that are looked for in one round at most; those who are due the longest come first. */
const DOUBTED_BATCH = 100;
/** Payments read in one round beyond those that are known to wait. */
const BATCH = 500;
/** Payments read in one round at most. */
const MAX_READ = 20_000;
/** The pause before a payment is tried again, milliseconds; each next one is twice as long. */
const FIRST_PAUSE_MS = 5_000;
/**
 * The longest pause between two looks for a refused payment, milliseconds; each next one is twice as long, so that
 * one whose authorization never ends is looked for for about a month.
 */
const MAX_DOUBT_PAUSE_MS = 16 * 86_400_000;
/** The longest pause between two tries for one payment, milliseconds. */
const MAX_PAUSE_MS = 600_000;

export interface RemoteRecoveryOptions {
  readonly router: Pick<FacilitatorRouter, "isLeft" | "recover" | "recoverDoubted" | "probe">;
  readonly ledger: Pick<Ledger, "step"> & {
    readonly queues: Pick<Ledger["queues"], "handedOvers" | "doubted">;
  };
  readonly telemetry: Telemetry;
  readonly time: Time;
}

/** Starts the first round at once; rounds never overlap. `stop` ends the round that is running. */
export function startRemoteRecovery(options: RemoteRecoveryOptions): Recovery {
  const closing = new AbortController();
  const { signal } = closing;
  const rounds = new Rounds(options, signal);
  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      await rounds.next();
      await options.time.sleep(ROUND_MS, signal);
    }
  };
  const running = run();
  return {
    async stop() {
      closing.abort();
      await running;
    },
  };
}

/** When a payment is tried again. */
interface Waiting {
  readonly pauseMs: number;
  readonly untilMs: number;
}

class Rounds {
  readonly #options: RemoteRecoveryOptions;
  readonly #closing: AbortSignal;
  #waiting: ReadonlyMap<PaymentKey, Waiting> = new Map();

  constructor(options: RemoteRecoveryOptions, closing: AbortSignal) {
    this.#options = options;
    this.#closing = closing;
  }

  /** Never rejects. */
  async next(): Promise<void> {
    const { router, ledger, telemetry, time } = this.#options;
    const probing = router.probe(this.#limit());
    try {
      // Oldest first: those that wait for ever must not stand before the others.
      const limit = Math.min(this.#waiting.size + BATCH, MAX_READ);
      const found = await ledger.queues.handedOvers(limit);
      const waiting = new Map<PaymentKey, Waiting>();
      for (const { key } of found) {
        const known = this.#waiting.get(key);
        if (known !== undefined) waiting.set(key, known);
      }
      const due = found.filter((each) => this.#isDue(each)).values();
      await this.#each(due, async (each) => {
        if (await this.#resolve(each)) waiting.delete(each.key);
        else waiting.set(each.key, after(waiting.get(each.key), time.now()));
      });
      this.#waiting = waiting;
      const doubted = (await ledger.queues.doubted(DOUBTED_BATCH)).values();
      await this.#each(doubted, (each) => this.#lookAgain(each));
    } catch (cause) {
      telemetry.logger.error({ err: cause }, "recovery could not read the ledger; trying again");
    }
    await probing;
  }

  async #each(
    payments: IterableIterator<HandedOver>,
    work: (payment: HandedOver) => Promise<void>,
  ): Promise<void> {
    const worker = async (): Promise<void> => {
      for (const each of payments) {
        if (this.#closing.aborted) return;
        await work(each);
      }
    };
    await Promise.all(Array.from({ length: MAX_TOGETHER }, worker));
  }

  #isDue(handedOver: HandedOver): boolean {
    const { router, time } = this.#options;
    const { untilMs = 0 } = this.#waiting.get(handedOver.key) ?? {};
    return time.now() >= untilMs && router.isLeft(handedOver);
  }

  /** True when its outcome is known and stored. Never rejects. */
  async #resolve(handedOver: HandedOver): Promise<boolean> {
    const { router, ledger, telemetry } = this.#options;
    const { key, facilitator } = handedOver;
    const log = telemetry.logger.child({ key, payment: paymentId(key), facilitator });
    try {
      const onHandOver = (name: string, head: number | null) =>
        ledger.step(key, { kind: "handedOver", facilitator: name, head });
      const outcome = await router.recover(handedOver, { signal: this.#limit(), onHandOver });
      if (outcome.success) {
        const { transaction, network, payer } = outcome;
        await ledger.step(key, {
          kind: "settled",
          settlement: { transaction, network, payer },
        });
        log.info({ transaction }, "a payment that was handed over is settled");
      } else {
        const { errorReason: code, detail = "the settlement failed" } = outcome;
        await ledger.step(key, { kind: "failed", failure: { code, detail } });
        log.warn({ code, detail }, "a payment that was handed over failed");
      }
      return true;
    } catch (cause) {
      if (cause instanceof HeldPayment) return this.#hold(key, cause);
      const isUnknown = cause instanceof FacilitatorFault;
      if (isUnknown) log.warn({ detail: cause.message }, "a payment is still unresolved");
      else log.error({ err: cause }, "the outcome of a payment could not be stored");
      return false;
    }
  }

  async #hold(key: PaymentKey, { transaction }: HeldPayment): Promise<boolean> {
    const { ledger, telemetry } = this.#options;
    const log = telemetry.logger.child({ key, payment: paymentId(key), transaction });
    try {
      await ledger.step(key, { kind: "held", transaction });
      log.error("a payment is in a transaction that is not ours: held");
      return true;
    } catch (cause) {
      log.error({ err: cause }, "that a payment is held could not be stored");
      return false;
    }
  }

  /** A payment that was refused. Never rejects. */
  async #lookAgain(doubted: HandedOver): Promise<void> {
    const { ledger, telemetry, time } = this.#options;
    const { key, facilitator, sinceMs } = doubted;
    const log = telemetry.logger.child({ key, payment: paymentId(key), facilitator });
    const pauseMs = Math.max(FIRST_PAUSE_MS, 2 * (time.now() - sinceMs));
    try {
      const seen = await this.#seen(doubted);
      if (seen?.success === true) {
        const { transaction, network, payer } = seen;
        await ledger.step(key, {
          kind: "settled",
          settlement: { transaction, network, payer },
        });
        const said = "a payment that its facilitator refused is on the chain: it counts";
        log.warn({ transaction }, said);
      } else {
        const isOver = seen !== undefined || pauseMs > MAX_DOUBT_PAUSE_MS;
        await ledger.step(key, {
          kind: "lookedAgain",
          nextMs: isOver ? null : time.now() + pauseMs,
        });
      }
    } catch (cause) {
      if (cause instanceof HeldPayment) await this.#hold(key, cause);
      else log.error({ err: cause }, "what became of a refused payment could not be stored");
    }
  }

  /** Undefined also where the chain cannot be asked. */
  async #seen({ handedOverAt, ...doubted }: HandedOver): Promise<SettleResponse | undefined> {
    if (handedOverAt === null) return undefined;
    try {
      return await this.#options.router.recoverDoubted({ ...doubted, handedOverAt }, this.#limit());
    } catch (cause) {
      if (!(cause instanceof FacilitatorFault) || cause instanceof HeldPayment) throw cause;
      return undefined;
    }
  }

  #limit(): AbortSignal {
    return AbortSignal.any([this.#closing, this.#options.time.timeout(PAYMENT_TIMEOUT_MS)]);
  }
}

function after(before: Waiting | undefined, nowMs: number): Waiting {
  const pauseMs =
    before === undefined ? FIRST_PAUSE_MS : Math.min(before.pauseMs * 2, MAX_PAUSE_MS);
  return { pauseMs, untilMs: nowMs + pauseMs };
}
