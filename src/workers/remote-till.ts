/** The till in a worker: each question goes to the process that keeps the ledger and the chains. */
import type { Begun, Settled } from "../gateway/payment/admission.ts";
import type { Till } from "../gateway/payment/till.ts";
import {
  LedgerConflict,
  type BrokenDelivery,
  type ClaimOutcome,
  type ClaimTerms,
  type StoredResponse,
} from "../ledger/ledger.ts";
import { currentContext } from "../telemetry/request-context.ts";
import type { PaymentKey } from "../x402/payment-key.ts";
import type { CallOptions, Channel } from "./channel.ts";
import { ChannelFault } from "./fault.ts";
import {
  readClaim,
  readFlag,
  readIdentified,
  readProof,
  readSettled,
  readStoredResponse,
} from "./till-answers.ts";

/** How long the ledger may take to answer, the way there and back included, milliseconds. */
const LEDGER_MS = 10_000;
/** How much longer than a settlement is waited for its answer may take, milliseconds. */
const MARGIN_MS = 10_000;

export class RemoteTill implements Till {
  readonly #channel: Pick<Channel, "call">;
  readonly #settlementMs: number;

  /** `settlementWaitMs`: the longest that the other end waits for a settlement. */
  constructor(channel: Pick<Channel, "call">, settlementWaitMs: number) {
    this.#channel = channel;
    this.#settlementMs = settlementWaitMs + MARGIN_MS;
  }

  async identify(...asked: Parameters<Till["identify"]>): ReturnType<Till["identify"]> {
    return readIdentified(await this.#ask("identify", asked));
  }

  async claim(key: PaymentKey, terms: ClaimTerms): Promise<ClaimOutcome> {
    return readClaim(await this.#ask("claim", [key, terms]));
  }

  /** Never rejects: where the answer does not come the row is looked at once more, which fails by itself. */
  async changed(key: PaymentKey, version: number, signal: AbortSignal): Promise<void> {
    await this.#wait("changed", [key, version], signal).catch(() => undefined);
  }

  async charge(key: PaymentKey, terms: ClaimTerms, signal: AbortSignal): Promise<Settled> {
    return readSettled(await this.#wait("charge", [key, terms, currentContext()], signal));
  }

  async resume(key: PaymentKey, begun: Begun, signal: AbortSignal): Promise<Settled> {
    const { terms, facilitator, handedOverAt, isSigned, failure } = begun;
    const signed = isSigned && { isSigned };
    const begunBefore = { terms, facilitator, handedOverAt, failure, ...signed };
    return readSettled(await this.#wait("resume", [key, begunBefore, currentContext()], signal));
  }

  async delivering(...asked: Parameters<Till["delivering"]>): Promise<boolean> {
    return readFlag(await this.#ask("delivering", asked));
  }

  async delivered(...asked: Parameters<Till["delivered"]>): Promise<void> {
    await this.#record("delivered", asked);
  }

  async undelivered(key: PaymentKey, broken: BrokenDelivery): Promise<void> {
    await this.#record("undelivered", [key, broken]);
  }

  async released(key: PaymentKey): Promise<void> {
    await this.#ask("released", [key]);
  }

  async leave(key: PaymentKey): Promise<void> {
    await this.#record("leave", [key]);
  }

  async prove(...asked: Parameters<Till["prove"]>): ReturnType<Till["prove"]> {
    const [request, claimant, signal] = asked;
    return readProof(await this.#wait("prove", [request, claimant, currentContext()], signal));
  }

  async replay(...asked: Parameters<Till["replay"]>): Promise<StoredResponse | undefined> {
    return readStoredResponse(await this.#ask("replay", asked));
  }

  async collected(key: PaymentKey): Promise<void> {
    await this.#record("collected", [key]);
  }

  async unread(key: PaymentKey): Promise<void> {
    await this.#record("unread", [key]);
  }

  /** A delivery that nobody can note any more is one that this worker has lost: its life is over. */
  async #record(name: string, values: readonly unknown[]): Promise<void> {
    try {
      await this.#ask(name, values);
    } catch (cause) {
      if (!(cause instanceof ChannelFault) || cause.kind !== "closed") throw cause;
      throw new LedgerConflict("the process with the ledger is gone", { cause });
    }
  }

  #ask(name: string, values: readonly unknown[]): Promise<unknown> {
    return this.#channel.call(name, values, { withinMs: LEDGER_MS });
  }

  #wait(name: string, values: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const options: CallOptions = { withinMs: this.#settlementMs, signal };
    return this.#channel.call(name, values, options);
  }
}
