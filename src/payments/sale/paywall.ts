/**
 * The money side of a request: a presented payment is claimed, verified and settled before the upstream sees anything, and is
 * sold once. Where it is sold so, the upstream works for a payment that is claimed and verified, and is settled when there is
 * something to sell (decision record 102). One payment has one flight through this process; whoever presents it meanwhile waits
 * for that, where few do, and then asks the ledger what is left to have. So does a flight that finds it in another process' hands.
 */
import { randomUUID } from "node:crypto";
import type { Payment } from "../facilitator.ts";
import {
  type ClaimOutcome,
  type ClaimTerms,
  type PayerProof,
  type PaymentStatus,
} from "../../ledger/ledger.ts";
import type { Logger } from "../../telemetry/logger.ts";
import { notePayment } from "../../telemetry/request-context.ts";
import { type Time, waitWithin } from "../../time/time.ts";
import { paymentKey, type PaymentKey } from "../../x402/payment-key.ts";
import { err } from "../../x402/result.ts";
import type { BuyerSession } from "../../x402/session.ts";
import type { SignIn } from "../../x402/sign-in.ts";
import {
  ABANDONED,
  explain,
  fillsOf,
  IN_FLIGHT,
  isUndecided,
  mayHold,
  NOT_LOOKED_UP,
  notChosen,
  NOTHING_LEFT,
  UNRESOLVED,
  type Admission,
  type GoodsRequest,
  type DeadClaim,
  type Presented,
  type Settled,
  type Unbegun,
  type UNSOLD,
} from "./admission.ts";
import { claimantOf } from "./claimant.ts";
import { ANEW, type Flight, type Own, type Takeoff, type ClaimTurn } from "./flight.ts";
import { Goods, type SoldClaim } from "./goods.ts";
import { recordUntilStored } from "./recording.ts";
import type { Identified, PaymentService } from "./payment-service.ts";
import { NO_MEMBERSHIP, NOT_RECOGNIZED, type SigningIn, type Memberships } from "./recognition.ts";
import { Waiting } from "./waiting.ts";
import { WorkFirst } from "./work-first.ts";

/** How long an answer is held back until it is stored that its payment is owed, milliseconds. */
export const RECORDED_WITHIN_MS = 1_000;

export interface PaywallOptions {
  readonly payments: PaymentService;
  readonly logger: Logger;
  /** Longest that a request is held for its settlement, milliseconds; `maxTimeoutSeconds` if less. */
  readonly settlementWaitMs: number;
  readonly time: Time;
  /** Unguessable, another one each time. */
  readonly newIdempotencyKey?: () => string;
}

/** How often that is done for one request; each time somebody else has dropped it. */
const MAX_ANEW = 3;

export class Paywall {
  readonly #options: PaywallOptions;
  #settlementWaitMs: number;
  readonly #payments: PaymentService;
  readonly #goods: Goods;
  readonly #workFirst: WorkFirst;
  readonly #newIdempotencyKey: () => string;
  readonly #flights = new Map<PaymentKey, Promise<void>>();
  /** Requests with new payments that collect what is owed, by the keys of these. */
  readonly #collecting = new Map<PaymentKey, Promise<void>>();
  readonly #waiting = new Waiting();

  constructor(options: PaywallOptions) {
    this.#options = options;
    this.#settlementWaitMs = options.settlementWaitMs;
    this.#payments = options.payments;
    this.#goods = new Goods(options);
    this.#workFirst = new WorkFirst(options.payments);
    this.#newIdempotencyKey = options.newIdempotencyKey ?? randomUUID;
  }

  /** What a payment's buyer may be told of it. Throws what the ledger throws. */
  status(key: PaymentKey): Promise<PaymentStatus | undefined> {
    return this.#payments.step(key, { kind: "status" });
  }

  /** See {@link PaymentService.balances}. */
  readonly balances: PaymentService["balances"] = (pots) => this.#payments.balances(pots);

  /** So long are requests held for their settlement from now on, milliseconds. */
  hold(settlementWaitMs: number): void {
    this.#settlementWaitMs = settlementWaitMs;
  }

  async admit(presented: Presented): Promise<Admission> {
    for (let times = 0; times <= MAX_ANEW; times += 1) {
      const admission = await this.#admitOnce(presented);
      if (admission !== ANEW) return admission;
    }
    return IN_FLIGHT;
  }

  /** See {@link PaymentService.openSession}. */
  openSession(
    signIn: SignIn,
    memberships: Memberships,
    client: string,
  ): ReturnType<PaymentService["openSession"]> {
    const signal = this.#options.time.timeout(this.#settlementWaitMs);
    return this.#payments.openSession(signIn, memberships, claimantOf(client), signal);
  }

  /**
   * What its payer has bought before by such a request, for whoever has signed in: nothing is charged. `recognized` where
   * he has nothing of that, and is a member, or has paid for more than one request.
   */
  async admitSignedIn(
    signIn: SignIn | BuyerSession,
    asked: GoodsRequest,
    terms: Pick<SigningIn, "memberships" | "grants" | "hasQuota"> = NO_MEMBERSHIP,
  ): Promise<Admission> {
    const { binding, target, client, exactly } = asked;
    const signal = this.#options.time.timeout(this.#settlementWaitMs);
    const signingIn = { signIn, binding, target, exactly, ...terms };
    const found = await this.#payments
      .signedIn(signingIn, claimantOf(client), signal)
      .catch((cause: unknown) => {
        this.#notLookedUp(cause);
        return err(NOT_RECOGNIZED);
      });
    if (!found.ok) return found.error;
    let undecided: Admission | undefined;
    const { account, membership, granted, bought } = found.value;
    for (const payment of bought) {
      notePayment(payment.key);
      const takeoff = { proof: "signed-in", signal, isNew: true, unclaimed: NOTHING_LEFT } as const;
      const admission = await this.#join(payment, asked, takeoff);
      if (admission === ANEW) continue;
      if (isUndecided(admission)) undecided ??= admission;
      else if (admission.kind !== "refused") return admission;
    }
    if (undecided !== undefined) return undecided;
    const isNobody = membership === "none" && granted.length === 0 && !terms.hasQuota;
    if (isNobody && !("kind" in signIn)) return NOTHING_LEFT;
    return { kind: "recognized", account, granted };
  }

  async #admitOnce(presented: Presented): Promise<Own> {
    for (;;) {
      const identified = await this.#identify(presented);
      if ("kind" in identified) return identified;
      const { payment } = identified;
      const seconds = identified.isDoubtful ? (presented.doubt?.() ?? 0) : 0;
      if (seconds > 0) return { kind: "limited", seconds };
      if (identified.owed.length === 0) return this.#admitOwn(presented, identified);
      const other = this.#collecting.get(payment.key);
      if (other === undefined) return this.#admitCollector(presented, identified);
      const told = await this.#waiting.for(other, presented, this.#patience(payment));
      if (told !== undefined) return told;
    }
  }

  /** @param unclaimed the answer where nobody has the payment, which is not charged then */
  async #admitOwn(
    presented: Presented,
    { payment, isClaimed, hasKey }: Identified,
    unclaimed?: Admission,
  ): Promise<Own> {
    const isNew = !isClaimed && unclaimed === undefined;
    const refusal = isNew ? presented.refusal() : null;
    if (refusal !== null) return { kind: "unservable", refusal };
    const judged = isNew ? presented.unfit?.() : null;
    const unfit = judged instanceof Promise ? await judged : judged;
    if (unfit) return unfit;
    notePayment(payment.key);
    const signal = this.#patience(payment);
    // While a body was read, its payer may have become owed something.
    const isKnown = !isClaimed && !(judged instanceof Promise);
    return this.#join(payment, presented, { signal, isNew: isKnown, hasKey, unclaimed });
  }

  /** Others with the same new payment wait until it is known whether it has collected something, or is charged. */
  async #admitCollector(presented: Presented, identified: Identified): Promise<Own> {
    const { key } = identified.payment;
    const over = Promise.withResolvers<void>();
    this.#collecting.set(key, over.promise);
    try {
      return await this.#collectOrPay(presented, identified);
    } finally {
      this.#collecting.delete(key);
      over.resolve();
    }
  }

  async #collectOrPay(presented: Presented, first: Identified): Promise<Own> {
    const { isProof, payment } = first;
    const signal = this.#patience(payment);
    const tried = new Set<PaymentKey>();
    let identified: Identified | Admission = first;
    let owed = first.owed;
    while (owed.length > 0) {
      const collected = await this.#collect(presented, payment, owed, { isProof, signal });
      const mayBeClaimed = isProof && collected?.kind === "refused";
      if (collected !== undefined && !mayBeClaimed) return collected;
      for (const each of owed) tried.add(each.key);
      // While it waited for these, others may have become owed, and it may be claimed elsewhere.
      identified = await this.#identify(presented);
      if ("kind" in identified) return identified;
      // Another request may have claimed it since then, and its payer not hear that he has not paid.
      if (collected !== undefined && !identified.isClaimed) {
        return this.#admitOwn(presented, identified, collected);
      }
      owed = identified.owed.filter((each) => !tried.has(each.key));
    }
    return this.#admitOwn(presented, identified);
  }

  async #identify(presented: Presented): Promise<Identified | Admission> {
    const { payment, accepted, accepts, exactly, isSettledAfter } = presented;
    const { binding, target, route, identifier, misnamed } = presented;
    try {
      const offered = { payment, accepted, accepts, exactly, isSettledAfter };
      const asked = { ...offered, binding, target, route, identifier };
      const identified = await this.#payments.identify(asked);
      if (misnamed !== undefined && !(identified.ok && identified.value.isClaimed)) {
        return { kind: "malformed", refusal: misnamed };
      }
      return identified.ok ? identified.value : notChosen(identified.error);
    } catch (cause) {
      return this.#notLookedUp(cause);
    }
  }

  /**
   * What the payer is owed for the same sale is delivered first, and his new payment is only the proof that it is
   * he: verified, and forgotten. Undefined where nothing turns out to be owed.
   */
  async #collect(
    presented: Presented,
    payment: Payment,
    owed: readonly Payment[],
    { isProof, signal }: { readonly isProof: boolean; readonly signal: AbortSignal },
  ): Promise<Admission | undefined> {
    const proof = await this.#prove(payment, claimantOf(presented.client), signal);
    if (typeof proof === "object") return proof;
    let undecided: Admission | undefined;
    for (const earlier of owed) {
      notePayment(earlier.key);
      // What nobody has any more is not owed: it was never charged, and is not now.
      const admission = await this.#join(earlier, presented, { proof, signal, isNew: false });
      // Not told of what is collected.
      if (admission === ANEW) continue;
      if (isUndecided(admission)) undecided ??= admission;
      else if (admission.kind !== "refused") return admission;
      // It has got that already: whoever repeats his request buys nothing else.
      else if (isProof && admission.replay === "used") return admission;
    }
    return undecided;
  }

  async #prove(
    payment: Payment,
    claimant: string,
    signal: AbortSignal,
  ): Promise<PayerProof | Admission> {
    try {
      return await this.#payments.prove(payment, claimant, signal);
    } catch (cause) {
      return this.#notLookedUp(cause);
    }
  }

  /** Whether something here works on the payment at this moment, or on one that has the same key. */
  isInFlight({ payment, accepts }: Pick<Presented, "payment" | "accepts">): boolean {
    return accepts.some((paymentRequirements) => {
      if (paymentRequirements.network !== payment.network) return false;
      const key = paymentKey({ paymentPayload: payment, paymentRequirements });
      return key.ok && this.#flights.has(key.value);
    });
  }

  /** Waits for the flight of the same payment, if there is one, and then takes off. */
  async #join(
    payment: Payment,
    presented: GoodsRequest,
    { proof, isNew, ...takeoff }: Takeoff & { readonly proof?: PayerProof },
  ): Promise<Own> {
    const { key, request } = payment;
    let hasWaited = false;
    for (;;) {
      const flight = this.#flights.get(key);
      if (flight === undefined) break;
      hasWaited = true;
      const told = await this.#waiting.for(flight, presented, takeoff.signal);
      if (told !== undefined) return told;
    }
    const { binding, target, route, client, identifier, isMetered } = presented;
    const told = { binding, target, route, request, proof, identifier };
    const [claimant, idempotencyKey] = [claimantOf(client), this.#newIdempotencyKey()];
    const fills = fillsOf(payment, presented, takeoff.hasKey);
    const change = { isMetered: isMetered?.(request.paymentRequirements) === true };
    const terms = { ...told, claimant, idempotencyKey, fills, ...change };
    return this.#fly(payment, presented, terms, { ...takeoff, isNew: isNew && !hasWaited });
  }

  /** How long a request is held. */
  #patience({ request }: Payment): AbortSignal {
    const { time } = this.#options;
    const settlementWaitMs = this.#settlementWaitMs;
    const { maxTimeoutSeconds } = request.paymentRequirements;
    return time.timeout(Math.min(settlementWaitMs, maxTimeoutSeconds * 1000));
  }

  /** Runs from the claim to the recorded delivery; nothing else here works on this payment meanwhile. */
  async #fly(
    payment: Payment,
    presented: GoodsRequest,
    terms: ClaimTerms,
    takeoff: Takeoff,
  ): Promise<Own> {
    const { key } = payment;
    const landing = Promise.withResolvers<void>();
    this.#flights.set(key, landing.promise);
    const course = { isUncharged: presented.work !== undefined, isWorked: false };
    let left: Promise<unknown> = Promise.resolve();
    const leave = (unbegun?: string): Promise<unknown> => {
      left = Promise.all([left, this.#goods.record(key, { kind: "leave", unbegun })]);
      return left;
    };
    // Whoever waits elsewhere need not wait for a client that is not there any more.
    const stay = presented.onGone(
      () => void leave(course.isUncharged ? terms.idempotencyKey : undefined),
    );
    const land = (): void => {
      stay();
      // Stored later, it could be the next flight's that is left.
      void left.finally(() => {
        this.#flights.delete(key);
        landing.resolve();
      });
    };
    const flight = { ...takeoff, payment, presented, terms, land, course };
    const admission = await this.#board(key, flight);
    if (admission === ANEW) {
      land();
      return ANEW;
    }
    if (admission === "unsure") {
      // In flight until that is stored: later it could take back another delivery than this one.
      const takeBack = async (): Promise<void> => {
        await this.#payments.step(key, {
          kind: "undelivered",
          broken: { sent: false, served: null },
        });
        // Where the delivery had not begun, there was nothing to take back.
        await this.#payments.step(key, { kind: "leave" });
      };
      const taken = recordUntilStored(key, takeBack, this.#options).finally(land);
      await waitWithin(taken, this.#recordedSoon(), undefined);
      return UNRESOLVED;
    }
    if (admission.kind === "admitted") return admission;
    // Before the client is told, whose next request may come at once.
    if (mayHold(admission)) {
      // Gone on with by whoever shows it next, it would be charged for work that nobody has done.
      const known = course.isUncharged ? terms.idempotencyKey : undefined;
      const unbegun = "unbegun" in admission ? admission.unbegun : known;
      await waitWithin(leave(unbegun), this.#recordedSoon(), undefined);
    }
    // Others need not wait while this request's body is read: the payment is delivered.
    land();
    return admission.kind === "sold"
      ? this.#goods.again(key, presented, terms, admission)
      : admission;
  }

  #recordedSoon(): AbortSignal {
    return this.#options.time.timeout(RECORDED_WITHIN_MS);
  }

  /** Never rejects: whatever fails after the claim leaves the payment unresolved, never "not taken". */
  async #board(key: PaymentKey, flight: Flight): Promise<Own | SoldClaim | "unsure"> {
    const { logger } = this.#options;
    if (flight.presented.isGone()) return ABANDONED;
    let claim: ClaimOutcome;
    try {
      claim = await this.#payments.step(key, { kind: "claim", terms: flight.terms });
    } catch (cause) {
      return { ...this.#notLookedUp(cause), unbegun: flight.terms.idempotencyKey };
    }
    try {
      let losses = 0;
      let { isNew } = flight;
      for (;;) {
        if (claim.kind === "granted" && flight.unclaimed !== undefined) {
          return await this.#drop(key, flight, flight.unclaimed);
        }
        if (claim.kind === "granted" && !isNew) return await this.#drop(key, flight, ANEW);
        isNew = false;
        const turn = await this.#take(key, claim, flight);
        if (typeof turn === "object" || turn === "unsure") return turn;
        if (turn === "lost") losses += 1;
        if (flight.signal.aborted || losses > 1) return IN_FLIGHT;
        if (flight.presented.isGone()) return ABANDONED;
        claim = await this.#payments.step(key, { kind: "claim", terms: flight.terms });
      }
    } catch (cause) {
      const said = "the ledger failed after a claim; its payment is unresolved";
      logger.error({ err: cause, key }, said);
      return UNRESOLVED;
    }
  }

  async #take(key: PaymentKey, claim: ClaimOutcome, flight: Flight): Promise<ClaimTurn> {
    if (flight.presented.isGone()) {
      // Nobody is charged who has left by then: he may have paid anew elsewhere, and been served.
      return claim.kind === "granted" ? this.#drop(key, flight, ABANDONED) : ABANDONED;
    }
    // Nothing is delivered for it any more.
    if (claim.kind === "sold") return claim;
    const refusal = flight.terms.proof === undefined ? null : flight.presented.refusal();
    if (refusal !== null) {
      const unservable = { kind: "unservable", refusal } as const;
      return claim.kind === "granted" ? this.#drop(key, flight, unservable) : unservable;
    }
    if (claim.kind === "busy") {
      await this.#payments.changed(key, claim.version, flight.signal);
      return "wait-over";
    }
    const isPaid = claim.kind === "settled" || flight.terms.proof !== undefined;
    const unfit = isPaid ? await flight.presented.unfit?.() : null;
    if (unfit) return claim.kind === "granted" ? this.#drop(key, flight, unfit) : unfit;
    const settled = await this.#settle(claim, flight);
    if (settled.kind !== "settled") return settled;
    if (flight.presented.isGone()) return ABANDONED;
    const answer = await this.#workFirst.answerOf(key, claim, flight);
    if (flight.presented.isGone()) return ABANDONED;
    try {
      const { idempotencyKey } = settled;
      const { target, claimant, proof } = flight.terms;
      const sale = { idempotencyKey, target, claimant, proof };
      if (!(await this.#payments.step(key, { kind: "delivering", sale }))) return "lost";
    } catch (cause) {
      this.#options.logger.error({ err: cause, key }, "the ledger failed; nothing was delivered");
      return "unsure";
    }
    return { kind: "admitted", paid: this.#goods.paid(key, settled, flight, answer) };
  }

  #settle(
    claim: Exclude<ClaimOutcome, { kind: "busy" | "sold" }>,
    flight: Flight,
  ): Promise<Settled | typeof UNSOLD> {
    const { payment, presented, terms, signal } = flight;
    switch (claim.kind) {
      case "granted":
        return presented.work === undefined
          ? this.#payments.charge(payment, terms, signal)
          : this.#workFirst.charge(presented.work, flight, {
              drop: (answer, isBackends) => this.#drop(payment.key, flight, answer, isBackends),
              settleBy: () => this.#patience(payment),
            });
      case "unresolved":
        return this.#payments.resume(payment.key, claim, signal);
      case "settled":
        return Promise.resolve(claim);
      default: {
        const dead: DeadClaim = claim;
        return Promise.resolve(explain(dead, terms.request));
      }
    }
  }

  /** Gives the claim back that was just granted; then `answer`. */
  async #drop<Answer>(
    key: PaymentKey,
    { terms }: Flight,
    answer: Answer,
    isBackends = false,
  ): Promise<Answer | (typeof NOT_LOOKED_UP & Unbegun)> {
    try {
      await this.#payments.step(key, { kind: "released", ...(isBackends && { isBackends }) });
      return answer;
    } catch (cause) {
      return { ...this.#notLookedUp(cause), unbegun: terms.idempotencyKey };
    }
  }

  #notLookedUp(cause: unknown): typeof NOT_LOOKED_UP {
    this.#options.logger.error({ err: cause }, "the ledger failed; the payment was not taken");
    return NOT_LOOKED_UP;
  }
}
