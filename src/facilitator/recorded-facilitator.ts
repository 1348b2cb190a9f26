/**
 * Remote facilitators as our own REST endpoints offer them to other resource servers: each settlement is
 * claimed in the ledger before it is handed over, so that one payment buys one grant, is asked for where it
 * was left after a restart, and is recovered with no caller asking. What is settled in this process claims
 * for itself. Of what is refused before it leaves this process nothing is written, and little of what is refused later.
 */
import { randomUUID } from "node:crypto";
import type { BeginOutcome, Settlements } from "../ledger/ledger.ts";
import { withoutExtensions } from "../ledger/payment-row.ts";
import { type Time, waitWithin } from "../time/time.ts";
import { payerOf, type PaymentKey } from "../x402/payment-key.ts";
import type { Refusal } from "../x402/result.ts";
import type {
  FacilitatorRequest,
  PaymentRequirements,
  SettleResponse,
  SupportedResponse,
  VerifyResponse,
} from "../x402/x402.ts";
import {
  FacilitatorFault,
  HeldPayment,
  type Doubted,
  type Facilitator,
  type Payment,
  type SettleOptions,
  type Verified,
} from "../payments/facilitator.ts";
import { failure as saidNo } from "../payments/said-no.ts";
import { onTheWire, type WireFacilitator } from "./wire-facilitator.ts";
import { unknownOutcome } from "./remote-settlement.ts";

/** Largest request that is stored as it came, characters; of a larger one only what its settlement needs. */
export const MAX_STORED = 4_096;
/** So long an answer of `supported` is told again, and it may take so long, milliseconds. */
const SUPPORTED_MS = 1_000;
const SUPPORTED_TIMEOUT_MS = 10_000;
/** What the token, or the account that pays the network fee, is told by, and how long it may be, characters. */
const NEEDED_EXTRA = ["name", "version", "feePayer"] as const;
const MAX_EXTRA = 128;

export interface RecordedOptions {
  /** The router. */
  readonly facilitator: Facilitator;
  readonly ledger: Pick<Settlements, "step" | "outcome" | "changed">;
  readonly time: Time;
}

interface Told {
  readonly kinds: Promise<SupportedResponse>;
  /** Ends when it has to be asked again; undefined while it is being asked. */
  until?: AbortSignal;
}

/** One settlement on its way. */
interface Forwarded {
  readonly payment: Payment;
  readonly options: SettleOptions & { readonly idempotencyKey: string };
}

export class RecordedFacilitator implements WireFacilitator {
  readonly #facilitator: Facilitator;
  readonly #wire: WireFacilitator;
  readonly #ledger: RecordedOptions["ledger"];
  readonly #flights = new Map<PaymentKey, Promise<SettleResponse>>();
  readonly #time: Time;
  /** The last answer. */
  #supported: Told | undefined;

  constructor({ facilitator, ledger, time }: RecordedOptions) {
    this.#facilitator = facilitator;
    this.#wire = onTheWire(facilitator);
    this.#ledger = ledger;
    this.#time = time;
  }

  verify(...asked: Parameters<WireFacilitator["verify"]>): Promise<VerifyResponse> {
    return this.#wire.verify(...asked);
  }

  /** Anybody may ask us for it, and each of those elsewhere is asked: once at a time, and its answer is told for a while. */
  supported(): Promise<SupportedResponse> {
    const last = this.#supported;
    if (last !== undefined && last.until?.aborted !== true) return last.kinds;
    const asked = this.#facilitator.supported(this.#time.timeout(SUPPORTED_TIMEOUT_MS));
    const told: Told = { kinds: asked };
    this.#supported = told;
    const answered = (): void => {
      told.until = this.#time.timeout(SUPPORTED_MS);
    };
    asked.then(answered, answered);
    return asked;
  }

  async settle(request: FacilitatorRequest, options: SettleOptions): Promise<SettleResponse> {
    const read = this.#facilitator.read(request);
    if (!read.ok) return failure(read.error, request);
    const payment = read.value;
    const { key } = payment;
    if (!this.#facilitator.isRemote(payment.network)) {
      return this.#facilitator.settle(payment, options);
    }
    const stored = storable(request);
    let verified: Verified | undefined;
    if (
      isDubious(payment, stored !== request && lengthOf(stored) > MAX_STORED) &&
      !(await this.#isKnown(key, options))
    ) {
      const verdict = await this.#facilitator.verify(payment, options.signal, options.client);
      if (!verdict.ok) return failure(verdict.error, request);
      verified = verdict.value;
    }
    // Recovery asks again with the stored key, so there is one even where the caller has none.
    const { idempotencyKey = randomUUID(), signal } = options;
    const begun = await this.#ledger.step(key, {
      kind: "begin",
      request: stored,
      caller: idempotencyKey,
    });
    switch (begun.kind) {
      case "taken":
        return failure(USED, request);
      case "settled":
        return { success: true, ...begun.settlement };
      case "held":
        throw new HeldPayment(begun.transaction);
      case "failed":
        return this.#failed({ payment, options: { ...options, idempotencyKey } }, begun);
      case "pending": {
        // For another process, which has the claim.
        for (;;) {
          const outcome = await this.#ledger.outcome(key);
          switch (outcome.kind) {
            case "settled":
              return { success: true, ...outcome.settlement };
            case "held":
              throw new HeldPayment(outcome.transaction);
            case "failed":
              return failure(outcome.failure, request);
            case "gone": {
              const detail = "the settlement was not begun";
              throw new FacilitatorFault("unavailable", "unexpected_settle_error", detail);
            }
            default:
              if (signal.aborted) throw unknownOutcome("the settlement has not ended in time");
              await this.#ledger.changed(key, outcome.version, signal);
          }
        }
      }
      default: {
        const { facilitator, handedOverAt = null } = begun;
        const asked = facilitator === undefined ? {} : { askedBefore: facilitator, handedOverAt };
        const settle = { ...options, ...asked, verified, idempotencyKey };
        return this.#join({ payment, options: settle });
      }
    }
  }

  /** Whoever shows a key may ask for the outcome of an old one. */
  async #isKnown(key: PaymentKey, { idempotencyKey }: SettleOptions): Promise<boolean> {
    return idempotencyKey !== undefined && (await this.#ledger.outcome(key)).kind !== "gone";
  }

  /** Callers with one idempotency key share one flight. */
  async #join(forwarded: Forwarded): Promise<SettleResponse> {
    const { payment, options } = forwarded;
    const { key } = payment;
    const running = this.#flights.get(key);
    if (running !== undefined) {
      const answer = await waitWithin(running, options.signal, undefined);
      if (answer === undefined) throw unknownOutcome("the settlement has not ended in time");
      return answer;
    }
    const flight = this.#forward(forwarded).finally(() => this.#flights.delete(key));
    this.#flights.set(key, flight);
    return flight;
  }

  async #forward({ payment, options }: Forwarded): Promise<SettleResponse> {
    const { key } = payment;
    let isRecorded = true;
    let isHandedOver = options.askedBefore !== undefined;
    const onHandOver = async (facilitator: string, head: number | null): Promise<void> => {
      isRecorded = false;
      isHandedOver = true;
      await this.#ledger.step(key, { kind: "handedOver", facilitator, head });
      isRecorded = true;
    };
    try {
      const answer = await this.#facilitator.settle(payment, { ...options, onHandOver });
      // Nobody else has seen it, so that there is nothing to remember.
      if (!answer.success && !isHandedOver) await this.#ledger.step(key, { kind: "abandoned" });
      else await this.#record(key, answer);
      return answer;
    } catch (cause) {
      if (cause instanceof HeldPayment)
        await this.#ledger.step(key, { kind: "held", transaction: cause.transaction });
      // What was handed over before may have been settled, whatever becomes of asking again.
      if (options.askedBefore !== undefined) throw asUnknown(cause);
      const isUnsent = cause instanceof FacilitatorFault && cause.kind !== "unknown";
      // A claim that cannot be dropped now stays with this caller's key.
      if (isUnsent || !isRecorded)
        await this.#ledger.step(key, { kind: "abandoned" }).catch(() => undefined);
      throw cause;
    }
  }

  /** What was refused after it was handed over may be on the chain by now. */
  async #failed(
    { payment: { key, request }, options }: Forwarded,
    { failure: refusal, doubted }: Extract<BeginOutcome, { kind: "failed" }>,
  ): Promise<SettleResponse> {
    if (doubted === undefined) return failure(refusal, request);
    const { idempotencyKey, signal } = options;
    const seen = await this.#look({ key, request, idempotencyKey, ...doubted }, signal);
    if (seen?.success === true) await this.#record(key, seen);
    else if (seen !== undefined)
      await this.#ledger.step(key, { kind: "lookedAgain", nextMs: null });
    return seen?.success === true ? seen : failure(refusal, request);
  }

  async #look(doubted: Doubted, signal: AbortSignal): Promise<SettleResponse | undefined> {
    const { key } = doubted;
    try {
      return await this.#facilitator.lookAgain?.(doubted, signal);
    } catch (cause) {
      if (cause instanceof HeldPayment)
        await this.#ledger.step(key, { kind: "held", transaction: cause.transaction });
      throw cause;
    }
  }

  async #record(key: PaymentKey, answer: SettleResponse): Promise<void> {
    try {
      if (answer.success) {
        const { transaction, network, payer } = answer;
        await this.#ledger.step(key, {
          kind: "settled",
          settlement: { transaction, network, payer },
        });
      } else {
        const { errorReason: code, detail = "the settlement failed" } = answer;
        await this.#ledger.step(key, { kind: "failed", failure: { code, detail } });
      }
    } catch (cause) {
      throw unknownOutcome("the outcome could not be stored", cause);
    }
  }
}

/** Whether it is verified before anything of it is written: it can never be good, anybody can write it, or it is large. */
function isDubious({ fault, isDoubtful }: Payment, isLarge: boolean): boolean {
  return isDoubtful || fault !== undefined || isLarge;
}

/** In characters, as it is stored. */
function lengthOf(request: FacilitatorRequest): number {
  return JSON.stringify(request).length;
}

/**
 * What the ledger keeps of a request: all but its extensions where that is small, so that recovery asks with just what
 * was asked before; else without the members that say nothing of the payment.
 */
function storable(request: FacilitatorRequest): FacilitatorRequest {
  const kept = withoutExtensions(request);
  if (lengthOf(kept) <= MAX_STORED) return kept;
  const { paymentPayload, paymentRequirements } = kept;
  const { outputSchema: _, extra = {}, ...needed } = paymentRequirements;
  return {
    paymentPayload,
    paymentRequirements: { ...needed, description: "", extra: neededExtra(extra) },
  };
}

function neededExtra(extra: NonNullable<PaymentRequirements["extra"]>): Record<string, string> {
  const needed: Record<string, string> = {};
  for (const name of NEEDED_EXTRA) {
    const value = extra[name];
    if (typeof value === "string" && value.length <= MAX_EXTRA) needed[name] = value;
  }
  return needed;
}

const USED: Refusal = {
  code: "invalid_transaction_state",
  detail: "this payment authorization was used before",
};

function asUnknown(cause: unknown): unknown {
  if (!(cause instanceof FacilitatorFault) || cause.kind === "unknown") return cause;
  return unknownOutcome("it was handed over before, and could not be asked for again", cause);
}

function failure(refusal: Refusal, request: FacilitatorRequest): SettleResponse {
  const { network } = request.paymentRequirements;
  return saidNo(refusal, network, payerOf(request.paymentPayload));
}
