/**
 * What the paywall is asked about a presented payment, and what it may answer. The answers that need no
 * state are made here, each in one place.
 */
import type { Unanswered } from "../../http/unanswered.ts";
import { heldSentence, type Payment } from "../facilitator.ts";
import type {
  BrokenDelivery,
  ClaimOutcome,
  MeteredSale,
  Fingerprint,
  PotFill,
  SettledPayment,
  StoredResponse,
} from "../../ledger/ledger.ts";
import type { ReplayReason } from "../../telemetry/metrics.ts";
import { findNetwork } from "../../x402/network.ts";
import { payerOf, type PaymentKey } from "../../x402/payment-key.ts";
import { printable } from "../../x402/printable.ts";
import type { Refusal } from "../../x402/result.ts";
import type { ProvenAccount } from "../../x402/session.ts";
import { refuseSignIn } from "../../x402/sign-in.ts";
import type { RequirementsV2 } from "../../x402/version-2.ts";
import type {
  FacilitatorRequest,
  PaymentPayload,
  PaymentRequirements,
  SettleResponse,
} from "../../x402/x402.ts";

/** A payment as presented for one URL. */
export interface Presented extends GoodsRequest {
  readonly payment: PaymentPayload;
  /** Version 2: the way to pay that its client has chosen, which has to be one of these. */
  readonly accepted?: RequirementsV2 | undefined;
  /**
   * Every way to pay for that URL; on Solana without `extra.feePayer` as long as nobody can be told one.
   */
  readonly accepts: readonly PaymentRequirements[];
  /** Version 2: they were told as paid after the work. */
  readonly isSettledAfter?: boolean | undefined;
  /** Why what it calls the purchase will not do. Default: it does. Of what was paid before it does in any case. */
  readonly misnamed?: Refusal;
  /**
   * Asked where only the chain can say who signed it, before it is asked or anything is written: seconds that the
   * client has to wait first; 0: none. Default: none.
   */
  readonly doubt?: () => number;
}

/** What somebody asks for who has paid, or is about to, and how he is reached. */
export interface GoodsRequest {
  /** Method and canonical path: what the payment is bound to by its first use. */
  readonly binding: string;
  /** Canonical path and query. */
  readonly target: string;
  /** Key of the route that sells it. */
  readonly route?: string | undefined;
  /** What its client calls the purchase, where it may say so. */
  readonly identifier?: string | undefined;
  /**
   * The address that it came from. Once a payment is on chain everybody can read all of it there, its
   * signature included: what is still owed for it is for the address that it was claimed from, and for the payer.
   */
  readonly client: string;
  /** True when nobody waits for the answer any more: then no delivery is tried. */
  readonly isGone: () => boolean;
  /** Hears that the client has left before its answer was complete; what it returns ends that. */
  readonly onGone: (listener: () => void) => () => void;
  /**
   * Hears that the client broke its connection just after all of the answer was sent, or closed it in good order at
   * once: it may not have read it.
   */
  readonly onReset: (listener: (how: "reset" | "closed") => void) => void;
  /** Asked before a payment is taken that was never claimed: why the upstream would not be asked now. */
  readonly refusal: () => Unanswered | null;
  /**
   * Asked before a payment is taken that was never claimed, and before one is delivered that is paid: what is wrong with
   * the request itself, that it would buy nothing; null: nothing. Default: nothing is. A promise where that is waited
   * for, once.
   */
  readonly unfit?: () => Unfit | null | Promise<Unfit | null>;
  /**
   * Where each request has a price of its own: every way to pay that of this one. What was paid at another price buys
   * something else. Default: what was paid for the path buys whatever is asked for by it.
   */
  readonly exactly?: readonly PaymentRequirements[] | undefined;
  /** It is charged by use: {@link Paid.delivered} is told by how much. Default: all that was paid is charged. */
  readonly isMetered?: (paid: PaymentRequirements) => boolean;
  /** How often what was sold may be fetched again. Default: never. */
  readonly repeats?: number;
  /**
   * Hex SHA-256 of the request's body, which is read for it; asked only when nothing is forwarded, or with `isKept`, which keeps the
   * body for that. `ofWhole`: of such a request for the whole. Null where it cannot be had: too large, or its client left; it asks for no part.
   */
  readonly readBodyHash: (isKept: boolean, ofWhole?: boolean) => Promise<string | null>;
  /**
   * What it puts into which pot when it is settled, where that is what is bought. Throws where there is no such pot: then
   * nothing is claimed. Default: nothing.
   */
  readonly fills?: ((paid: Filling) => PotFill) | undefined;
  /**
   * Asks the backend before the payment is settled, and holds what it answers. Asked once at most, when the payment is
   * claimed and was found good. Default: it is settled first.
   */
  readonly work?: ((wanted: WantedWork) => Promise<Worked>) | undefined;
}

/** A payment that is about to be claimed, by what it would fill. */
export interface Filling {
  readonly key: PaymentKey;
  /** Whom it names: EIP-55 checksummed, or base58. */
  readonly payer: string;
  /** As of {@link ProvenAccount}: it was signed with the payer's key, as far as is proven here. */
  readonly hasKey: boolean;
  /** What it was asked for with. */
  readonly terms: PaymentRequirements;
}

/** For whom a backend works whose payment is not settled yet. */
export interface WantedWork {
  readonly payer: string;
  readonly network: string;
  /** As of {@link Paid}. */
  readonly idempotencyKey: string;
  /** What the payment was asked for with. */
  readonly terms: PaymentRequirements;
}

/** What its work has come to. */
export type Worked =
  /** Whoever has asked holds it; with the answer where it is small enough to be kept. */
  | { readonly kind: "goods"; readonly sold: Sold | undefined }
  /** Nothing to sell: whoever has asked has what is to be answered. `isBackends`: as of {@link BrokenDelivery}. */
  | { readonly kind: "nothing"; readonly isBackends: boolean };

/** What the paywall decided about a presented payment. */
export type Admission =
  /** Paid: serve it, then report through {@link Paid}. */
  | { readonly kind: "admitted"; readonly paid: Paid }
  /** Sold before to the same request: the kept answer once more. */
  | {
      readonly kind: "replayed";
      readonly key: PaymentKey;
      readonly settlement: SettledPayment;
      readonly response: StoredResponse;
      /** To be called once all of it was sent: until then it is owed. */
      readonly collected: () => Promise<void>;
    }
  /** Sold before under another target, to which the backend had led from this one. */
  | {
      readonly kind: "led";
      readonly key: PaymentKey;
      readonly settlement: SettledPayment;
      readonly target: string;
    }
  /**
   * It is proven who asks, nothing is charged, and what it costs him may be something else. One of these purchases grants
   * it, in this order; none: it is not granted.
   */
  | {
      readonly kind: "recognized";
      readonly account: ProvenAccount;
      readonly granted: readonly Granted[];
    }
  /** Nothing was charged, and the payment is as it was before: what the backend has answered is no goods ({@link Worked}). */
  | { readonly kind: "unsold" }
  /** 402; `settlement` where one was tried and failed for certain, or has bought something else. */
  | {
      readonly kind: "refused";
      readonly refusal: Refusal;
      readonly settlement?: SettleResponse;
      /** It was presented before. */
      readonly replay?: ReplayReason;
    }
  /** 400; it lacks what is asked for beside the payment, and nothing was claimed. */
  | { readonly kind: "malformed"; readonly refusal: Refusal }
  /** 400; the payment is as it was before. */
  | Unfit
  /** The upstream would not be asked now; nothing was claimed. */
  | { readonly kind: "unservable"; readonly refusal: Unanswered }
  | Barred
  /** 429; nothing was claimed, and the same payment may be sent after so many seconds. */
  | { readonly kind: "limited"; readonly seconds: number }
  /** 500; this request moved no money. */
  | ({ readonly kind: "unavailable"; readonly refusal: Refusal } & Unbegun)
  /** 500; the money may have moved, and only the same payment may be sent again. */
  | ({ readonly kind: "unknown"; readonly detail: string } & Sent & Unbegun)
  /** 409; not to be had in this way, since it is paid: nothing is asked for. */
  | { readonly kind: "owed"; readonly detail: string }
  /** The buyer has left before the upstream was asked: no attempt is spent. */
  | { readonly kind: "abandoned" };

/** A purchase by which more is to be had than it has bought. */
export interface Granted {
  readonly key: PaymentKey;
  /** Milliseconds since the epoch. */
  readonly untilMs: number;
  /** Requests that it was good for at first; null: it is not counted. */
  readonly times: number | null;
}

/** The request lacks what is declared of it. */
export interface Unfit {
  readonly kind: "unfit";
  readonly faults: readonly string[];
}

/**
 * 403, 429 or 503; nothing was charged, and nothing is claimed any more: not of this payer, not so much in one hour, or
 * of nobody now.
 */
export interface Barred {
  readonly kind: "barred";
  readonly status: 403 | 429 | 503;
  readonly refusal: Refusal;
  /** After which it may be tried again; null: that is no use. */
  readonly seconds: number | null;
}

/** A transaction that may carry the payment, where one is known. */
interface Sent {
  readonly transaction?: string | undefined;
}

/** The ledger failed as a claim was taken or dropped, and may have it still; it is dropped as the request is left. */
export interface Unbegun {
  /** Of the claim. */
  readonly unbegun?: string | undefined;
}

export type FailedSettlement = SettleResponse & { readonly success: false };

/** A settled payment whose one delivery is under way. Exactly one of the two functions must be called. */
export interface Paid {
  readonly key: PaymentKey;
  readonly settlement: SettledPayment;
  /** What it was asked for with. */
  readonly terms: PaymentRequirements;
  /** For the upstream: the same at each delivery of this payment, and no facilitator's secret. */
  readonly idempotencyKey: string;
  /** Nothing is delivered for this payment after this time, if the upstream sees the request. */
  readonly isLast: boolean;
  /** It was sold before, and is fetched again: nothing comes of this delivery for the payment. */
  readonly isRepeat: boolean;
  /** What the backend has answered before it was settled: it is not asked any more. Undefined: it is asked now. */
  readonly answer?: HeldGoods | undefined;
  /**
   * Sold; with the answer where it is small enough to be kept, and whether its buyer had left before it came.
   * @param againMs for how long it may be fetched again, milliseconds; undefined: it may not
   * @param metered what it is charged by, where its route is charged by use
   */
  delivered(
    sold?: Sold & { readonly isUncollected?: boolean },
    againMs?: number,
    metered?: MeteredSale,
  ): Promise<void>;
  /** The upstream failed or refused, or the buyer left: the same payment may try again. */
  undelivered(attempt: BrokenDelivery): Promise<void>;
}

/** `here`: whoever has asked for the work holds it; else as it was kept. */
export type HeldGoods = "here" | StoredResponse;

/** A payment that is on chain and may be delivered. */
export interface Deliverable {
  readonly kind: "settled";
  readonly settlement: SettledPayment;
  /** Deliveries before this one. */
  readonly attempts: number;
  /** The claim's own. */
  readonly idempotencyKey: string;
}

/** A settlement that was begun before: see {@link ClaimOutcome}. */
export type Begun = Omit<Extract<ClaimOutcome, { kind: "unresolved" }>, "kind">;

export type Declined = Exclude<
  Admission,
  { kind: "admitted" | "replayed" | "led" | "recognized" | "unsold" }
>;

const WITHHELD = {
  kind: "owed",
  detail:
    "this payment waits for the client that sent it first, and this request came from another address; " +
    "if you are its payer, request the URL again and sign a new payment: it proves that, and is not charged",
} as const satisfies Admission;

/** Whatever has that identifier may be paid: this is not charged beside it. */
const MISNAMED_PURCHASE = {
  kind: "owed",
  detail:
    "another payment or another request has this payment identifier, and nothing was charged for this one; " +
    "send the first payment and its request again, or choose another identifier for another purchase",
} as const satisfies Admission;

/** It is paid for, so that no 402 may ask for more: but not for this. */
const REPRICED = {
  kind: "owed",
  detail:
    "this payment was used for a request of another price, and nothing was charged for this one; " +
    "send the request that it is for, or sign a new payment for this one",
} as const satisfies Admission;

/** @param hasKey as of {@link Filling} */
export function fillsOf(
  { key, request: { paymentPayload, paymentRequirements: terms } }: Payment,
  { fills }: Pick<GoodsRequest, "fills">,
  hasKey = false,
): PotFill | undefined {
  return fills?.({ key, payer: payerOf(paymentPayload), hasKey, terms });
}

/** What came of a claim's settlement. */
export type Settled = Declined | Deliverable;

export const IN_FLIGHT = {
  kind: "unknown",
  detail: "the same payment is being processed; send the same payment again",
} as const satisfies Admission;

export const UNRESOLVED = {
  kind: "unknown",
  detail: "the settlement's outcome is not known yet; send the same payment again",
} as const satisfies Admission;

/** The money has moved, and for which sale only the seller can say: no 402, which would ask for more. */
export function held({
  transaction,
}: {
  readonly transaction: string;
}): Extract<Admission, { kind: "unknown" }> {
  return { kind: "unknown", detail: heldSentence(transaction), transaction };
}

export const ABANDONED = { kind: "abandoned" } as const satisfies Admission;

export const UNSOLD = { kind: "unsold" } as const satisfies Admission;

/** Nothing is known about the payment as long as the ledger cannot be asked. */
export const NOT_LOOKED_UP = {
  kind: "unavailable",
  refusal: {
    code: "unexpected_settle_error",
    detail: "the payment could not be looked up, and was not charged; send the same payment again",
  },
} as const satisfies Admission;

export function unavailable(
  code: "unexpected_verify_error" | "unexpected_settle_error",
): Extract<Admission, { kind: "unavailable" }> {
  const detail = "the payment could not be processed and no money moved; send it again later";
  return { kind: "unavailable", refusal: { code, detail } };
}

export function refused(code: Refusal["code"], detail: string): Declined {
  return { kind: "refused", refusal: { code, detail } };
}

function refusedReplay(replay: ReplayReason, code: Refusal["code"], detail: string): Declined {
  return { kind: "refused", refusal: { code, detail }, replay };
}

export function refusedSettlement(response: FailedSettlement): Declined {
  return { kind: "refused", refusal: failureOf(response), settlement: response };
}

export function failureOf(response: FailedSettlement): Refusal {
  return { code: response.errorReason, detail: response.detail ?? "the settlement failed" };
}

/** A whole answer that was paid for, and the hash of the request's body that it answers. */
export interface Sold extends Pick<Fingerprint, "bodyHash"> {
  readonly response: StoredResponse;
}

/** A claim that ends the matter: the payment cannot be had, or cannot be had again. */
export type DeadClaim = Extract<
  ClaimOutcome,
  {
    kind:
      | "spent"
      | "forged"
      | "foreign"
      | "held"
      | "failed"
      | "withheld"
      | "exhausted"
      | "misnamed";
  }
>;

export function explain(
  claim: DeadClaim,
  { paymentRequirements, paymentPayload }: FacilitatorRequest,
): Declined {
  switch (claim.kind) {
    case "spent":
      return claim.delivered
        ? USED
        : refusedReplay("used", "invalid_transaction_state", noDelivery(claim));
    case "withheld":
      return WITHHELD;
    case "misnamed":
      return MISNAMED_PURCHASE;
    case "exhausted":
      return { kind: "owed", detail: exhausted(claim) };
    case "forged":
      return isOnSolana(paymentPayload)
        ? refusedReplay("imitated", "invalid_payload", FORGED_ON_SOLANA)
        : refusedReplay("imitated", "invalid_exact_evm_payload_signature", FORGED);
    case "foreign":
      return paidElsewhere(claim);
    case "held":
      return held(claim);
    case "failed": {
      const { code: errorReason, detail } = claim.failure;
      const { network } = paymentRequirements;
      const payer = payerOf(paymentPayload);
      const failed = { success: false, transaction: "", network, payer } as const;
      return refusedSettlement({ ...failed, errorReason, detail });
    }
  }
}

function isOnSolana({ network }: PaymentPayload): boolean {
  return findNetwork(network)?.kind === "solana";
}

/** Its buyer is told what it has bought: he may have been led on from there. */
function paidElsewhere({ bought, settlement }: Extract<DeadClaim, { kind: "foreign" }>): Declined {
  const used = "this payment was used for another resource";
  if (bought === undefined || settlement === undefined) {
    return refusedReplay("elsewhere", "invalid_payload", used);
  }
  const { transaction } = settlement;
  const detail = `${used}: it has bought ${printable(bought)} in ${transaction}, and this costs a payment of its own`;
  const refusal = { code: "invalid_payload", detail } as const;
  return {
    kind: "refused",
    refusal,
    replay: "elsewhere",
    settlement: { success: true, ...settlement },
  };
}

const FORGED = "another payment has this nonce";
const FORGED_ON_SOLANA = "this transaction was presented with another signature before";

export const USED = refusedReplay(
  "used",
  "invalid_transaction_state",
  "this payment was used before; sign a new one",
);

/** @param code as of {@link refuseSignIn} */
export function refusedSignIn(code: string, detail: string): Declined {
  return { kind: "refused", refusal: refuseSignIn(code, detail).error };
}

export const NOTHING_LEFT = refusedSignIn(
  "no_purchase",
  "what this account has bought here was given as often as it is, or has ended meanwhile",
);

function exhausted({
  transaction,
  isRenewable,
}: Extract<DeadClaim, { kind: "exhausted" }>): string {
  const paid = `paid in ${transaction}, and each attempt to deliver it has failed`;
  return isRenewable
    ? `${paid}; request the URL again and sign a new payment: it is not charged, and the delivery is tried again, or ask the seller`
    : `${paid}, those of the last day included; try again later, or ask the seller`;
}

function noDelivery({ transaction }: { readonly transaction: string }): string {
  return `paid in ${transaction}, which has begun to buy another answer: it is no payment for this one`;
}

/** A request that ends so may have the payment in its hands, also where a claim's answer was lost. */
export function mayHold({ kind }: { readonly kind: string }): boolean {
  if (kind === "unservable") return true;
  return kind === "unknown" || kind === "abandoned" || kind === "unavailable";
}

/** Of what is owed, another payment may be there to be had: a kept answer, while the backend is away. */
export function isUndecided({ kind }: Admission): boolean {
  return kind === "owed" || kind === "unknown" || kind === "unservable";
}

/** It is the payment's fault, unless the code says that nothing could be taken now. */
export function notChosen(refusal: Refusal | "misnamed" | "repriced" | Barred): Admission {
  if (refusal === "misnamed") return MISNAMED_PURCHASE;
  if (refusal === "repriced") return REPRICED;
  if ("kind" in refusal) return refusal;
  const isOurs = refusal.code === "unexpected_verify_error";
  return { kind: isOurs ? "unavailable" : "refused", refusal };
}
