/**
 * Where one worker's questions about money are answered, in the process that has it. The worker is a life of
 * its own in the ledger; what it holds is freed when it is gone, while settlements that it asked for go on.
 */
import { once } from "node:events";
import type { Begun, Settled } from "../payments/sale/admission.ts";
import type {
  Identified,
  Identifying,
  LocalPaymentService,
  Payment,
  ShownHolder,
  SigningIn,
  Memberships,
} from "../payments/sale/payment-service.ts";
import type { ClaimTerms, PotDraw, WorkerLife } from "../ledger/ledger.ts";
import type { Logger } from "../telemetry/logger.ts";
import { inContext, readContext } from "../telemetry/request-context.ts";
import type { Time } from "../time/time.ts";
import type { PaymentKey } from "../x402/payment-key.ts";
import type { HolderTerms } from "../x402/holding.ts";
import type { SignIn } from "../x402/sign-in.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import type { Handler } from "./channel.ts";
import {
  readTransition,
  type SentIdentified,
  type SentPayment,
} from "./payment-service-answers.ts";

/** Pause before the ledger is told again what it could not store, milliseconds. */
const STORE_PAUSE_MS = 1_000;

export interface WorkerSessionOptions {
  readonly life: WorkerLife;
  /** Stands on {@link WorkerSessionOptions.life}. */
  readonly payments: LocalPaymentService;
  /** Longest that a settlement is waited for, milliseconds, whether or not the worker still does. */
  readonly settlementWaitMs: number;
  readonly logger: Logger;
  readonly time: Time;
  /** Ends when the ledger is closed: then nothing is stored any more. */
  readonly closing: AbortSignal;
}

export class WorkerSession {
  readonly #options: WorkerSessionOptions;
  /** Settlements that are waited for, and for how many questions each. */
  readonly #settling = new Map<PaymentKey, number>();
  /** What is being stored for the worker. */
  readonly #storing = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor(options: WorkerSessionOptions) {
    this.#options = options;
  }

  /** What the worker may ask, by name; the values are those of the {@link PaymentService}. */
  get serves(): Readonly<Record<string, Handler>> {
    const { life, payments } = this.#options;
    const stored =
      (answer: (...values: never[]) => Promise<unknown>): Handler =>
      (values) =>
        this.#store(() => answer(...(values as never[])));
    return {
      identify: stored(async (presented: Identifying) => {
        const identified = await payments.identify(presented);
        return identified.ok ? { ...identified, value: sentOf(identified.value) } : identified;
      }),
      step: ([key, transition], signal) =>
        this.#store(async () => {
          const { life, payments } = this.#options;
          const outcome = await payments.step(key as PaymentKey, readTransition(transition));
          // A claim that nobody waits for any more is nobody's: left alone, it would be busy for everyone else.
          const isClaim = typeof outcome === "object" && "kind" in outcome;
          const isGranted = isClaim && outcome.kind === "granted";
          if (signal.aborted && isGranted) await life.step(key as PaymentKey, { kind: "released" });
          return outcome;
        }),
      owe: async ([payer], signal) => {
        const over = once(this.#within(signal), "abort");
        payments.owe(String(payer), over);
        await over;
      },
      answer: stored((key: PaymentKey) => payments.answer(key)),
      draw: stored((draws: readonly PotDraw[]) => life.pots.draw(draws)),
      balances: stored((pots: readonly string[]) => life.pots.balances(pots)),
      holdings: ([shown, terms, claimant]) =>
        payments.holdings(shown as ShownHolder, terms as readonly HolderTerms[], String(claimant)),
      changed: ([key, version], signal) =>
        payments.changed(key as PaymentKey, Number(version), this.#within(signal)),
      vet: ([key, terms, context], signal) =>
        inContext(readContext(context), () =>
          this.#store(async () => {
            const claimed = terms as ClaimTerms;
            const payment = this.#read(claimed.request);
            const vetted = await payments.vet(payment, claimed, this.#within(signal));
            // Nobody works for it who does not hear that it is good.
            const isLost = vetted === "good" && signal.aborted;
            if (isLost) await payments.step(key as PaymentKey, { kind: "released" });
            return vetted;
          }),
        ),
      charge: ([key, terms, context], signal) =>
        inContext(readContext(context), () =>
          this.#settle(key as PaymentKey, signal, (limit) => {
            const claimed = terms as ClaimTerms;
            return payments.charge(this.#read(claimed.request), claimed, limit);
          }),
        ),
      resume: ([key, begun, context], signal) =>
        inContext(readContext(context), () =>
          this.#settle(key as PaymentKey, signal, (limit) => {
            return payments.resume(key as PaymentKey, begun as Begun, limit);
          }),
        ),
      signedIn: ([signingIn, claimant, context], signal) =>
        inContext(readContext(context), () =>
          this.#store(async () => {
            const asked = signingIn as SigningIn;
            const found = await payments.signedIn(asked, String(claimant), this.#within(signal));
            if (!found.ok) return found;
            const { bought, ...known } = found.value;
            return { ...found, value: { ...known, bought: bought.map(sentPayment) } };
          }),
        ),
      openSession: ([signIn, memberships, claimant, context], signal) =>
        inContext(readContext(context), () =>
          this.#store(() =>
            payments.openSession(
              signIn as SignIn,
              memberships as Memberships,
              String(claimant),
              this.#within(signal),
            ),
          ),
        ),
      prove: ([request, claimant, context], signal) =>
        inContext(readContext(context), () =>
          payments.prove(
            this.#read(request as FacilitatorRequest),
            String(claimant),
            this.#within(signal),
          ),
        ),
    };
  }

  /**
   * The worker is gone: what it held is free when this resolves, but for payments that are being settled. Those
   * are free when their settlement has ended.
   */
  close(): Promise<void> {
    this.#isClosed = true;
    const freed = this.#free();
    // What it was delivering has broken off: whose that was, the ledger knows.
    this.#options.payments.owe(null, freed);
    return freed;
  }

  async #free(): Promise<void> {
    await Promise.allSettled(this.#storing);
    const { life, logger, payments } = this.#options;
    payments.dropWorks();
    await this.#persist(async () => {
      const freed = await life.end(new Set(this.#settling.keys()));
      if (freed > 0) logger.warn({ freed }, "payments that a dead worker held are free again");
    });
  }

  #read(request: FacilitatorRequest): Payment {
    const read = this.#options.payments.read(request);
    if (!read.ok) throw new TypeError(`a worker asks about no payment: ${read.error.detail}`);
    return read.value;
  }

  async #store<Value>(answer: () => Promise<Value>): Promise<Value> {
    if (this.#isClosed) throw new Error("this worker is taken for dead");
    const storing = answer();
    this.#storing.add(storing);
    try {
      return await storing;
    } finally {
      this.#storing.delete(storing);
    }
  }

  /** Goes on when the worker is gone. Where it ends without an outcome, any worker may go on with the claim. */
  async #settle(
    key: PaymentKey,
    signal: AbortSignal,
    settle: (limit: AbortSignal) => Promise<Settled>,
  ): Promise<Settled> {
    if (this.#isClosed) throw new Error("this worker is taken for dead");
    this.#settling.set(key, (this.#settling.get(key) ?? 0) + 1);
    let isOpen = true;
    try {
      const settled = await settle(this.#within(signal));
      isOpen = settled.kind === "unknown";
      return settled;
    } finally {
      const others = (this.#settling.get(key) ?? 1) - 1;
      if (others > 0) this.#settling.set(key, others);
      else {
        this.#settling.delete(key);
        if (isOpen) void this.#persist(() => this.#options.life.step(key, { kind: "leave" }));
      }
    }
  }

  #within(signal: AbortSignal): AbortSignal {
    const { settlementWaitMs, time } = this.#options;
    return AbortSignal.any([signal, time.timeout(settlementWaitMs)]);
  }

  /** Until it is stored: nobody else would do it as long as this process lives. */
  async #persist(store: () => Promise<void>): Promise<void> {
    const { logger, time, closing } = this.#options;
    while (!closing.aborted) {
      try {
        return await store();
      } catch (cause) {
        if (closing.aborted) return;
        logger.error({ err: cause }, "what a worker held could not be freed; trying again");
        await time.sleep(STORE_PAUSE_MS, closing);
      }
    }
  }
}

/** What a worker is told. */
function sentOf({ payment, owed, ...rest }: Identified): SentIdentified {
  return { ...rest, payment: sentPayment(payment), owed: owed.map(sentPayment) };
}

function sentPayment({ key, request }: Payment): SentPayment {
  return { key, request };
}
