/**
 * What the chain says of the payments of one submission, stored as soon as it is known. A payment is
 * settled by one look that shows its transfer; a failure counts when two looks in a row have found it.
 */
import type { WatchSurroundings } from "./surroundings.ts";
import {
  LedgerConflict,
  type SettlementOutcome,
  type StoredSubmission,
  type StoredTransaction,
  type SubmittedPayment,
} from "../../ledger/ledger.ts";
import { amountOf } from "../../ledger/payment-row.ts";
import type { Confirmation, Look } from "../../mechanism/mechanism.ts";
import type { Logger } from "../../telemetry/logger.ts";
import { payerOf, type PaymentKey } from "../../x402/payment-key.ts";
import type { FacilitatorRequest } from "../../x402/x402.ts";
import type { Ending } from "./pending-payment.ts";

export interface VerdictEvents {
  landed(key: PaymentKey, ending: Ending): void;
  /**
   * Its transaction did not move it and cannot any more: it is ours to sign again, alone. Not there where
   * nobody here signs on that network: then it fails.
   */
  readonly withdrawn?: ((key: PaymentKey, request: FacilitatorRequest) => void) | undefined;
  /** `hasCode`: that of the payer's may be why, and may have burnt all the gas. */
  failedOnChain(payer: string, hasCode: boolean): void;
  /** They are in a block, where their transaction moved them: they cost us no more. */
  included(keys: readonly PaymentKey[]): void;
  /** They are in a block, and their transaction did not move them: their share of its gas. */
  leftBehind(gas: bigint, keys: readonly PaymentKey[]): void;
  /** Their transaction is in a block, reverted as a whole. */
  reverted(gas: bigint, keys: readonly PaymentKey[]): void;
}

interface WatchedPayment {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
  readonly route: string | null;
  readonly isTransferBack: boolean;
  readonly authorization: unknown;
  /** `left`: signed anew, alone, or not at all; `undone`: it was settled, and the chain has another past now. */
  fate: "open" | "settled" | "held" | "failed" | "left" | "undone";
  /** What the last look found, where that was a failure. */
  suspicion: string | undefined;
}

/** What a look shows of the submission as a whole. */
interface Seen {
  readonly isIncluded: boolean;
  readonly isSpent: boolean;
  readonly variants: readonly StoredTransaction[];
}

export class PaymentVerdicts {
  readonly #at: WatchSurroundings;
  readonly #events: VerdictEvents;
  readonly #log: Logger;
  readonly #submission: string;
  readonly #payments: readonly WatchedPayment[];
  /** Whether a payment cannot be read: then nobody can say what became of it. */
  readonly #isUnreadable: boolean;
  readonly #isLone: boolean;
  #isInclusionTold = false;

  constructor(
    { id, payments }: StoredSubmission,
    at: WatchSurroundings,
    events: VerdictEvents,
    log: Logger,
  ) {
    this.#at = at;
    this.#events = events;
    this.#log = log;
    this.#submission = id;
    this.#isLone = payments.length === 1;
    this.#payments = payments.flatMap((submitted) => {
      const { key, request, route, isTransferBack } = submitted;
      const parsed = at.mechanism.parse(request);
      if (!parsed.ok) {
        log.error({ key, detail: parsed.error.detail }, "a signed payment cannot be read");
        return [];
      }
      const authorization = parsed.value;
      const fate = fateOf(submitted);
      const known = { key, request, route, isTransferBack, authorization };
      return [{ ...known, fate, suspicion: undefined }];
    });
    this.#isUnreadable = this.#payments.length < payments.length;
  }

  get areAllDecided(): boolean {
    return !this.#isUnreadable && this.#payments.every(({ fate }) => fate !== "open");
  }

  get authorizations(): readonly unknown[] {
    return this.#payments.map(({ authorization }) => authorization);
  }

  /** Stores what a look found. Throws what the ledger throws; a repeat stores the same. */
  async store(look: Look, variants: readonly StoredTransaction[]): Promise<void> {
    this.#tellInclusion(look.included);
    const isIncluded = look.included !== null;
    const seen = { isIncluded, isSpent: isIncluded || look.isSpent, variants };
    let trouble: unknown;
    for (const [index, payment] of this.#payments.entries()) {
      const said = look.payments[index];
      if (said === undefined) continue;
      try {
        await this.#judge(payment, said, seen);
      } catch (cause) {
        // One payment that cannot be stored keeps nothing from the others.
        if (cause instanceof LedgerConflict) await this.#followLedger(payment, cause);
        else trouble ??= cause;
      }
    }
    if (trouble !== undefined) throw trouble;
  }

  /** Nobody here follows them any more: whoever waits asks the ledger. */
  leave(): void {
    for (const { key, fate } of this.#payments) {
      if (fate === "open") {
        this.#events.landed(key, { kind: "open", detail: "its outcome is not known yet" });
      }
    }
  }

  /** Once: what it cost is known long before it counts. */
  #tellInclusion(included: Look["included"]): void {
    if (included === null || this.#isInclusionTold) return;
    this.#isInclusionTold = true;
    const keys = this.#payments.map(({ key }) => key);
    const { revertedGas, leftBehind } = included;
    if (revertedGas !== undefined) return this.#events.reverted(revertedGas, keys);
    const left = new Set(leftBehind?.indices);
    const isLeft = (_: PaymentKey, index: number): boolean => left.has(index);
    if (leftBehind !== undefined) this.#events.leftBehind(leftBehind.gas, keys.filter(isLeft));
    this.#events.included(keys.filter((key, index) => !isLeft(key, index)));
  }

  async #judge(payment: WatchedPayment, said: Confirmation, seen: Seen): Promise<void> {
    const { fate } = payment;
    if (said.kind === "confirmed") {
      payment.suspicion = undefined;
      const isOurs = seen.variants.some(({ transaction }) => transaction === said.transaction);
      if (fate === "open" || fate === "failed" || fate === "left") {
        await this.#take(payment, said, isOurs);
      }
      // The chain has another past now, in which it is ours.
      else if (fate === "held" && isOurs) await this.#settle(payment, said, "we");
      return;
    }
    if (said.kind === "unknown" || (fate !== "open" && fate !== "settled")) {
      payment.suspicion = undefined;
      return;
    }
    const suspicion = JSON.stringify([said, seen.isSpent, seen.isIncluded]);
    const isNews = payment.suspicion !== suspicion;
    payment.suspicion = suspicion;
    if (!isNews) await this.#fail(payment, said, seen);
  }

  /** Two looks in a row have found that its money did not move. */
  async #fail(
    payment: WatchedPayment,
    { refusal, retriable, hasCode }: Extract<Confirmation, { kind: "failed" }>,
    { isIncluded, isSpent }: Seen,
  ): Promise<void> {
    const { ledger, telemetry } = this.#at;
    const { key, request, fate } = payment;
    const { code, detail } = refusal;
    if (fate === "settled") {
      this.#log.error({ key, detail }, "a settled payment is undone on chain");
      payment.fate = "undone";
      return;
    }
    // Bytes whose account nonce somebody else has used are as good as never signed.
    const isLeftBehind = retriable && isSpent && (!this.#isLone || !isIncluded);
    if (isLeftBehind && this.#events.withdrawn !== undefined) {
      await ledger.step(key, { kind: "withdrawn", submission: this.#submission });
      payment.fate = "left";
      telemetry.metrics.withdrawal(request.paymentRequirements.network);
      this.#log.warn({ key, detail }, "a payment was left behind; it goes alone");
      if (isIncluded) this.#blame(request, hasCode === true);
      this.#events.withdrawn(key, request);
      return;
    }
    await ledger.step(key, { kind: "failed", failure: refusal });
    payment.fate = "failed";
    this.#log.warn({ key, code, detail }, "settlement failed");
    if (isIncluded) this.#blame(request, hasCode === true);
    this.#events.landed(key, { kind: "failed", refusal });
  }

  /**
   * It was in a block and did not move, unlike others there: where all failed, it was no one's fault but
   * that of payers who have code.
   */
  #blame({ paymentPayload }: FacilitatorRequest, hasCode: boolean): void {
    const othersMoved = this.#payments.some(({ fate }) => fate === "settled");
    if (this.#isLone || othersMoved || hasCode)
      this.#events.failedOnChain(payerOf(paymentPayload), hasCode);
  }

  /** It is on chain: ours where this ledger has signed that transaction, whichever submission it was for. */
  async #take(
    payment: WatchedPayment,
    said: { readonly transaction: string },
    isOurs: boolean,
  ): Promise<void> {
    const { foreign = "hold", ledger } = this.#at;
    if (isOurs || (await ledger.signing.hasSigned(said.transaction))) {
      return this.#settle(payment, said, "we");
    }
    if (foreign === "deliver") return this.#settle(payment, said, "somebody else");
    const { transaction } = said;
    const { key } = payment;
    await ledger.step(key, { kind: "held", transaction });
    payment.fate = "held";
    this.#log.error({ key, transaction }, "a payment is in a transaction that is not ours: held");
    this.#events.landed(key, { kind: "held", transaction });
  }

  async #settle(
    payment: WatchedPayment,
    { transaction }: { readonly transaction: string },
    submitter: "we" | "somebody else",
  ): Promise<void> {
    const { key, request } = payment;
    const { network } = request.paymentRequirements;
    const payer = payerOf(request.paymentPayload);
    const settlement = { transaction, network, payer };
    await this.#at.ledger.step(key, { kind: "settled", settlement });
    payment.fate = "settled";
    this.#countAmount(payment);
    this.#log.info({ key, payer, settled: transaction, submitter }, "payment settled");
    this.#events.landed(key, { kind: "settled", settlement });
  }

  /** The row is not what we thought: somebody else has decided it, and what they stored counts. */
  async #followLedger(payment: WatchedPayment, conflict: LedgerConflict): Promise<void> {
    const { key, request, fate } = payment;
    const outcome = await this.#at.ledger.outcome(key);
    // What waits to be signed again is found used then, and is settled by that.
    if (fate === "left" && outcome.kind === "pending") return;
    this.#log.error({ err: conflict, key, found: outcome.kind }, "a payment was decided elsewhere");
    if (outcome.kind === "pending") {
      // Signed by us and no longer carried by this submission: our own withdrawal, stored without an answer.
      payment.fate = "left";
      this.#events.withdrawn?.(key, request);
      return;
    }
    const { kind } = outcome;
    payment.fate = kind === "settled" || kind === "held" ? kind : "failed";
    this.#events.landed(key, endingOf(outcome));
  }

  /** What is paid back is none of what was earned, whichever key has paid it. */
  #countAmount({ request, route, isTransferBack }: WatchedPayment): void {
    if (isTransferBack) return;
    const { network, asset } = request.paymentRequirements;
    const { symbol, decimals } = this.#at.describeAsset(network, asset);
    const amountAtomic = BigInt(amountOf(request));
    const { metrics } = this.#at.telemetry;
    metrics.settledAmount({ route, network, asset: symbol, decimals, amountAtomic });
  }
}

function fateOf({ state, heldTransaction }: SubmittedPayment): WatchedPayment["fate"] {
  if (heldTransaction !== null) return "held";
  if (state === "FAILED") return "failed";
  return state === "SIGNED" || state === "CLAIMED" ? "open" : "settled";
}

/** What the ledger says, as an end; `pending` and `gone` are for whoever asks it again. */
export function endingOf(outcome: SettlementOutcome): Ending {
  switch (outcome.kind) {
    case "settled":
    case "held":
      return outcome;
    case "failed":
      return { kind: "failed", refusal: outcome.failure };
    case "gone":
      return { kind: "unavailable", cause: new Error("its claim was dropped unsigned") };
    case "pending":
      return open("its outcome is not known yet", outcome);
  }
}

/** @param pending as of the ledger's outcome */
export function open(detail: string, { transaction }: { readonly transaction?: string }): Ending {
  return { kind: "open", detail, ...(transaction !== undefined && { transaction }) };
}
