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
import { type Ledger, type SettlementOutcome } from "../ledger.ts";
import { lifeWithin } from "../life.ts";
import * as machine from "../machine.ts";
import type { KeptCertificates } from "../certificates.ts";
import type { Pauses } from "../pauses.ts";
import type { SoldOffers } from "../sold-offers.ts";
import { SqliteBooks } from "./sqlite-books.ts";
import { countedIn, reserve } from "./sqlite-budgets.ts";
import { SqliteCertificates } from "./sqlite-certificates.ts";
import { SqliteCore, type OnStep } from "./sqlite-core.ts";
import { DURABLE, SqliteDatabase } from "./sqlite-database.ts";
import { lockLedger } from "./sqlite-lock.ts";
import { SqliteWorkerLife } from "./sqlite-reaping.ts";
import type { SqliteOutbox } from "./sqlite-outbox.ts";
import { SqlitePauses } from "./sqlite-pauses.ts";
import { SqliteRedemptions } from "./sqlite-redemptions.ts";
import { findTerms, storeTerms } from "./sqlite-route-terms.ts";
import { migrate } from "./sqlite-schema.ts";
import { SqliteSoldOffers } from "./sqlite-sold-offers.ts";
import { buriedOutcome } from "../tombstone.ts";
import type { WorkerLife } from "../ledger.ts";
import { SqliteQueues } from "./sqlite-queues.ts";
import { SqliteSigning } from "./sqlite-signing.ts";
import { SqliteUpkeep } from "./sqlite-upkeep.ts";
import type { Queues } from "../queues.ts";
import type { Signing } from "../signing.ts";
import type { Upkeep } from "../upkeep.ts";

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
    await ledger.upkeep.reap();
    return ledger;
  } catch (error) {
    database.close();
    lock?.close();
    throw error;
  }
}

/**
 * The ledger on a file that is opened, locked and up to date. What an earlier life left behind is not freed
 * yet ({@link Upkeep.reap}).
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
  readonly signing: Signing;
  readonly queues: Queues;
  readonly upkeep: Upkeep;
  readonly #options: SqliteLedgerOptions;
  readonly #database: SqliteDatabase;
  readonly #lock: SqliteDatabase | undefined;
  readonly #core: SqliteCore;

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
    const ground = { core, database, books: this.books };
    this.signing = new SqliteSigning(ground, life);
    this.queues = new SqliteQueues(core);
    this.upkeep = new SqliteUpkeep(ground, life);
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

  async termsChangedAt(route: string, hash: string, now: number): Promise<number> {
    const known = findTerms(this.#database, route, hash);
    return known ?? this.#core.write(() => storeTerms(this.#database, { route, hash, now }));
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
}
