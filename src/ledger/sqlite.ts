/**
 * The ledger in one SQLite file, for one process at a time. Each transition is read, judged by the state
 * machine and written in one transaction, which concurrent operations share (`sqlite-batch.ts`); the file
 * is in WAL mode with `synchronous=FULL`, so that what a promise has acknowledged survives a power cut,
 * not only a crash.
 */
import type { Time } from "../time/time.ts";
import { samePayment, type PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest, PaymentPayload } from "../x402/x402.ts";
import type { Books } from "./books.ts";
import {
  LedgerConflict,
  MAX_STORED_BODY_BYTES,
  type BeginOutcome,
  type BrokenDelivery,
  type ClaimHolder,
  type ClaimOutcome,
  type ClaimTerms,
  type Failing,
  type Fingerprint,
  type HandedOver,
  type Lease,
  type Ledger,
  type OfferedPayment,
  type SaleTerms,
  type SettledPayment,
  type SettlementOutcome,
  type StoredResponse,
  type StoredSubmission,
  type StoredTransaction,
  type SubmissionState,
} from "./ledger.ts";
import * as machine from "./machine.ts";
import type { Moment, Step } from "./machine.ts";
import { present, readEach, requestOf, type PaymentRow } from "./payment-row.ts";
import { SqliteBatch } from "./sqlite-batch.ts";
import { SqliteBooks } from "./sqlite-books.ts";
import { SqliteDatabase } from "./sqlite-database.ts";
import { lockLedger } from "./sqlite-lock.ts";
import { findTerms, storeTerms } from "./sqlite-route-terms.ts";
import { SqliteRows } from "./sqlite-rows.ts";
import { migrate } from "./sqlite-schema.ts";
import { SqliteSubmissions } from "./sqlite-submissions.ts";
import { firstSubmission, requireSignedFor } from "./submission-row.ts";
import { Waiters } from "./waiters.ts";

export interface SqliteLedgerOptions {
  /** A file, made with its folder where missing, or `:memory:` for a ledger that dies with us. */
  readonly path: string;
  readonly time: Time;
  /** Unique to this life of the process: rows of another were left behind by a crash. */
  readonly life: string;
  /**
   * Opens the file without locking others out, and so without knowing which lives are over: nothing is
   * reaped, an account's lease goes to whoever asked last, and nobody hears of another's transitions.
   */
  readonly shared?: boolean;
  /** Hears of each row that had to be left out, by payment key or submission. */
  readonly onUnreadable?: (name: string, reason: string) => void;
}

/** Waits for a row or an offer that this process holds at most; further ones are pauses. */
const MAX_WAITERS = 10_000;
const PAUSE_MS = 250;
/** Left-over rows that one transaction frees at most. */
const REAPED_TOGETHER = 200;

/** The name that waits for offers have among those for keys. */
const OFFERS = "offers";

/**
 * Opens the ledger, locks it for as long as it is open, brings its schema up to date, and frees what an
 * earlier life left behind. Rejects with {@link LedgerUnavailable}, also where another process has the
 * file open.
 */
export async function openSqliteLedger(options: SqliteLedgerOptions): Promise<Ledger> {
  const database = new SqliteDatabase(options.path);
  let lock: SqliteDatabase | undefined;
  try {
    if (options.shared !== true) lock = lockLedger(database);
    database.exec(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY",
    );
    migrate(database);
    const ledger = new SqliteLedger(database, lock, options);
    await ledger.reap();
    return ledger;
  } catch (error) {
    database.close();
    lock?.close();
    throw error;
  }
}

class SqliteLedger implements Ledger {
  readonly books: Books;
  readonly #options: SqliteLedgerOptions;
  readonly #database: SqliteDatabase;
  readonly #lock: SqliteDatabase | undefined;
  readonly #rows: SqliteRows;
  readonly #submissions: SqliteSubmissions;
  readonly #batch: SqliteBatch;
  readonly #waiters = new Waiters(MAX_WAITERS);
  /** What the transaction that runs now has changed. */
  readonly #touched = new Set<string>();
  /** Whether something was offered since the last wait for that ended. */
  #isOffered = false;

  constructor(
    database: SqliteDatabase,
    lock: SqliteDatabase | undefined,
    options: SqliteLedgerOptions,
  ) {
    this.#options = options;
    this.#database = database;
    this.#lock = lock;
    this.books = new SqliteBooks(database);
    this.#rows = new SqliteRows(database);
    this.#submissions = new SqliteSubmissions(database, this.#rows, options.life);
    this.#batch = new SqliteBatch(database, () => this.#wake());
  }

  async claim(key: PaymentKey, terms: ClaimTerms): Promise<ClaimOutcome> {
    return this.#step(key, (row, moment) => machine.claim(row, terms, moment));
  }

  async recall(payment: PaymentPayload): Promise<FacilitatorRequest | undefined> {
    const used = this.#rows.recall(payment);
    return used.find(({ paymentPayload }) => samePayment(paymentPayload, payment));
  }

  async changed(key: PaymentKey, version: number, signal: AbortSignal): Promise<void> {
    try {
      if (this.#rows.version(key) !== version) return;
    } catch {
      return;
    }
    await this.#wait(key, signal);
  }

  async handedOver(key: PaymentKey, facilitator: string): Promise<void> {
    return this.#step(key, (row, moment) => machine.handOver(row, facilitator, moment));
  }

  async settled(key: PaymentKey, settlement: SettledPayment): Promise<void> {
    return this.#step(key, (row) => machine.settle(row, settlement));
  }

  async failed(key: PaymentKey, failure: Failing): Promise<void> {
    return this.#step(key, (row) => machine.fail(row, failure));
  }

  async released(key: PaymentKey): Promise<void> {
    return this.#step(key, machine.release);
  }

  async delivering(key: PaymentKey, sale?: SaleTerms): Promise<boolean> {
    return this.#step(key, (row, moment) => machine.deliver(row, sale ?? null, moment));
  }

  async delivered(
    key: PaymentKey,
    sold?: Fingerprint & { readonly response: StoredResponse },
  ): Promise<void> {
    const kept = sold && sold.response.body.byteLength <= MAX_STORED_BODY_BYTES ? sold : null;
    return this.#batch.write(() => {
      const { next } = this.#take(key, (row, moment) => machine.delivered(row, kept, moment));
      if (kept === null || !next) return;
      this.#rows.keep(key, kept.response, present(next.replayUntilMs, "replayUntilMs"));
    });
  }

  async undelivered(key: PaymentKey, broken: BrokenDelivery): Promise<void> {
    return this.#step(key, (row, moment) => machine.undelivered(row, broken, moment));
  }

  async replay(key: PaymentKey, asked: Fingerprint): Promise<StoredResponse | undefined> {
    return this.#batch.write(() => {
      const response = this.#rows.kept(key);
      if (response === undefined) return undefined;
      const { outcome } = this.#take(key, (row, moment) => machine.replay(row, asked, moment));
      return outcome ? response : undefined;
    });
  }

  async handedOvers(limit: number): Promise<readonly HandedOver[]> {
    const where = "WHERE state = 'SIGNED' AND submission IS NULL AND facilitator IS NOT NULL";
    return this.#readable(`${where} ORDER BY updated_ms, rowid`, { limit }, handedOverOf);
  }

  async begin(
    key: PaymentKey,
    request: FacilitatorRequest,
    caller: string | ClaimHolder | undefined,
  ): Promise<BeginOutcome> {
    return this.#step(key, (row, moment) => machine.begin(row, request, caller, moment));
  }

  async outcome(key: PaymentKey): Promise<SettlementOutcome> {
    return machine.outcome(this.#rows.read(key));
  }

  async lease(network: string, address: string): Promise<Lease | undefined> {
    return this.#batch.write(() => this.#submissions.lease(network, address));
  }

  async unlease(lease: Lease): Promise<void> {
    return this.#batch.write(() => this.#submissions.unlease(lease));
  }

  async signed(
    keys: readonly PaymentKey[],
    account: Lease & { readonly seed: number },
    sign: (accountNonce: number) => StoredTransaction,
  ): Promise<StoredSubmission> {
    return this.#batch.write(() => {
      this.#submissions.requireLease(account);
      // Judged before anything is signed, and once more with the submission that they are in.
      for (const key of keys) this.#requireSignable(key, account.network);
      const nonce = this.#submissions.allocate(account);
      const variant = sign(nonce);
      requireSignedFor(variant, account.address, nonce);
      const submission = firstSubmission(account.network, variant, this.#options.time.now());
      this.#submissions.insert(submission);
      const payments = keys.map((key) => {
        const { next } = this.#take(key, (row, moment) => machine.sign(row, submission.id, moment));
        if (!next) throw new TypeError("a signed payment has a row");
        const { state, settledTransaction } = next;
        return { key, request: requestOf(next), state, settledTransaction };
      });
      return { ...submission, payments };
    });
  }

  async replaced(lease: Lease, submission: string, variant: StoredTransaction): Promise<void> {
    return this.#batch.write(() => {
      this.#submissions.requireLease(lease);
      this.#submissions.replace(lease, submission, variant, this.#options.time.now());
    });
  }

  async concluded(submission: string, state: SubmissionState): Promise<void> {
    return this.#batch.write(() => this.#submissions.conclude(submission, state));
  }

  async withdrawn(key: PaymentKey, submission?: string): Promise<void> {
    return this.#step(key, (row, moment) => machine.withdraw(row, moment, submission));
  }

  async abandoned(key: PaymentKey): Promise<void> {
    return this.#step(key, machine.abandon);
  }

  async offer(key: PaymentKey): Promise<boolean> {
    return this.#batch.write(() => {
      const { outcome } = this.#take(key, machine.offer);
      if (outcome) this.#touched.add(OFFERS);
      return outcome;
    });
  }

  async takeOffered(network: string, limit: number): Promise<readonly OfferedPayment[]> {
    return this.#batch.write(() => {
      const where = "WHERE offered = 1 AND network = :network ORDER BY updated_ms, rowid";
      const offered = this.#readable(where, { network, limit }, offeredOf);
      return offered.filter(({ key }) => this.#take(key, machine.takeOffered).outcome);
    });
  }

  async offered(signal: AbortSignal): Promise<void> {
    if (!this.#isOffered) await this.#wait(OFFERS, signal);
    if (!signal.aborted) this.#isOffered = false;
  }

  async unfinished(network: string, address: string): Promise<readonly StoredSubmission[]> {
    return this.#submissions.unfinished(network, address, this.#onUnreadable);
  }

  async nextAccountNonce(network: string, address: string): Promise<number | undefined> {
    return this.#submissions.nextNonce(network, address);
  }

  async termsChangedAt(route: string, hash: string, now: number): Promise<number> {
    const known = findTerms(this.#database, route, hash);
    return known ?? this.#batch.write(() => storeTerms(this.#database, { route, hash, now }));
  }

  async reap(): Promise<number> {
    const { life, shared, time } = this.#options;
    await this.#batch.write(() => this.#rows.forgetAnswers(time.now()));
    if (shared === true) return 0;
    const left = this.#database.all(
      `SELECT payment_key AS "key" FROM payments WHERE state = 'CLAIMED' AND claimed_by <> :life
       UNION ALL
       SELECT payment_key FROM payments WHERE state = 'DELIVERING' AND claimed_by <> :life`,
      { life },
    );
    let freed = 0;
    for (let first = 0; first < left.length; first += REAPED_TOGETHER) {
      const keys = left.slice(first, first + REAPED_TOGETHER).map(({ key }) => String(key));
      freed += await this.#batch.write(() => keys.filter((key) => this.#reap(key)).length);
    }
    return freed;
  }

  async ping(): Promise<void> {
    return this.#batch.write(() => {
      this.#database.run(
        `INSERT INTO heartbeat (id, at_ms) VALUES (1, :now)
         ON CONFLICT (id) DO UPDATE SET at_ms = :now`,
        { now: this.#options.time.now() },
      );
    });
  }

  async close(): Promise<void> {
    this.#batch.flush();
    this.#database.close();
    this.#lock?.close();
    this.#waiters.wakeAll();
  }

  /** One transition of one payment. */
  async #step<Outcome>(key: PaymentKey, judge: Judge<Outcome>): Promise<Outcome> {
    return this.#batch.write(() => this.#take(key, judge).outcome);
  }

  /** The same within a transaction that does more. */
  #take<Outcome>(key: string, judge: Judge<Outcome>): Step<Outcome> {
    const moment = { life: this.#options.life, nowMs: this.#options.time.now() };
    const before = this.#rows.read(key);
    const step = judge(before, moment);
    this.#rows.write({ key, before, step, moment });
    if (step.next !== undefined) this.#touched.add(key);
    return step;
  }

  #requireSignable(key: PaymentKey, network: string): void {
    const row = this.#rows.read(key);
    machine.sign(row, "", { life: this.#options.life, nowMs: this.#options.time.now() });
    if (row?.network === network) return;
    throw new LedgerConflict(`a payment on ${row?.network} cannot be signed for ${network}`);
  }

  /** False also where another call was first. */
  #reap(key: string): boolean {
    return this.#take(key, (row) =>
      row?.claimedBy === this.#options.life ? { outcome: false } : machine.reap(row),
    ).outcome;
  }

  /** At most so many rows that can be read; the others are told about and do not count. */
  #readable<Value>(
    rest: string,
    values: { readonly limit: number; readonly network?: string },
    read: (row: PaymentRow, key: string, columns: AnyColumns) => Value,
  ): readonly Value[] {
    const found: Value[] = [];
    for (let offset = 0; found.length < values.limit; offset += values.limit) {
      const rows = this.#rows.select(`${rest} LIMIT :limit OFFSET :offset`, { ...values, offset });
      found.push(...readEach(rows, read, this.#onUnreadable));
      if (rows.length < values.limit) break;
    }
    return found.slice(0, values.limit);
  }

  async #wait(name: string, signal: AbortSignal): Promise<void> {
    if (!this.#waiters.isFull) return this.#waiters.wait(name, signal);
    return this.#options.time.sleep(PAUSE_MS, signal);
  }

  #wake(): void {
    if (this.#touched.has(OFFERS)) this.#isOffered = true;
    for (const name of this.#touched) this.#waiters.wake(name);
    this.#touched.clear();
  }

  readonly #onUnreadable = (name: string, reason: string): void => {
    this.#options.onUnreadable?.(name, reason);
  };
}

type AnyColumns = Readonly<Record<string, unknown>>;

type Judge<Outcome> = (row: PaymentRow | undefined, moment: Moment) => Step<Outcome>;

function handedOverOf(row: PaymentRow, key: string, { updatedMs }: AnyColumns): HandedOver {
  const request = requestOf(row);
  const idempotencyKey = present(row.idempotencyKey, "idempotencyKey");
  const facilitator = present(row.facilitator, "facilitator");
  const sinceMs = Number(updatedMs);
  return { key: key as PaymentKey, request, idempotencyKey, facilitator, sinceMs };
}

function offeredOf(row: PaymentRow, key: string): OfferedPayment {
  return { key: key as PaymentKey, request: requestOf(row) };
}
