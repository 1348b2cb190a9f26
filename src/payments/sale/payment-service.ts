/**
 * What the paywall asks of the money side: which payment this is, whose it is, and to charge it. It is
 * either here (`LocalPaymentService`), or in the process that keeps the ledger and the chains (`src/workers/`). Each
 * question is whole in itself, so that whoever asks may die between two of them.
 */
import type { Facilitator, Payment } from "../facilitator.ts";
import {
  MAX_OWED,
  type ClaimTerms,
  type OutcomeOf,
  type OwedPayment,
  type PayerProof,
  type Pots,
  type Redemptions,
  type StoredResponse,
  type TransitionOf,
} from "../../ledger/ledger.ts";
import { creditsPot } from "../../ledger/pots.ts";
import type { TextSigners } from "../../mechanism/mechanism.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { Timeline } from "../../telemetry/timeline.ts";
import type { Time } from "../../time/time.ts";
import {
  networkOfKey,
  paymentKey,
  payerOf,
  samePayment,
  type PaymentKey,
} from "../../x402/payment-key.ts";
import { findNetwork } from "../../x402/network.ts";
import { err, ok, type Refusal, type Result } from "../../x402/result.ts";
import { isSameToken } from "../../x402/token.ts";
import type { FacilitatorRequest } from "../../x402/x402.ts";
import type { ProvenAccount } from "../../x402/session.ts";
import type { SignIn } from "../../x402/sign-in.ts";
import {
  type Barred,
  type Begun,
  type Declined,
  type Presented,
  type Settled,
} from "./admission.ts";
import { choose, type Choosing } from "./choice.ts";
import { isOfCheaperShop, isOfOtherPrice, PAID_ELSEWHERE } from "./cheaper-shop.ts";
import { ALL_OPEN, NO_FEE_PAYERS } from "./offers.ts";
import type { HolderTerms, Holding } from "../../x402/holding.ts";
import { checksumAddress } from "../../x402/address.ts";
import type { Holdings, ShownHolder } from "./holdings.ts";
import type { SaleGuard } from "./sale-guard.ts";
import { Owing } from "./owing.ts";
import { Proofs } from "./proofs.ts";
import { Recognition, type Recognized, type SigningIn, type Memberships } from "./recognition.ts";
import { Settlement } from "./sale-settlement.ts";
import type { UnpaidWorks } from "./unpaid-work.ts";

export { Payment } from "../facilitator.ts";
export type { ShownHolder } from "./holdings.ts";
export type { Grant, Recognized, SigningIn, Membership, Memberships } from "./recognition.ts";

/** What a presented payment is for. */
export interface Identified {
  readonly payment: Payment;
  /** Claimed before: it is what it was claimed for, whatever the configuration asks by now. */
  readonly isClaimed: boolean;
  /** What its payer is owed for the same sale, where it was not claimed before. */
  readonly owed: readonly Payment[];
  /** It was presented before as the proof for these, and was not charged since. */
  readonly isProof: boolean;
  /** It was not claimed before, and only the chain can say who signed it: anybody can write such a payment. */
  readonly isDoubtful: boolean;
  /** It is proven here that the payer's key has signed it: what it buys is his on all chains of its kind. */
  readonly hasKey: boolean;
}

/** What is looked at to tell which payment this is. */
export type Identifying = Pick<
  Presented,
  | "payment"
  | "accepted"
  | "accepts"
  | "exactly"
  | "isSettledAfter"
  | "binding"
  | "target"
  | "route"
  | "identifier"
>;

/** The ends of a request's hold of its payment: they have to be stored, however late. */
export const HOLD_ENDS = ["leave", "delivered", "undelivered", "collected", "unread"] as const;

export type HoldEnd = (typeof HOLD_ENDS)[number];

/** What becomes of a payment while it is in the paywall's hands; the rest goes with the charging. */
export type ServiceTransitionKind =
  | "claim"
  | "released"
  | "delivering"
  | "replay"
  | "repeat"
  | "answered"
  | "status"
  | HoldEnd;

export interface PaymentService extends Pick<Redemptions, "changed" | "answer"> {
  step<Kind extends ServiceTransitionKind>(
    key: PaymentKey,
    transition: TransitionOf<Kind>,
  ): Promise<OutcomeOf<Kind>>;
  /**
   * A delivery has broken off: its payer, or null: anybody, waits until that is stored when he asks for what he is owed.
   * `stored` never rejects.
   */
  owe(payer: string | null, stored: Promise<unknown>): void;
  /**
   * The payment of that first use, else for the offer that it fits best and that is not refused at
   * once. `misnamed`: something else has its identifier; `repriced`: it has paid for a request of another price. Costs no write. Throws what the ledger throws.
   */
  identify(
    presented: Identifying,
  ): Promise<Result<Identified, Refusal | "misnamed" | "repriced" | Barred>>;
  /**
   * Verifies a payment that is not claimed and will not be: whether it proves who its payer is. Nothing of it is
   * stored.
   * @param claimant as of a claim: who presents it
   */
  prove(payment: Payment, claimant: string, signal: AbortSignal): Promise<PayerProof | Declined>;
  /**
   * Who has signed in, and what he has bought. That is looked up only once it is proven who he is, or where code has to be
   * asked for that; and where he gets something by it, the sign-in is used. Refused where it changes nothing for him.
   * Throws what the ledger throws.
   * @param claimant as of {@link PaymentService.prove}
   */
  signedIn(
    signingIn: SigningIn,
    claimant: string,
    signal: AbortSignal,
  ): Promise<Result<Recognized, Declined>>;
  /**
   * Whether an account may have a session: it is a member somewhere, or has paid or prepaid here. With it the sign-in is used.
   * Throws what the ledger throws.
   * @param claimant as of {@link PaymentService.prove}
   */
  openSession(
    signIn: SignIn,
    memberships: Memberships,
    claimant: string,
    signal: AbortSignal,
  ): Promise<Result<ProvenAccount, Declined>>;
  /**
   * Whether whoever shows that he is an account holds what is asked, in that order. Null: it is not proven to be his, and
   * nobody was asked. Costs no write, and uses no sign-in.
   * @param claimant as of {@link PaymentService.prove}
   */
  holdings(
    shown: ShownHolder,
    terms: readonly HolderTerms[],
    claimant: string,
  ): Promise<readonly Holding[] | null>;
  /**
   * Verifies a payment that the caller has claimed with these terms, and reserves for it, before somebody works for it.
   * One that is good is to be charged, or its claim to be given back.
   */
  vet(payment: Payment, terms: ClaimTerms, signal: AbortSignal): Promise<Declined | "good">;
  /** Verifies and settles a payment that the caller has claimed with these terms. */
  charge(payment: Payment, terms: ClaimTerms, signal: AbortSignal): Promise<Settled>;
  /** Asks again about a settlement that was begun before. */
  resume(key: PaymentKey, begun: Begun, signal: AbortSignal): Promise<Settled>;
  /** As of {@link Pots}. Throws what the ledger throws. */
  balances(pots: readonly string[]): ReturnType<Pots["balances"]>;
}

type Guard = Pick<SaleGuard, "barOf" | "barOfAccount" | "reserve">;

export interface PaymentServiceOptions {
  readonly facilitator: Facilitator;
  /** Default: nobody, as where nothing is sold on Solana. */
  readonly feePayers?: Choosing["feePayers"];
  /** Default: all are open. */
  readonly networks?: Choosing["networks"];
  readonly redemptions: Redemptions;
  /** Default: all is sold to everybody. */
  readonly guard?: Guard | undefined;
  /** Default: nobody has signed anything. */
  readonly signers?: TextSigners | undefined;
  /** That of all payment services of this process. Default: it is not known what anybody holds. */
  readonly holdings?: Pick<Holdings, "accountOf" | "of"> | undefined;
  /** Those of all payment services of this process. Default: its own. */
  readonly proofs?: Proofs;
  /** The same of what is about to be owed. */
  readonly owing?: Owing;
  /** The same of the work that is done before it is paid. */
  readonly works?: UnpaidWorks;
  readonly logger: Logger;
  readonly time: Time;
  readonly timeline?: Timeline | undefined;
  /** Whether what the last attempt does not deliver is paid back on that network. Default: it is not. */
  readonly refundsLast?: ((network: string) => boolean) | undefined;
}

/** The payment service where ledger and facilitator are in this process. */
export class LocalPaymentService implements PaymentService {
  readonly #redemptions: Redemptions;
  readonly #settlement: Settlement;
  readonly #choosing: Choosing;
  readonly #proofs: Proofs;
  readonly #owing: Owing;
  readonly #recognition: Recognition;
  readonly #guard: Guard | undefined;
  readonly #holdings: PaymentServiceOptions["holdings"];
  readonly #refundsLast: NonNullable<PaymentServiceOptions["refundsLast"]>;

  constructor(options: PaymentServiceOptions) {
    const { facilitator, redemptions, proofs = new Proofs() } = options;
    const { feePayers = NO_FEE_PAYERS, networks = ALL_OPEN } = options;
    this.#proofs = proofs;
    this.#owing = options.owing ?? new Owing(options.time);
    this.#recognition = new Recognition(options, (request) => this.read(request));
    this.#guard = options.guard;
    this.#holdings = options.holdings;
    this.#refundsLast = options.refundsLast ?? (() => false);
    this.#redemptions = redemptions;
    this.#settlement = new Settlement(options);
    this.#choosing = { facilitator, feePayers, networks };
  }

  owe(...said: Parameters<PaymentService["owe"]>): void {
    this.#owing.add(...said);
  }

  async identify(
    presented: Identifying,
  ): Promise<Result<Identified, Refusal | "misnamed" | "repriced" | Barred>> {
    const { payment, binding, target, identifier } = presented;
    const owing = this.#owing.settled(() => ({ payer: payerOf(payment), binding }));
    if (owing !== undefined) await owing;
    const recalled = await this.#redemptions.recall(payment, { binding, target, identifier });
    if (recalled.isMisnamed === true) return err("misnamed");
    const { request: stored } = recalled;
    if (stored !== undefined && samePayment(stored.paymentPayload, payment)) {
      if (isOfCheaperShop(stored, presented)) return PAID_ELSEWHERE;
      return isOfOtherPrice(stored, presented) ? err("repriced") : this.#claimedBefore(stored);
    }
    const chosen = choose(presented, this.#choosing);
    const owed = recalled.owed.filter(
      ({ request }) => !isOfCheaperShop(request, presented) && !isOfOtherPrice(request, presented),
    );
    if (chosen.ok) {
      const found = chosen.value;
      const { isDoubtful } = found;
      const debts = this.#debts(found, owed);
      // Whoever comes for what he has paid gets it, whatever is sold by now.
      const bar = debts.owed.length > 0 ? undefined : this.#barOf(presented, found.provenPayer);
      const known = { isDoubtful, hasKey: isByKey(found) };
      return bar === undefined
        ? ok({ payment: found, isClaimed: false, ...known, ...debts })
        : err(bar);
    }
    const buried = await this.#findBuried(presented);
    if (buried !== undefined) return this.#claimedBefore(buried);
    const bar = this.#barOf(presented, undefined);
    return bar === undefined ? chosen : err(bar);
  }

  #barOf({ payment, route }: Identifying, payer: string | undefined): Barred | undefined {
    return this.#guard?.barOf({ network: payment.network, payer, route });
  }

  #claimedBefore(request: FacilitatorRequest): Result<Identified, Refusal> {
    const read = this.read(request);
    if (!read.ok) return read;
    return ok({
      payment: read.value,
      isClaimed: true,
      owed: [],
      isProof: false,
      isDoubtful: false,
      hasKey: isByKey(read.value),
    });
  }

  /** A payment that comes from another process. */
  read(request: FacilitatorRequest): Result<Payment, Refusal> {
    return this.#choosing.facilitator.read(request);
  }

  prove(...asked: Parameters<PaymentService["prove"]>): ReturnType<PaymentService["prove"]> {
    return this.#settlement.prove(...asked);
  }

  step<Kind extends ServiceTransitionKind>(
    key: PaymentKey,
    transition: TransitionOf<Kind>,
  ): Promise<OutcomeOf<Kind>> {
    // Nobody works for it any more.
    if (transition.kind === "released" || transition.kind === "leave") {
      const isBackends = "isBackends" in transition && transition.isBackends;
      this.#settlement.drop(key, isBackends ? "ours" : "spoilt");
    }
    if (transition.kind === "claim" && "terms" in transition) this.#begin(transition.terms);
    const isRefundedLast = this.#refundsLast(networkOfKey(key));
    const isBroken = "broken" in transition && isRefundedLast;
    const asked = isBroken
      ? { ...transition, broken: { ...transition.broken, isRefundedLast } }
      : transition;
    if (!("terms" in asked) || asked.terms.isMetered !== true) {
      return this.#redemptions.step(key, asked);
    }
    const change = this.#potOf(asked.terms.request);
    return this.#redemptions.step(key, { ...asked, terms: { ...asked.terms, change } });
  }

  #begin({ request, binding }: ClaimTerms): void {
    this.#owing.begin(() => ({ payer: payerOf(request.paymentPayload), binding }));
  }

  /** Into which pot goes what its payer has paid and not used; undefined: nothing is prepaid in what it pays with. */
  #potOf(request: FacilitatorRequest): string | undefined {
    const { network: name, asset } = request.paymentRequirements;
    const read = this.read(request);
    const network = findNetwork(name);
    if (!read.ok || network === undefined || !isSameToken(name, network.asset.address, asset)) {
      return undefined;
    }
    // What code has signed on one chain may be somebody else's on another.
    return creditsPot(network, read.value.payer, isByKey(read.value) ? undefined : network.name);
  }

  answer(key: PaymentKey): Promise<StoredResponse | undefined> {
    return this.#redemptions.answer(key);
  }

  signedIn(
    ...asked: Parameters<PaymentService["signedIn"]>
  ): ReturnType<PaymentService["signedIn"]> {
    return this.#recognition.signedIn(...asked);
  }

  openSession(
    ...asked: Parameters<PaymentService["openSession"]>
  ): ReturnType<PaymentService["openSession"]> {
    return this.#recognition.openSession(...asked);
  }

  async holdings(
    shown: ShownHolder,
    terms: readonly HolderTerms[],
    claimant: string,
  ): Promise<readonly Holding[] | null> {
    const account =
      "paymentPayload" in shown ? this.#payerOf(shown) : this.#holdings?.accountOf(shown);
    if (account == null || this.#holdings === undefined) return null;
    return this.#holdings.of(account, terms, claimant);
  }

  /** Whose key has signed it; null: none, as far as is seen without a chain. */
  #payerOf(request: FacilitatorRequest): ProvenAccount | null {
    const read = this.read(request);
    const provenPayer = read.ok ? read.value.provenPayer : undefined;
    const network = findNetwork(request.paymentPayload.network);
    if (provenPayer === undefined || network === undefined) return null;
    if (this.#guard?.barOfAccount(network.name, provenPayer) !== undefined) return null;
    return { address: checksumAddress(provenPayer), network: network.name, hasKey: true };
  }

  /** What is refused may have been used so long ago that its row is gone: the claim then says that. */
  async #findBuried({
    payment: paymentPayload,
    accepts,
  }: Pick<Presented, "payment" | "accepts">): Promise<FacilitatorRequest | undefined> {
    const requests = accepts
      .filter(({ network }) => network === paymentPayload.network)
      .map((paymentRequirements) => ({ paymentPayload, paymentRequirements }));
    const keys = requests.map((request) => paymentKey(request));
    const named = keys.flatMap((key) => (key.ok ? [key.value] : []));
    const [buried] = named.length === 0 ? [] : await this.#redemptions.buried(named);
    return requests[keys.findIndex((key) => key.ok && key.value === buried)];
  }

  /** Those that the payment was to collect when it was presented before, for whichever sale, and what is owed now. */
  #debts(
    { key, request }: Payment,
    owed: readonly OwedPayment[],
  ): Pick<Identified, "owed" | "isProof"> {
    const before = this.#proofs.find(key) ?? [];
    const further = owed.filter((each) => !before.some((other) => other.key === each.key));
    const all = [...before, ...further].slice(-MAX_OWED);
    if (further.length > 0) this.#proofs.remember(key, payerOf(request.paymentPayload), all);
    const payments = all.flatMap((each) => {
      const read = this.read(each.request);
      return read.ok ? [read.value] : [];
    });
    return { owed: payments, isProof: before.length > 0 };
  }

  balances(pots: readonly string[]): ReturnType<Pots["balances"]> {
    return this.#redemptions.pots.balances(pots);
  }

  changed(...asked: Parameters<PaymentService["changed"]>): Promise<void> {
    return this.#redemptions.changed(...asked);
  }

  vet(...asked: Parameters<PaymentService["vet"]>): ReturnType<PaymentService["vet"]> {
    return this.#settlement.vet(...asked);
  }

  /** Whoever asks through it is gone. */
  dropWorks(): void {
    this.#settlement.dropAll();
  }

  /** From here on it is no proof any more; one that is claimed, and given back, still is. */
  charge(payment: Payment, terms: ClaimTerms, signal: AbortSignal): Promise<Settled> {
    this.#proofs.forget(payment.key);
    return this.#settlement.charge(payment, terms, signal);
  }

  resume(_: PaymentKey, begun: Begun, signal: AbortSignal): Promise<Settled> {
    return this.#settlement.resume(begun, signal);
  }
}

/** On Solana nobody pays but by a key. */
function isByKey({ network, provenPayer }: Payment): boolean {
  return findNetwork(network)?.kind !== "evm" || provenPayer !== undefined;
}
