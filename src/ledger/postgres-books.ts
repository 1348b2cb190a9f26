/** The books of the PostgreSQL ledger: reads only, each list within one statement. */
import type {
  Books,
  PaymentCounts,
  PaymentDetail,
  PaymentFilter,
  PaymentSummary,
} from "./books.ts";
import { readEvent, readSummary, shownSubmission } from "./books-row.ts";
import { requestOf, type PaymentRow } from "./payment-row.ts";
import { PostgresDatabase, type Session, type Statement } from "./postgres-database.ts";
import { COLUMNS, storedOf } from "./postgres-payments.ts";
import { requireNewest } from "./postgres-schema.ts";
import { readSubmissionRow } from "./submission-row.ts";

/** An operator's look: one statement at a time. */
const CONNECTIONS = 1;

const SUMMARY = `${COLUMNS}, p.asset AS "asset", p.amount_atomic AS "amount", p.pay_to AS "payTo",
  p.created_ms AS "claimedMs", p.updated_ms AS "updatedMs"`;

const LIST: Statement = {
  name: "list_payments",
  text: `
    SELECT ${SUMMARY} FROM coinslot.payments AS p
    WHERE ($1::text[] IS NULL OR p.state = ANY ($1))
      AND ($2::boolean IS NOT TRUE OR (p.state = 'SETTLED' AND p.binding IS NOT NULL)
        OR (p.state = 'SIGNED' AND p.held_transaction IS NOT NULL))
      AND ($8::boolean IS NULL OR (p.state = 'SIGNED' AND p.held_transaction IS NOT NULL) = $8)
      AND ($3::text IS NULL OR p.network = $3)
      AND ($4::text IS NULL OR lower(p.payer) = lower($4))
      AND ($5::bigint IS NULL OR p.created_ms >= $5)
      AND ($6::text IS NULL OR (p.created_ms, p.id) <
        (SELECT b.created_ms, b.id FROM coinslot.payments AS b WHERE b.payment_key = $6))
    ORDER BY p.created_ms DESC, p.id DESC LIMIT $7`,
};

const SHOW: Statement = {
  name: "show_payment",
  text: `
    SELECT ${SUMMARY} FROM coinslot.payments AS p
    WHERE p.id IN (
      SELECT id FROM coinslot.payments WHERE payment_key = $1
      UNION ALL SELECT id FROM coinslot.payments WHERE lower(settled_transaction) = $1
      UNION ALL SELECT id FROM coinslot.payments
        WHERE held_transaction IS NOT NULL AND lower(held_transaction) = $1
      UNION ALL SELECT id FROM coinslot.payments
        WHERE identity COLLATE "C" >= $1 || '/' AND identity COLLATE "C" < $1 || '0'
      UNION ALL SELECT c.id FROM coinslot.payments AS c
        JOIN coinslot.submission_transactions AS t ON t.submission = c.submission
        WHERE t.transaction_id = $1)
    ORDER BY p.created_ms DESC, p.id DESC LIMIT 1`,
};

const EVENTS: Statement = {
  name: "payment_events",
  text: `SELECT at_ms AS "atMs", state AS "state", note AS "note", life AS "by"
         FROM coinslot.payment_events WHERE payment_key = $1 ORDER BY version`,
};

const SUBMISSION: Statement = {
  name: "show_submission",
  text: `SELECT id AS "id", network AS "network", state AS "state", signed_ms AS "signedMs",
           variants AS "variants" FROM coinslot.submissions WHERE id = $1`,
};

const COUNTS: Statement = {
  name: "count_payments",
  text: `
    SELECT (SELECT count(*) FROM coinslot.payments
       WHERE state = 'SIGNED' AND held_transaction IS NULL) AS "unresolved",
      (SELECT count(*) FROM coinslot.payments
       WHERE state = 'SIGNED' AND held_transaction IS NOT NULL) AS "held",
      (SELECT count(*) FROM coinslot.payments
       WHERE state = 'SETTLED' AND binding IS NOT NULL) AS "undelivered",
      (SELECT count(*) FROM coinslot.payments WHERE offered) AS "offered"`,
};

export class PostgresBooks implements Books {
  readonly #database: Session;

  constructor(database: Session) {
    this.#database = database;
  }

  async list(filter: PaymentFilter): Promise<readonly PaymentSummary[]> {
    const rows = await this.#database.query(LIST, [
      filter.states ?? null,
      filter.undelivered ?? null,
      filter.network ?? null,
      filter.payer ?? null,
      filter.sinceMs ?? null,
      filter.after ?? null,
      filter.limit,
      filter.held ?? null,
    ]);
    return rows.map(readSummary);
  }

  async show(name: string): Promise<PaymentDetail | undefined> {
    const [columns] = await this.#database.query(SHOW, [name.toLowerCase()]);
    if (columns === undefined) return undefined;
    const { key, row } = storedOf(columns);
    return {
      ...readSummary(columns),
      resource: resourceOf(row),
      events: (await this.#database.query(EVENTS, [key])).map(readEvent),
      submission: await this.#submission(row.submission),
    };
  }

  async counts(): Promise<PaymentCounts> {
    const [counted] = await this.#database.query(COUNTS, []);
    const { unresolved, held, undelivered, offered } = counted ?? {};
    return {
      held: Number(held),
      unresolved: Number(unresolved),
      undelivered: Number(undelivered),
      offered: Number(offered),
    };
  }

  async #submission(id: string | null): Promise<PaymentDetail["submission"]> {
    if (id === null) return null;
    const [columns] = await this.#database.query(SUBMISSION, [id]);
    return columns === undefined ? null : shownSubmission(readSubmissionRow(columns));
  }
}

/**
 * Opens the books beside running gateways, or without one: begins no life and changes no table. Rejects
 * with {@link LedgerUnavailable} where the database cannot be asked, holds no ledger, or another
 * version's.
 */
export async function openPostgresBooks({
  url,
}: {
  readonly url: string;
}): Promise<Books & { close(): Promise<void> }> {
  const database = new PostgresDatabase({
    url,
    connections: CONNECTIONS,
    onLost: () => undefined,
  });
  const close = (): Promise<void> => database.close();
  try {
    await requireNewest(database);
  } catch (error) {
    await close();
    throw error;
  }
  const books = new PostgresBooks(database);
  return {
    list: (filter) => books.list(filter),
    show: (name) => books.show(name),
    counts: () => books.counts(),
    close,
  };
}

function resourceOf(row: PaymentRow): string {
  try {
    return requestOf(row).paymentRequirements.resource;
  } catch {
    return "";
  }
}
