/**
 * Settles the payments of one network: a queue, and one sender for each account of ours whose lease we hold.
 * What no sender of ours can sign is offered to the other lives on the ledger, and theirs are taken where
 * there is room.
 *
 *     granted claim -> judged -> queue -> sender: prepared, signed and stored, sent -> watched to its end
 *                         \-> no sender: offered   \-> more than its payer has: held, and judged again
 */
import type { SenderSurroundings } from "./surroundings.ts";
import type { OfferedPayment, Settlements } from "../../ledger/ledger.ts";
import { forNobody, forPayment } from "../../telemetry/request-context.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import type { Refusal } from "../../x402/result.ts";
import { Alarm } from "./alarm.ts";
import { ContestedPurses } from "./contested-purses.ts";
import type { FailureBudget } from "./failure-budget.ts";
import type { Inspected } from "../../mechanism/mechanism.ts";
import {
  PendingSettlement,
  askerOf,
  isJudged,
  type Ending,
  type GrantedClaim,
  type PendingPayment,
  type SignablePayment,
} from "./pending-payment.ts";
import { handOut } from "./hand-out.ts";
import type { Judgement } from "./judgement.ts";
import { AccountSender, type SenderDesk } from "./account-sender.ts";
import { MAX_QUEUED, PaymentQueue } from "./payment-queue.ts";
import type { Places } from "./places.ts";

import { UnsignedClaims, type LeftClaim, type UnsignedClaim } from "./unsigned-claims.ts";

/** Offered claims taken at once, at most. */
const MAX_TAKEN = 64;
/** How long no offered claims are taken after one could not be judged, milliseconds. */
const OFFER_PAUSE_MS = 2_000;
/** Shortest pause between two attempts to get a sender because a payment needs one, milliseconds. */
const LEASE_PAUSE_MS = 1_000;

export interface EngineOptions extends SenderSurroundings {
  readonly judgement: Judgement;
  readonly budget: FailureBudget;
  readonly places: Places;
}

export class SettlementEngine {
  readonly #at: EngineOptions;
  readonly #network: string;
  readonly #ledger: Settlements;
  readonly #queue: PaymentQueue;
  readonly #purses: ContestedPurses;
  readonly #senders = new Map<string, AccountSender>();
  readonly #pending = new Map<PaymentKey, PendingSettlement>();
  readonly #claims: UnsignedClaims;
  /** Claims that nobody could judge or sign and that are not to be dropped: for the next round. */
  readonly #parked: UnsignedClaim[] = [];
  /** Claims of others that are being judged; whoever begins one here has had a place for it. */
  #accepting = 0;
  /** Claims of others that are being taken, or that may be ours since the ledger did not say. */
  readonly #taking = new Map<PaymentKey, OfferedPayment>();
  #opening: Promise<void> | undefined;
  #openedMs = 0;
  /** Why no sender could be opened, where no other life has an account of ours either. */
  #noSender: unknown;
  readonly #running = new Set<Promise<void>>();
  #offersFromMs = 0;
  readonly #closing = new AbortController();
  readonly #alarm: Alarm;
  /** What is not signed and is for another engine; undefined: this one stays, or nothing comes after it. */
  #left: LeftClaim[] | undefined;

  constructor(options: EngineOptions) {
    this.#at = options;
    this.#network = options.mechanism.network;
    this.#ledger = options.ledger;
    const { mechanism, places } = options;
    this.#queue = new PaymentQueue({
      maxTogether: () => (places.isBatchingPaused ? 1 : mechanism.maxTogether),
      crowding: (item) => places.crowding(item),
    });
    this.#claims = new UnsignedClaims(options);
    const closing = this.#closing.signal;
    this.#purses = new ContestedPurses(options.mechanism.purses, {
      ...options,
      closing,
      admitted: (item) => this.#run(forPayment(item.key, () => this.#again(item))),
      refused: (item, refusal) => this.#run(this.#refuse(item, refusal)),
      unread: (item, cause) => this.#run(this.#giveUp(item, cause)),
    });
    this.#alarm = new Alarm(options.time, closing, () => this.#dispatch());
    const price = options.nativePrice?.(this.#network) ?? null;
    options.telemetry.metrics.observeQueue(this.#network, () => this.#queue.size, price);
  }

  /** The work on that payment in this process. */
  pending(key: PaymentKey): PendingSettlement | undefined {
    return this.#pending.get(key);
  }

  /** Submissions in the air. */
  get openCount(): number {
    return [...this.#senders.values()].reduce((sum, { openCount }) => sum + openCount, 0);
  }

  /** Takes over a granted claim, or joins the work on it. */
  settle(claim: GrantedClaim): PendingSettlement {
    const running = this.#pending.get(claim.key);
    if (running !== undefined) return running;
    const pending = new PendingSettlement();
    this.#begin(claim, pending);
    return pending;
  }

  #begin(claim: GrantedClaim, pending: PendingSettlement): void {
    const item = this.#itemOf(claim, pending, "begun");
    pending.deserted.addEventListener("abort", () => {
      const called = this.#queue.remove(item.key);
      if (called !== undefined) this.#run(this.#giveUp(called, DESERTED));
    });
    this.#launch(item);
  }

  /** For another engine of this process: gives back the accounts, and leaves it what is not signed ({@link inherit}). */
  async leave(): Promise<void> {
    this.#left = [];
    await this.close();
  }

  /** What the one before has left until now; to be called again when that has {@link drained}. */
  inherit(before: SettlementEngine): void {
    for (const { claim, pending, judged, client } of before.#left?.splice(0) ?? []) {
      const { key, request, origin } = claim;
      if (origin !== "begun") {
        this.#pending.set(key, pending);
        this.accept(claim, origin);
        continue;
      }
      const checked = this.#at.judgement.check(request);
      if (checked.ok) {
        // Once more, but as one that was found good: by whatever the chain is asked now.
        const again = judged && { ...judged, atMs: Number.NEGATIVE_INFINITY };
        this.#begin({ key, request, checked: checked.value, judged: again, ...client }, pending);
      } else {
        this.#pending.set(key, pending);
        this.#run(this.#refuse(claim, checked.error));
      }
    }
    for (const [key, offer] of before.#taking) this.#taking.set(key, offer);
    before.#taking.clear();
    this.#claims.inherit(before.#claims);
  }

  /** Goes on with a claim that was withdrawn from a transaction, or joins the work on it. */
  resume(claim: Pick<OfferedPayment, "key" | "request">): void {
    if (!this.#pending.has(claim.key)) this.accept(claim, "withdrawn");
  }

  /**
   * One round of recovery: leases, unfinished submissions and late looks, offered claims, and what the
   * ledger did not take before. Never rejects.
   */
  async round(): Promise<void> {
    await this.#claims.retry();
    const { gate } = this.#at;
    if (!gate.isTrusted(this.#network) || this.#closing.signal.aborted) return;
    await this.#open();
    const isOpen = gate.isOpen(this.#network);
    for (const claim of isOpen ? this.#parked.splice(0) : []) this.accept(claim, claim.origin);
    await Promise.all([...this.#senders.values()].map((sender) => sender.round()));
    if (isOpen) await this.takeOffered();
  }

  /** Takes claims that other lives offer, where there is room for them. Never rejects. */
  async takeOffered(): Promise<void> {
    const { time, telemetry } = this.#at;
    if (this.#closing.signal.aborted) return;
    const untold = [...this.#taking.values()];
    const room = Math.min(MAX_TAKEN, MAX_QUEUED - this.#load);
    const isWilling = time.now() >= this.#offersFromMs && this.#senders.size > 0 && room > 0;
    try {
      const offers = isWilling ? await this.#ledger.queues.offers(this.#network, room) : [];
      const wanted = offers.filter(({ key }) => !this.#taking.has(key));
      await Promise.all([...untold, ...wanted].map((offer) => this.#take(offer)));
    } catch (cause) {
      telemetry.logger.warn({ err: cause, network: this.#network }, "offered claims not taken");
    }
  }

  /** As often as it takes until the ledger has said whose it is: nobody else would go on with what is ours. */
  async #take(offer: OfferedPayment): Promise<void> {
    const { key, version, isPublic } = offer;
    const isRepeated = this.#taking.has(key);
    this.#taking.set(key, offer);
    const taken = await this.#ledger.step(key, { kind: "take", version });
    // Told to another round that has asked as well.
    if (!this.#taking.delete(key) || taken === "gone") return;
    // It was ours before: at work already, unless nobody has heard that.
    if (taken === "ours" && (!isRepeated || this.#pending.has(key))) return;
    this.accept(offer, isPublic ? "withdrawn" : "offered");
  }

  /** Signs no more, gives back what is unsigned and the leases; what is signed stays in the ledger. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#opening;
    const unsigned = [...this.#queue.drain(), ...this.#parked];
    await Promise.all(unsigned.map((claim) => this.#giveUp(claim, CLOSED)));
    await this.#purses.drained();
    const senders = [...this.#senders.values()];
    await Promise.all(senders.map((sender) => sender.close()));
    await this.drained();
    const { logger } = this.#at.telemetry;
    for (const { lease } of senders) {
      await this.#ledger.signing.unlease(lease).catch((cause: unknown) => {
        logger.warn({ err: cause, network: lease.network }, "an account was not given back");
      });
    }
    for (const key of this.#pending.keys()) this.#landed(key, LEFT);
  }

  /**
   * Until nothing is between queue and sender. After {@link close} these claims are offered, too, and the
   * ledger must not be closed before: it would take the process for dead, and drop them.
   */
  async drained(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Work on a claim that nobody waits for. It never rejects. */
  #run(work: Promise<void>): void {
    const running = work.finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  get #load(): number {
    return this.#queue.size + this.#accepting + this.#taking.size + this.#purses.size;
  }

  /** By those that were judged and wait to be signed: whom the chain will refuse takes nobody's room. */
  #isFullFor({ origin }: PendingPayment): boolean {
    return origin === "begun" && this.#queue.size >= MAX_QUEUED;
  }

  #itemOf(
    claim: GrantedClaim,
    pending: PendingSettlement,
    origin: PendingPayment["origin"],
  ): PendingPayment {
    const { checked } = claim;
    const { budget, mechanism, time } = this.#at;
    const isAlone = origin === "withdrawn" || checked.runsCode || budget.isSuspect(checked.payer);
    const account = mechanism.accountFor(checked);
    return { ...claim, pending, origin, account, isAlone, queuedMs: time.now() };
  }

  /** Judges it where that was not done just now, and puts it into the queue. */
  #launch(item: PendingPayment): void {
    this.#pending.set(item.key, item.pending);
    this.#claims.revive(item.key);
    if (this.#isFullFor(item)) return this.#run(this.#giveUp(item, FULL));
    const accepting = item.origin === "begun" ? 0 : 1;
    this.#accepting += accepting;
    this.#run(
      this.#admit(item).finally(() => {
        this.#accepting -= accepting;
      }),
    );
  }

  async #admit(item: PendingPayment): Promise<void> {
    const { judgement } = this.#at;
    const signal = AbortSignal.any([this.#closing.signal, item.pending.deserted]);
    try {
      // Somebody else's, for an account that another life has as well.
      if (item.origin === "offered" && !this.#hasSender(item)) throw NO_SENDER;
      if (isJudged(item) && judgement.isFresh(item.judged.atMs)) return await this.#enqueue(item);
      const inspected = await judgement.inspect(item.checked, signal, askerOf(item));
      if (!inspected.ok) return await this.#refuse(item, inspected.error);
      if (this.#isFullFor(item)) throw FULL;
      await this.#enqueue(this.#judgedNow(item, inspected.value));
    } catch (cause) {
      await this.#giveUp(item, cause);
    }
  }

  #judgedNow(item: PendingPayment, inspected: Inspected<unknown>): SignablePayment {
    const atMs = this.#at.time.now();
    const isAlone = item.isAlone || inspected.runsCode;
    return { ...item, checked: inspected, judged: { inspected, atMs }, isAlone, queuedMs: atMs };
  }

  async #enqueue(item: SignablePayment): Promise<void> {
    if (!this.#hasSender(item)) await this.#openSoon();
    if (this.#closing.signal.aborted) return this.#giveUp(item, CLOSED);
    item.pending.deserted.throwIfAborted();
    if (!this.#hasSender(item)) {
      if (this.#noSender !== undefined) return this.#giveUp(item, this.#noSender);
      item.pending.bind();
      return this.#ended(item, await this.#claims.offer(item));
    }
    this.#at.places.release([item.key]);
    this.#queue.add(item);
    this.#dispatch();
  }

  /** Hands what waits to the senders that have room. */
  #dispatch(): void {
    for (const [address, sender] of this.#senders)
      if (sender.isEnded) this.#senders.delete(address);
    const left = this.#queue.drain((item) => !this.#hasSender(item));
    for (const item of left) this.#run(forPayment(item.key, () => this.#admit(item)));
    for (const item of this.#queue.drain((each) => this.#purses.isBehind(each))) {
      item.pending.bind();
      this.#hold(item);
    }
    if (this.#queue.crowdUntilMs !== undefined) this.#refuseHopeless();
    if (this.#queue.size === 0) return;
    const { places, time } = this.#at;
    this.#alarm.set(handOut(this.#senders.values(), { queue: this.#queue, places, time }));
  }

  /** Those whose payer is refused by now, and those that have waited in vain for their place. */
  #refuseHopeless(): void {
    const { judgement, time } = this.#at;
    const over = this.#queue.drainRefused(time.now(), (item) => judgement.suspension(item.checked));
    for (const { item, refusal } of over) this.#run(this.#refuse(item, refusal));
  }

  /** Until its payer's other payments are decided. */
  #hold(item: SignablePayment): void {
    this.#at.places.release([item.key]);
    this.#purses.hold(item);
  }

  /** Whether some sender here can sign it. */
  #hasSender({ account }: PendingPayment): boolean {
    return account === undefined ? this.#senders.size > 0 : this.#senders.has(account);
  }

  /** Because a payment needs a sender: not at each payment anew. */
  async #openSoon(): Promise<void> {
    const isDue = this.#at.time.now() - this.#openedMs >= LEASE_PAUSE_MS;
    await (isDue && this.#at.gate.isOpen(this.#network) ? this.#open() : this.#opening);
  }

  /** Tries to get a sender for each account without one. */
  #open(): Promise<void> {
    this.#openedMs = this.#at.time.now();
    this.#opening ??= forNobody(() => this.#openSenders()).finally(() => {
      this.#opening = undefined;
      this.#dispatch();
    });
    return this.#opening;
  }

  async #openSenders(): Promise<void> {
    const { mechanism, telemetry } = this.#at;
    let isHeldElsewhere = false;
    let trouble: unknown;
    for (const account of mechanism.accounts) {
      if (this.#senders.has(account) || this.#closing.signal.aborted) continue;
      try {
        const options = { ...this.#at, desk: this.#desk };
        const sender = await AccountSender.open(account, options, this.#closing.signal);
        if (sender === undefined) isHeldElsewhere = true;
        else this.#senders.set(account, sender);
      } catch (cause) {
        trouble = cause;
        const { logger } = telemetry;
        logger.warn({ err: cause, network: this.#network, account }, "an account is not in use");
      }
    }
    this.#noSender = isHeldElsewhere ? undefined : trouble;
  }

  readonly #desk: SenderDesk = {
    landed: (key, ending) => this.#landed(key, ending),
    included: (keys) => {
      this.#at.places.release(keys);
      this.#dispatch();
    },
    leftBehind: (gas, keys) => this.#at.places.leftBehind(gas, keys),
    reverted: (gas, keys) => this.#at.places.reverted(gas, keys),
    withdrawn: (key, request) => this.accept({ key, request }, "withdrawn"),
    failedOnChain: (payer, hasCode) => {
      this.#at.places.failedOnChain(payer, hasCode);
      this.#refuseHopeless();
    },
    refused: (item, refusal) => this.#run(this.#refuse(item, refusal)),
    unsigned: (item, cause) => this.#run(this.#giveUp(item, cause)),
    leftOut: (item) => {
      this.#at.budget.suspect(item.checked.payer);
      const alone = { ...item, isAlone: true };
      // Most often it is the payer's own payments that leave nothing for it.
      if (!this.#purses.isKept || item.held !== undefined) this.#run(this.#again(alone));
      else this.#hold(alone);
    },
    overdrawn: (item) => this.#hold(item),
    returned: (items) => this.#returned(items),
    doubtful: (items) => {
      for (const item of items) {
        this.#claims.doubt(item);
        this.#landed(item.key, DOUBTFUL);
      }
    },
    changed: () => this.#dispatch(),
  };

  /** A claim that is ours although nobody here began it: judged from the beginning. */
  accept(
    { key, request }: Pick<OfferedPayment, "key" | "request">,
    origin: PendingPayment["origin"],
  ): void {
    const pending = this.#pending.get(key) ?? new PendingSettlement(true);
    pending.bind();
    this.#pending.set(key, pending);
    const checked = this.#at.judgement.check(request);
    if (!checked.ok) {
      this.#run(this.#refuse({ key, request, origin }, checked.error));
      return;
    }
    const { budget, places } = this.#at;
    // Where all were reverted together it was hardly this one's fault.
    if (origin === "withdrawn" && !places.isBatchingPaused) budget.suspect(checked.value.payer);
    const claim = { key, request, checked: checked.value };
    this.#launch(this.#itemOf(claim, pending, origin));
  }

  /** Judged again, since it could not go with others. */
  async #again(item: PendingPayment): Promise<void> {
    const { judgement } = this.#at;
    try {
      const inspected = await judgement.again(item.request, this.#closing.signal);
      if (!inspected.ok) return await this.#refuse(item, inspected.error);
      const { queuedMs } = item;
      await this.#enqueue({ ...this.#judgedNow(item, inspected.value), queuedMs });
    } catch (cause) {
      await this.#giveUp(item, cause);
    }
  }

  #returned(items: readonly SignablePayment[]): void {
    const solvent = [...this.#senders].filter(([, sender]) => !sender.isEnded && !sender.isShort);
    const back: SignablePayment[] = [];
    this.#at.places.release(items.map(({ key }) => key));
    for (const item of items) {
      const isPayable = solvent.some(([address]) => (item.account ?? address) === address);
      if (this.#closing.signal.aborted) this.#run(this.#giveUp(item, CLOSED));
      else if (item.shortage === undefined || isPayable) back.push(item);
      else this.#run(this.#giveUp(item, item.shortage));
    }
    this.#queue.putBack(back);
  }

  async #refuse(claim: UnsignedClaim, refusal: Refusal): Promise<void> {
    this.#ended(claim, await this.#claims.refuse(claim, refusal));
  }

  async #giveUp(claim: UnsignedClaim, cause: unknown): Promise<void> {
    const { time } = this.#at;
    if (this.#left !== undefined) return this.#leaveBehind(claim, this.#left);
    if (claim.origin === "offered") this.#offersFromMs = time.now() + OFFER_PAUSE_MS;
    const isLast = this.#closing.signal.aborted && claim.origin !== "begun";
    const ending = await (isLast ? this.#claims.offer(claim) : this.#claims.giveUp(claim, cause));
    this.#ended(claim, ending);
  }

  #leaveBehind(claim: UnsignedClaim & Partial<PendingPayment>, left: LeftClaim[]): void {
    const { key, request, origin, judged, client } = claim;
    const pending = this.#pending.get(key) ?? claim.pending ?? new PendingSettlement(true);
    this.#at.places.release([key]);
    this.#pending.delete(key);
    const named = client === undefined ? {} : { client };
    left.push({ claim: { key, request, origin }, pending, judged, client: named });
  }

  #ended(claim: UnsignedClaim, ending: Ending | undefined): void {
    this.#at.places.release([claim.key]);
    if (ending !== undefined) this.#landed(claim.key, ending);
    else if (this.#closing.signal.aborted) this.#landed(claim.key, LEFT);
    else this.#parked.push(claim);
  }

  #landed(key: PaymentKey, ending: Ending): void {
    this.#at.places.landed(key, ending);
    this.#pending.get(key)?.land(ending);
    this.#pending.delete(key);
  }
}

const CLOSED = new Error("this process is shutting down");
const FULL = new Error(`${MAX_QUEUED} payments wait already`);
const NO_SENDER = new Error("its account is in use elsewhere");
const DESERTED = new Error("nobody waits for it any more");
const DOUBTFUL: Ending = { kind: "open", detail: "it is not known whether it was signed" };
const LEFT: Ending = { kind: "open", detail: "its outcome is left to the ledger" };
