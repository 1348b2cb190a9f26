/** One payment on its way through this process, from its granted claim to its end, and who waits for it. */
import { waitWithin } from "../../time/time.ts";
import type { SettledPayment } from "../../ledger/ledger.ts";
import type { PurseReading } from "../../ledger/purse.ts";
import { RENEWAL, type Asker, type Checked, type Inspected } from "../../mechanism/mechanism.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import type { Refusal } from "../../x402/result.ts";
import type { FacilitatorRequest } from "../../x402/x402.ts";

/** How a payment's way through this process ended. */
export type Ending =
  | { readonly kind: "settled"; readonly settlement: SettledPayment }
  /** Paid in a transaction that is not ours: for the operator. */
  | { readonly kind: "held"; readonly transaction: string }
  /** For certain: refused before anything was signed, or the chain said so. */
  | { readonly kind: "failed"; readonly refusal: Refusal }
  /** Certain that nothing was signed, and nothing will be for this claim. */
  | { readonly kind: "unavailable"; readonly cause: unknown }
  /** Not known here, or not yet: whatever the ledger says of it counts. */
  | {
      readonly kind: "open";
      readonly detail: string;
      /** That carries it, where one is known to. */
      readonly transaction?: string;
    };

export class PendingSettlement {
  readonly #landing = Promise.withResolvers<Ending>();
  readonly #deserted = new AbortController();
  #waiting = 0;
  #isBound: boolean;

  /** `isBound`: it goes on whether or not anybody waits. */
  constructor(isBound = false) {
    this.#isBound = isBound;
  }

  /** Aborts when the last one who waited has left before the payment was bound. */
  get deserted(): AbortSignal {
    return this.#deserted.signal;
  }

  /** From here it may be signed, and is not called back. */
  bind(): void {
    this.#isBound = true;
  }

  land(ending: Ending): void {
    this.#landing.resolve(ending);
  }

  /**
   * Waits for the end. Who is the last to leave calls the payment back, as long as it is not bound: nothing
   * is signed for which nobody waits.
   */
  async wait(signal: AbortSignal): Promise<Ending> {
    this.#waiting += 1;
    const ending = await waitWithin<Ending | undefined>(this.#landing.promise, signal, undefined);
    this.#waiting -= 1;
    if (ending !== undefined) return ending;
    if (this.#isBound || this.#waiting > 0) return { kind: "open", detail: TIME_UP };
    this.#deserted.abort();
    return { kind: "unavailable", cause: new Error("its time was up before it was signed") };
  }
}

export const TIME_UP = "the chain has not answered in time";

/** A claim that was granted to us. */
export interface GrantedClaim {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
  readonly checked: Checked<unknown>;
  readonly judged?: Judged | undefined;
  /** Who wants it settled: see `Facilitator.verify`. */
  readonly client?: string;
}

/** What the chain said of a payment when it was asked last. */
export interface Judged {
  readonly inspected: Inspected<unknown>;
  /** When, milliseconds since the epoch. */
  readonly atMs: number;
}

/** A payment that is to be signed. */
export interface PendingPayment extends GrantedClaim {
  readonly pending: PendingSettlement;
  /**
   * Where its claim comes from: begun here, offered by another life, or withdrawn from a transaction that
   * did not move it. It decides what becomes of the claim when the payment is not signed.
   */
  readonly origin: "begun" | "offered" | "withdrawn";
  /** The one account of ours that can settle it; undefined where each of them can. */
  readonly account: string | undefined;
  /** Shares its transaction with no other payment. */
  readonly isAlone: boolean;
  /** When it joined the queue, milliseconds since the epoch. */
  readonly queuedMs: number;
  /** Why an account of ours could not pay for it, where one could not. */
  readonly shortage?: unknown;
  /** Where it has waited for other payments of its payer. */
  readonly held?: Held;
}

/** One that the chain has found good. */
export interface SignablePayment extends PendingPayment {
  readonly judged: Judged;
}

export interface Held {
  /** How long it waits at most, milliseconds since the epoch. */
  readonly untilMs: number;
  /** By which it fits into its purse. */
  readonly reading: PurseReading;
}

export function isJudged(item: PendingPayment): item is SignablePayment {
  return item.judged !== undefined;
}

/** What nobody here began was judged before it was offered, or before it was signed with others. */
export function askerOf({ origin, judged, client = "" }: PendingPayment): Asker {
  return origin === "begun" && judged === undefined ? { kind: "client", name: client } : RENEWAL;
}
