/** What an operator asks of the SQLite ledger: in the process that writes it, and beside it. */
import { existsSync } from "node:fs";
import type {
  Books,
  EndedPage,
  Evidence,
  PayerCredits,
  PaymentCounts,
  PaymentDetail,
  PaymentFilter,
  PaymentSummary,
  SaleRecord,
  SalesPage,
} from "../books.ts";
import { readSale, readSummary, shownSubmission } from "../books-row.ts";
import { LedgerUnavailable } from "../ledger.ts";
import type { Days, Entry } from "../accounts.ts";
import type { CreditsSum } from "../credit-entries.ts";
import { readAccounts, readEvidence, readHistory } from "./sqlite-accounts.ts";
import { SqliteDatabase, type Columns } from "./sqlite-database.ts";
import { readCredits, readCreditsOf } from "./sqlite-pot-rows.ts";
import { listStatement, SUMMARY_COLUMNS } from "./sqlite-list.ts";
import { requireNewest } from "./sqlite-schema.ts";
import { readSubmissionRow } from "../submission-row.ts";
import { digestOf, readTombstone } from "../tombstone.ts";
import { readUsedElsewhere, type UsedElsewhere } from "../used-elsewhere.ts";

/** Each state by the index that holds it: of those that failed there may be any number. */
const SALES = [
  ["delivered_payments", "state = 'DELIVERED'"],
  ["delivering_payments", "state = 'DELIVERING'"],
  ["undelivered_payments", "state = 'SETTLED' AND binding IS NOT NULL"],
]
  .map(
    ([index, condition]) => `SELECT * FROM (
      SELECT payment_key AS "key", binding, payer, state, created_ms AS "claimedMs", history
      FROM payments INDEXED BY ${index}
      WHERE ${condition} AND binding IS NOT NULL AND created_ms >= :sinceMs
        AND (created_ms, payment_key) < (:ms, :key)
      ORDER BY created_ms DESC, payment_key DESC LIMIT :limit)`,
  )
  .join(" UNION ALL ")
  .concat(` ORDER BY "claimedMs" DESC, "key" DESC LIMIT :limit`);

/**
 * Opens the books of a ledger that another process may be writing: takes no lock, writes nothing.
 * Rejects with {@link LedgerUnavailable} where there is no such file, or one of another schema.
 */
export async function openSqliteBooks({
  path,
}: {
  readonly path: string;
}): Promise<Books & { close(): Promise<void> }> {
  return new SqliteBooks(openForReading(path));
}

/** The same of the database alone. */
export function openForReading(path: string): SqliteDatabase {
  if (!existsSync(path)) throw new LedgerUnavailable(`there is no ledger at ${path}`);
  const database = new SqliteDatabase(path, { readOnly: true });
  try {
    requireNewest(database, path);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

export class SqliteBooks implements Books {
  readonly #database: SqliteDatabase;
  readonly #storeNow: () => void;

  /** `storeNow`: what its writer has not stored yet is to be seen, too. */
  constructor(database: SqliteDatabase, storeNow: () => void = () => {}) {
    this.#database = database;
    this.#storeNow = storeNow;
  }

  async list(filter: PaymentFilter): Promise<readonly PaymentSummary[]> {
    if (filter.states?.length === 0) return [];
    this.#storeNow();
    const { sql, values } = listStatement(filter);
    const rows = this.#database.all(sql, values);
    return rows.map(readSummary);
  }

  async show(name: string): Promise<PaymentDetail | undefined> {
    this.#storeNow();
    return this.#database.snapshot(() => this.#find(name.toLowerCase()));
  }

  async counts(): Promise<PaymentCounts> {
    this.#storeNow();
    const found = this.#database.get(
      `SELECT (SELECT count(*) FROM payments INDEXED BY undecided_spends
          WHERE state = 'SIGNED' AND submission IS NOT NULL AND held_transaction IS NULL)
         + (SELECT count(*) FROM payments INDEXED BY handed_over_payments
          WHERE state = 'SIGNED' AND submission IS NULL AND held_transaction IS NULL)
           AS "unresolved",
         (SELECT count(*) FROM payments INDEXED BY payments_held
          WHERE state = 'SIGNED' AND held_transaction IS NOT NULL)
           AS "held",
         (SELECT count(*) FROM payments WHERE state = 'SETTLED' AND binding IS NOT NULL)
           AS "undelivered",
         (SELECT count(*) FROM payments WHERE offered = 1) AS "offered",
         (SELECT count(*) FROM payments WHERE refund_state IN ('ASKED', 'SENDING')) AS "refunding",
         (SELECT count(*) FROM payments WHERE refund_state = 'FAILED') AS "unrefunded"`,
      {},
    );
    const { unresolved, held, undelivered, offered, refunding, unrefunded } = found ?? {};
    return {
      held: Number(held),
      unresolved: Number(unresolved),
      undelivered: Number(undelivered),
      offered: Number(offered),
      refunding: Number(refunding),
      unrefunded: Number(unrefunded),
    };
  }

  async buried(key: string): Promise<string | undefined> {
    const columns = this.#database.get(
      `SELECT transaction_id AS "transaction", caller FROM tombstones WHERE payment_key = ?`,
      [digestOf(key.toLowerCase())],
    );
    return columns && readTombstone(columns).transaction;
  }

  async ended({ beforeMs, after, limit }: EndedPage): Promise<readonly PaymentDetail[]> {
    this.#storeNow();
    const { claimedMs: ms, key } = after ?? { claimedMs: -1, key: "" };
    return this.#database.snapshot(() => {
      const rows = this.#database.all(
        `SELECT payment_key AS "key" FROM payments INDEXED BY payments_by_time
         WHERE (created_ms, payment_key) > (:ms, :key) AND created_ms < :beforeMs
           AND updated_ms < :beforeMs AND coalesce(refund_state, '') NOT IN ('ASKED', 'SENDING')
           AND (state IN ('DELIVERED', 'FAILED') OR (state = 'SETTLED' AND binding IS NULL))
         ORDER BY created_ms, payment_key LIMIT :limit`,
        { ms, key, beforeMs, limit },
      );
      return rows.flatMap((columns) => this.#find(String(columns.key)) ?? []);
    });
  }

  async sales({ sinceMs, after, limit }: SalesPage): Promise<readonly SaleRecord[]> {
    this.#storeNow();
    const { claimedMs: ms, key } = after ?? { claimedMs: Number.MAX_SAFE_INTEGER, key: "" };
    const rows = this.#database.all(SALES, { sinceMs, ms, key, limit });
    return rows.map((columns) => {
      const first = readHistory(columns.history).find(({ state }) => state === "DELIVERED");
      return readSale(columns, first?.atMs ?? null);
    });
  }

  async accounts(days: Days): Promise<readonly Entry[]> {
    this.#storeNow();
    return readAccounts(this.#database, days);
  }

  async credits(): Promise<readonly CreditsSum[]> {
    this.#storeNow();
    return this.#database.snapshot(() => readCredits(this.#database));
  }

  async creditsOf(payer: string): Promise<PayerCredits> {
    this.#storeNow();
    return this.#database.snapshot(() => readCreditsOf(this.#database, payer));
  }

  async *evidence(days: Days): AsyncGenerator<readonly Evidence[]> {
    this.#storeNow();
    yield* readEvidence(this.#database, days);
  }

  async usedElsewhere(limit: number): Promise<readonly UsedElsewhere[]> {
    const rows = this.#database.all(
      `SELECT payment_key AS "key", network, asset, amount_atomic AS "amount", payer,
         pay_to AS "payTo", binding, seen_ms AS "seenMs"
       FROM used_elsewhere ORDER BY seen_ms DESC, payment_key LIMIT :limit`,
      { limit },
    );
    return rows.map(readUsedElsewhere);
  }

  async close(): Promise<void> {
    this.#database.close();
  }

  /** Of a transaction that has paid some and left others behind, one that is paid comes first. */
  #find(name: string): PaymentDetail | undefined {
    const columns = this.#database.get(
      `SELECT ${SUMMARY_COLUMNS}, request ->> '$.paymentRequirements.resource' AS "resource",
         history
       FROM payments
       WHERE payment_key = :name OR (settled_transaction IS NOT NULL AND lower(settled_transaction) = :name)
         OR (held_transaction IS NOT NULL AND lower(held_transaction) = :name)
         OR submission = :name
         OR submission = (SELECT submission FROM submission_transactions
                          WHERE transaction_id = :name)
         OR (identity >= :name || '/' AND identity < :name || '0')
       ORDER BY coalesce(lower(settled_transaction), '') = :name DESC, created_ms DESC, rowid DESC LIMIT 1`,
      { name },
    );
    if (columns === undefined) return undefined;
    const summary = readSummary(columns);
    return {
      ...summary,
      resource: String(columns.resource ?? ""),
      events: readHistory(columns.history),
      submission: this.#submission(columns.submission),
    };
  }

  #submission(submission: Columns[string] | undefined): PaymentDetail["submission"] {
    if (typeof submission !== "string") return null;
    const columns = this.#database.get(
      `SELECT id, network, state, variants, signed_ms AS "signedMs", cost
       FROM submissions WHERE id = :submission`,
      { submission },
    );
    return columns === undefined ? null : shownSubmission(readSubmissionRow(columns));
  }
}
