/** What all who work on one opened SQLite ledger share: rows, the batch that stores them, and who waits. */
import type { Time } from "../time/time.ts";
import type { LedgerUnavailable } from "./ledger.ts";
import type { Moment, Step } from "./machine.ts";
import { readEach, type PaymentRow } from "./payment-row.ts";
import { SqliteBatch } from "./sqlite-batch.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import { SqliteRows } from "./sqlite-rows.ts";
import { Waiters } from "./waiters.ts";

/** Waits for a row or an offer that this process holds at most; further ones are pauses. */
const MAX_WAITERS = 10_000;
const PAUSE_MS = 250;

/** The name that waits for offers have among those for keys. */
const OFFERS = "offers";

export interface SqliteCoreOptions {
  readonly database: SqliteDatabase;
  readonly time: Time;
  /** Pause between two COMMITs in a row, milliseconds; undefined: what suits a disk. */
  readonly spaceMs: number | undefined;
  /** Hears of each row that had to be left out. */
  readonly onUnreadable: (name: string, reason: string) => void;
  /** Hears that what was answered could not be stored: see {@link SqliteBatch.writeSoon}. */
  readonly onLost: (error: LedgerUnavailable) => void;
}

type AnyColumns = Readonly<Record<string, unknown>>;

export type Judge<Outcome> = (row: PaymentRow | undefined, moment: Moment) => Step<Outcome>;

export class SqliteCore {
  readonly rows: SqliteRows;
  readonly batch: SqliteBatch;
  readonly time: Time;
  readonly onUnreadable: SqliteCoreOptions["onUnreadable"];
  readonly #waiters = new Waiters(MAX_WAITERS);
  /** What the transaction that runs now has changed. */
  readonly #touched = new Set<string>();
  /** Whether something was offered since the last wait for that ended. */
  #isOffered = false;

  constructor(options: SqliteCoreOptions) {
    const { database, time, spaceMs, onUnreadable, onLost } = options;
    this.onUnreadable = onUnreadable;
    this.time = time;
    this.rows = new SqliteRows(database);
    const onWritten = (): void => this.#wake();
    const onTakenBack = (): void => this.rows.forgetRecent();
    const pace = spaceMs === undefined ? {} : { spaceMs };
    this.batch = new SqliteBatch(database, { onWritten, onTakenBack, onLost }, pace);
  }

  /** One transition of one payment, by one life. */
  async step<Outcome>(key: string, life: string, judge: Judge<Outcome>): Promise<Outcome> {
    return this.batch.write(() => this.take(key, life, judge).outcome);
  }

  /** The same where its loss would lose nothing: others see it, and it is stored with what comes next. */
  async stepSoon<Outcome>(key: string, life: string, judge: Judge<Outcome>): Promise<Outcome> {
    return this.batch.writeSoon(() => this.take(key, life, judge).outcome);
  }

  /** {@link step} within a transaction that does more. */
  take<Outcome>(key: string, life: string, judge: Judge<Outcome>): Step<Outcome> {
    const moment = { life, nowMs: this.time.now() };
    const before = this.rows.read(key);
    const step = judge(before, moment);
    this.rows.write({ key, before, step, moment });
    if (step.next !== undefined) this.#touched.add(key);
    return step;
  }

  /** At most so many rows that can be read; the others are told about and do not count. */
  readable<Value>(
    rest: string,
    values: { readonly limit: number; readonly network?: string },
    read: (row: PaymentRow, key: string, columns: AnyColumns) => Value,
  ): readonly Value[] {
    const found: Value[] = [];
    for (let offset = 0; found.length < values.limit; offset += values.limit) {
      const rows = this.rows.select(`${rest} LIMIT :limit OFFSET :offset`, { ...values, offset });
      found.push(...readEach(rows, read, this.onUnreadable));
      if (rows.length < values.limit) break;
    }
    return found.slice(0, values.limit);
  }

  /** Something is offered in the transaction that runs now. */
  offers(): void {
    this.#touched.add(OFFERS);
  }

  /** Resolves when something may have been offered, or when the signal ends. Never rejects. */
  async offered(signal: AbortSignal): Promise<void> {
    if (!this.#isOffered) await this.wait(OFFERS, signal);
    if (!signal.aborted) this.#isOffered = false;
  }

  /** Resolves when the payment may have changed, or when the signal ends. Never rejects. */
  async wait(key: string, signal: AbortSignal): Promise<void> {
    if (!this.#waiters.isFull) return this.#waiters.wait(key, signal);
    return this.time.sleep(PAUSE_MS, signal);
  }

  wakeAll(): void {
    this.#waiters.wakeAll();
  }

  #wake(): void {
    if (this.#touched.has(OFFERS)) this.#isOffered = true;
    for (const name of this.#touched) this.#waiters.wake(name);
    this.#touched.clear();
  }
}
