/**
 * Remote facilitators as our own REST endpoints offer them to other resource servers: each settlement is
 * claimed in the ledger before it is handed over, so that one payment buys one grant, is asked for where it
 * was left after a restart, and is recovered with no caller asking. What is settled in this process claims
 * for itself.
 */
import { randomUUID } from "node:crypto";
import type { BeginOutcome, Ledger } from "../ledger/ledger.ts";
import { payerOf, paymentKey, type PaymentKey } from "../x402/payment-key.ts";
import type { Refusal } from "../x402/result.ts";
import type {
  FacilitatorRequest,
  SettleResponse,
  SupportedResponse,
  VerifyResponse,
} from "../x402/x402.ts";
import {
  FacilitatorFault,
  HeldPayment,
  waitWithin,
  type Doubted,
  type Facilitator,
  type SettleOptions,
} from "./facilitator.ts";

export interface RecordedOptions {
  /** The mesh. */
  readonly facilitator: Facilitator;
  readonly ledger: Pick<
    Ledger,
    | "begin"
    | "outcome"
    | "changed"
    | "handedOver"
    | "settled"
    | "held"
    | "failed"
    | "lookedAgain"
    | "abandoned"
  >;
}

/** One settlement on its way. */
interface Forwarded {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
  readonly options: SettleOptions & { readonly idempotencyKey: string };
}

export class RecordedFacilitator implements Facilitator {
  readonly #facilitator: Facilitator;
  readonly #ledger: RecordedOptions["ledger"];
  readonly #flights = new Map<PaymentKey, Promise<SettleResponse>>();

  constructor({ facilitator, ledger }: RecordedOptions) {
    this.#facilitator = facilitator;
    this.#ledger = ledger;
  }

  isRemote(network: string): boolean {
    return this.#facilitator.isRemote(network);
  }

  precheck(request: FacilitatorRequest): VerifyResponse | undefined {
    return this.#facilitator.precheck(request);
  }

  isDoubtful(request: FacilitatorRequest): boolean {
    return this.#facilitator.isDoubtful?.(request) ?? false;
  }

  verify(
    request: FacilitatorRequest,
    signal: AbortSignal,
    client?: string,
  ): Promise<VerifyResponse> {
    return this.#facilitator.verify(request, signal, client);
  }

  supported(signal: AbortSignal): Promise<SupportedResponse> {
    return this.#facilitator.supported(signal);
  }

  async settle(request: FacilitatorRequest, options: SettleOptions): Promise<SettleResponse> {
    if (!this.isRemote(request.paymentRequirements.network)) {
      return this.#facilitator.settle(request, options);
    }
    const named = paymentKey(request);
    if (!named.ok) return failure(named.error, request);
    const key = named.value;
    // Recovery asks again with the stored key, so there is one even where the caller has none.
    const { idempotencyKey = randomUUID(), signal } = options;
    const begun = await this.#ledger.begin(key, request, idempotencyKey);
    switch (begun.kind) {
      case "taken":
        return failure(USED, request);
      case "settled":
        return { success: true, ...begun.settlement };
      case "held":
        throw new HeldPayment(begun.transaction);
      case "failed":
        return this.#failed({ key, request, options: { ...options, idempotencyKey } }, begun);
      case "pending":
        return this.#wait(key, request, signal);
      default: {
        const { facilitator, handedOverAt = null } = begun;
        const asked = facilitator === undefined ? {} : { askedBefore: facilitator, handedOverAt };
        return this.#join({ key, request, options: { ...options, ...asked, idempotencyKey } });
      }
    }
  }

  /** Callers with one idempotency key share one flight. */
  async #join(forwarded: Forwarded): Promise<SettleResponse> {
    const { key, options } = forwarded;
    const running = this.#flights.get(key);
    if (running !== undefined) {
      const answer = await waitWithin(running, options.signal, undefined);
      if (answer === undefined) throw unknown("the settlement has not ended in time");
      return answer;
    }
    const flight = this.#forward(forwarded).finally(() => this.#flights.delete(key));
    this.#flights.set(key, flight);
    return flight;
  }

  async #forward({ key, request, options }: Forwarded): Promise<SettleResponse> {
    let isRecorded = true;
    const onHandOver = async (facilitator: string, head: number | null): Promise<void> => {
      isRecorded = false;
      await this.#ledger.handedOver(key, facilitator, head);
      isRecorded = true;
    };
    try {
      const answer = await this.#facilitator.settle(request, { ...options, onHandOver });
      await this.#record(key, answer);
      return answer;
    } catch (cause) {
      if (cause instanceof HeldPayment) await this.#ledger.held(key, cause.transaction);
      const isUnsent = cause instanceof FacilitatorFault && cause.kind !== "unknown";
      // A claim that cannot be dropped now stays with this caller's key.
      if (isUnsent || !isRecorded) await this.#ledger.abandoned(key).catch(() => undefined);
      throw cause;
    }
  }

  /** What was refused after it was handed over may be on the chain by now. */
  async #failed(
    { key, request, options }: Forwarded,
    { failure: refusal, doubted }: Extract<BeginOutcome, { kind: "failed" }>,
  ): Promise<SettleResponse> {
    if (doubted === undefined) return failure(refusal, request);
    const { idempotencyKey, signal } = options;
    const seen = await this.#look(key, { request, idempotencyKey, ...doubted }, signal);
    if (seen?.success === true) await this.#record(key, seen);
    else if (seen !== undefined) await this.#ledger.lookedAgain(key, null);
    return seen?.success === true ? seen : failure(refusal, request);
  }

  async #look(
    key: PaymentKey,
    doubted: Doubted,
    signal: AbortSignal,
  ): Promise<SettleResponse | undefined> {
    try {
      return await this.#facilitator.lookAgain?.(doubted, signal);
    } catch (cause) {
      if (cause instanceof HeldPayment) await this.#ledger.held(key, cause.transaction);
      throw cause;
    }
  }

  async #record(key: PaymentKey, answer: SettleResponse): Promise<void> {
    try {
      if (answer.success) {
        const { transaction, network, payer } = answer;
        await this.#ledger.settled(key, { transaction, network, payer });
      } else {
        const { errorReason: code, detail = "the settlement failed" } = answer;
        await this.#ledger.failed(key, { code, detail });
      }
    } catch (cause) {
      throw unknown("the outcome could not be stored", cause);
    }
  }

  /** For another process, which has the claim. */
  async #wait(
    key: PaymentKey,
    request: FacilitatorRequest,
    signal: AbortSignal,
  ): Promise<SettleResponse> {
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
          if (signal.aborted) throw unknown("the settlement has not ended in time");
          await this.#ledger.changed(key, outcome.version, signal);
      }
    }
  }
}

const USED: Refusal = {
  code: "invalid_transaction_state",
  detail: "this payment authorization was used before",
};

function unknown(message: string, cause?: unknown): FacilitatorFault {
  return new FacilitatorFault("unknown", "unexpected_settle_error", message, { cause });
}

function failure({ code, detail }: Refusal, request: FacilitatorRequest): SettleResponse {
  const { network } = request.paymentRequirements;
  const payer = payerOf(request.paymentPayload);
  return { success: false, errorReason: code, transaction: "", network, payer, detail };
}
