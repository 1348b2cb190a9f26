/**
 * From a claim to the money: verifies and settles what was claimed, or goes on with a settlement that was
 * begun before. A claim is dropped only where it is certain that nothing was signed or sent, and a refusal
 * is passed on only where it is certain that nothing was charged.
 */
import {
  CrowdedFault,
  FacilitatorFault,
  HeldPayment,
  type Facilitator,
  type Payment,
  type Verified,
} from "../facilitator.ts";
import {
  LedgerConflict,
  type ClaimTerms,
  type StoredTerms,
  type FailedPayment,
  type PayerProof,
  type Redemptions,
} from "../../ledger/ledger.ts";
import type { Logger } from "../../telemetry/logger.ts";
import { rememberPayment } from "../../telemetry/request-context.ts";
import { inSpan } from "../../telemetry/spans.ts";
import { timed, type StepEnd, type Timeline } from "../../telemetry/timeline.ts";
import { sooner, type Time } from "../../time/time.ts";
import { payerOf, type PaymentKey } from "../../x402/payment-key.ts";
import { saysUsed, type Refusal, type Result } from "../../x402/result.ts";
import type { SettleResponse } from "../../x402/x402.ts";
import { amountOf } from "../../ledger/payment-row.ts";
import type { ReservedDraw } from "./reserved-purses.ts";
import type { Reservation, SaleGuard } from "./sale-guard.ts";
import { UnpaidWorks, type BegunWork, type WorkEnd } from "./unpaid-work.ts";
import {
  explain,
  failureOf,
  held,
  refused,
  refusedSettlement,
  unavailable,
  UNRESOLVED,
  type Barred,
  type Declined,
  type Begun,
  type FailedSettlement,
  type Settled,
  type Unbegun,
} from "./admission.ts";

/** What is said of signatures that are good, and of payments that cannot be made now. */
const UNPAYABLE: ReadonlySet<string> = new Set(["insufficient_funds", "invalid_transaction_state"]);
/** Longest a verification may take, milliseconds. */
const VERIFY_TIMEOUT_MS = 10_000;

export interface SettlementOptions {
  readonly facilitator: Facilitator;
  readonly redemptions: Redemptions;
  readonly guard?: Pick<SaleGuard, "barOf" | "reserve"> | undefined;
  readonly logger: Logger;
  readonly time: Time;
  /** Is told what is asked of the facilitator, and how long that takes. */
  readonly timeline?: Timeline | undefined;
  /** Those of all payers in this process. Default: its own. */
  readonly works?: UnpaidWorks | undefined;
}

/** A payment that may be charged now. */
interface Good {
  readonly kind: "good";
  readonly verified: Verified;
  /** As of {@link Reservation}. */
  readonly decided: () => void;
}

/** A payment for which somebody works. */
interface Vetted extends Pick<Good, "decided"> {
  /** Of its claim. */
  readonly idempotencyKey: string;
  readonly work: BegunWork;
}

const UNDER_WAY =
  "other payments of this payer are under way, and what is left behind them may not be enough; try again when they are settled";

type Verdict = Result<Verified, Refusal>;
type Refused = Exclude<Verdict, { ok: true }>;

/** A claimed payment on its way through a facilitator. */
interface Course {
  readonly payment: Payment;
  /** What a verification a moment ago has found. */
  readonly verified?: Verified;
  /** Those of the payment's first use. */
  readonly terms: StoredTerms;
  /** A remote facilitator that may know the payment from an earlier request; null when none was asked. */
  readonly askedBefore: string | null;
  /** Bytes of ours carry it. */
  readonly isSigned?: true | undefined;
  /** Where the chain stood when it was handed to that one. */
  readonly handedOverAt: number | null;
  readonly signal: AbortSignal;
}

/** Rejects only with what the ledger throws; the payment is unresolved then. */
export class Settlement {
  readonly #options: SettlementOptions;
  readonly #works: UnpaidWorks;
  /** Those for which somebody works: each is of a request that has its place, and is dropped with its claim. */
  readonly #vetted = new Map<PaymentKey, Vetted>();

  constructor(options: SettlementOptions) {
    this.#options = options;
    this.#works = options.works ?? new UnpaidWorks(options.time);
  }

  /** Verifies and settles a payment that this request has claimed; one that was vetted is judged as it is settled. */
  async charge(payment: Payment, terms: ClaimTerms, signal: AbortSignal): Promise<Settled> {
    const { key } = payment;
    const vetted = this.#vetted.get(key);
    if (vetted?.idempotencyKey === terms.idempotencyKey) {
      this.#vetted.delete(key);
      return this.#chargeVetted(vetted, { payment, terms, signal });
    }
    const good = await this.#take(payment, terms, signal);
    if (good.kind !== "good") return good;
    try {
      const first = { askedBefore: null, handedOverAt: null, verified: good.verified };
      return await this.#collect({ payment, terms, signal, ...first });
    } finally {
      good.decided();
    }
  }

  /**
   * Verifies a payment that this request has claimed, and reserves for it, as if it were charged now: then somebody works
   * for it, and charges it, or drops it.
   */
  async vet(payment: Payment, terms: ClaimTerms, signal: AbortSignal): Promise<Declined | "good"> {
    const { key, request } = payment;
    const good = await this.#take(payment, terms, signal);
    if (good.kind !== "good") return good;
    const { idempotencyKey } = terms;
    const payer = payerOf(request.paymentPayload).toLowerCase();
    const work = await this.#works.begin(payer, drawOf(payment, good.verified), signal);
    if (typeof work === "object") {
      this.drop(key, "spoilt");
      this.#vetted.set(key, { idempotencyKey, work, decided: good.decided });
      return "good";
    }
    good.decided();
    const declined =
      work === "crowded" ? refused("insufficient_funds", UNDER_WAY) : overworked(work);
    return (await this.#release(key, terms)) ?? declined;
  }

  /** Nobody works any more for a payment that was vetted. Fine for any other. */
  drop(key: PaymentKey, how: WorkEnd): void {
    const vetted = this.#vetted.get(key);
    if (vetted === undefined) return;
    this.#vetted.delete(key);
    vetted.decided();
    vetted.work.end(how);
  }

  /** The same of all: whoever worked for them is gone. */
  dropAll(): void {
    for (const key of this.#vetted.keys()) this.drop(key, "ours");
  }

  /** What the chain said before the work counts no more: the purse may be empty, and the authorization used. */
  async #chargeVetted(
    { work, decided }: Vetted,
    { payment, terms, signal }: Pick<Course, "payment" | "signal"> & { readonly terms: ClaimTerms },
  ): Promise<Settled> {
    let how: WorkEnd = "ours";
    try {
      const first = { askedBefore: null, handedOverAt: null };
      const settled = await this.#collect({ payment, terms, signal, ...first });
      if (settled.kind === "settled") how = "paid";
      if (settled.kind !== "refused") return settled;
      how = "spoilt";
      if (saysUsed(settled.refusal.detail)) await this.#noteUsedElsewhere(payment.key, terms);
      return settled;
    } finally {
      decided();
      work.end(how);
    }
  }

  /** Whether it may be charged now: by whom, for what, and whether it is good. What it takes of this hour is its own then. */
  async #take(payment: Payment, terms: ClaimTerms, signal: AbortSignal): Promise<Good | Declined> {
    const { key, network } = payment;
    const { guard } = this.#options;
    const { route } = terms;
    const bar = guard?.barOf({ network, payer: payment.provenPayer, route });
    if (bar !== undefined) return (await this.#release(key, terms)) ?? bar;
    const verdict = await this.#verify(payment, terms.claimant, signal);
    if (!(verdict instanceof Error) && verdict.ok) {
      const payer = payerOf(payment.request.paymentPayload);
      const verified = verdict.value;
      const reserved =
        guard?.barOf({ network, payer, route }) ?? (await this.#reserve(payment, verified, signal));
      if (reserved.kind !== "reserved") return (await this.#release(key, terms)) ?? reserved;
      return { kind: "good", verified, decided: reserved.decided };
    }
    const kept = await this.#release(key, terms);
    if (kept !== undefined) return kept;
    const isUsed = !(verdict instanceof Error) && saysUsed(verdict.error.detail);
    if (isUsed) await this.#noteUsedElsewhere(key, terms);
    return this.#unverified(verdict, network);
  }

  /** Nothing of the payment is signed yet. */
  async #reserve(
    { key, request, network }: Payment,
    { judged }: Verified,
    signal: AbortSignal,
  ): Promise<Declined | Reservation> {
    const { guard } = this.#options;
    if (guard === undefined) return { kind: "reserved", decided: () => undefined };
    try {
      const reserved = await guard.reserve(key, request, meansIn(judged), signal);
      return reserved === "crowded" ? refused("insufficient_funds", UNDER_WAY) : reserved;
    } catch (cause) {
      this.#warn(cause, network, "what is sold in this hour could not be counted");
      return unavailable("unexpected_settle_error");
    }
  }

  /**
   * Whether a payment that stays unsettled shows who its payer is. One that the chain finds good does: it is new,
   * so nobody but the payer can have it. Of one that cannot be paid less is known, its nonce for instance; and where
   * nobody looks at the chain, it may be an old one that everybody can read there.
   */
  async prove(
    payment: Payment,
    claimant: string,
    signal: AbortSignal,
  ): Promise<PayerProof | Declined> {
    const { network } = payment;
    const verdict = await this.#verify(payment, claimant, signal);
    if (verdict instanceof Error) return this.#unverified(verdict, network);
    const { facilitator } = this.#options;
    const isNew = !facilitator.isRemote(network) || facilitator.seesUse?.(network) === true;
    if (verdict.ok) return isNew ? "valid" : "signed";
    const isUnpayable = UNPAYABLE.has(verdict.error.code);
    return isUnpayable ? "signed" : this.#unverified(verdict, network);
  }

  #unverified(verdict: Refused | Error, network: string): Declined {
    if (!(verdict instanceof Error)) return refused(verdict.error.code, verdict.error.detail);
    this.#warn(verdict, network, "a payment could not be verified");
    const isFault = verdict instanceof FacilitatorFault;
    return unavailable(isFault ? verdict.code : "unexpected_verify_error");
  }

  /** The ledger did not know it, or the claim had not been granted. */
  async #noteUsedElsewhere(key: PaymentKey, terms: StoredTerms): Promise<void> {
    try {
      await this.#options.redemptions.noteUsedElsewhere(key, terms);
    } catch (cause) {
      const { network } = terms.request.paymentRequirements;
      this.#warn(cause, network, "a payment that was used elsewhere could not be noted");
    }
  }

  /** Asks again about a settlement that was begun before, with the terms of its first use. */
  async resume(begun: Begun, signal: AbortSignal): Promise<Settled> {
    const { terms, facilitator: askedBefore, handedOverAt, isSigned, failure } = begun;
    const read = this.#options.facilitator.read(terms.request);
    if (!read.ok) return UNRESOLVED;
    const course = { payment: read.value, terms, askedBefore, handedOverAt, isSigned, signal };
    return failure === undefined ? this.#collect(course) : this.#lookAgain(course, failure);
  }

  /** A refusal of the facilitator's is told again only where the chain does not show the payment by now. */
  async #lookAgain(course: Course, failure: FailedPayment): Promise<Settled> {
    const { facilitator, redemptions } = this.#options;
    const { payment, terms, askedBefore, handedOverAt, signal } = course;
    const { key } = payment;
    const { request, idempotencyKey, route } = terms;
    const failed = explain({ kind: "failed", failure }, request);
    if (askedBefore === null || handedOverAt === null) return failed;
    try {
      const at = { facilitator: askedBefore, handedOverAt };
      const doubted = { key, request, route, idempotencyKey, ...at };
      const seen = await facilitator.lookAgain?.(doubted, signal);
      if (seen === undefined) return failed;
      if (!seen.success) {
        await redemptions.step(key, { kind: "lookedAgain", nextMs: null });
        return failed;
      }
      const { transaction, network, payer } = seen;
      const settlement = { transaction, network, payer };
      await redemptions.step(key, { kind: "settled", settlement });
      return { kind: "settled", settlement, attempts: 0, idempotencyKey };
    } catch (cause) {
      this.#warn(cause, payment.network, "a payment that was refused could not be looked for");
      return this.#afterFault(course, cause);
    }
  }

  async #verify(payment: Payment, claimant: string, signal: AbortSignal): Promise<Verdict | Error> {
    const { facilitator, time, timeline } = this.#options;
    const options = { attributes: { "coinslot.network": payment.network } };
    try {
      const within = sooner(signal, time.timeout(VERIFY_TIMEOUT_MS));
      const ask = () =>
        inSpan("verify", options, async (span) => {
          const verdict = await facilitator.verify(payment, within, claimant);
          span?.set({ "coinslot.result": verdict.ok ? "valid" : "invalid" });
          if (!verdict.ok) span?.fail(verdict.error.code);
          return verdict;
        });
      return await timed(timeline?.beginStep("verification"), ask, verdictNote);
    } catch (cause) {
      return cause instanceof Error ? cause : new Error(String(cause));
    }
  }

  /** Asks for the settlement; stored as handed over where it leaves this process, and when it succeeded. */
  async #collect(course: Course): Promise<Settled> {
    const { facilitator, redemptions, timeline } = this.#options;
    const { payment, verified, terms, askedBefore, handedOverAt, isSigned, signal } = course;
    const { key, network } = payment;
    const { idempotencyKey, route } = terms;
    let isHandedOver = false;
    const onHandOver = async (name: string, head: number | null): Promise<void> => {
      await redemptions.step(key, { kind: "handedOver", facilitator: name, head });
      isHandedOver = true;
    };
    const asked = {
      ...(askedBefore === null ? {} : { askedBefore, handedOverAt }),
      ...(isSigned && { isSigned }),
    };
    try {
      const claim = verified === undefined ? "found" : "new";
      const about = { idempotencyKey, route, claim, verified } as const;
      const settle = { signal, onHandOver, ...about, ...asked };
      const options = { attributes: { "coinslot.network": network } };
      const ask = () =>
        inSpan("settle", options, async (span) => {
          rememberPayment(key);
          const answer = await facilitator.settle(payment, settle);
          if (answer.success) span?.set({ "coinslot.transaction": answer.transaction });
          else span?.fail(answer.errorReason);
          return answer;
        });
      const response = await timed(timeline?.beginStep("settlement"), ask, receiptNote);
      if (!response.success) return await this.#refuse(course, response, isHandedOver);
      const { transaction, payer } = response;
      const settlement = { transaction, network, payer };
      if (isHandedOver || askedBefore !== null) {
        await redemptions.step(key, { kind: "settled", settlement });
      }
      return { kind: "settled", settlement, attempts: 0, idempotencyKey };
    } catch (cause) {
      this.#warn(cause, network, "a payment could not be settled");
      return this.#afterFault(course, cause);
    }
  }

  async #refuse(
    course: Course,
    response: FailedSettlement,
    isHandedOver: boolean,
  ): Promise<Settled> {
    const { redemptions } = this.#options;
    const { payment, terms, askedBefore } = course;
    const { key } = payment;
    // The one that was asked before answers only what is definite (`askedBefore`).
    if (isHandedOver || askedBefore !== null) {
      await redemptions.step(key, { kind: "failed", failure: failureOf(response) });
      return refusedSettlement(response);
    }
    const kept = await this.#release(key, terms);
    if (kept === undefined) return refusedSettlement(response);
    if (kept.unbegun !== undefined) return kept;
    // Bytes of ours carry it: then the ledger knows, and nobody else, whether they failed for certain, whatever target.
    const asked = { ...terms, target: "" };
    const claim = await redemptions.step(key, { kind: "claim", terms: asked });
    return claim.kind === "failed" ? explain(claim, terms.request) : UNRESOLVED;
  }

  /** Nothing was settled that we know of: is it certain? Only then is the claim dropped. */
  async #afterFault({ payment, terms, askedBefore }: Course, cause: unknown): Promise<Settled> {
    const { key } = payment;
    if (cause instanceof HeldPayment) {
      await this.#options.redemptions.step(key, { kind: "held", transaction: cause.transaction });
      return held(cause);
    }
    const isCertain = cause instanceof FacilitatorFault && cause.kind !== "unknown";
    // Certain of this attempt only: the one before it may have settled the payment.
    if (!isCertain || askedBefore !== null) {
      const { transaction } = cause instanceof FacilitatorFault ? cause : {};
      return transaction === undefined ? UNRESOLVED : { ...UNRESOLVED, transaction };
    }
    return (await this.#release(key, terms)) ?? unavailable(cause.code);
  }

  /** Undefined when the claim is gone; else it is not ours to drop and the chain has to decide, or the ledger failed. */
  async #release(
    key: PaymentKey,
    { request, idempotencyKey }: StoredTerms,
  ): Promise<(typeof UNRESOLVED & Unbegun) | undefined> {
    try {
      await this.#options.redemptions.step(key, { kind: "released" });
      return undefined;
    } catch (cause) {
      if (cause instanceof LedgerConflict) return UNRESOLVED;
      const { network } = request.paymentRequirements;
      this.#warn(cause, network, "a claim could not be dropped; it is dropped later");
      return { ...UNRESOLVED, unbegun: idempotencyKey };
    }
  }

  #warn(cause: unknown, network: string, said: string): void {
    // Whoever makes the crowd does not fill the log with it as well.
    const level = cause instanceof CrowdedFault ? "debug" : "warn";
    this.#options.logger[level]({ err: cause, network }, said);
  }
}

function overworked(seconds: number): Barred {
  const detail =
    "too much is under way for this payer that is not paid yet, or was asked for and not paid for lately; " +
    "nothing was charged, and the same payment may be sent again later";
  return {
    kind: "barred",
    status: 429,
    refusal: { code: "invalid_transaction_state", detail },
    seconds,
  };
}

/** What was seen in its payer's purse; undefined: nobody says, as where it is settled elsewhere. */
function meansIn(judged: Verified["judged"]): bigint | undefined {
  const { purse, meansAtomic } = judged?.inspected ?? {};
  return purse?.balanceAtomic ?? meansAtomic;
}

function drawOf({ network, request }: Payment, { judged }: Verified): ReservedDraw | undefined {
  const meansAtomic = meansIn(judged);
  if (meansAtomic === undefined) return undefined;
  const { asset } = request.paymentRequirements;
  const purse = `${network} ${asset} ${payerOf(request.paymentPayload)}`.toLowerCase();
  return { purse, amountAtomic: BigInt(amountOf(request)), meansAtomic };
}

function verdictNote(verdict: Verdict): StepEnd {
  if (verdict.ok) return { isGood: true, note: "valid" };
  const { code, detail } = verdict.error;
  return { isGood: false, note: `${code}: ${detail}` };
}

function receiptNote(response: SettleResponse): StepEnd {
  if (response.success) return { isGood: true, note: `in transaction ${response.transaction}` };
  const { code, detail } = failureOf(response);
  return { isGood: false, note: `${code}: ${detail}` };
}
