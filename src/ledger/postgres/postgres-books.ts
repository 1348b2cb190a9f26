/** The books of the PostgreSQL ledger: reads only, each list within one statement. */
import { SOLD_STATES } from "../books.ts";
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
import { readEvent, readSale, readSummary, shownSubmission } from "../books-row.ts";
import type { Days, Entry } from "../accounts.ts";
import { requestOf, type PaymentRow } from "../payment-row.ts";
import { readAccounts, readEvidence } from "./postgres-accounts.ts";
import type { Session, Statement } from "./postgres-database.ts";
import { listStatement, SUMMARY } from "./postgres-list.ts";
import { storedOf } from "./postgres-payments.ts";
import { openBeside } from "./postgres-beside.ts";
import { readCredits, readCreditsOf } from "./postgres-pots.ts";
import type { CreditsSum } from "../credit-entries.ts";
import { readSubmissionRow } from "../submission-row.ts";
import { digestOf, readTombstone } from "../tombstone.ts";
import { readUsedElsewhere, type UsedElsewhere } from "../used-elsewhere.ts";

/** Of a transaction that has paid some and left others behind, one that is paid comes first. */
const SHOW: Statement = {
  name: "show_payment",
  text: `
    SELECT ${SUMMARY} FROM coinslot.payments AS p
    WHERE p.id = ANY (ARRAY(
      SELECT id FROM coinslot.payments WHERE payment_key = $1
      UNION ALL SELECT id FROM coinslot.payments WHERE lower(settled_transaction) = $1
      UNION ALL SELECT id FROM coinslot.payments
        WHERE held_transaction IS NOT NULL AND lower(held_transaction) = $1
      UNION ALL SELECT id FROM coinslot.payments
        WHERE identity COLLATE "C" >= $1 || '/' AND identity COLLATE "C" < $1 || '0'
      UNION ALL SELECT c.id FROM coinslot.payments AS c
        JOIN coinslot.submission_transactions AS t ON t.submission = c.submission
        WHERE t.transaction_id = $1))
    ORDER BY coalesce(lower(p.settled_transaction), '') = $1 DESC, p.created_ms DESC, p.id DESC LIMIT 1`,
};

const EVENTS: Statement = {
  name: "payment_events",
  text: `SELECT at_ms AS "atMs", state AS "state", note AS "note", life AS "by"
         FROM coinslot.payment_events WHERE payment_key = $1 ORDER BY version`,
};

const SUBMISSION: Statement = {
  name: "show_submission",
  text: `SELECT id AS "id", network AS "network", state AS "state", signed_ms AS "signedMs",
           variants AS "variants", cost AS "cost" FROM coinslot.submissions WHERE id = $1`,
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
      (SELECT count(*) FROM coinslot.payments WHERE offered) AS "offered",
      (SELECT count(*) FROM coinslot.payments WHERE refund_state IN ('ASKED', 'SENDING')) AS "refunding",
      (SELECT count(*) FROM coinslot.payments WHERE refund_state = 'FAILED') AS "unrefunded"`,
};

const BURIED: Statement = {
  name: "show_tombstone",
  text: `SELECT transaction_id AS "transaction", caller AS "caller"
         FROM coinslot.tombstones WHERE payment_key = $1`,
};

const ENDED: Statement = {
  name: "ended_payments",
  text: `
    SELECT p.payment_key AS "key" FROM coinslot.payments AS p
    WHERE (p.created_ms, p.payment_key COLLATE "C") > ($1, $2) AND p.created_ms < $3 AND p.updated_ms < $3
      AND coalesce(p.refund_state, '') NOT IN ('ASKED', 'SENDING')
      AND (p.state IN ('DELIVERED', 'FAILED') OR (p.state = 'SETTLED' AND p.binding IS NULL))
    ORDER BY p.created_ms, p.payment_key COLLATE "C" LIMIT $4`,
};

/** Each state by the index that has it in its order: of those that failed there may be any number. */
const SALES: Statement = {
  name: "list_sales",
  text: `
    SELECT found.*, (SELECT min(e.at_ms) FROM coinslot.payment_events AS e
      WHERE e.payment_key = found."key" AND e.state = 'DELIVERED') AS "deliveredMs"
    FROM (${SOLD_STATES.map(
      (state) => `(SELECT p.payment_key AS "key", p.binding AS "binding", p.payer AS "payer",
        p.state AS "state", p.created_ms AS "claimedMs" FROM coinslot.payments AS p
      WHERE p.state = '${state}' AND p.binding IS NOT NULL AND p.created_ms >= $1
        AND (p.created_ms, p.payment_key COLLATE "C") < ($2, $3)
      ORDER BY p.created_ms DESC, p.payment_key COLLATE "C" DESC LIMIT $4)`,
    ).join(" UNION ALL ")}) AS found
    ORDER BY found."claimedMs" DESC, found."key" COLLATE "C" DESC LIMIT $4`,
};

const USED_ELSEWHERE: Statement = {
  name: "list_used_elsewhere",
  text: `SELECT payment_key AS "key", network AS "network", asset AS "asset", amount_atomic AS "amount",
           payer AS "payer", pay_to AS "payTo", binding AS "binding", seen_ms AS "seenMs"
         FROM coinslot.used_elsewhere ORDER BY seen_ms DESC, payment_key LIMIT $1`,
};

const ONE_MOMENT: Statement = {
  name: "one_moment",
  text: "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
};

export class PostgresBooks implements Books {
  readonly #database: Session;

  constructor(database: Session) {
    this.#database = database;
  }

  async list(filter: PaymentFilter): Promise<readonly PaymentSummary[]> {
    if (filter.states?.length === 0) return [];
    const { statement, values } = listStatement(filter);
    const rows = await this.#database.query(statement, values);
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
    const { unresolved, held, undelivered, offered, refunding, unrefunded } = counted ?? {};
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
    const [columns] = await this.#database.query(BURIED, [digestOf(key.toLowerCase())]);
    return columns && readTombstone(columns).transaction;
  }

  async ended({ beforeMs, after, limit }: EndedPage): Promise<readonly PaymentDetail[]> {
    const behind = [after?.claimedMs ?? -1, after?.key ?? ""];
    const shown: PaymentDetail[] = [];
    for (const { key } of await this.#database.query(ENDED, [...behind, beforeMs, limit])) {
      const detail = await this.show(String(key));
      if (detail !== undefined) shown.push(detail);
    }
    return shown;
  }

  async sales({ sinceMs, after, limit }: SalesPage): Promise<readonly SaleRecord[]> {
    const behind = [after?.claimedMs ?? Number.MAX_SAFE_INTEGER, after?.key ?? ""];
    const rows = await this.#database.query(SALES, [sinceMs, ...behind, limit]);
    return rows.map((columns) => {
      const { deliveredMs } = columns;
      return readSale(columns, deliveredMs === null ? null : Number(deliveredMs));
    });
  }

  async accounts(days: Days): Promise<readonly Entry[]> {
    return readAccounts(this.#database, days);
  }

  credits(): Promise<readonly CreditsSum[]> {
    return readCredits(this.#database);
  }

  creditsOf(payer: string): Promise<PayerCredits> {
    return readCreditsOf(this.#database, payer);
  }

  evidence(days: Days): AsyncGenerator<readonly Evidence[]> {
    return readEvidence(this.#database, days);
  }

  async usedElsewhere(limit: number): Promise<readonly UsedElsewhere[]> {
    return (await this.#database.query(USED_ELSEWHERE, [limit])).map(readUsedElsewhere);
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
  const database = await openBeside(url);
  const books = new PostgresBooks(database);
  return {
    list: (filter) => books.list(filter),
    show: (name) => books.show(name),
    counts: () => books.counts(),
    buried: (key) => books.buried(key),
    ended: (page) => books.ended(page),
    sales: (page) => books.sales(page),
    accounts: (days) =>
      database.transaction(async (session) => {
        await session.query(ONE_MOMENT, []);
        return new PostgresBooks(session).accounts(days);
      }),
    credits: () =>
      database.transaction(async (session) => {
        await session.query(ONE_MOMENT, []);
        return new PostgresBooks(session).credits();
      }),
    creditsOf: (payer) => books.creditsOf(payer),
    evidence: (days) => books.evidence(days),
    usedElsewhere: (limit) => books.usedElsewhere(limit),
    close: () => database.close(),
  };
}

function resourceOf(row: PaymentRow): string {
  try {
    return requestOf(row).paymentRequirements.resource;
  } catch {
    return "";
  }
}
