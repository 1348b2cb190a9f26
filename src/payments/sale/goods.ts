/** What is handed over for a payment that is paid: its one delivery, and what was sold once more. */
import { hash } from "node:crypto";
import { once } from "node:events";
import {
  MAX_DELIVERY_ATTEMPTS,
  type ClaimOutcome,
  type ClaimTerms,
  type TransitionOf,
} from "../../ledger/ledger.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { Time } from "../../time/time.ts";
import { payerOf, type PaymentKey } from "../../x402/payment-key.ts";
import type { FacilitatorRequest } from "../../x402/x402.ts";
import type { Payment } from "../facilitator.ts";
import {
  NOT_LOOKED_UP,
  USED,
  type Admission,
  type GoodsRequest,
  type HeldGoods,
  type Deliverable,
  type Paid,
} from "./admission.ts";
import type { HoldEnd, PaymentService } from "./payment-service.ts";
import { recordUntilStored } from "./recording.ts";

/** It is delivered, and to be had again. */
export type SoldClaim = Extract<ClaimOutcome, { kind: "sold" }>;

/** For whom a delivery is. */
interface Delivering {
  readonly payment: Payment;
  readonly presented: GoodsRequest;
  readonly terms: ClaimTerms;
  /** Called once its end is stored. */
  readonly land: () => void;
}

/** What has gone to its client. */
interface Sent extends Pick<GoodsRequest, "onReset"> {
  readonly key: PaymentKey;
  /** What it was paid with. */
  readonly request: FacilitatorRequest;
  readonly isDownload: boolean;
}

/** Of an answer that is no part. */
const WHOLE = 200;

/** How long a download is owed whose client closed its connection at once, milliseconds. */
const CLOSED_OWED_MS = 30_000;

export interface GoodsOptions {
  readonly payments: PaymentService;
  readonly logger: Logger;
  readonly time: Time;
}

export class Goods {
  readonly #options: GoodsOptions;
  readonly #payments: PaymentService;
  /** Downloads that are owed for a moment, by which break of theirs: the last one says until when. */
  readonly #forgetting = new Map<PaymentKey, symbol>();

  constructor(options: GoodsOptions) {
    this.#options = options;
    this.#payments = options.payments;
  }

  #owe({ key, request }: Pick<Sent, "key" | "request">, recorded: Promise<void>): Promise<void> {
    this.#forgetting.delete(key);
    this.#payments.owe(payerOf(request.paymentPayload), recorded);
    return recorded;
  }

  paid(key: PaymentKey, settled: Deliverable, delivering: Delivering, answer?: HeldGoods): Paid {
    const { payment, presented, terms, land } = delivering;
    const { request } = payment;
    const { onReset } = presented;
    const { target } = terms;
    return {
      key,
      settlement: settled.settlement,
      terms: request.paymentRequirements,
      idempotencyKey: upstreamKey(settled.idempotencyKey),
      isLast: settled.attempts + 1 >= MAX_DELIVERY_ATTEMPTS,
      isRepeat: false,
      answer,
      delivered: (sold, forMs, metered) => {
        const kept = sold && { ...sold, target };
        const again = forMs === undefined ? undefined : { target, forMs };
        const ended = { kind: "delivered", sold: kept, again, metered } as const;
        const recorded = this.record(key, ended).finally(land);
        const isDownload = again !== undefined;
        if (isDownload || kept !== undefined) {
          this.#watch({ key, request, onReset, isDownload }, recorded);
        }
        return recorded;
      },
      undelivered: (attempt) =>
        this.#owe(
          { key, request },
          this.record(key, { kind: "undelivered", broken: attempt }),
        ).finally(land),
    };
  }

  /** It is sold, whatever comes of fetching it again; only its payer is told that he may have it, where he had not. */
  #repeated(
    key: PaymentKey,
    { settlement, idempotencyKey }: SoldClaim,
    { onReset }: GoodsRequest,
    { request }: ClaimTerms,
  ): Paid {
    return {
      key,
      settlement,
      terms: request.paymentRequirements,
      idempotencyKey: upstreamKey(idempotencyKey),
      isLast: false,
      isRepeat: true,
      delivered: () => {
        const recorded = this.record(key, { kind: "collected" });
        this.#watch({ key, request, onReset, isDownload: true }, recorded);
        return recorded;
      },
      undelivered: () => this.#owe({ key, request }, this.record(key, { kind: "unread" })),
    };
  }

  /** What was sold once more: as it was kept, or fetched again where it may be. */
  async again(
    key: PaymentKey,
    presented: GoodsRequest,
    terms: ClaimTerms,
    sold: SoldClaim,
  ): Promise<Admission> {
    const { settlement, at } = sold;
    if (at !== undefined) return { kind: "led", key, settlement, target: at };
    try {
      const replayed = sold.isKept ? await this.#replay(key, presented, terms, sold) : USED;
      if (replayed !== USED) return replayed;
      const { repeats: times = 0, refusal } = presented;
      const { target, claimant, proof } = terms;
      const refused = times === 0 ? null : refusal();
      if (refused !== null) return { kind: "unservable", refusal: refused };
      const asked = { target, claimant, proof, times };
      const isGranted = times > 0 && (await this.#payments.step(key, { kind: "repeat", asked }));
      return isGranted
        ? { kind: "admitted", paid: this.#repeated(key, sold, presented, terms) }
        : USED;
    } catch (cause) {
      this.#options.logger.error({ err: cause, key }, "the ledger failed; nothing was given again");
      return NOT_LOOKED_UP;
    }
  }

  async #replay(
    key: PaymentKey,
    { readBodyHash, onReset }: GoodsRequest,
    { target, claimant, proof, request }: ClaimTerms,
    { settlement }: SoldClaim,
  ): Promise<Admission> {
    // Where this is not what the payer asks for now, he pays for that, and it is forwarded.
    const bodyHash = await readBodyHash(proof !== undefined);
    if (bodyHash === null) return USED;
    const collected = (): Promise<void> => {
      const recorded = this.record(key, { kind: "collected" });
      this.#watch({ key, request, onReset, isDownload: false }, recorded);
      return recorded;
    };
    const response = await this.#payments.answer(key);
    if (response === undefined) return USED;
    const give = (hash: string): Promise<boolean> => {
      const asked = { target, bodyHash: hash, claimant, proof };
      return this.#payments.step(key, { kind: "replay", asked });
    };
    const replayed = { kind: "replayed", key, settlement, response, collected } as const;
    if (await give(bodyHash)) return replayed;
    // Who was cut comes for the rest: he has the whole of what is there, or would be told to pay for it.
    const whole = response.status === WHOLE ? await readBodyHash(true, true) : null;
    return whole !== null && (await give(whole)) ? replayed : USED;
  }

  /**
   * What was sent to its client is owed again: nobody else who shows the payment says that. A download whose client
   * closed its connection at once is so for a moment: he may have all of it, and one that broke off tries again by then.
   */
  #watch({ key, request, onReset, isDownload }: Sent, recorded: Promise<void>): void {
    onReset((how) => {
      if (how === "closed" && !isDownload) return;
      const unread = this.#owe(
        { key, request },
        recorded.then(() => this.record(key, { kind: "unread" })),
      );
      if (how === "reset") return;
      const mark = Symbol(key);
      this.#forgetting.set(key, mark);
      void unread.then(() => this.#forgetLater(key, mark));
    });
  }

  async #forgetLater(key: PaymentKey, mark: symbol): Promise<void> {
    await once(this.#options.time.timeout(CLOSED_OWED_MS), "abort");
    if (this.#forgetting.get(key) !== mark) return;
    this.#forgetting.delete(key);
    await this.record(key, { kind: "collected" });
  }

  /** Stored, however long that takes. */
  record(key: PaymentKey, transition: TransitionOf<HoldEnd>): Promise<void> {
    const store = (): Promise<void> => this.#payments.step(key, transition);
    return recordUntilStored(key, store, this.#options);
  }
}

/** Whoever shows the claim's own key speaks for the claim, so the upstream is shown another. */
export function upstreamKey(idempotencyKey: string): string {
  return hash("sha256", `coinslot upstream ${idempotencyKey}`);
}
