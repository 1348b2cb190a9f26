/** The payment service in a worker: each question goes to the process that keeps the ledger and the chains. */
import type { Begun, Declined, Settled } from "../payments/sale/admission.ts";
import {
  HOLD_ENDS,
  type Payment,
  type PaymentService,
  type ServiceTransitionKind,
} from "../payments/sale/payment-service.ts";
import {
  LedgerConflict,
  type ClaimTerms,
  type OutcomeOf,
  type StoredResponse,
  type TransitionOf,
} from "../ledger/ledger.ts";
import { currentContext } from "../telemetry/request-context.ts";
import type { PaymentKey } from "../x402/payment-key.ts";
import type { CallOptions, Channel } from "./channel.ts";
import { ChannelFault } from "./fault.ts";
import { RemotePots } from "./remote-pots.ts";
import {
  readHoldings,
  readIdentified,
  readOpened,
  readOutcome,
  readProof,
  readRecognized,
  readSettled,
  readStoredResponse,
  readVetted,
} from "./payment-service-answers.ts";

/** How long the ledger may take to answer, the way there and back included, milliseconds. */
const LEDGER_MS = 10_000;
/** How much longer than a settlement is waited for its answer may take, milliseconds. */
const MARGIN_MS = 10_000;

const ENDS: ReadonlySet<ServiceTransitionKind> = new Set(HOLD_ENDS);

export class RemotePaymentService implements PaymentService {
  readonly #channel: Pick<Channel, "call">;
  readonly #pots: RemotePots;
  readonly #settlementMs: number;

  /** `settlementWaitMs`: the longest that the other end waits for a settlement. */
  constructor(channel: Pick<Channel, "call">, settlementWaitMs: number) {
    this.#channel = channel;
    this.#pots = new RemotePots(channel);
    this.#settlementMs = settlementWaitMs + MARGIN_MS;
  }

  async identify(
    ...asked: Parameters<PaymentService["identify"]>
  ): ReturnType<PaymentService["identify"]> {
    return readIdentified(await this.#ask("identify", asked));
  }

  /** Said at once, and taken back by giving the question up: it is never answered before. */
  owe(payer: string | null, stored: Promise<unknown>): void {
    const over = new AbortController();
    void stored.then(() => over.abort());
    const options: CallOptions = { withinMs: LEDGER_MS, signal: over.signal };
    this.#channel.call("owe", [payer], options).catch(() => undefined);
  }

  /** A delivery that nobody can note any more is one that this worker has lost: its life is over. */
  async step<Kind extends ServiceTransitionKind>(
    key: PaymentKey,
    transition: TransitionOf<Kind>,
  ): Promise<OutcomeOf<Kind>> {
    const { kind } = transition;
    try {
      return readOutcome(kind, await this.#ask("step", [key, transition]));
    } catch (cause) {
      const isLost = cause instanceof ChannelFault && cause.kind === "closed" && ENDS.has(kind);
      if (!isLost) throw cause;
      throw new LedgerConflict("the process with the ledger is gone", { cause });
    }
  }

  async answer(key: PaymentKey): Promise<StoredResponse | undefined> {
    return readStoredResponse(await this.#ask("answer", [key]));
  }

  /** Never rejects: where the answer does not come the row is looked at once more, which fails by itself. */
  async changed(key: PaymentKey, version: number, signal: AbortSignal): Promise<void> {
    await this.#wait("changed", [key, version], signal).catch(() => undefined);
  }

  async vet({ key }: Payment, terms: ClaimTerms, signal: AbortSignal): Promise<Declined | "good"> {
    return readVetted(await this.#wait("vet", [key, terms, currentContext()], signal));
  }

  async charge({ key }: Payment, terms: ClaimTerms, signal: AbortSignal): Promise<Settled> {
    return readSettled(await this.#wait("charge", [key, terms, currentContext()], signal));
  }

  async resume(key: PaymentKey, begun: Begun, signal: AbortSignal): Promise<Settled> {
    const { terms, facilitator, handedOverAt, isSigned, failure } = begun;
    const signed = isSigned && { isSigned };
    const begunBefore = { terms, facilitator, handedOverAt, failure, ...signed };
    return readSettled(await this.#wait("resume", [key, begunBefore, currentContext()], signal));
  }

  async prove(...asked: Parameters<PaymentService["prove"]>): ReturnType<PaymentService["prove"]> {
    const [{ request }, claimant, signal] = asked;
    return readProof(await this.#wait("prove", [request, claimant, currentContext()], signal));
  }

  async signedIn(
    ...asked: Parameters<PaymentService["signedIn"]>
  ): ReturnType<PaymentService["signedIn"]> {
    const [signingIn, claimant, signal] = asked;
    const context = currentContext();
    return readRecognized(await this.#wait("signedIn", [signingIn, claimant, context], signal));
  }

  async openSession(
    ...asked: Parameters<PaymentService["openSession"]>
  ): ReturnType<PaymentService["openSession"]> {
    const [signIn, memberships, claimant, signal] = asked;
    const values = [signIn, memberships, claimant, currentContext()];
    return readOpened(await this.#wait("openSession", values, signal));
  }

  async holdings(
    ...asked: Parameters<PaymentService["holdings"]>
  ): ReturnType<PaymentService["holdings"]> {
    return readHoldings(await this.#ask("holdings", asked));
  }

  balances(pots: readonly string[]): ReturnType<PaymentService["balances"]> {
    return this.#pots.balances(pots);
  }

  #ask(name: string, values: readonly unknown[]): Promise<unknown> {
    return this.#channel.call(name, values, { withinMs: LEDGER_MS });
  }

  #wait(name: string, values: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const options: CallOptions = { withinMs: this.#settlementMs, signal };
    return this.#channel.call(name, values, options);
  }
}
