/**
 * Sends back what is to be refunded. Each transfer is a payment of the key that is for it, which goes the way of every
 * other one: claimed, signed and watched by the engine. It is stored with the payment that it pays back before anything
 * sees it, and another one is signed only when the chain has said, and goes on saying, that it can never be moved.
 *
 *     asked and paid for good -> signed, counted and stored -> claimed and settled -> refunded
 *                                     ^                        | refused, or nobody could settle it
 *                                     |                        v
 *                                     +-- nobody refused it -- over for certain -- refused -> failed: the operator decides
 *
 * Where there are nonces, each transfer of a refund has the one of the transfer before it as long as that left no row and
 * the chain knows no use of it: so a ledger that was restored from before a transfer signs what the token moves once.
 */
import { randomUUID } from "node:crypto";
import type {
  BeginOutcome,
  Ledger,
  OpenRefund,
  RefundStep,
  RefundTransfer,
} from "../../ledger/ledger.ts";
import type { Confirmation, Mechanism, Refunder } from "../../mechanism/mechanism.ts";
import type { Telemetry } from "../../telemetry/telemetry.ts";
import type { Time } from "../../time/time.ts";
import { networkOfKey, paymentKey, payerOf, type PaymentKey } from "../../x402/payment-key.ts";
import { messageOf } from "../../x402/result.ts";
import type { FacilitatorRequest } from "../../x402/x402.ts";
import { HeldPayment, type Facilitator } from "../facilitator.ts";
import type { NetworkGate } from "./network-gate.ts";
import type { Recovery } from "./recovery.ts";

/** Pause between two rounds, milliseconds. */
const ROUND_MS = 1_000;
/**
 * Refunds of each network, of those that are asked for and of those that were sent, that are looked at in one round, and
 * at the same time: what was sent and is refused for as long as it counts keeps nothing else from being sent.
 */
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
/** Nonces of one refund at most, and how many behind the next one are looked for: a restored ledger knows of none. */
const MAX_NONCES = 64;
const NONCES_AHEAD = 3;
/** No cap: of what the chain has moved already. */
const ANY_AMOUNT = 2n ** 256n;

export interface RefundsOptions {
  readonly mechanisms: readonly Pick<Mechanism, "network" | "refunder" | "parse" | "reconcile">[];
  /** Settles on their networks. */
  readonly facilitator: Pick<Facilitator, "read" | "settle">;
  readonly ledger: Pick<Ledger, "step" | "outcome"> & {
    readonly queues: Pick<Ledger["queues"], "refunds">;
  };
  readonly gate: Pick<NetworkGate, "isOpen">;
  /** What of a token may be paid back on one day, atomic units. */
  readonly mostOf: (network: string, asset: string) => bigint;
  /** Whether nothing is sold to somebody, nor paid back: he is on a list. */
  readonly isBarred: (network: string, payer: string) => boolean;
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

/** A transfer that may be signed for; `moved`: it was, in that transaction. */
interface Drawn extends Pick<RefundTransfer, "key" | "request"> {
  readonly moved?: string;
}

export class Refunds {
  readonly #at: RefundsOptions;
  /** When each is due again that did not get on. */
  readonly #later = new Map<PaymentKey, number>();
  /** Since when the chain says that the transfer of a refund is over, or that nothing was paid, by the payment's key. */
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
    const asked = await ledger.queues.refunds(network, MAX_LOOKED_AT, "ASKED");
    const keys = new Set(asked.map(({ key }) => key));
    const sent = await ledger.queues.refunds(network, MAX_LOOKED_AT, "SENDING");
    // Another process may have sent one of the others meanwhile.
    const open = [...asked, ...sent.filter(({ key }) => !keys.has(key))];
    for (const { key } of sent) keys.add(key);
    for (const known of [this.#later, this.#over]) {
      for (const key of known.keys()) {
        if (networkOfKey(key) === network && !keys.has(key)) known.delete(key);
      }
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
    const { refund } = work;
    const { transfer, state } = refund;
    if (transfer === null || state === "ASKED") {
      if (await this.#isPaid(work)) await this.#send(work);
      return;
    }
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
    const seen = await this.#seen(work, transfer.request);
    if (seen.kind === "confirmed") return this.#moved(work, transfer, seen.transaction);
    if (seen.kind === "failed" && !seen.retriable) return this.#passed(work, transfer);
    this.#over.delete(refund.key);
    // The very same transfer, as long as it counts.
    if (outcome.kind === "gone") await this.#settle(work, transfer);
  }

  /** Whether what is to be paid back was paid: final as it is, the chain may have another past. */
  async #isPaid(work: Work): Promise<boolean> {
    const { refund } = work;
    const seen = await this.#seen(work, refund.sale, refund.paidIn ?? undefined);
    const isDenied = seen.kind === "failed" || (seen.kind === "unknown" && seen.isUnused === true);
    if (!isDenied) this.#over.delete(refund.key);
    else if (this.#lasts(refund.key)) await this.#failed(refund, UNPAID);
    return !isDenied;
  }

  /** What the chain shows of a payment, whoever has moved it. */
  async #seen(
    { mechanism, signal }: Work,
    request: FacilitatorRequest,
    claimed?: string,
  ): Promise<Confirmation> {
    const parsed = mechanism.parse(request);
    if (!parsed.ok) throw new Error(parsed.error.detail);
    return mechanism.reconcile(parsed.value, { claimed, after: null }, signal);
  }

  /**
   * What is signed next: with the first nonce that is free, which the transfer before it may have had. Where the chain
   * shows that one of those was moved, this ledger has forgotten it.
   */
  async #draw(work: Work): Promise<Drawn> {
    const { refunder, refund } = work;
    if (!refunder.hasNonces) return this.#drawn(work, refund.attempt + 1);
    let free: { readonly drawn: Drawn; readonly number: number } | undefined;
    for (let number = 1; number <= (free?.number ?? MAX_NONCES) + NONCES_AHEAD; number += 1) {
      const drawn = await this.#drawn(work, number);
      const seen = await this.#seen(work, drawn.request);
      if (seen.kind === "confirmed") return { ...drawn, moved: seen.transaction };
      // In a young block, or untraced.
      if (seen.kind === "unknown" && seen.isUnused !== true) throw new Error(seen.detail);
      if (free !== undefined || seen.kind === "failed") continue;
      const { kind } = await this.#at.ledger.outcome(drawn.key);
      if (kind === "gone") free = { drawn, number };
      else if (kind !== "failed") throw new Error(`its transfer ${drawn.key} is ${kind}`);
    }
    if (free === undefined) throw new Error(`each of its ${MAX_NONCES} nonces is used`);
    return free.drawn;
  }

  async #drawn({ refund, refunder, signal }: Work, number: number): Promise<Drawn> {
    const { key: payment, asset, to, amountAtomic, resource } = refund;
    const back = { asset, to, amountAtomic, payment, number, resource };
    const request = await refunder.transfer(back, signal);
    const key = paymentKey(request);
    if (!key.ok) throw new Error(key.error.detail);
    return { key: key.value, request };
  }

  /** Counted and stored before anybody sees it; where another process was faster, what it has signed counts. */
  async #send(work: Work): Promise<void> {
    const { refund } = work;
    const { ledger, isBarred, mostOf, time } = this.#at;
    const { key: payment, network, asset, to } = refund;
    if (isBarred(network, to)) return this.#failed(refund, BARRED);
    if (!work.refunder.has(asset)) return this.#failed(refund, unknownToken(refund));
    const attempt = refund.attempt + 1;
    const signedMs = time.now();
    const { key, request, moved } = await this.#draw(work);
    const transfer = { key, request, idempotencyKey: randomUUID(), signedMs };
    const maxAtomic = moved === undefined ? mostOf(network, asset) : ANY_AMOUNT;
    const sending = { kind: "sending", attempt, transfer, maxAtomic } as const;
    const outcome = await ledger.step(payment, { kind: "refund", to: sending });
    if (outcome === "over") return this.#failed(refund, OVER_CAP);
    if (outcome === "over share") return this.#failed(refund, OVER_SHARE);
    const sent = { ...refund, attempt, transfer, detail: null, refusal: null };
    if (outcome !== "done") return;
    const now = { ...work, refund: sent };
    await (moved === undefined ? this.#settle(now, transfer) : this.#moved(now, transfer, moved));
  }

  /** Why a transfer that was signed is not settled; undefined: it is. */
  #keptBack({ refund, refunder }: Work, { request }: RefundTransfer): string | undefined {
    if (this.#at.isBarred(refund.network, refund.to)) return BARRED;
    if (!isOf(refunder, request)) return REPLACED;
    // A replica that knows it may have signed it: what this one does not settle was refused by nobody.
    return refunder.has(refund.asset) ? undefined : unknownToken(refund);
  }

  /** Under its stored key: whoever else is at it has the same transfer, which is settled once. */
  async #settle(work: Work, transfer: RefundTransfer): Promise<void> {
    const { refund, refunder, signal } = work;
    const { facilitator, ledger, time } = this.#at;
    const { idempotencyKey, key, request, signedMs } = transfer;
    const keptBack = this.#keptBack(work, transfer);
    if (keptBack !== undefined) {
      await ledger.step(key, { kind: "abandoned" });
      return this.#told(refund, keptBack, false);
    }
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
      if (isRefused) await this.#told(refund, detail, true);
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

  /**
   * The chain says that it can never be moved: what was refused fails, unless another key signs by now. What was only kept
   * back, here or by a replica with another key, list or tokens, was refused by nobody.
   */
  async #passed(work: Work, { request }: RefundTransfer): Promise<void> {
    const { refund, refunder } = work;
    if (!this.#lasts(refund.key)) return;
    if (refund.refusal === null || !isOf(refunder, request)) await this.#send(work);
    else await this.#failed(refund, refund.refusal);
  }

  /** Whether the chain has said so, look after look, for {@link OVER_MS}. */
  #lasts(payment: PaymentKey): boolean {
    const { time, overMs = OVER_MS } = this.#at;
    const nowMs = time.now();
    const sinceMs = this.#over.get(payment) ?? nowMs;
    this.#over.set(payment, sinceMs);
    if (nowMs - sinceMs < overMs) return false;
    this.#over.delete(payment);
    return true;
  }

  async #told(refund: OpenRefund, detail: string, isRefusal: boolean): Promise<void> {
    await this.#step(refund, { kind: "told", attempt: refund.attempt, detail, isRefusal });
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
const UNPAID = "the chain does not show, for a quarter of an hour, that the payment was made";
const BARRED =
  "nothing is sent to its payer, who is on a list of those who may not pay (payers.deny): decide, and do what your law wants";
const REPLACED =
  "its transfer was signed by a key that was replaced: the one of now signs another when that can never be moved any more";

function unknownToken({ asset, network }: OpenRefund): string {
  return (
    `its token ${asset} is not one that is taken on ${network} any more: configure it there and ask again, or pay it ` +
    "back yourself"
  );
}

function isOf({ address }: Refunder, { paymentPayload }: FacilitatorRequest): boolean {
  return payerOf(paymentPayload) === address;
}
