/**
 * The money side of a request: a presented payment is claimed, verified and settled before the
 * upstream sees anything, and is sold once. One payment has one flight through this process; whoever
 * presents it meanwhile waits for that flight and then asks the ledger what is left to have.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { FacilitatorFault, waitWithin, type Facilitator } from "../facilitator/facilitator.ts";
import {
  LedgerConflict,
  type ClaimOutcome,
  type ClaimTerms,
  type Redemptions,
  type SettledPayment,
} from "../ledger/ledger.ts";
import type { Logger } from "../telemetry/logger.ts";
import { sameAddress } from "../x402/address.ts";
import { isEvmPayload, payerOf, paymentKey, type PaymentKey } from "../x402/payment-key.ts";
import { refuse, type Refusal, type Result } from "../x402/result.ts";
import type {
  FacilitatorRequest,
  PaymentPayload,
  PaymentRequirements,
  SettleResponse,
} from "../x402/x402.ts";

/** Longest a verification may take, milliseconds. */
const VERIFY_TIMEOUT_MS = 10_000;
/** How often and how long apart a delivery's end is stored again when the ledger fails. */
const RECORD_ATTEMPTS = 60;
const RECORD_PAUSE_MS = 1_000;

export interface PaywallOptions {
  readonly facilitator: Facilitator;
  readonly redemptions: Redemptions;
  readonly logger: Logger;
  /** Longest that a request is held for its settlement, milliseconds; `maxTimeoutSeconds` if less. */
  readonly settlementWaitMs: number;
}

/** A payment as presented for one URL. */
export interface Presented {
  readonly payment: PaymentPayload;
  /** Every way to pay for that URL. */
  readonly accepts: readonly PaymentRequirements[];
  /** Method and canonical path: what the payment is bound to by its first use. */
  readonly binding: string;
  /** Canonical path and query. */
  readonly target: string;
  /** True when nobody waits for the answer any more: then no delivery is tried. */
  readonly isGone: () => boolean;
}

/** What the paywall decided about a presented payment. */
export type Admission =
  /** Paid: serve it, then report through {@link Paid}. */
  | { readonly kind: "admitted"; readonly paid: Paid }
  /** 402; `settlement` where a settlement was tried and failed for certain. */
  | {
      readonly kind: "refused";
      readonly refusal: Refusal;
      readonly settlement?: SettleResponse;
    }
  /** 500; no money moved. */
  | { readonly kind: "unavailable"; readonly refusal: Refusal }
  /** 500; the money may have moved, and only the same payment may be sent again. */
  | { readonly kind: "unknown"; readonly detail: string }
  /** Paid, and the buyer has left: nothing was delivered, no attempt is spent. */
  | { readonly kind: "abandoned" };

/** A settled payment whose one delivery is under way. Exactly one of the two must be called. */
export interface Paid {
  readonly settlement: SettledPayment;
  /** The buyer has the answer: sold. */
  delivered(): Promise<void>;
  /** The upstream failed or refused, or the buyer left: the same payment may try again. */
  undelivered(attempt: Attempt): Promise<void>;
}

/** What an unfinished delivery leaves behind. */
export type Attempt = Parameters<Redemptions["undelivered"]>[1];

export class Paywall {
  readonly #options: PaywallOptions;
  readonly #flights = new Map<PaymentKey, Promise<void>>();

  constructor(options: PaywallOptions) {
    this.#options = options;
  }

  async admit(presented: Presented): Promise<Admission> {
    const chosen = this.#choose(presented);
    if (!chosen.ok) return { kind: "refused", refusal: chosen.error };
    const { request, refusal } = chosen.value;
    const key = paymentKey(request);
    if (!key.ok) return { kind: "refused", refusal: key.error };
    const timeoutMs = request.paymentRequirements.maxTimeoutSeconds * 1000;
    const signal = AbortSignal.timeout(Math.min(this.#options.settlementWaitMs, timeoutMs));
    try {
      // A payment that is refused as new may still be an old one: settled, and not delivered yet.
      if (refusal !== undefined && !(await this.#options.redemptions.isRecorded(key.value))) {
        return { kind: "refused", refusal };
      }
    } catch (cause) {
      return this.#ledgerFailed(cause);
    }
    for (;;) {
      const flight = this.#flights.get(key.value);
      if (flight === undefined) break;
      const landed = flight.then(() => true);
      if (!(await waitWithin(landed, signal, false))) return IN_FLIGHT;
    }
    const { binding, target, isGone } = presented;
    const terms = { binding, target, idempotencyKey: randomUUID(), request };
    return this.#fly(key.value, { terms, signal, isGone });
  }

  /**
   * The requirement that the payment answers. A payload does not name its asset, so of several
   * requirements on one network the one that its signature fits is meant.
   */
  #choose(presented: Presented): Result<Choice, Refusal> {
    const { payment, accepts } = presented;
    const sameScheme = accepts.filter(({ scheme }) => scheme === payment.scheme);
    if (sameScheme.length === 0) {
      return refuse(
        "invalid_scheme",
        `scheme ${JSON.stringify(payment.scheme)} is not accepted here`,
      );
    }
    const candidates = sameScheme
      .filter(({ network }) => network === payment.network)
      .sort((left, right) => Number(fits(payment, right)) - Number(fits(payment, left)));
    let first: Choice | undefined;
    for (const paymentRequirements of candidates) {
      const request = { paymentPayload: payment, paymentRequirements };
      const verdict = this.#options.facilitator.precheck(request);
      if (verdict === undefined || verdict.isValid) return { ok: true, value: { request } };
      const { invalidReason: code, detail = "" } = verdict;
      first ??= { request, refusal: { code, detail } };
    }
    if (first !== undefined) return { ok: true, value: first };
    const name = JSON.stringify(payment.network);
    return refuse("invalid_network", `network ${name} is not accepted here`);
  }

  /** Runs from the claim to the recorded delivery; nothing else may work on this payment meanwhile. */
  async #fly(key: PaymentKey, flight: Flight): Promise<Admission> {
    const landing = Promise.withResolvers<void>();
    this.#flights.set(key, landing.promise);
    const land = (): void => {
      this.#flights.delete(key);
      landing.resolve();
    };
    const admission = await this.#board(key, flight, land);
    if (admission.kind !== "admitted") land();
    return admission;
  }

  /** Never rejects: whatever fails after the claim leaves the payment unresolved, never "not taken". */
  async #board(key: PaymentKey, flight: Flight, land: () => void): Promise<Admission> {
    const { redemptions, logger } = this.#options;
    let claim: ClaimOutcome;
    try {
      claim = await redemptions.claim(key, flight.terms);
    } catch (cause) {
      return this.#ledgerFailed(cause);
    }
    try {
      const settled = await this.#settle(key, claim, flight);
      if (settled.kind !== "settled") return settled;
      if (flight.isGone()) return { kind: "abandoned" };
      if (!(await redemptions.delivering(key))) return IN_FLIGHT;
      return { kind: "admitted", paid: this.#paid(key, settled.settlement, land) };
    } catch (cause) {
      logger.error(
        { err: cause, key },
        "the ledger failed after a claim; its payment is unresolved",
      );
      return UNRESOLVED;
    }
  }

  #ledgerFailed(cause: unknown): Admission {
    this.#options.logger.error({ err: cause }, "the ledger failed; the payment was not taken");
    return unavailable("unexpected_settle_error");
  }

  #paid(key: PaymentKey, settlement: SettledPayment, land: () => void): Paid {
    const { redemptions } = this.#options;
    return {
      settlement,
      delivered: () => this.#record(key, () => redemptions.delivered(key)).finally(land),
      undelivered: (attempt) =>
        this.#record(key, () => redemptions.undelivered(key, attempt)).finally(land),
    };
  }

  /** Until it is stored, the payment stays in flight: forgotten, it would be delivered once more. */
  async #record(key: PaymentKey, store: () => Promise<void>): Promise<void> {
    for (let attempt = 1; attempt <= RECORD_ATTEMPTS; attempt += 1) {
      try {
        return await store();
      } catch (cause) {
        this.#options.logger.error({ err: cause, key, attempt }, "a delivery was not recorded");
        if (cause instanceof LedgerConflict) return;
        await sleep(RECORD_PAUSE_MS, undefined, { ref: false });
      }
    }
  }

  async #settle(key: PaymentKey, claim: ClaimOutcome, flight: Flight): Promise<Settled> {
    switch (claim.kind) {
      case "granted":
        return this.#charge(key, flight.terms, flight.signal);
      case "settled":
        return claim;
      case "unresolved":
        return this.#resolve(key, claim.terms, flight.signal);
      default:
        return explain(claim, flight.terms.request);
    }
  }

  /** Verifies and settles a payment that this request has claimed. */
  async #charge(key: PaymentKey, terms: ClaimTerms, signal: AbortSignal): Promise<Settled> {
    const { facilitator, redemptions } = this.#options;
    const { request } = terms;
    const { network } = request.paymentRequirements;
    try {
      const within = AbortSignal.any([signal, AbortSignal.timeout(VERIFY_TIMEOUT_MS)]);
      const verdict = await facilitator.verify(request, within);
      if (!verdict.isValid) {
        await redemptions.released(key);
        const { invalidReason: code, detail = "the facilitator refused the payment" } = verdict;
        return { kind: "refused", refusal: { code, detail } };
      }
      const outcome = await this.#collect(key, terms, signal);
      if (outcome.kind === "settled") return outcome;
      await (facilitator.isRemote(network)
        ? redemptions.failed(key, failureOf(outcome.response))
        : this.#release(key));
      return refusedSettlement(outcome.response);
    } catch (cause) {
      return this.#afterFault(key, network, cause);
    }
  }

  /** Asks again about a settlement that was begun before, with the terms of its first use. */
  async #resolve(key: PaymentKey, terms: ClaimTerms, signal: AbortSignal): Promise<Settled> {
    const { facilitator, logger } = this.#options;
    const { network } = terms.request.paymentRequirements;
    try {
      const outcome = await this.#collect(key, terms, signal);
      if (outcome.kind === "settled") return outcome;
      // A remote facilitator that refuses the second request may be refusing its own first success.
      if (facilitator.isRemote(network)) return UNRESOLVED;
      await this.#release(key);
      return refusedSettlement(outcome.response);
    } catch (cause) {
      logger.warn({ err: cause, network }, "a settlement is still unresolved");
      return UNRESOLVED;
    }
  }

  /** Asks for the settlement, handed over first where it leaves this process; stored when it succeeded. */
  async #collect(
    key: PaymentKey,
    { request, idempotencyKey }: ClaimTerms,
    signal: AbortSignal,
  ): Promise<Collected> {
    const { facilitator, redemptions } = this.#options;
    const { network } = request.paymentRequirements;
    if (facilitator.isRemote(network)) await redemptions.handedOver(key);
    const response = await facilitator.settle(request, { signal, idempotencyKey });
    if (!response.success) return { kind: "failed", response };
    const { transaction, payer } = response;
    const settlement = { transaction, network, payer };
    await redemptions.settled(key, settlement);
    return { kind: "settled", settlement };
  }

  /** Nothing was settled that we know of: is it certain? Only then is the claim dropped. */
  async #afterFault(key: PaymentKey, network: string, cause: unknown): Promise<Settled> {
    const { facilitator, logger } = this.#options;
    const fault = cause instanceof FacilitatorFault ? cause : undefined;
    logger.warn({ err: cause, network }, "a payment could not be processed");
    const mayHaveMoved = fault === undefined || fault.kind === "unknown";
    if (mayHaveMoved && facilitator.isRemote(network)) return UNRESOLVED;
    const released = await this.#release(key);
    if (!released || mayHaveMoved) return UNRESOLVED;
    return unavailable(fault.code);
  }

  /** True when the claim is gone; false when the payment was signed and the chain has to decide. */
  async #release(key: PaymentKey): Promise<boolean> {
    try {
      await this.#options.redemptions.released(key);
      return true;
    } catch (cause) {
      if (cause instanceof LedgerConflict) return false;
      throw cause;
    }
  }
}

/** One payment's way from the claim to the recorded delivery. */
interface Flight {
  readonly terms: ClaimTerms;
  readonly signal: AbortSignal;
  readonly isGone: () => boolean;
}

interface Choice {
  readonly request: FacilitatorRequest;
  /** Why the payment would be refused if it were new. */
  readonly refusal?: Refusal;
}

/** Whether a payment is for exactly that offer, as far as it says what it is for. */
function fits({ payload }: PaymentPayload, offer: PaymentRequirements): boolean {
  if (!isEvmPayload(payload)) return false;
  const { to, value } = payload.authorization;
  return sameAddress(to, offer.payTo) && value === offer.maxAmountRequired;
}

type Settled =
  | Exclude<Admission, { kind: "admitted" }>
  | { readonly kind: "settled"; readonly settlement: SettledPayment };

type FailedSettlement = SettleResponse & { readonly success: false };

type Collected =
  | Extract<Settled, { kind: "settled" }>
  | { readonly kind: "failed"; readonly response: FailedSettlement };

const IN_FLIGHT = {
  kind: "unknown",
  detail: "the same payment is being processed; send the same payment again",
} as const;

const UNRESOLVED = {
  kind: "unknown",
  detail: "the settlement's outcome is not known yet; send the same payment again",
} as const;

function unavailable(code: "unexpected_verify_error" | "unexpected_settle_error"): {
  kind: "unavailable";
  refusal: Refusal;
} {
  const detail = "the payment could not be processed and no money moved; send it again later";
  return { kind: "unavailable", refusal: { code, detail } };
}

/** What is left to say where a payment cannot be had again. */
function explain(
  claim: Exclude<ClaimOutcome, { kind: "granted" | "settled" | "unresolved" }>,
  { paymentRequirements, paymentPayload }: FacilitatorRequest,
): Settled {
  switch (claim.kind) {
    case "busy":
      return IN_FLIGHT;
    case "spent":
      return refused("invalid_transaction_state", claim.delivered ? USED : undelivered(claim));
    case "forged":
      return refused("invalid_exact_evm_payload_signature", "another payment has this nonce");
    case "foreign":
      return refused("invalid_payload", "this payment was used for another resource");
    default: {
      const { code: errorReason, detail } = claim.failure;
      const { network } = paymentRequirements;
      const payer = payerOf(paymentPayload);
      const failed = { success: false, transaction: "", network, payer } as const;
      return refusedSettlement({ ...failed, errorReason, detail });
    }
  }
}

const USED = "this payment was used before; sign a new one";

function undelivered({ transaction }: { readonly transaction: string }): string {
  return `paid in ${transaction} and no delivery is left for this request: ask the seller`;
}

function refused(code: Refusal["code"], detail: string): Settled {
  return { kind: "refused", refusal: { code, detail } };
}

function refusedSettlement(response: FailedSettlement): Settled {
  const { code, detail } = failureOf(response);
  return { kind: "refused", refusal: { code, detail }, settlement: response };
}

function failureOf(response: FailedSettlement): Refusal {
  return { code: response.errorReason, detail: response.detail ?? "the settlement failed" };
}
