/**
 * One settlement at one facilitator elsewhere, until it is known what became of it. What the first answer
 * leaves open is resolved from the chain where it can be asked, else by asking the same facilitator again.
 *
 *     first answer ── success ──────────────── settled; with `confirm: receipt` when the chain shows it
 *         │       └── refused ──────────────── failed, unless the chain shows the payment nevertheless
 *         │       └── nothing sent, unread ─── its fault goes to the caller
 *         └── none, or nonsense ── chain ───── settled or failed, as it says twice
 *                             └─── no RPC ──── asked again: a success counts
 *
 * A refusal of a second request proves nothing: the facilitator may be refusing its own first success.
 */
import { randomUUID } from "node:crypto";
import type { Observer } from "../mechanism/mechanism.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Time } from "../time/time.ts";
import { payerOf } from "../x402/payment-key.ts";
import type { Refusal } from "../x402/result.ts";
import type { FacilitatorRequest, SettleResponse } from "../x402/x402.ts";
import { watchChain, type Seen, type Sighting } from "./chain-watch.ts";
import type { Send } from "./circuit.ts";
import { FacilitatorFault, type SettleOptions } from "./facilitator.ts";
import type { RemoteFacilitator } from "./remote.ts";

/** How often a facilitator is asked again for one caller. */
const MAX_REPEATS = 4;
/** The pause before it is asked again, milliseconds; each next one is twice as long. */
const FIRST_REPEAT_PAUSE_MS = 1_000;
/** Looks at the chain after a refusal that may mean "used": nodes see a block some time apart. */
const LOOKS_AFTER_REFUSAL = 3;

/** A remote facilitator, and the way on which requests to it are counted. */
export interface Asked {
  readonly remote: RemoteFacilitator;
  readonly send: Send;
}

/** A settlement that was handed over before. */
export interface Repeat {
  /** As it was handed over. */
  readonly name: string;
  /** Undefined where it is not configured any more. */
  readonly asked: Asked | undefined;
  readonly idempotencyKey: string;
  readonly signal: AbortSignal;
  /**
   * Awaited before it is asked again. Whoever handed it over first may still be waiting in another process,
   * and must not drop the claim as unseen once it is asked for from here.
   */
  readonly onHandOver?: SettleOptions["onHandOver"];
}

export interface RemoteSettlementOptions {
  readonly observers: ReadonlyMap<string, Observer>;
  readonly telemetry: Telemetry;
  readonly time: Time;
}

export class RemoteSettlement {
  readonly #options: RemoteSettlementOptions;

  constructor(options: RemoteSettlementOptions) {
    this.#options = options;
  }

  /** Whether there is a chain to ask about that payment. */
  canSee(request: FacilitatorRequest): boolean {
    return this.#sighting(request, undefined) !== undefined;
  }

  /** False where a facilitator's word does not count and there is no chain to ask. */
  canCount({ confirm }: RemoteFacilitator, network: string): boolean {
    return confirm === "facilitator" || this.#options.observers.has(network);
  }

  /**
   * Hands over, asks, and resolves what is unknown as long as the caller waits. Only a caller with a claim
   * of its own (`onHandOver`) may take the chain's word: a payment on the chain is somebody's, not
   * everybody's who shows it.
   */
  async first(
    { remote, send }: Asked,
    request: FacilitatorRequest,
    options: SettleOptions,
  ): Promise<SettleResponse> {
    const { onHandOver, signal, idempotencyKey = randomUUID() } = options;
    const isClaimed = onHandOver !== undefined;
    try {
      const answer = await send(async () => {
        await onHandOver?.(remote.name);
        return remote.settle(request, { signal, idempotencyKey });
      }, signal);
      if (answer.success) return await this.#count(remote, request, answer, signal);
      return isClaimed ? await this.#doubt(remote, request, answer, signal) : answer;
    } catch (cause) {
      const isUnknown = cause instanceof FacilitatorFault && cause.kind === "unknown";
      if (!isUnknown || !isClaimed || cause instanceof Unconfirmed) throw cause;
      this.#log(request, remote.name).warn({ err: cause }, "no outcome of a settlement; looking");
      const sighting = this.#sighting(request, undefined);
      if (sighting !== undefined) return this.#watch(sighting, request, signal, cause);
      await this.#options.time.sleep(FIRST_REPEAT_PAUSE_MS, signal);
      const repeat = { name: remote.name, asked: { remote, send }, idempotencyKey, signal };
      return this.#askAgain(repeat, request, MAX_REPEATS);
    }
  }

  /**
   * Asks about a settlement that was handed over before, for a caller who waits. Answers only what is
   * definite, and throws nothing but `unknown`.
   */
  async again(repeat: Repeat, request: FacilitatorRequest): Promise<SettleResponse> {
    const { signal } = repeat;
    const sighting = this.#sighting(request, undefined);
    if (sighting === undefined) return this.#askAgain(repeat, request, MAX_REPEATS);
    const seen = await this.#look(sighting, signal, 1);
    if (seen.kind !== "unknown") return this.#told(seen, request);
    let last: unknown = unknown(seen.detail);
    try {
      return await this.#askAgain(repeat, request, 1);
    } catch (cause) {
      last = cause;
    }
    return this.#watch(sighting, request, signal, last);
  }

  /**
   * The same for nobody who waits: one look, or one question where there is no chain to look at. Nothing is
   * asked of a facilitator whose payment the chain will decide: a buyer who left is not charged for it.
   */
  async recover(repeat: Repeat, request: FacilitatorRequest): Promise<SettleResponse> {
    const sighting = this.#sighting(request, undefined);
    if (sighting === undefined) return this.#askAgain(repeat, request, 1);
    const seen = await this.#look(sighting, repeat.signal, 1);
    if (seen.kind === "unknown") throw unknown(seen.detail);
    return this.#told(seen, request);
  }

  /** A success, counted as its facilitator's settlements count. */
  async #count(
    remote: RemoteFacilitator,
    request: FacilitatorRequest,
    answer: Settled,
    signal: AbortSignal,
  ): Promise<SettleResponse> {
    if (remote.confirm === "facilitator") return answer;
    const log = this.#log(request, remote.name);
    const claimed = answer.transaction;
    const sighting = this.#sighting(request, claimed);
    if (sighting === undefined)
      throw new Unconfirmed("its success cannot be compared with a chain");
    const seen = await this.#look(sighting, signal, Infinity);
    if (seen.kind === "confirmed") return this.#told(seen, request);
    const said = seen.kind === "failed" ? seen.refusal.detail : seen.detail;
    log.error(
      { claimed, chain: said },
      "a facilitator claims a settlement that is not on the chain",
    );
    if (seen.kind === "unknown") throw new Unconfirmed(`claimed, but not on the chain: ${said}`);
    return this.#told(seen, request);
  }

  /**
   * A first refusal. It is the facilitator's last word, except that "used" may mean: by itself, for a
   * request of ours that something on the way sent twice.
   */
  async #doubt(
    remote: RemoteFacilitator,
    request: FacilitatorRequest,
    answer: Refused,
    signal: AbortSignal,
  ): Promise<SettleResponse> {
    if (answer.errorReason !== "invalid_transaction_state") return answer;
    const sighting = this.#sighting(request, undefined);
    if (sighting === undefined) return answer;
    const seen = await this.#look(sighting, signal, LOOKS_AFTER_REFUSAL);
    if (seen.kind === "unknown" && !seen.hasAnswered) {
      throw new Unconfirmed(`refused, and the chain cannot be asked: ${seen.detail}`);
    }
    if (seen.kind !== "confirmed") return answer;
    this.#log(request, remote.name).warn(
      { seen },
      "a refused settlement is on the chain: it counts",
    );
    return this.#told(seen, request);
  }

  /** Until the facilitator tells a success, or as often as it may be asked. */
  async #askAgain(
    { name, asked, idempotencyKey, signal, onHandOver }: Repeat,
    request: FacilitatorRequest,
    times: number,
  ): Promise<SettleResponse> {
    const log = this.#log(request, name);
    if (asked === undefined) {
      const message = "a payment was handed to a facilitator that is not configured any more";
      log.error(message);
      throw unknown(`${message}: ${name}`);
    }
    const { remote, send } = asked;
    if (!signal.aborted) await onHandOver?.(name);
    let detail = "the facilitator was not asked again";
    let pauseMs = FIRST_REPEAT_PAUSE_MS;
    for (let count = 0; count < times && !signal.aborted; count += 1) {
      if (count > 0) {
        await this.#options.time.sleep(pauseMs, signal);
        pauseMs *= 2;
      }
      try {
        const settle = () => remote.settle(request, { signal, idempotencyKey });
        const answer = await send(settle, signal);
        if (answer.success) return await this.#count(remote, request, answer, signal);
        detail = `it refuses the repeated request: ${answer.detail ?? answer.errorReason}`;
        log.warn({ code: answer.errorReason, detail }, "a refusal that proves nothing");
        break;
      } catch (cause) {
        if (!(cause instanceof FacilitatorFault) || cause instanceof Unconfirmed) throw cause;
        detail = cause.message;
      }
    }
    throw unknown(detail);
  }

  /** To the end of the caller's patience; then with the fault that brought us here. */
  async #watch(
    sighting: Sighting,
    request: FacilitatorRequest,
    signal: AbortSignal,
    cause: unknown,
  ): Promise<SettleResponse> {
    const seen = await this.#look(sighting, signal, Infinity);
    if (seen.kind === "unknown") throw unknown(seen.detail, cause);
    return this.#told(seen, request);
  }

  async #look(sighting: Sighting, signal: AbortSignal, looks: number): Promise<Seen> {
    const { time } = this.#options;
    try {
      return await watchChain(sighting, { time, signal, looks });
    } catch (cause) {
      const { network } = sighting.observer;
      this.#options.telemetry.logger.error({ err: cause, network }, "a chain could not be read");
      return { kind: "unknown", detail: "the chain could not be read", hasAnswered: false };
    }
  }

  #sighting(request: FacilitatorRequest, claimed: string | undefined): Sighting | undefined {
    const observer = this.#options.observers.get(request.paymentRequirements.network);
    const parsed = observer?.parse(request);
    if (observer === undefined || !parsed?.ok) return undefined;
    return { observer, authorization: parsed.value, claimed };
  }

  #told(seen: Exclude<Seen, { kind: "unknown" }>, request: FacilitatorRequest): SettleResponse {
    const { network } = request.paymentRequirements;
    const payer = payerOf(request.paymentPayload);
    if (seen.kind === "failed") return failure(seen.refusal, network, payer);
    return { success: true, transaction: seen.transaction, network, payer };
  }

  #log({ paymentRequirements, paymentPayload }: FacilitatorRequest, facilitator: string) {
    const { network } = paymentRequirements;
    const payer = payerOf(paymentPayload);
    return this.#options.telemetry.logger.child({ facilitator, network, payer });
  }
}

type Settled = SettleResponse & { readonly success: true };
type Refused = SettleResponse & { readonly success: false };

/** The facilitator has answered, and its answer does not count: nothing to ask it again. */
class Unconfirmed extends FacilitatorFault {
  constructor(message: string) {
    super("unknown", "unexpected_settle_error", message);
  }
}

function unknown(message: string, cause?: unknown): FacilitatorFault {
  return new FacilitatorFault("unknown", "unexpected_settle_error", message, { cause });
}

function failure({ code, detail }: Refusal, network: string, payer: string): SettleResponse {
  return { success: false, errorReason: code, transaction: "", network, payer, detail };
}
