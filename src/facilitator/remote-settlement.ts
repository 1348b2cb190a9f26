/**
 * One settlement at one facilitator elsewhere, until it is known what became of it. What the first answer
 * leaves open is resolved from the chain where it can be asked, else by asking the same facilitator again.
 *
 *     first answer ── success ──────────────── settled; with `confirm: receipt` when the chain shows it
 *         │       └── refused ──────────────── failed, unless the chain shows the payment nevertheless, and
 *         │       │                            its refusals are not said to be final; it is looked for
 *         │       │                            again as long as it can be paid (`remote-recovery.ts`)
 *         │       └── nothing sent, unread ─── its fault goes to the caller
 *         └── none, or nonsense ── chain ───── settled or failed, as it says twice
 *                             └─── no RPC ──── asked again: a success counts
 *
 * A refusal of a second request proves nothing: the facilitator may be refusing its own first success. What the
 * chain shows counts only in a later block than the newest one before the first hand-over: what was there
 * before was paid to somebody else, or for something else.
 */
import type { AskedFacilitator, Handed, Repeat } from "./handed.ts";
import type { HandedTo } from "./handed.ts";
import { randomUUID } from "node:crypto";
import type { Observer } from "../mechanism/mechanism.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { sooner, type Time } from "../time/time.ts";
import { payerOf } from "../x402/payment-key.ts";
import type { ErrorCode } from "../x402/error-code.ts";
import type { FacilitatorRequest, SettleResponse } from "../x402/x402.ts";
import { watchChain, type Seen, type ChainQuestion } from "./chain-watch.ts";
import { weighUse } from "./chain-use.ts";
import {
  FacilitatorFault,
  HeldPayment,
  type ForeignRule,
  type InTurn,
  type SettleOptions,
} from "../payments/facilitator.ts";
import type { RemoteFacilitator } from "./remote.ts";
import { failure } from "../payments/said-no.ts";

/** How often a facilitator is asked again for one caller. */
const MAX_REPEATS = 4;
/** The pause before it is asked again, milliseconds; each next one is twice as long. */
const FIRST_REPEAT_PAUSE_MS = 1_000;
/** Looks at the chain after a refusal. */
const LOOKS_AFTER_REFUSAL = 1;
/**
 * The same where it reads as a refusal of the facilitator's own success does, for a request that something on
 * the way sent twice: nodes see a block some time apart.
 */
const LOOKS_AFTER_USED = 3;
const READS_AS_USED: ReadonlySet<ErrorCode> = new Set([
  "invalid_transaction_state",
  "insufficient_funds",
]);

export interface RemoteSettlementOptions {
  readonly observers: ReadonlyMap<string, Observer>;
  readonly telemetry: Telemetry;
  readonly time: Time;
  readonly foreign?: ForeignRule | undefined;
}

export class RemoteSettlement {
  readonly #options: RemoteSettlementOptions;

  constructor(options: RemoteSettlementOptions) {
    this.#options = options;
  }

  /** Whether there is a chain to ask about that payment. */
  canSee(request: FacilitatorRequest): boolean {
    return this.#sighting({ request, head: null }, undefined) !== undefined;
  }

  /** One look for a payment that was refused; undefined where the chain has decided nothing. */
  async lookAgain(handed: Handed, to: HandedTo): Promise<SettleResponse | undefined> {
    const sighting = this.#sighting(handed, undefined);
    if (sighting === undefined) return undefined;
    const seen = await this.#look(sighting, to.signal, 1);
    if (seen.kind !== "unknown") return this.#told(seen, handed.request, to);
    if (!seen.hasAnswered) throw unknownOutcome(seen.detail);
    return undefined;
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
    { remote, send }: AskedFacilitator,
    handed: Handed,
    options: SettleOptions,
  ): Promise<SettleResponse> {
    const { request, head } = handed;
    const { onHandOver, inTurn = atOnce, idempotencyKey = randomUUID() } = options;
    const isClaimed = onHandOver !== undefined;
    const signal = patienceOf(options);
    const to = { asked: { remote, send }, idempotencyKey, signal };
    const handOver = async (): Promise<SettleResponse> => {
      await onHandOver?.(remote.name, head);
      return remote.settle(request, { signal: options.signal, idempotencyKey });
    };
    try {
      const answer = await inTurn(() => send(handOver, options.signal), signal);
      if (answer.success) return await this.#count(to, handed, answer);
      return isClaimed ? await this.#doubt(to, handed, answer) : answer;
    } catch (cause) {
      const isUnknown = cause instanceof FacilitatorFault && cause.kind === "unknown";
      if (!isUnknown || !isClaimed || isDecided(cause)) throw cause;
      remember(remote, request, cause.transaction);
      this.#log(request, remote.name).warn({ err: cause }, "no outcome of a settlement; looking");
      const sighting = this.#sighting(handed, undefined);
      if (sighting !== undefined) return this.#watch(sighting, request, to, cause);
      await this.#options.time.sleep(FIRST_REPEAT_PAUSE_MS, signal);
      return this.#askAgain({ ...to, name: remote.name }, handed, MAX_REPEATS);
    }
  }

  /**
   * Asks about a settlement that was handed over before, for a caller who waits. Answers only what is
   * definite, and throws nothing but `unknown`.
   */
  async again(asked: Repeat, handed: Handed): Promise<SettleResponse> {
    const signal = patienceOf(asked);
    const repeat = { ...asked, signal };
    const { request } = handed;
    const sighting = this.#sighting(handed, undefined);
    if (sighting === undefined) return this.#askAgain(repeat, handed, MAX_REPEATS);
    const seen = await this.#look(sighting, signal, 1);
    if (seen.kind !== "unknown") return this.#told(seen, request, repeat);
    let last: unknown = unknownOutcome(seen.detail);
    try {
      return await this.#askAgain(repeat, handed, 1);
    } catch (cause) {
      if (cause instanceof HeldPayment) throw cause;
      last = cause;
    }
    return this.#watch(sighting, request, repeat, last);
  }

  /**
   * The same for nobody who waits: one look, or one question where there is no chain to look at. Nothing is
   * asked of a facilitator whose payment the chain will decide: a buyer who left is not charged for it.
   */
  async recover(repeat: Repeat, handed: Handed): Promise<SettleResponse> {
    const sighting = this.#sighting(handed, undefined);
    if (sighting === undefined) return this.#askAgain(repeat, handed, 1);
    const seen = await this.#look(sighting, repeat.signal, 1);
    if (seen.kind === "unknown") throw unknownOutcome(seen.detail);
    return this.#told(seen, handed.request, repeat);
  }

  /** A success, counted as its facilitator's settlements count. */
  async #count(
    to: HandedTo & { readonly asked: AskedFacilitator },
    handed: Handed,
    answer: Settled,
  ): Promise<SettleResponse> {
    const { signal } = to;
    const { remote } = to.asked;
    const { request } = handed;
    const { network } = request.paymentRequirements;
    if (remote.confirm === "facilitator") {
      remember(remote, request, answer.transaction);
      return answer;
    }
    const log = this.#log(request, remote.name);
    const claimed = answer.transaction;
    const sighting = this.#sighting(handed, claimed);
    if (sighting === undefined)
      throw new Unconfirmed("its success cannot be compared with a chain");
    const seen = await this.#look(sighting, signal, Infinity);
    if (seen.kind === "confirmed") {
      const isClaimed = isSame(seen.transaction, claimed) && seen.isUndated !== true;
      if (!isClaimed) return this.#told(seen, request, to);
      if (seen.sender !== undefined) remote.word.learn(network, seen.sender);
      return settledIn(seen.transaction, request);
    }
    const said = seen.kind === "failed" ? seen.refusal.detail : seen.detail;
    log.error(
      { claimed, chain: said },
      "a facilitator claims a settlement that is not on the chain",
    );
    if (seen.kind === "unknown") throw new Unconfirmed(`claimed, but not on the chain: ${said}`);
    return this.#told(seen, request, to);
  }

  /**
   * A first refusal. It is the facilitator's last word where no chain can be asked; else the chain may show
   * that the same facilitator has settled it, for a request of ours that something on the way sent twice.
   */
  async #doubt(
    to: HandedTo & { readonly asked: AskedFacilitator },
    handed: Handed,
    answer: Refused,
  ): Promise<SettleResponse> {
    const { signal } = to;
    const { remote } = to.asked;
    const { request, head } = handed;
    // Without a head the chain's word could not count.
    if (head === null || remote.word.isFinal(request.paymentRequirements.network)) return answer;
    const sighting = this.#sighting(handed, undefined);
    if (sighting === undefined) return answer;
    const isLikeUsed = READS_AS_USED.has(answer.errorReason);
    const looks = isLikeUsed ? LOOKS_AFTER_USED : LOOKS_AFTER_REFUSAL;
    const seen = await this.#look(sighting, signal, looks);
    if (seen.kind === "unknown" && !seen.hasAnswered) {
      throw new Unconfirmed(`refused, and the chain cannot be asked: ${seen.detail}`);
    }
    if (seen.kind !== "confirmed") return answer;
    this.#log(request, remote.name).warn({ seen }, "a refused settlement is on the chain");
    return this.#told(seen, request, to);
  }

  /** Until the facilitator tells a success, or as often as it may be asked. */
  async #askAgain(repeat: Repeat, handed: Handed, times: number): Promise<SettleResponse> {
    const { request, head } = handed;
    const { name, asked, idempotencyKey, signal, onHandOver, inTurn = atOnce } = repeat;
    const log = this.#log(request, name);
    if (asked === undefined) {
      const message = "a payment was handed to a facilitator that is not configured any more";
      log.error(message);
      throw unknownOutcome(`${message}: ${name}`);
    }
    const { remote, send } = asked;
    if (!signal.aborted) await onHandOver?.(name, head);
    let detail = "the facilitator was not asked again";
    let last: unknown;
    let pauseMs = FIRST_REPEAT_PAUSE_MS;
    for (let count = 0; count < times && !signal.aborted; count += 1) {
      if (count > 0) {
        await this.#options.time.sleep(pauseMs, signal);
        pauseMs *= 2;
      }
      try {
        const settle = () => remote.settle(request, { signal, idempotencyKey });
        const answer = await inTurn(() => send(settle, signal), signal);
        if (answer.success) return await this.#count({ ...repeat, asked }, handed, answer);
        if (remote.word.isFinal(request.paymentRequirements.network)) return answer;
        detail = `it refuses the repeated request: ${answer.detail ?? answer.errorReason}`;
        log.warn({ code: answer.errorReason, detail }, "a refusal that proves nothing");
        break;
      } catch (cause) {
        if (!(cause instanceof FacilitatorFault) || isDecided(cause)) throw cause;
        detail = cause.message;
        last = cause;
      }
    }
    throw unknownOutcome(detail, last);
  }

  /** To the end of the caller's patience; then with the fault that brought us here. */
  async #watch(
    sighting: ChainQuestion,
    request: FacilitatorRequest,
    to: HandedTo,
    cause: unknown,
  ): Promise<SettleResponse> {
    const seen = await this.#look(sighting, to.signal, Infinity);
    if (seen.kind === "unknown") throw unknownOutcome(seen.detail, cause);
    return this.#told(seen, request, to);
  }

  async #look(sighting: ChainQuestion, signal: AbortSignal, looks: number): Promise<Seen> {
    const { time } = this.#options;
    try {
      return await watchChain(sighting, { time, signal, looks });
    } catch (cause) {
      const { network } = sighting.observer;
      this.#options.telemetry.logger.error({ err: cause, network }, "a chain could not be read");
      return { kind: "unknown", detail: "the chain could not be read", hasAnswered: false };
    }
  }

  #sighting(
    { request, head: after }: Handed,
    claimed: string | undefined,
  ): ChainQuestion | undefined {
    const observer = this.#options.observers.get(request.paymentRequirements.network);
    const parsed = observer?.parse(request);
    if (observer === undefined || !parsed?.ok) return undefined;
    return { observer, authorization: parsed.value, claimed, after };
  }

  /** What the chain shows; a use only where it is not somebody else's. */
  async #told(
    seen: Exclude<Seen, { kind: "unknown" }>,
    request: FacilitatorRequest,
    to: HandedTo,
  ): Promise<SettleResponse> {
    const { network } = request.paymentRequirements;
    if (seen.kind === "failed") {
      return failure(seen.refusal, network, payerOf(request.paymentPayload));
    }
    const { observers, time, telemetry, foreign = "hold" } = this.#options;
    const options = { observers, time, foreign, logger: telemetry.logger };
    const answer = await weighUse(seen, request, to, options);
    return answer ?? settledIn(seen.transaction, request);
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

/** How long whoever asked waits. */
function patienceOf({ signal, gone }: Pick<SettleOptions, "signal" | "gone">): AbortSignal {
  return gone === undefined ? signal : sooner(signal, gone);
}

const atOnce: InTurn = (work) => work();

/** Nothing that another question would settle. */
function isDecided(cause: unknown): boolean {
  return cause instanceof Unconfirmed || cause instanceof HeldPayment;
}

/** Hashes of EVM transactions are the same whatever their letter case; no two signatures differ in that only. */
function isSame(transaction: string, claimed: string): boolean {
  return transaction.toLowerCase() === claimed.toLowerCase();
}

/** It has named a transaction as its own for that payment; where its word does not count the chain tells. */
function remember(
  { confirm, word }: RemoteFacilitator,
  { paymentRequirements }: FacilitatorRequest,
  transaction: string | undefined,
): void {
  if (confirm !== "facilitator" || transaction === undefined) return;
  word.remember(paymentRequirements.network, transaction);
}

function settledIn(transaction: string, request: FacilitatorRequest): SettleResponse {
  const { network } = request.paymentRequirements;
  return { success: true, transaction, network, payer: payerOf(request.paymentPayload) };
}

export function unknownOutcome(message: string, cause?: unknown): FacilitatorFault {
  const { transaction } = cause instanceof FacilitatorFault ? cause : {};
  return new FacilitatorFault("unknown", "unexpected_settle_error", message, {
    cause,
    transaction,
  });
}
