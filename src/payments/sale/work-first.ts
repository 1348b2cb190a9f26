/**
 * Where the work comes before the settlement (`settle: after`): the payment is claimed, verified, and its money reserved;
 * the backend works; and what it has answered is stored before anybody is asked to settle. What is no goods, and a buyer
 * who has left by then, give the claim back. From the settlement on it is as for any other payment: what is paid and not
 * delivered is owed, and the stored answer is what is delivered then.
 */
import type { ClaimOutcome } from "../../ledger/ledger.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import { payerOf } from "../../x402/payment-key.ts";
import {
  ABANDONED,
  IN_FLIGHT,
  UNSOLD,
  type GoodsRequest,
  type HeldGoods,
  type NOT_LOOKED_UP,
  type Settled,
  type Unbegun,
} from "./admission.ts";
import type { Flight } from "./flight.ts";
import { upstreamKey } from "./goods.ts";
import type { PaymentService } from "./payment-service.ts";

/** What is done with the claim meanwhile. */
export interface ClaimHands {
  /** Gives it back; then `answer`. `isBackends`: it was not the payer who has spoilt the work. */
  readonly drop: <Answer>(
    answer: Answer,
    isBackends?: boolean,
  ) => Promise<Answer | (typeof NOT_LOOKED_UP & Unbegun)>;
  /** How long its settlement is waited for; the work took time of its own. */
  readonly settleBy: () => AbortSignal;
}

export class WorkFirst {
  readonly #payments: PaymentService;

  constructor(payments: PaymentService) {
    this.#payments = payments;
  }

  /** Of a claim that was just granted. Throws what the ledger throws. */
  async charge(
    work: NonNullable<GoodsRequest["work"]>,
    { payment, presented, terms, signal, course }: Flight,
    { drop, settleBy }: ClaimHands,
  ): Promise<Settled | typeof UNSOLD> {
    const { key, network, request } = payment;
    const { idempotencyKey, target } = terms;
    // Also where one that was charged before was dropped, and is granted anew.
    course.isUncharged = true;
    const vetted = await this.#payments.vet(payment, terms, signal);
    if (vetted !== "good") return vetted;
    if (presented.isGone()) return drop(ABANDONED);
    if (!course.isWorked) {
      const payer = payerOf(request.paymentPayload);
      const asked = { payer, network, terms: request.paymentRequirements };
      const worked = await work({ ...asked, idempotencyKey: upstreamKey(idempotencyKey) });
      if (worked.kind === "nothing") return drop(UNSOLD, worked.isBackends);
      if (presented.isGone()) return drop(ABANDONED);
      course.isWorked = true;
      const sold = worked.sold && { ...worked.sold, target };
      const answered = { kind: "answered", idempotencyKey, sold } as const;
      // Else the claim is not ours any more: this process was taken for dead.
      if (!(await this.#payments.step(key, answered))) return IN_FLIGHT;
    }
    // Nobody is charged who has left.
    if (presented.isGone()) return drop(ABANDONED);
    course.isUncharged = false;
    return this.#payments.charge(payment, terms, settleBy());
  }

  /** What is delivered without asking the backend, which has worked for it before it was settled. */
  async answerOf(
    key: PaymentKey,
    claim: ClaimOutcome,
    { course, presented }: Flight,
  ): Promise<HeldGoods | undefined> {
    if (course.isWorked) return "here";
    if (claim.kind !== "settled" && claim.kind !== "unresolved") return undefined;
    const kept = await this.#payments.answer(key);
    if (kept?.bodyHash === undefined) return undefined;
    return (await presented.readBodyHash(true)) === kept.bodyHash ? kept : undefined;
  }
}
