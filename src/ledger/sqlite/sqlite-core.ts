/** What all who work on one opened SQLite ledger share: rows, the batch that stores them, and who waits. */
import { systemTimers, type Time, type Timers } from "../../time/time.ts";
import { payerOf, type PaymentKey } from "../../x402/payment-key.ts";
import type { FacilitatorRequest, PaymentPayload } from "../../x402/x402.ts";
import {
  actorOf,
  isFirstUse,
  LedgerUnavailable,
  UNDOABLE,
  type ClaimTerms,
  type OutcomeOf,
  type OwedPayment,
  type StoredResponse,
  type TransitionKind,
  type TransitionOf,
} from "../ledger.ts";
import * as machine from "../machine.ts";
import type { Moment, Step } from "../machine.ts";
import { isOwed } from "../payment-judgement.ts";
import { readEach, requestOf, type PaymentRow } from "../payment-row.ts";
import { potToPour } from "../pouring.ts";
import type { PotRow } from "../pots.ts";
import { dayStart } from "../refunds.ts";
import { PaymentsInHand, type Change } from "./payments-in-hand.ts";
import { SqliteBatch } from "./sqlite-batch.ts";
import { forgetBudgets } from "./sqlite-budgets.ts";
import type { SqliteDatabase, Values } from "./sqlite-database.ts";
import { SqliteOutbox, type SqliteOutboxOptions } from "./sqlite-outbox.ts";
import { potOf, pour, tidyPots } from "./sqlite-pot-rows.ts";
import { SqliteRows } from "./sqlite-rows.ts";
import type { Tombstone } from "../tombstone.ts";
import type { UsedElsewhere } from "../used-elsewhere.ts";
import { Waiters } from "../waiters.ts";

/** Waits for a row or an offer that this process holds at most; further ones are pauses. */
const MAX_WAITERS = 10_000;
const PAUSE_MS = 250;

/**
 * How long a step that a crash may undo waits to be stored, milliseconds, unless its payment's next step
 * comes before; and how many payments wait so at most.
 */
const SOON_MS = 250;
const LOOK_MS = SOON_MS / 2;
const MAX_SOON = 1024;
/** Answers up to here may wait to be stored, bytes. */
const MAX_SOON_BODY_BYTES = 8 * 1024;
/** Pause before it is told again that something cannot be stored, milliseconds. */
const TOLD_MS = 10_000;

/** The name that waits for offers have among those for keys. */
const OFFERS = "offers";

export interface SqliteCoreOptions {
  readonly database: SqliteDatabase;
  readonly time: Time;
  /** Default: those of the machine. */
  readonly timers?: Timers | undefined;
  /** Pause between two COMMITs in a row, milliseconds; undefined: what suits a disk. */
  readonly spaceMs: number | undefined;
  /** Hears of each step as everybody sees it, in order, before anybody is answered. */
  readonly onStep?: OnStep | undefined;
  /** Hears of each row that had to be left out. */
  readonly onUnreadable: (name: string, reason: string) => void;
  /** Hears that what was answered is not stored yet, and will be tried again. */
  readonly onUnstored: (cause: unknown) => void;
}

type AnyColumns = Readonly<Record<string, unknown>>;

export type Judge<Outcome> = (row: PaymentRow | undefined, moment: Moment) => Step<Outcome>;

export type OnStep = (key: PaymentKey, step: Step<unknown>, moment: Moment) => void;

export class SqliteCore {
  readonly time: Time;
  readonly onUnreadable: SqliteCoreOptions["onUnreadable"];
  readonly outbox: SqliteOutbox;
  readonly #database: SqliteDatabase;
  readonly #timers: Timers;
  readonly #rows: SqliteRows;
  readonly #hand: PaymentsInHand;
  readonly #batch: SqliteBatch;
  readonly #onUnstored: SqliteCoreOptions["onUnstored"];
  readonly #waiters = new Waiters(MAX_WAITERS);
  /** What has changed and was told to nobody yet. */
  readonly #touched = new Set<string>();
  readonly #onStep: OnStep | undefined;
  /** What it has not heard of yet. */
  #steps: Change[] = [];
  /** Whether something was offered since the last wait for that ended. */
  #isOffered = false;
  #isStoringSoon = false;
  #tellFromMs = 0;
  /** The last transaction could not be stored. */
  #isUnwell = false;

  constructor(options: SqliteCoreOptions) {
    const { database, time, timers = systemTimers, spaceMs, onUnreadable, onUnstored } = options;
    this.onUnreadable = onUnreadable;
    this.#onUnstored = onUnstored;
    this.#onStep = options.onStep;
    this.time = time;
    this.#database = database;
    this.#timers = timers;
    const write: SqliteOutboxOptions["write"] = (step) => this.write(step);
    this.outbox = new SqliteOutbox({ database, time, write });
    this.#rows = new SqliteRows(database, this.outbox);
    this.#hand = new PaymentsInHand(this.#rows, timers);
    const events = {
      onCommitted: () => {
        this.#isUnwell = false;
        this.#hand.committed();
        this.#wake();
      },
      onTakenBack: (isFault: boolean) => {
        if (isFault) this.#isUnwell = true;
        this.#hand.takeBack(0);
        this.#touched.clear();
        this.#steps = [];
      },
    };
    this.#batch = new SqliteBatch(database, events, {
      timers,
      ...(spaceMs === undefined ? {} : { spaceMs }),
    });
  }

  /**
   * One transition of one payment, by one life. One that a crash may undo is seen by everybody at once, and stored
   * with the next step of its payment, or when {@link SOON_MS} are over. While nothing can be stored it rejects like
   * any other.
   */
  async step<Kind extends TransitionKind>(
    key: string,
    life: string,
    transition: TransitionOf<Kind>,
  ): Promise<OutcomeOf<Kind>> {
    const judge: Judge<OutcomeOf<Kind>> = (row, moment) => {
      const isBuried = row === undefined && isFirstUse(transition.kind);
      const buried = isBuried ? this.#rows.tombstone(key) : undefined;
      const named = this.named(machine.identifierOf(transition));
      const counted =
        row !== undefined && machine.isCounted(transition)
          ? this.#rows.refundedSince(dayStart(moment.nowMs), key, row)
          : undefined;
      const pot = this.potOf(potToPour(row, transition));
      return machine.apply(row, transition, moment, { buried, named, counted, pot });
    };
    const by = actorOf(transition, life);
    if (!UNDOABLE.has(transition.kind)) return this.write(() => this.take(key, by, judge).outcome);
    const change = this.#judge(key, by, judge);
    const { step } = change;
    if (step.next === undefined) return step.outcome;
    const isStoredNow = step.next === null && !this.#hand.isOnlyHere(key);
    // Whoever asks next is told to pay anew; and what its identifier names next could be stored before it.
    const isFailed = step.next?.state === "FAILED";
    const isLarge = (step.answer?.response.body.byteLength ?? 0) > MAX_SOON_BODY_BYTES;
    if (isStoredNow || isFailed || isLarge || this.#isUnwell || this.#hand.unstored >= MAX_SOON) {
      return this.write(() => this.take(key, by, judge).outcome);
    }
    this.#hand.apply(change);
    this.#hand.committed();
    this.#touch(change);
    this.#wake();
    this.#storeSoon();
    return step.outcome;
  }

  /** A judgement of one payment within a transaction that does more. */
  take<Outcome>(key: string, life: string, judge: Judge<Outcome>): Step<Outcome> {
    const change = this.#judge(key, life, judge);
    this.#hand.apply(change);
    this.#hand.store(key);
    const { next, pours } = change.step;
    const { nowMs } = change.moment;
    if (next && pours !== undefined) pour(this.#database, { row: next, pours, nowMs });
    this.#touch(change);
    return change.step;
  }

  /** As it is with all that was settled, within a transaction. */
  potOf(name: string | undefined): PotRow | undefined {
    if (name === undefined) return undefined;
    this.storeNow();
    return potOf(this.#database, name);
  }

  /** Several writes in one transaction; see {@link SqliteBatch.write}. */
  write<Value>(step: () => Value): Promise<Value> {
    return this.#batch.write(() => this.#orTakeBack(step));
  }

  /** The same, in no hurry; see {@link SqliteBatch.writeLater}. */
  writeLater<Value>(step: () => Value): Promise<Value> {
    return this.#batch.writeLater(() => this.#orTakeBack(step));
  }

  read(key: string): PaymentRow | undefined {
    return this.#hand.read(key);
  }

  /** The payment that has that identifier. */
  named(identifier: string | undefined): PaymentRow | undefined {
    return identifier === undefined ? undefined : this.#hand.named(identifier);
  }

  recall(payment: PaymentPayload): readonly FacilitatorRequest[] {
    return this.#hand.recall(payment);
  }

  /** What the payer is owed for such a sale, beside that payment. */
  owed(
    payment: PaymentPayload,
    sale: Pick<ClaimTerms, "binding" | "target">,
  ): readonly OwedPayment[] {
    const nowMs = this.time.now();
    const keys = this.#hand.owed({
      ...sale,
      payer: payerOf(payment),
      network: payment.network,
      nowMs,
    });
    return keys.flatMap((key) => {
      const row = this.#hand.read(key);
      if (row === undefined || !isOwed(row, payment, sale, nowMs)) return [];
      // The column holds nothing but keys.
      return [{ key: key as PaymentKey, request: requestOf(row) }];
    });
  }

  /** What is left of a payment that has no row. */
  tombstone(key: string): Tombstone | undefined {
    return this.#rows.tombstone(key);
  }

  /** Looks before it writes: whoever presents such payments again and again costs no wait for the disk. */
  async noteUsedElsewhere(payment: UsedElsewhere): Promise<void> {
    if (!this.#rows.hasRoomFor(payment)) return;
    await this.writeLater(() => {
      if (this.#rows.hasRoomFor(payment)) this.#rows.noteUsedElsewhere(payment);
    });
  }

  /**
   * Deletes the row of a payment that is still of that version, and leaves a tombstone in its place where that
   * is asked for, within a transaction. False where it has changed.
   */
  remove(key: string, life: string, version: number, isBuried: boolean): boolean {
    const judge: Judge<PaymentRow | undefined> = (row) =>
      row?.version === version ? { outcome: row, next: null } : { outcome: undefined };
    const { outcome: row } = this.take(key, life, judge);
    if (row !== undefined && isBuried) this.#rows.bury(key, row);
    return row !== undefined;
  }

  answer(key: string): StoredResponse | undefined {
    return this.#hand.answer(key);
  }

  /** Kept answers whose time is over, and what was counted in hours that are. */
  forgetOld(): Promise<void> {
    return this.write(() => {
      this.#rows.forgetAnswers(this.time.now());
      forgetBudgets(this.#database, this.time.now());
      tidyPots(this.#database, this.time.now());
    });
  }

  /** Rows with their `key`, as they are by now; `rest` is the SQL after the table. */
  select(rest: string, values: Values): readonly AnyColumns[] {
    this.storeNow();
    return this.#rows.select(rest, values);
  }

  /** What everybody sees is in the database when this returns, unless it cannot be stored. */
  storeNow(): void {
    if (this.#hand.unstored === 0) return;
    if (this.#database.isInTransaction) return this.#storeEach(this.#hand.waiting());
    this.write(() => this.#storeEach(this.#hand.waiting())).catch((cause) => this.#tell(cause));
    this.#batch.flush();
  }

  /** The payments of a submission, within a transaction. Throws where one of them cannot be stored. */
  storeSubmission(submission: string): void {
    for (const key of this.#hand.waitingOf(submission)) this.#hand.store(key);
  }

  /** One payment, within a transaction, as it is by now. */
  storePayment(key: string): void {
    this.#hand.store(key);
  }

  /** Stores what waits. */
  close(): void {
    this.storeNow();
    this.#batch.flush();
    this.#database.close();
    this.#waiters.wakeAll();
  }

  /** At most so many rows that can be read; the others are told about and do not count. */
  readable<Value>(
    rest: string,
    values: { readonly limit: number; readonly network?: string; readonly now?: number },
    read: (row: PaymentRow, key: string, columns: AnyColumns) => Value,
  ): readonly Value[] {
    const found: Value[] = [];
    for (let offset = 0; found.length < values.limit; offset += values.limit) {
      const rows = this.select(`${rest} LIMIT :limit OFFSET :offset`, { ...values, offset });
      found.push(...readEach(rows, read, this.onUnreadable));
      if (rows.length < values.limit) break;
    }
    return found.slice(0, values.limit);
  }

  /** Resolves when something may have been offered, or when the signal ends. Never rejects. */
  async offered(signal: AbortSignal): Promise<void> {
    if (!this.#isOffered) await this.wait(OFFERS, signal);
    if (!signal.aborted) this.#isOffered = false;
  }

  /** Resolves when the payment may have changed, or when the signal ends. Never rejects. */
  async wait(key: string, signal: AbortSignal): Promise<void> {
    if (!this.#database.isOpen) return;
    if (!this.#waiters.isFull) return this.#waiters.wait(key, signal);
    return this.time.sleep(PAUSE_MS, signal);
  }

  #touch(change: Change): void {
    const { next } = change.step;
    if (next === undefined) return;
    if (this.#onStep !== undefined) this.#steps.push(change);
    this.#touched.add(change.key);
    if (next?.offered === true) this.#touched.add(OFFERS);
  }

  #wake(): void {
    // The column holds nothing but keys.
    for (const { key, step, moment } of this.#steps)
      this.#onStep?.(key as PaymentKey, step, moment);
    this.#steps = [];
    if (this.#touched.has(OFFERS)) this.#isOffered = true;
    for (const name of this.#touched) this.#waiters.wake(name);
    this.#touched.clear();
  }

  #judge<Outcome>(
    key: string,
    life: string,
    judge: Judge<Outcome>,
  ): Change & { readonly step: Step<Outcome> } {
    if (!this.#database.isOpen) throw new LedgerUnavailable("the ledger is closed");
    const moment = { life, nowMs: this.time.now() };
    const before = this.#hand.read(key);
    return { key, before, step: judge(before, moment), moment };
  }

  #orTakeBack<Value>(step: () => Value): Value {
    const mark = this.#hand.mark();
    const steps = this.#steps.length;
    try {
      return step();
    } catch (error) {
      this.#hand.takeBack(mark);
      this.#steps.length = steps;
      throw error;
    }
  }

  /** Within a transaction; one that cannot be stored does not keep the others from it. */
  #storeEach(keys: readonly string[]): void {
    if (keys.length < 2 || !this.#storeTogether(keys)) this.#storeApart(keys);
  }

  /** False: one of them cannot be stored, and none is. */
  #storeTogether(keys: readonly string[]): boolean {
    const mark = this.#hand.mark();
    this.#database.run("SAVEPOINT payments", []);
    try {
      for (const key of keys) this.#hand.store(key);
      return true;
    } catch (cause) {
      this.#hand.takeBack(mark);
      if (!this.#database.isInTransaction) throw cause;
      this.#database.run("ROLLBACK TO payments", []);
      return false;
    } finally {
      if (this.#database.isInTransaction) this.#database.run("RELEASE payments", []);
    }
  }

  #storeApart(keys: readonly string[]): void {
    for (const key of keys) {
      const mark = this.#hand.mark();
      this.#database.run("SAVEPOINT payment", []);
      try {
        this.#hand.store(key);
      } catch (cause) {
        this.#hand.takeBack(mark);
        if (!this.#database.isInTransaction) throw cause;
        this.#database.run("ROLLBACK TO payment", []);
        this.#tell(cause);
      }
      this.#database.run("RELEASE payment", []);
    }
  }

  /** Not at each try. */
  #tell(cause: unknown): void {
    const nowMs = this.#timers.elapsed();
    if (nowMs < this.#tellFromMs) return;
    this.#tellFromMs = nowMs + TOLD_MS;
    this.#onUnstored(cause);
  }

  #storeSoon(): void {
    if (this.#isStoringSoon || this.#hand.unstored === 0) return;
    this.#isStoringSoon = true;
    this.#timers.after(LOOK_MS, () => void this.#storeOld());
  }

  async #storeOld(): Promise<void> {
    try {
      // What is younger is not too old at the next look.
      const sinceMs = this.#timers.elapsed() - LOOK_MS;
      await this.write(() => this.#storeEach(this.#hand.waiting(sinceMs)));
    } catch (cause) {
      if (this.#database.isOpen) this.#tell(cause);
    }
    this.#isStoringSoon = false;
    if (this.#database.isOpen) this.#storeSoon();
  }
}
