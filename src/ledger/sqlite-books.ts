/** What an operator asks of the SQLite ledger: in the process that writes it, and beside it. */
import { existsSync } from "node:fs";
import type {
  Books,
  PaymentCounts,
  PaymentDetail,
  PaymentEvent,
  PaymentFilter,
  PaymentSummary,
} from "./books.ts";
import { readEvent, readSummary, shownSubmission } from "./books-row.ts";
import { LedgerUnavailable } from "./ledger.ts";
import { SqliteDatabase, type Columns } from "./sqlite-database.ts";
import { ROW_COLUMNS } from "./sqlite-rows.ts";
import { SCHEMA_VERSION, schemaVersion } from "./sqlite-schema.ts";
import { readSubmissionRow } from "./submission-row.ts";

const SUMMARY_COLUMNS = `${ROW_COLUMNS}, asset, amount_atomic AS "amount", pay_to AS "payTo",
  created_ms AS "claimedMs"`;

/**
 * Opens the books of a ledger that another process may be writing: takes no lock, writes nothing.
 * Rejects with {@link LedgerUnavailable} where there is no such file, or one of another schema.
 */
export async function openSqliteBooks({
  path,
}: {
  readonly path: string;
}): Promise<Books & { close(): Promise<void> }> {
  if (!existsSync(path)) throw new LedgerUnavailable(`there is no ledger at ${path}`);
  const database = new SqliteDatabase(path, { readOnly: true });
  try {
    const version = schemaVersion(database);
    if (version !== SCHEMA_VERSION) {
      throw new LedgerUnavailable(
        `the ledger ${path} has schema version ${version}, and this program reads ` +
          `${SCHEMA_VERSION}: an older one is brought up to date when the gateway opens it`,
      );
    }
    return new SqliteBooks(database);
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
    this.#storeNow();
    const { states, undelivered, held, network, payer, sinceMs, after, limit } = filter;
    const conditions = [
      states && "state IN (SELECT value FROM json_each(:states))",
      undelivered === true &&
        "((state = 'SETTLED' AND binding IS NOT NULL) OR (state = 'SIGNED' AND held_transaction IS NOT NULL))",
      held === true && "state = 'SIGNED' AND held_transaction IS NOT NULL",
      held === false && "NOT (state = 'SIGNED' AND held_transaction IS NOT NULL)",
      network !== undefined && "network = :network",
      payer !== undefined && "lower(payer) = lower(:payer)",
      sinceMs !== undefined && "created_ms >= :sinceMs",
      after !== undefined &&
        `(created_ms, rowid) < (SELECT created_ms, rowid FROM payments WHERE payment_key = :after)`,
    ].filter((condition) => typeof condition === "string");
    const given = Object.entries({ network, payer, sinceMs, after });
    const values = Object.fromEntries(
      given.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])),
    );
    const rows = this.#database.all(
      `SELECT ${SUMMARY_COLUMNS} FROM payments WHERE ${["true", ...conditions].join(" AND ")}
       ORDER BY created_ms DESC, rowid DESC LIMIT :limit`,
      { ...values, ...(states && { states: JSON.stringify(states) }), limit },
    );
    return rows.map(readSummary);
  }

  async show(name: string): Promise<PaymentDetail | undefined> {
    this.#storeNow();
    return this.#database.snapshot(() => this.#find(name.toLowerCase()));
  }

  async counts(): Promise<PaymentCounts> {
    this.#storeNow();
    const found = this.#database.get(
      `SELECT (SELECT count(*) FROM payments WHERE state = 'SIGNED' AND held_transaction IS NULL)
           AS "unresolved",
         (SELECT count(*) FROM payments WHERE state = 'SIGNED' AND held_transaction IS NOT NULL)
           AS "held",
         (SELECT count(*) FROM payments WHERE state = 'SETTLED' AND binding IS NOT NULL)
           AS "undelivered",
         (SELECT count(*) FROM payments WHERE offered = 1) AS "offered"`,
      {},
    );
    const { unresolved, held, undelivered, offered } = found ?? {};
    return {
      held: Number(held),
      unresolved: Number(unresolved),
      undelivered: Number(undelivered),
      offered: Number(offered),
    };
  }

  async close(): Promise<void> {
    this.#database.close();
  }

  #find(name: string): PaymentDetail | undefined {
    const columns = this.#database.get(
      `SELECT ${SUMMARY_COLUMNS}, request ->> '$.paymentRequirements.resource' AS "resource",
         history
       FROM payments
       WHERE payment_key = :name OR (settled_transaction IS NOT NULL AND lower(settled_transaction) = :name)
         OR (held_transaction IS NOT NULL AND lower(held_transaction) = :name)
         OR submission = (SELECT submission FROM submission_transactions
                          WHERE transaction_id = :name)
         OR (identity >= :name || '/' AND identity < :name || '0')
       ORDER BY created_ms DESC, rowid DESC LIMIT 1`,
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
      `SELECT id, network, state, variants, signed_ms AS "signedMs"
       FROM submissions WHERE id = :submission`,
      { submission },
    );
    return columns === undefined ? null : shownSubmission(readSubmissionRow(columns));
  }
}

/** A line is JSON of `[atMs, state, note, life]`. */
function readHistory(history: Columns[string] | undefined): readonly PaymentEvent[] {
  const lines = String(history ?? "").split("\n");
  return lines.filter(Boolean).map((line) => {
    const [atMs, state, note, by] = Object(JSON.parse(line)) as readonly unknown[];
    return readEvent({ atMs, state, note, by });
  });
}
