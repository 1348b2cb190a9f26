/**
 * A facilitator verifies and settles payments (protocol section 1). Whether it lives in this process
 * (`embedded.ts`) or elsewhere (`../facilitator/`), who sells sees this interface only. The protocol's own words for it
 * are spoken where requests come in (`wire-facilitator.ts`) and where they leave (`remote.ts`).
 */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { Refusal, Result } from "../x402/result.ts";
import type { FacilitatorRequest, SettleResponse, SupportedResponse } from "../x402/x402.ts";
import type { Payment, Verified } from "./payment.ts";

export { Payment, type Verified } from "./payment.ts";

/**
 * Does what takes a connection of others for long when it is its turn; throws a {@link FacilitatorFault} where the
 * signal ends the wait.
 */
export type InTurn = (
  work: () => Promise<SettleResponse>,
  signal: AbortSignal,
) => Promise<SettleResponse>;

export interface SettleOptions {
  readonly signal: AbortSignal;
  /** What a verification a moment ago has found. */
  readonly verified?: Verified | undefined;
  /** As of {@link Facilitator.verify}, where the payment was not verified before. */
  readonly client?: string;
  /** How it waits to be handed to a facilitator elsewhere. Default: it does not wait. */
  readonly inTurn?: InTurn;
  /** Whoever asked has left: what was sent is heard, and nothing more is waited for. */
  readonly gone?: AbortSignal;
  /**
   * Repeating a settlement with the same key asks for the same answer; without one, or with another,
   * a payment settled before is refused (`invalid_transaction_state`).
   */
  readonly idempotencyKey?: string;
  /** Key of the route that sells for it, for metrics. Default: none does, or nobody knows. */
  readonly route?: string | null | undefined;
  /** That key was made for this call: nothing older can be asked for with it. */
  readonly isNewKey?: true;
  /**
   * The caller holds a claim under that key: where it is gone nothing is settled, and the fault is `unavailable`.
   * `new`: it was granted a moment ago, and the settlement begins with it; else it is looked for.
   */
  readonly claim?: "new" | "found";
  /**
   * Awaited before the request leaves for a facilitator elsewhere, with its name: from then on that one may
   * move the money. Called again with another name where the one before it certainly saw nothing. `head`: the
   * chain's newest block or slot before the first of them was asked, null where no chain can be asked.
   */
  readonly onHandOver?: (facilitator: string, head: number | null) => Promise<void>;
  /**
   * The facilitator that was asked before: it is asked again, and no other. Then only what is definite is
   * answered, since a refusal of the second request may be that of its own first success.
   */
  readonly askedBefore?: string;
  /**
   * Bytes of ours carry the payment: its outcome is waited for where it was signed, and nobody is asked to
   * settle it, whoever settles on that network by now.
   */
  readonly isSigned?: true;
  /** With `askedBefore`: the head that was told at the first hand-over. */
  readonly handedOverAt?: number | null;
}

/** A payment that a facilitator elsewhere has refused after it was handed over. */
export interface Doubted {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
  /** The name of that one. */
  readonly facilitator: string;
  readonly idempotencyKey: string;
  /** As of {@link SettleOptions.route}. */
  readonly route?: string | null | undefined;
  /** Where the chain stood then: see {@link SettleOptions.onHandOver}. */
  readonly handedOverAt: number;
}

export interface Facilitator {
  /** Reads a payment, and judges what needs nobody else when that is asked for. Refused: it has no key. */
  read(request: FacilitatorRequest): Result<Payment, Refusal>;
  /** What can be refused at once, without asking anyone and without a claim; undefined: it has to be verified. */
  precheck(payment: Payment): Refusal | undefined;
  /**
   * A refused payment is an answer. Throws {@link FacilitatorFault} when it could not be judged.
   * @param client tells who wants that from others: of what can only be judged by asking the chain, each has a share
   */
  verify(
    payment: Payment,
    signal: AbortSignal,
    client?: string,
  ): Promise<Result<Verified, Refusal>>;
  /**
   * Throws {@link FacilitatorFault}; `unknown` means that the money may have moved. A success of this process's own is
   * stored when it is told; one that was handed over is for the caller to store.
   */
  settle(payment: Payment, options: SettleOptions): Promise<SettleResponse>;
  /**
   * One look at the chain for whoever presents a doubted payment again; undefined where nothing is decided,
   * or where somebody has looked a moment ago. Not there where nothing is settled elsewhere. Throws
   * {@link FacilitatorFault} `unknown` when the chain cannot be asked now.
   */
  lookAgain?(doubted: Doubted, signal: AbortSignal): Promise<SettleResponse | undefined>;
  supported(signal: AbortSignal): Promise<SupportedResponse>;
  /** True where a settlement leaves this process, so that the claim must be handed over before it. */
  isRemote(network: string): boolean;
  /**
   * Whether a payment that `verify` finds valid is certainly unused on its chain: a facilitator elsewhere may not
   * look. Not there: where nothing is remote, it is.
   */
  seesUse?(network: string): boolean;
}

/**
 * The payment could not be judged or settled for a reason that is not the payment's.
 * - `unreachable`: nothing was sent; another facilitator may be asked.
 * - `unavailable`: certain that no money moved; the same payment may be sent again later.
 * - `unknown`: the settlement may have happened; only the same payment may be sent again.
 */
export class FacilitatorFault extends Error {
  override readonly name = "FacilitatorFault";
  readonly kind: "unreachable" | "unavailable" | "unknown";
  readonly code: "unexpected_verify_error" | "unexpected_settle_error";
  /** Of what is `unknown`: that may have moved the money, where one is known. */
  readonly transaction: string | undefined;

  constructor(
    kind: FacilitatorFault["kind"],
    code: FacilitatorFault["code"],
    message: string,
    options: ErrorOptions & { readonly transaction?: string | undefined } = {},
  ) {
    super(message, options);
    this.kind = kind;
    this.code = code;
    this.transaction = options.transaction;
  }
}

/**
 * A facilitator elsewhere does not take this one request, which may be a stranger's: where it has taken another a
 * moment ago that says nothing of its health.
 */
export class RequestRefused extends FacilitatorFault {}

/** Too many payments wait to be judged: it was not looked at, and may be sent again in a moment. */
export class CrowdedFault extends FacilitatorFault {
  constructor(network: string, code: FacilitatorFault["code"], options?: ErrorOptions) {
    const message = `${network}: too many payments wait to be judged`;
    super("unavailable", code, message, options);
  }
}

/** What is made of a payment in a transaction that is neither ours nor of a facilitator that we know. */
export type ForeignRule = "hold" | "deliver";

/**
 * The payment is on chain, and nobody can say for which sale: whoever has another ledger may have sold for it.
 * `unknown` to those who ask: the money has moved, and only the operator can say what becomes of it.
 */
export class HeldPayment extends FacilitatorFault {
  override readonly transaction: string;

  constructor(transaction: string) {
    super("unknown", "unexpected_settle_error", heldSentence(transaction));
    this.transaction = transaction;
  }
}

/** For buyers and for those who settle through us. */
export function heldSentence(transaction: string): string {
  return (
    `paid to the seller in a transaction that is not ours, ${transaction}; it is held for the seller: ` +
    "ask there, and do not pay again"
  );
}
