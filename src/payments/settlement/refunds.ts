/**
 * Sends back what is to be refunded. Each transfer is a payment of the key that is for it, which goes the way of every
 * other one: claimed, signed and watched by the engine. It is stored with the payment that it pays back before anything
 * sees it, and another one is signed only when the chain has said, and goes on saying, that it can never be moved.
 *
 *     asked -> signed, counted and stored -> claimed and settled -> refunded
 *                        ^                        | refused, or nobody could settle it
 *                        |                        v
 *                        +-- nobody refused it -- over for certain -- refused -> failed: the operator decides
 */
import { randomUUID } from "node:crypto";
import type {
  BeginOutcome,
  Ledger,
  OpenRefund,
  RefundStep,
  RefundTransfer,
} from "../../ledger/ledger.ts";
import type { Mechanism, Refunder } from "../../mechanism/mechanism.ts";
import type { Telemetry } from "../../telemetry/telemetry.ts";
import type { Time } from "../../time/time.ts";
import { networkOfKey, paymentKey, payerOf, type PaymentKey } from "../../x402/payment-key.ts";
import { messageOf } from "../../x402/result.ts";
import { HeldPayment, type Facilitator } from "../facilitator.ts";
import type { NetworkGate } from "./network-gate.ts";
import type { Recovery } from "./recovery.ts";

/** Pause between two rounds, milliseconds. */
const ROUND_MS = 1_000;
/** Refunds of each network that are looked at in one round, and at the same time. */
const MAX_LOOKED_AT = 256;
const AT_ONCE = 8;
/** Longest that one of them is worked on in one round, milliseconds. */
const STEP_MS = 30_000;
/** Pause before one that did not get on is looked at again, milliseconds. */
const AGAIN_MS = 5_000;
/** The same for one that the chain refuses: its wallet may be filled, and a token go on. */
const REFUSED_AGAIN_MS = 30_000;
/**
 * So long the chain has to say, look after look, that a transfer can never be moved before another one is signed: no
 * reorganization brings it back then, milliseconds.
 */
const OVER_MS = 900_000;

export interface RefundsOptions {
  readonly mechanisms: readonly Pick<Mechanism, "network" | "refunder" | "parse" | "reconcile">[];
  /** Settles on their networks. */
  readonly facilitator: Pick<Facilitator, "read" | "settle">;
  readonly ledger: Pick<Ledger, "refunds" | "step" | "outcome">;
  readonly gate: Pick<NetworkGate, "isOpen">;
  /** What of a token may be paid back on one day, atomic units. */
  readonly mostOf: (network: string, asset: string) => bigint;
  readonly telemetry: Pick<Telemetry, "logger">;
  readonly time: Time;
  /** Default: {@link OVER_MS}. */
  readonly overMs?: number;
}

/** Undefined where no key pays back. `stop` waits for what is being done. */
export function startRefunds(options: RefundsOptions): Recovery | undefined {
  if (options.mechanisms.every(({ refunder }) => refunder === undefined)) return undefined;
  const refunds = new Refunds(options);
  const stopping = new AbortController();
  const { signal } = stopping;
  const { telemetry, time } = options;
  const working = (async () => {
    while (!signal.aborted) {
      await refunds.round(signal).catch((cause: unknown) => {
        telemetry.logger.warn({ err: cause }, "refunds cannot be read; trying again");
      });
      await time.sleep(ROUND_MS, signal);
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await working;
    },
  };
}

interface Work {
  readonly refund: OpenRefund;
  readonly mechanism: RefundsOptions["mechanisms"][number];
  readonly refunder: Refunder;
  readonly signal: AbortSignal;
}

export class Refunds {
  readonly #at: RefundsOptions;
  /** When each is due again that did not get on. */
  readonly #later = new Map<PaymentKey, number>();
  /** Since when the chain says that a transfer is over, by its key. */
  readonly #over = new Map<PaymentKey, number>();

  constructor(options: RefundsOptions) {
    this.#at = options;
  }

  /** What waits on one network keeps none of another waiting. Rejects where the ledger cannot be read. */
  async round(signal: AbortSignal): Promise<void> {
    const { gate, mechanisms } = this.#at;
    const open = mechanisms.filter(({ network }) => gate.isOpen(network));
    const rounds = open.map((mechanism) => this.#roundOn(mechanism, signal));
    // Whichever of them fails, none goes on behind this one.
    await Promise.allSettled(rounds);
    await Promise.all(rounds);
  }

  async #roundOn(mechanism: Work["mechanism"], signal: AbortSignal): Promise<void> {
    const { ledger, time } = this.#at;
    const { network, refunder } = mechanism;
    if (refunder === undefined) return;
    const open = await ledger.refunds(network, MAX_LOOKED_AT);
    const keys = new Set(open.map(({ key }) => key));
    for (const key of this.#later.keys()) {
      if (networkOfKey(key) === network && !keys.has(key)) this.#later.delete(key);
    }
    const due = open.filter(({ key }) => (this.#later.get(key) ?? 0) <= time.now());
    for (let first = 0; first < due.length && !signal.aborted; first += AT_ONCE) {
      const now = due.slice(first, first + AT_ONCE);
      await Promise.all(now.map((refund) => this.#look({ refund, mechanism, refunder }, signal)));
    }
  }

  /** Never rejects. */
  async #look(work: Omit<Work, "signal">, closing: AbortSignal): Promise<void> {
    const { telemetry, time } = this.#at;
    const { key, detail: refusal } = work.refund;
    this.#later.set(key, time.now() + (refusal === null ? AGAIN_MS : REFUSED_AGAIN_MS));
    const signal = AbortSignal.any([closing, time.timeout(STEP_MS)]);
    try {
      await this.#advance({ ...work, signal });
    } catch (cause) {
      const detail = messageOf(cause);
      if (!closing.aborted) telemetry.logger.warn({ key, detail }, "a refund waits");
    }
  }

  async #advance(work: Work): Promise<void> {
    const { refund, mechanism, signal } = work;
    const { transfer, state } = refund;
    if (transfer === null || state === "ASKED") return this.#send(work);
    const outcome = await this.#at.ledger.outcome(transfer.key);
    switch (outcome.kind) {
      case "settled":
        return this.#ended(refund, outcome.settlement.transaction);
      case "held":
        return this.#moved(work, transfer, outcome.transaction);
      case "pending":
        // Signed, or in the hands of another process; what is ours may have been begun and nobody have heard of it.
        if (outcome.transaction !== undefined) return;
        if ((await this.#claim(refund, transfer)) !== "granted") return;
        return this.#settle(work, transfer);
      case "gone":
      case "failed":
    }
    const parsed = mechanism.parse(transfer.request);
    if (!parsed.ok) throw new Error(parsed.error.detail);
    const seen = await mechanism.reconcile(
      parsed.value,
      { claimed: undefined, after: null },
      signal,
    );
    if (seen.kind === "confirmed") return this.#moved(work, transfer, seen.transaction);
    if (seen.kind === "failed" && !seen.retriable) return this.#passed(work, transfer);
    this.#over.delete(transfer.key);
    // The very same transfer, as long as it counts.
    if (outcome.kind === "gone") await this.#settle(work, transfer);
  }

  /** Counted and stored before anybody sees it; where another process was faster, what it has signed counts. */
  async #send(work: Work): Promise<void> {
    const { refund, refunder, signal } = work;
    const { ledger, mostOf, time } = this.#at;
    const { key: payment, network, asset, to, amountAtomic, resource } = refund;
    const attempt = refund.attempt + 1;
    const back = { asset, to, amountAtomic, payment, attempt, resource };
    const signedMs = time.now();
    const request = await refunder.transfer(back, signal);
    const key = paymentKey(request);
    if (!key.ok) throw new Error(key.error.detail);
    const transfer = { key: key.value, request, idempotencyKey: randomUUID(), signedMs };
    const maxAtomic = mostOf(network, asset);
    const sending = { kind: "sending", attempt, transfer, maxAtomic } as const;
    const outcome = await ledger.step(payment, { kind: "refund", to: sending });
    if (outcome === "over") return this.#failed(refund, OVER_CAP);
    if (outcome === "over share") return this.#failed(refund, OVER_SHARE);
    const sent = { ...refund, attempt, transfer, detail: null };
    if (outcome === "done") await this.#settle({ ...work, refund: sent }, transfer);
  }

  /** Under its stored key: whoever else is at it has the same transfer, which is settled once. */
  async #settle(work: Work, transfer: RefundTransfer): Promise<void> {
    const { refund, refunder, signal } = work;
    const { facilitator, time } = this.#at;
    const { idempotencyKey, request, signedMs } = transfer;
    const payment = facilitator.read(request);
    if (!payment.ok) throw new Error(payment.error.detail);
    const begun = await this.#claim(refund, transfer);
    // Else it was begun before, and its outcome is in its row.
    if (begun !== "granted" && begun !== "pending") return;
    const claimed = { idempotencyKey, claim: "found", signal } as const;
    try {
      const answer = await facilitator.settle(payment.value, claimed);
      if (answer.success) return await this.#ended(refund, answer.transaction);
      // What has expired in the meantime was refused by nobody.
      const isRefused = time.now() < signedMs + refunder.validMs;
      const detail = `${answer.errorReason}: ${answer.detail ?? "it is refused"}`;
      if (isRefused) await this.#step(refund, { kind: "told", attempt: refund.attempt, detail });
    } catch (cause) {
      // Somebody else has moved it for us: its payee is the same.
      if (!(cause instanceof HeldPayment)) throw cause;
      await this.#moved(work, transfer, cause.transaction);
    }
  }

  async #claim(
    { route }: OpenRefund,
    { key, request, idempotencyKey: caller }: RefundTransfer,
  ): Promise<BeginOutcome["kind"]> {
    return (await this.#at.ledger.step(key, { kind: "begin", request, caller, route })).kind;
  }

  /** By whichever transaction: its row says so, too, for the books. */
  async #moved({ refund }: Work, transfer: RefundTransfer, transaction: string): Promise<void> {
    const { key, request } = transfer;
    await this.#claim(refund, transfer);
    const { network } = refund;
    const settlement = { transaction, network, payer: payerOf(request.paymentPayload) };
    await this.#at.ledger.step(key, { kind: "settled", settlement });
    await this.#ended(refund, transaction);
  }

  /** The chain says that it can never be moved. */
  async #passed(work: Work, { key }: RefundTransfer): Promise<void> {
    const { time, overMs = OVER_MS } = this.#at;
    const nowMs = time.now();
    const sinceMs = this.#over.get(key) ?? nowMs;
    this.#over.set(key, sinceMs);
    if (nowMs - sinceMs < overMs) return;
    this.#over.delete(key);
    const { refund } = work;
    if (refund.detail === null) await this.#send(work);
    else await this.#failed(refund, refund.detail);
  }

  async #failed(refund: OpenRefund, detail: string): Promise<void> {
    const { key, attempt } = refund;
    await this.#step(refund, { kind: "failed", attempt, detail });
    this.#at.telemetry.logger.error({ key, detail }, "a refund has failed; it waits for you");
  }

  async #ended(refund: OpenRefund, transaction: string): Promise<void> {
    const { key, attempt, network, to, amountAtomic } = refund;
    await this.#step(refund, { kind: "refunded", attempt, transaction });
    const facts = { key, network, transaction, to, amountAtomic: String(amountAtomic) };
    this.#at.telemetry.logger.info(facts, "a payment was refunded");
  }

  async #step({ key }: OpenRefund, to: RefundStep): Promise<void> {
    await this.#at.ledger.step(key, { kind: "refund", to });
  }
}

const OVER_CAP =
  "it is more than refunds.maxPerDay leaves for this day (UTC) on its network and in its token";
const OVER_SHARE =
  "its payer was paid back by itself what one payer may be on this day (UTC): a tenth of refunds.maxPerDay, or one payment";
