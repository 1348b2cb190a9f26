/**
 * A payment for one offer, as a value: made once, where it is read, and handed on to whoever judges, claims and
 * settles it, with what each of them has found.
 */
import type { Checked, Standing } from "../mechanism/mechanism.ts";
import { payerOf, paymentKey, type PaymentKey } from "../x402/payment-key.ts";
import { ok, type Refusal, type Result } from "../x402/result.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import type { Judged } from "./settlement/pending-payment.ts";

/** What needs nobody else to know of a payment; undefined where nothing is certain of it here. */
export type LocalJudge = (
  request: FacilitatorRequest,
) => Result<Checked<unknown>, Refusal> | undefined;

export class Payment {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
  readonly #judge: LocalJudge;
  #checked: { readonly found: ReturnType<LocalJudge> } | undefined;

  /** @param judge is asked once at most, when the first wants to know */
  constructor(key: PaymentKey, request: FacilitatorRequest, judge: LocalJudge = nothingCertain) {
    this.key = key;
    this.request = request;
    this.#judge = judge;
  }

  /** Refusal: that of {@link paymentKey}. */
  static read(request: FacilitatorRequest, judge?: LocalJudge): Result<Payment, Refusal> {
    const key = paymentKey(request);
    return key.ok ? ok(new Payment(key.value, request, judge)) : key;
  }

  get network(): string {
    return this.request.paymentRequirements.network;
  }

  get checked(): ReturnType<LocalJudge> {
    this.#checked ??= { found: this.#judge(this.request) };
    return this.#checked.found;
  }

  /** Why it is refused whatever the chain says. */
  get fault(): Refusal | undefined {
    const { checked } = this;
    if (checked === undefined) return undefined;
    return checked.ok ? (checked.value.fault ?? undefined) : checked.error;
  }

  /** Whether the chain has to be asked who signed it: anybody can write such a payment. */
  get isDoubtful(): boolean {
    const { checked } = this;
    return checked?.ok === true && !checked.value.proven && checked.value.fault === null;
  }

  /** Who has signed it, where that is proven here and nothing else speaks against it; undefined: the chain has to say so. */
  get provenPayer(): string | undefined {
    const { checked } = this;
    const isProven = checked?.ok === true && checked.value.proven && checked.value.fault === null;
    return isProven ? checked.value.payer : undefined;
  }

  /** As far as is proven, where it could be judged; else whom it names, "" for nobody. */
  get payer(): string {
    const { checked } = this;
    return checked?.ok === true ? checked.value.payer : payerOf(this.request.paymentPayload);
  }
}

function nothingCertain(): undefined {
  return undefined;
}

/** What a verification has found, for the settlement that follows it. */
export interface Verified {
  /** The chain's word, where the payment is settled in this process. */
  readonly judged?: Judged;
  /** The name of who judged it elsewhere: where its settlement begins. */
  readonly by?: string;
  /** Where the chain stood with it then; null where it cannot be asked. Of payments that are settled elsewhere. */
  readonly standing?: Standing | null;
}
