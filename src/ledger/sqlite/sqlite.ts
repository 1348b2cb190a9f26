/**
 * The ledger in one SQLite file, for one process at a time. Each transition is read, judged by the state
 * machine and written in one transaction, which concurrent operations share (`sqlite-batch.ts`); the file
 * is in WAL mode with `synchronous=FULL`, so that what a promise has acknowledged survives a power cut,
 * not only a crash.
 */
import type { Time, Timers } from "../../time/time.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import type { Books } from "../books.ts";
import type { Budgets } from "../budgets.ts";
import {
  LedgerConflict,
  type Lease,
  type Ledger,
  type OfferedPayment,
  type SettlementOutcome,
  type StoredSubmission,
  type StoredTransaction,
  type SubmissionCost,
  type SubmissionState,
} from "../ledger.ts";
import { lifeWithin } from "../life.ts";
import * as machine from "../machine.ts";
import type { Step } from "../machine.ts";
import { isPublic } from "../payment-judgement.ts";
import { requestOf, type PaymentRow } from "../payment-row.ts";
import {
  earliestUnseen,
  LedgerOverdraft,
  overdrawn,
  type Purse,
  type Draws,
  type Spend,
} from "../purse.ts";
import type { KeptCertificates } from "../certificates.ts";
import type { Pauses } from "../pauses.ts";
import { UNWATCHED_MS, type OpenRefund, type OpenRefundState } from "../refund-steps.ts";
import { openRefundOf } from "../refunds.ts";
import type { SoldOffers } from "../sold-offers.ts";
import { SqliteBooks } from "./sqlite-books.ts";
import { countedIn, reserve } from "./sqlite-budgets.ts";
import { SqliteCertificates } from "./sqlite-certificates.ts";
import { SqliteCore, type Judge, type OnStep } from "./sqlite-core.ts";
import { DURABLE, SqliteDatabase } from "./sqlite-database.ts";
import { lockLedger } from "./sqlite-lock.ts";
import { reapOthers, SqliteWorkerLife } from "./sqlite-reaping.ts";
import type { SqliteOutbox } from "./sqlite-outbox.ts";
import { SqlitePauses } from "./sqlite-pauses.ts";
import { SqliteRedemptions } from "./sqlite-redemptions.ts";
import { SqliteResolutions } from "./sqlite-resolutions.ts";
import { findTerms, storeTerms } from "./sqlite-route-terms.ts";
import { boundSpends, readSpends } from "./sqlite-purses.ts";
import { migrate } from "./sqlite-schema.ts";
import { signInKey } from "./sqlite-sign-ins.ts";
import { SqliteSoldOffers } from "./sqlite-sold-offers.ts";
import { SqliteSubmissions } from "./sqlite-submissions.ts";
import { forgetPayer } from "./sqlite-forgetting.ts";
import { sweepOnce } from "./sqlite-sweep.ts";
import type { ForgottenInStep, ForgetStep } from "../forgetting.ts";
import { firstSubmission, requireSignedFor, submittedOf } from "../submission-row.ts";
import type { Swept, SweepStep } from "../sweep.ts";
import { buriedOutcome } from "../tombstone.ts";
import type { WorkerLife } from "../ledger.ts";
import type { LeftAccount } from "../unattended.ts";

export interface SqliteLedgerOptions {
  /** How what is stored together is waited for. Default: the machine's timers. */
  readonly timers?: Timers;
  /** A file, made with its folder where missing, or `:memory:` for a ledger that dies with us. */
  readonly path: string;
  readonly time: Time;
  /** Unique to this life of the process: rows of another were left behind by a crash. */
  readonly life: string;
  /** Hears of each step of a payment as everybody sees it from then on. */
  readonly onStep?: OnStep;
  /** Hears of each row that had to be left out, by payment key or submission. */
  readonly onUnreadable?: (name: string, reason: string) => void;
  /** Hears that steps which were answered could not be stored yet, as on a full disk. */
  readonly onUnstored?: (cause: unknown) => void;
}

/**
 * Opens the ledger, locks it for as long as it is open, brings its schema up to date, and frees what an
 * earlier life left behind. Rejects with {@link LedgerUnavailable}, also where another process has the
 * file open.
 */
export async function openSqliteLedger(options: SqliteLedgerOptions): Promise<Ledger> {
  const database = new SqliteDatabase(options.path);
  let lock: SqliteDatabase | undefined;
  try {
    lock = lockLedger(database);
    database.exec(DURABLE);
    migrate(database);
    const ledger = new SqliteLedger(database, lock, options);
    ledger.outbox.release();
    await ledger.reap();
    return ledger;
  } catch (error) {
    database.close();
    lock?.close();
    throw error;
  }
}

/**
 * The ledger on a file that is opened, locked and up to date. What an earlier life left behind is not freed
 * yet ({@link Ledger.reap}).
 */
export function sqliteLedgerOn(database: SqliteDatabase, options: SqliteLedgerOptions): Ledger {
  return new SqliteLedger(database, undefined, options);
}

class SqliteLedger extends SqliteRedemptions implements Ledger {
  readonly books: Books;
  readonly sold: SoldOffers;
  readonly budgets: Budgets;
  readonly pauses: Pauses;
  readonly certificates: KeptCertificates;
  readonly outbox: SqliteOutbox;
  readonly #options: SqliteLedgerOptions;
  readonly #database: SqliteDatabase;
  readonly #lock: SqliteDatabase | undefined;
  readonly #core: SqliteCore;
  readonly #submissions: SqliteSubmissions;
  readonly #resolutions: SqliteResolutions;

  constructor(
    database: SqliteDatabase,
    lock: SqliteDatabase | undefined,
    options: SqliteLedgerOptions,
  ) {
    const { path, life, time, timers, onStep, onUnreadable, onUnstored } = options;
    const core = new SqliteCore({
      database,
      time,
      timers,
      onStep,
      spaceMs: path === ":memory:" ? 0 : undefined,
      onUnreadable: (name, reason) => onUnreadable?.(name, reason),
      onUnstored: (cause) => onUnstored?.(cause),
    });
    super(core, database, life);
    this.#options = options;
    this.#database = database;
    this.#lock = lock;
    this.#core = core;
    this.books = new SqliteBooks(database, () => core.storeNow());
    this.sold = new SqliteSoldOffers(database, core);
    this.budgets = {
      reserve: (key, sale) =>
        core.write(() => {
          // What is only in memory would be dropped without a word to the database, and count for ever.
          core.storePayment(key);
          return reserve(database, key, sale, time.now());
        }),
      counted: async (names) => countedIn(database, time.now(), names),
    };
    this.pauses = new SqlitePauses(database, time);
    this.certificates = new SqliteCertificates(database, core, time);
    this.outbox = core.outbox;
    this.#submissions = new SqliteSubmissions(database, core, life);
    this.#resolutions = new SqliteResolutions(database, core, life);
  }

  worker(name: string): WorkerLife {
    const ground = { core: this.#core, database: this.#database };
    return new SqliteWorkerLife(ground, lifeWithin(this.#options.life, name));
  }

  async outcome(key: PaymentKey): Promise<SettlementOutcome> {
    const row = this.#core.read(key);
    const tombstone = row === undefined ? this.#core.tombstone(key) : undefined;
    if (tombstone === undefined) return machine.outcome(row);
    return buriedOutcome(key, tombstone);
  }

  async lease(network: string, address: string): Promise<Lease | undefined> {
    return this.#core.write(() => this.#submissions.lease(network, address));
  }

  async unlease(lease: Lease): Promise<void> {
    return this.#core.write(() => this.#submissions.unlease(lease));
  }

  async signed(
    keys: readonly PaymentKey[],
    account: Lease & { readonly seed: number },
    sign: (accountNonce: number) => StoredTransaction,
    draws?: Draws,
  ): Promise<StoredSubmission> {
    const stored = await this.#core.write(() => {
      // Told to the caller, not thrown here: others of the same batch go on.
      const over = draws === undefined ? [] : this.#overdrawn(draws);
      if (over.length > 0) return new LedgerOverdraft(over);
      const nonce = this.#submissions.allocate(account);
      // Judged before anything is signed, and once more with the submission that they are in.
      for (const key of keys) this.#requireSignable(key, account.network);
      const variant = sign(nonce);
      requireSignedFor(variant, account.address, nonce);
      const submission = firstSubmission(account.network, variant, this.#options.time.now());
      this.#submissions.insert(submission);
      const payments = keys.map((key) => {
        const { next } = this.#take(key, (row, moment) => machine.sign(row, submission.id, moment));
        if (!next) throw new TypeError("a signed payment has a row");
        return submittedOf(next, key);
      });
      return { ...submission, payments };
    });
    if (stored instanceof LedgerOverdraft) throw stored;
    return stored;
  }

  async spends(purse: Purse, settledAfterMs: number): Promise<readonly Spend[]> {
    this.#core.storeNow();
    return readSpends(this.#database, purse, settledAfterMs);
  }

  async hasSigned(transaction: string): Promise<boolean> {
    return this.#submissions.hasSigned(transaction);
  }

  async resolveAsked(): Promise<number> {
    return this.#resolutions.answer();
  }

  async refunds(
    network: string,
    limit: number,
    state?: OpenRefundState,
  ): Promise<readonly OpenRefund[]> {
    const states = state === undefined ? "'ASKED', 'SENDING'" : `'${state}'`;
    const where = `WHERE refund_state IN (${states}) AND network = :network
       AND (refund_state = 'SENDING' OR CASE WHEN submission IS NULL THEN updated_ms + ${UNWATCHED_MS} <= :now ELSE NOT EXISTS
         (SELECT 1 FROM submissions AS s WHERE s.id = payments.submission AND s.state <> 'CLOSED') END)
       ORDER BY updated_ms, rowid`;
    const now = this.#options.time.now();
    // The column holds nothing but keys.
    return this.#core.readable(where, { network, limit, now }, (row, key) =>
      openRefundOf(row, key as PaymentKey),
    );
  }

  async replaced(lease: Lease, submission: string, variant: StoredTransaction): Promise<void> {
    return this.#core.write(() => {
      this.#submissions.requireLease(lease);
      this.#submissions.replace(lease, submission, variant, this.#options.time.now());
    });
  }

  async concluded(
    submission: string,
    state: SubmissionState,
    cost?: SubmissionCost,
  ): Promise<void> {
    return this.#core.writeLater(() => {
      // Nobody looks for the payments of what is concluded: what they have come to is stored with it.
      this.#core.storeSubmission(submission);
      this.#submissions.conclude(submission, state, cost);
    });
  }

  async offers(network: string, limit: number): Promise<readonly OfferedPayment[]> {
    const where = "WHERE offered = 1 AND network = :network ORDER BY updated_ms, rowid";
    return this.#core.readable(where, { network, limit }, offeredOf);
  }

  async offered(signal: AbortSignal): Promise<void> {
    await this.#core.offered(signal);
  }

  async unfinished(network: string, address: string): Promise<readonly StoredSubmission[]> {
    return this.#submissions.unfinished(network, address, this.#core.onUnreadable);
  }

  async unattended(): Promise<readonly LeftAccount[]> {
    return this.#submissions.unattended();
  }

  async nextAccountNonce(network: string, address: string): Promise<number | undefined> {
    return this.#submissions.nextNonce(network, address);
  }

  async termsChangedAt(route: string, hash: string, now: number): Promise<number> {
    const known = findTerms(this.#database, route, hash);
    return known ?? this.#core.write(() => storeTerms(this.#database, { route, hash, now }));
  }

  async signInKey(): Promise<Uint8Array> {
    return this.#core.write(() => signInKey(this.#database));
  }

  async reap(): Promise<number> {
    const { life } = this.#options;
    const ground = { core: this.#core, database: this.#database };
    await this.#core.forgetOld();
    return reapOthers(ground, life);
  }

  async sweep(step: SweepStep): Promise<Swept> {
    const ground = { core: this.#core, database: this.#database, books: this.books };
    return sweepOnce(ground, this.#options.life, step);
  }

  async forget(step: ForgetStep): Promise<ForgottenInStep> {
    const ground = { core: this.#core, database: this.#database };
    return this.#core.write(() => forgetPayer(ground, this.#options.life, step));
  }

  async ping(): Promise<void> {
    return this.#core.write(() => {
      this.#database.run(
        `INSERT INTO heartbeat (id, at_ms) VALUES (1, :now)
         ON CONFLICT (id) DO UPDATE SET at_ms = :now`,
        { now: this.#options.time.now() },
      );
    });
  }

  async close(): Promise<void> {
    this.#core.close();
    this.#lock?.close();
  }

  #take<Outcome>(key: string, judge: Judge<Outcome>): Step<Outcome> {
    return this.#core.take(key, this.#options.life, judge);
  }

  #overdrawn(draws: Draws): readonly PaymentKey[] {
    const sinceMs = earliestUnseen(draws);
    const roughly = overdrawn(draws, (purse) => [boundSpends(this.#database, purse, sinceMs)]);
    if (roughly.length === 0) return [];
    return overdrawn(draws, (purse) => readSpends(this.#database, purse, sinceMs));
  }

  #requireSignable(key: PaymentKey, network: string): void {
    const row = this.#core.read(key);
    machine.sign(row, "", { life: this.#options.life, nowMs: this.#options.time.now() });
    if (row?.network === network) return;
    throw new LedgerConflict(`a payment on ${row?.network} cannot be signed for ${network}`);
  }
}

function offeredOf(row: PaymentRow, key: string): OfferedPayment {
  const { version } = row;
  return { key: key as PaymentKey, request: requestOf(row), isPublic: isPublic(row), version };
}
