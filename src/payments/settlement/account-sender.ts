/**
 * One account of ours, whose lease we hold: its only writer. It signs one transaction after the other, each
 * stored before it is sent, and watches over what it has signed, and what earlier lives signed with it.
 */
import type { SenderSurroundings } from "./surroundings.ts";
import {
  LedgerConflict,
  LedgerUnavailable,
  type Lease,
  type StoredSubmission,
} from "../../ledger/ledger.ts";
import { amountOf } from "../../ledger/payment-row.ts";
import { LedgerOverdraft, type Draws } from "../../ledger/purse.ts";
import { ChainError, LAST_RENEWAL, type Draft, type Mechanism } from "../../mechanism/mechanism.ts";
import { contextOfPayments, inContext, otherTraces } from "../../telemetry/request-context.ts";
import { inSpan } from "../../telemetry/spans.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import type { Refusal } from "../../x402/result.ts";
import type { FacilitatorRequest } from "../../x402/x402.ts";
import { AccountWatches } from "./account-watches.ts";
import type { Ending, SignablePayment } from "./pending-payment.ts";
import type { Judgement } from "./judgement.ts";
import type { WatchedAccount } from "./submission-watch.ts";

/** Longest that the making of one transaction may take, milliseconds. */
const PREPARE_TIMEOUT_MS = 10_000;
/**
 * Transactions that are made at the same time, where none stands behind another: the ledger stores those
 * together that come together. Elsewhere the next one waits, and takes along what has come meanwhile.
 */
const SIGNS_AT_ONCE = 64;
/** Longest that the first account nonce may take, milliseconds. */
const SEED_TIMEOUT_MS = 10_000;
/** How long an account that cannot pay the network fee is asked last, milliseconds. */
const SHORT_MS = 30_000;

/** Where a sender's payments come from, and where those go that it did not sign. */
export interface SenderDesk {
  landed(key: PaymentKey, ending: Ending): void;
  withdrawn(key: PaymentKey, request: FacilitatorRequest): void;
  failedOnChain(payer: string, hasCode: boolean): void;
  included(keys: readonly PaymentKey[]): void;
  leftBehind(gas: bigint, keys: readonly PaymentKey[]): void;
  reverted(gas: bigint, keys: readonly PaymentKey[]): void;
  /** Fails for certain, unsigned. */
  refused(item: SignablePayment, refusal: Refusal): void;
  /** Cannot be signed now, and was not. */
  unsigned(item: SignablePayment, cause: unknown): void;
  /** Cannot be moved together with others: to be judged again, alone. */
  leftOut(item: SignablePayment): void;
  /** Not signed, since its payer's other payments may take what it needs. */
  overdrawn(item: SignablePayment): void;
  /** Not signed by this sender, for a reason that is not the payments'. */
  returned(items: readonly SignablePayment[]): void;
  /** May have been signed: the ledger did not say. */
  doubtful(items: readonly SignablePayment[]): void;
  /** The sender may take something, or has ended. */
  changed(): void;
}

export interface AccountSenderOptions extends SenderSurroundings {
  readonly lease: Lease;
  /** The chain's next account nonce when the lease was taken. */
  readonly seed: number;
  readonly judgement: Judgement;
  readonly desk: SenderDesk;
}

export class AccountSender implements WatchedAccount {
  readonly lease: Lease;
  readonly #at: AccountSenderOptions;
  readonly #desk: SenderDesk;
  readonly #ending = new AbortController();
  readonly #watches: AccountWatches;
  /** What is being signed. */
  readonly #running = new Set<Promise<void>>();
  #seed: number;
  /** Whether the chain's next nonce may be ahead of the ledger's. */
  #isOvertaken = false;
  #signing = 0;
  #shortUntilMs = 0;

  constructor(options: AccountSenderOptions) {
    this.#at = options;
    this.lease = options.lease;
    this.#seed = options.seed;
    this.#desk = options.desk;
    const onChange = (): void => this.#desk.changed();
    const ending = this.#ending.signal;
    this.#watches = new AccountWatches({ at: options, sender: this, ending, onChange });
  }

  /** Undefined when another life has the account. Throws where ledger or chain cannot be asked. */
  static async open(
    account: string,
    options: Omit<AccountSenderOptions, "lease" | "seed">,
    closing: AbortSignal,
  ): Promise<AccountSender | undefined> {
    const { ledger, mechanism, time } = options;
    const lease = await ledger.signing.lease(mechanism.network, account);
    if (lease === undefined) return undefined;
    try {
      const signal = AbortSignal.any([closing, time.timeout(SEED_TIMEOUT_MS)]);
      const seed = await mechanism.accountNonce(account, signal);
      const sender = new AccountSender({ ...options, lease, seed });
      await sender.takeUp();
      return sender;
    } catch (cause) {
      await ledger.signing.unlease(lease);
      throw cause;
    }
  }

  get isEnded(): boolean {
    return this.#ending.signal.aborted;
  }

  /** In the air: one whose account nonce is used takes nobody's place, whatever is still to be decided. */
  get openCount(): number {
    return this.#watches.openCount;
  }

  get canTake(): boolean {
    const { maxOpen, isOrdered } = this.#at.mechanism.rules;
    const mostSigning = isOrdered ? 1 : SIGNS_AT_ONCE;
    if (this.isEnded || this.#signing >= mostSigning) return false;
    return this.openCount + this.#signing < maxOpen;
  }

  /** Could not pay the network fee a short while ago. */
  get isShort(): boolean {
    return this.#at.time.now() < this.#shortUntilMs;
  }

  landed(key: PaymentKey, ending: Ending): void {
    this.#desk.landed(key, ending);
  }

  withdrawn(key: PaymentKey, request: FacilitatorRequest): void {
    this.#desk.withdrawn(key, request);
  }

  failedOnChain(payer: string, hasCode: boolean): void {
    this.#desk.failedOnChain(payer, hasCode);
  }

  included(keys: readonly PaymentKey[]): void {
    this.#desk.included(keys);
  }

  leftBehind(gas: bigint, keys: readonly PaymentKey[]): void {
    this.#desk.leftBehind(gas, keys);
  }

  reverted(gas: bigint, keys: readonly PaymentKey[]): void {
    this.#desk.reverted(gas, keys);
  }

  isNext(accountNonce: number): boolean {
    return this.#watches.isNext(accountNonce);
  }

  /** Ends the sender when the lease turns out not to be ours any more. */
  async doubted(): Promise<void> {
    if (!(await this.#holdsLease())) this.#end();
  }

  raise(...asked: Parameters<Mechanism["raise"]>): ReturnType<Mechanism["raise"]> {
    return this.#at.mechanism.raise(...asked);
  }

  overtaken(): void {
    this.#isOvertaken = true;
  }

  /** Takes up what the ledger holds of this account and nobody here watches. Never rejects. */
  takeUp(): Promise<void> {
    return this.#watches.takeUp();
  }

  /** Takes up what is unfinished and looks again at what is not final. Never rejects. */
  round(): Promise<void> {
    return this.#watches.round();
  }

  /** Signs these in one transaction and sends it; whatever is not signed goes back. Never rejects. */
  sign(items: readonly SignablePayment[]): void {
    this.#signing += 1;
    const keys = items.map(({ key }) => key);
    const signing = inContext(contextOfPayments(keys), () => this.#signInSpan(items, keys))
      .catch((cause: unknown) => {
        const { logger } = this.#at.telemetry;
        logger.error({ err: cause, address: this.lease.address }, "a lane failed");
        this.#desk.doubtful(items);
      })
      .finally(() => {
        this.#signing -= 1;
        this.#running.delete(signing);
        this.#desk.changed();
      });
    this.#running.add(signing);
  }

  /** Signs and sends no more; resolves when nothing is at work any more. */
  async close(): Promise<void> {
    this.#end();
    await Promise.all(this.#running);
    await this.#watches.ended();
  }

  #end(): void {
    this.#ending.abort();
    this.#desk.changed();
  }

  #signInSpan(items: readonly SignablePayment[], keys: readonly string[]): Promise<void> {
    const { network } = this.lease;
    const attributes = { "coinslot.network": network, "coinslot.payments": keys.length };
    return inSpan("submit", { attributes, links: otherTraces(keys) }, () => this.#sign(items));
  }

  async #sign(items: readonly SignablePayment[]): Promise<void> {
    const prepared = await this.#prepare(items);
    if (prepared === undefined) return;
    const { draft, carried } = prepared;
    const { ledger, telemetry } = this.#at;
    const account = { ...this.lease, seed: this.#seed };
    const keys = carried.map(({ key }) => key);
    try {
      const draws = this.#drawsOf(carried);
      const stored = await ledger.signing.signed(
        keys,
        account,
        (nonce) => draft.sign(nonce),
        draws,
      );
      telemetry.metrics.submission(this.lease.network, carried.length);
      this.#tell(stored);
      this.#watches.follow(stored);
    } catch (cause) {
      await this.#notSigned(carried, cause);
    }
  }

  /** What is to leave the payers' purses, and what is known of them; undefined where the mechanism sees to them. */
  #drawsOf(items: readonly SignablePayment[]): Draws | undefined {
    const { purses } = this.#at.mechanism;
    if (purses === undefined) return undefined;
    return new Map(
      items.map(({ key, request, judged, held }) => {
        const { purse } = judged.inspected;
        if (purse === undefined) throw new TypeError("nothing is known of the payer's purse");
        const reading = held?.reading ?? { ...purse, seen: NOTHING };
        return [key, { amountAtomic: BigInt(amountOf(request)), reading }];
      }),
    );
  }

  #tell({ id: submission, network, variants, payments }: StoredSubmission): void {
    const transaction = variants.at(-1)?.transaction;
    const { logger } = this.#at.telemetry;
    for (const { key } of payments) {
      logger.info({ key, network, submission, transaction }, "payment signed");
    }
  }

  /** What to sign, or undefined where nothing is left of it. */
  async #prepare(
    items: readonly SignablePayment[],
  ): Promise<{ readonly draft: Draft; readonly carried: readonly SignablePayment[] } | undefined> {
    const { mechanism, judgement, time } = this.#at;
    const signal = AbortSignal.any([this.#ending.signal, time.timeout(PREPARE_TIMEOUT_MS)]);
    try {
      judgement.requireOpen();
      const wanted = this.#withoutSuspended(items);
      const payable = wanted.length === 1 ? await this.#freshen(wanted, signal) : wanted;
      if (payable.length === 0) return undefined;
      if (this.#isOvertaken) {
        this.#seed = await mechanism.accountNonce(this.lease.address, signal);
        this.#isOvertaken = false;
      }
      const payments = payable.map(({ judged }) => judged.inspected);
      const prepared = await mechanism.prepare(payments, this.lease.address, signal);
      this.#ending.signal.throwIfAborted();
      const { draft, leftOut, refused } = prepared;
      if (refused !== undefined) {
        for (const item of payable) this.#desk.refused(item, refused);
        return undefined;
      }
      const isOut = new Set(leftOut);
      for (const item of payable.filter((_, index) => isOut.has(index))) this.#desk.leftOut(item);
      const carried = payable.filter((_, index) => !isOut.has(index));
      return draft && carried.length > 0 ? { draft, carried } : undefined;
    } catch (cause) {
      this.#unprepared(items, cause);
      return undefined;
    }
  }

  /** Payers may have used up their failures since their payments were judged. */
  #withoutSuspended(items: readonly SignablePayment[]): readonly SignablePayment[] {
    const { judgement } = this.#at;
    return items.filter((item) => {
      const refusal = judgement.suspension(item.checked);
      if (refusal !== undefined) this.#desk.refused(item, refusal);
      return refusal === undefined;
    });
  }

  /** A lone payment is not simulated again when it is prepared: one that has waited is judged anew. */
  async #freshen(
    items: readonly SignablePayment[],
    signal: AbortSignal,
  ): Promise<readonly SignablePayment[]> {
    const [item] = items;
    const { judgement, time } = this.#at;
    if (item === undefined || judgement.isFresh(item.judged.atMs)) return items;
    const judged = await judgement.again(item.request, signal, LAST_RENEWAL);
    if (!judged.ok) this.#desk.refused(item, judged.error);
    else if (item.checked.runsCode || !judged.value.runsCode) {
      const inspected = judged.value;
      return [{ ...item, checked: inspected, judged: { inspected, atMs: time.now() } }];
    } else {
      // It has code by now, and has not waited for the place that it needs.
      this.#desk.leftOut(item);
    }
    return [];
  }

  /** Nothing was signed. */
  #unprepared(items: readonly SignablePayment[], cause: unknown): void {
    const { time, telemetry } = this.#at;
    const isShort = cause instanceof ChainError && cause.code === "CHAIN_GAS";
    if (isShort) {
      this.#shortUntilMs = time.now() + SHORT_MS;
      telemetry.logger.error({ err: cause }, "an account cannot pay the network fee");
      this.#desk.returned(items.map((item) => ({ ...item, shortage: cause })));
    } else if (this.isEnded) {
      this.#desk.returned(items);
    } else {
      for (const item of items) this.#desk.unsigned(item, cause);
    }
  }

  async #notSigned(items: readonly SignablePayment[], cause: unknown): Promise<void> {
    const { telemetry } = this.#at;
    const { network, address } = this.lease;
    if (cause instanceof LedgerUnavailable) {
      telemetry.logger.error({ err: cause, network, address }, "signed bytes may not be stored");
      this.#watches.fallBehind();
      this.#desk.doubtful(items);
    } else if (cause instanceof LedgerConflict) {
      telemetry.logger.warn({ err: cause, network, address }, "the ledger took no signature");
      await this.#conflicted(items);
    } else if (cause instanceof LedgerOverdraft) {
      const isOver = new Set(cause.keys);
      for (const item of items.filter(({ key }) => isOver.has(key))) this.#desk.overdrawn(item);
      // The others do not wait for a payer who has too little.
      const others = items.filter(({ key }) => !isOver.has(key));
      if (others.length > 0) await this.#sign(others);
    } else {
      for (const item of items) this.#desk.unsigned(item, cause);
    }
  }

  /**
   * The ledger stored nothing, unless an earlier attempt of its own had: in either case it stores no second
   * signature for the same payment, so what is signed again is signed once.
   */
  async #conflicted(items: readonly SignablePayment[]): Promise<void> {
    this.#watches.fallBehind();
    if (!(await this.#holdsLease())) {
      this.#end();
      this.#desk.returned(items);
    } else if (items.length > 1) {
      // One of them is not ours any more; the others do not go down with it.
      this.#desk.returned(items.map((item) => ({ ...item, isAlone: true })));
    } else {
      this.#desk.doubtful(items);
    }
  }

  /** False also when the ledger cannot say: then nothing more is signed until it can. */
  async #holdsLease(): Promise<boolean> {
    const { ledger } = this.#at;
    const { network, address, epoch } = this.lease;
    const held = await ledger.signing.lease(network, address).catch(() => undefined);
    return held?.epoch === epoch;
  }
}

const NOTHING: ReadonlySet<PaymentKey> = new Set();
