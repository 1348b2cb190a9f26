/** The accounts of the PostgreSQL ledger, and what a sweep closes of them. */
import {
  bearerOf,
  entriesOf,
  gasOf,
  isMovedBy,
  readEntry,
  readPaid,
  shareOf,
  spanOf,
  Totals,
  type Bearer,
  type Days,
  type Entry,
  type PaidPayment,
} from "../accounts.ts";
import { gasEvidence, readPaidEvidence } from "../books-row.ts";
import type { Evidence } from "../books.ts";
import { readSubmissionRow, type SubmissionRow } from "../submission-row.ts";
import type { PostgresColumns, Session, Statement } from "./postgres-database.ts";

/** Payments, or submissions, that are read at once. */
const PAGE = 1_000;

/** Times as {@link PaidPayment} has them, by what the payment's history tells. */
const PAID = `p.payment_key AS "key", p.id AS "id", p.created_ms AS "ms", p.state AS "state", p.binding AS "binding",
  p.route AS "route", p.network AS "network", p.asset AS "asset", p.amount_atomic AS "amount",
  p.pay_to AS "payTo", p.payer AS "payer", p.refund_state AS "refundState", p.submission AS "submission",
  coalesce(p.settled_transaction, p.held_transaction) AS "transaction", p.request AS "request",
  coalesce((SELECT min(e.at_ms) FROM coinslot.payment_events AS e WHERE e.payment_key = p.payment_key
    AND (e.state IN ('SETTLED', 'DELIVERING', 'DELIVERED') OR e.note LIKE 'held: %')), p.updated_ms) AS "paidMs",
  CASE WHEN p.state = 'FAILED' THEN coalesce((SELECT min(e.at_ms) FROM coinslot.payment_events AS e
    WHERE e.payment_key = p.payment_key AND e.state = 'FAILED' AND e.version > (
      SELECT min(f.version) FROM coinslot.payment_events AS f WHERE f.payment_key = p.payment_key
      AND (f.state IN ('SETTLED', 'DELIVERING', 'DELIVERED') OR f.note LIKE 'held: %'))), p.updated_ms) END
    AS "refundedMs"`;
const IS_PAID = "coalesce(p.settled_transaction, p.held_transaction) IS NOT NULL";
const SUBMISSION = `s.id AS "id", s.network AS "network", s.state AS "state", s.variants AS "variants",
  s.signed_ms AS "signedMs", s.cost AS "cost"`;

const CLOSED: Statement = {
  name: "closed_entries",
  text: `SELECT day AS "day", kind AS "kind", route AS "route", network AS "network", asset AS "asset",
           account AS "account", count AS "count", amount::text AS "amount", attodollars::text AS "attodollars"
         FROM coinslot.closed_entries WHERE day BETWEEN $1 AND $2`,
};

const PAYMENTS: Statement = {
  name: "paid_payments",
  text: `SELECT ${PAID} FROM coinslot.payments AS p
         WHERE (p.created_ms, p.id) > ($1, $2) AND p.created_ms < $3 AND p.updated_ms >= $4 AND ${IS_PAID}
         ORDER BY p.created_ms, p.id LIMIT ${PAGE}`,
};

const SUBMISSIONS: Statement = {
  name: "costly_submissions",
  text: `SELECT ${SUBMISSION}, ARRAY(
           SELECT json_build_array(coalesce(p.settled_transaction, p.held_transaction),
             p.route, p.binding)::text
           FROM coinslot.payments AS p WHERE p.submission = s.id AND ${IS_PAID} ORDER BY p.id) AS "carried"
         FROM coinslot.submissions AS s
         WHERE s.id > $1 AND s.cost IS NOT NULL AND s.signed_ms >= $2 AND s.signed_ms < $3
         ORDER BY s.id LIMIT ${PAGE}`,
};

const NAMED: Statement = {
  name: "paid_payments_named",
  text: `SELECT ${PAID} FROM coinslot.payments AS p WHERE p.payment_key = ANY ($1) AND ${IS_PAID}`,
};

const LOCK: Statement = {
  name: "lock_costly_submission",
  text: `SELECT ${SUBMISSION} FROM coinslot.submissions AS s WHERE s.id = $1 FOR UPDATE`,
};

const SHARE: Statement = {
  name: "share_cost",
  text: `UPDATE coinslot.submissions SET cost = $2 WHERE id = $1`,
};

const CLOSE: Statement = {
  name: "close_entry",
  text: `
    INSERT INTO coinslot.closed_entries AS c
      (day, kind, route, network, asset, account, count, amount, attodollars)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::numeric, $9::text::numeric)
    ON CONFLICT (day, kind, route, network, asset, account) DO UPDATE SET count = c.count + excluded.count,
      amount = c.amount + excluded.amount, attodollars = c.attodollars + excluded.attodollars`,
};

/** At one moment where the session's transaction sees one. */
export async function readAccounts(session: Session, days: Days): Promise<readonly Entry[]> {
  const totals = new Totals(days);
  totals.add((await session.query(CLOSED, [days.from, days.to])).map(readEntry));
  for await (const rows of paidPages(session, days)) {
    for (const columns of rows) totals.add(entriesOf(paidIn(columns)));
  }
  for await (const rows of costlyPages(session, days)) {
    for (const columns of rows) {
      const submission = readSubmissionRow(columns);
      totals.add(gasOf(submission, bearersIn(columns, submission)));
    }
  }
  return totals.list();
}

/** Page by page: what happens between two pages may be seen or not. */
export async function* readEvidence(
  session: Session,
  days: Days,
): AsyncGenerator<readonly Evidence[]> {
  const { fromMs, endMs } = spanOf(days);
  for await (const rows of paidPages(session, days)) {
    yield rows.flatMap((columns) => {
      const { paidMs } = paidIn(columns);
      return paidMs >= fromMs && paidMs < endMs ? [readPaidEvidence(columns)] : [];
    });
  }
  for await (const rows of costlyPages(session, days)) {
    yield rows.flatMap((columns) => gasEvidence(readSubmissionRow(columns)));
  }
}

/** Payments that may have been paid, or paid back, on those days. */
async function* paidPages(
  session: Session,
  days: Days,
): AsyncGenerator<readonly PostgresColumns[]> {
  const { fromMs, endMs } = spanOf(days);
  for (let behind: readonly unknown[] = [-1, 0]; ;) {
    const rows = await session.query(PAYMENTS, [...behind, endMs, fromMs]);
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows;
    behind = [last.ms, last.id];
  }
}

/** Signed on those days. */
async function* costlyPages(
  session: Session,
  days: Days,
): AsyncGenerator<readonly PostgresColumns[]> {
  const { fromMs, endMs } = spanOf(days);
  for (let behind: unknown = ""; ;) {
    const rows = await session.query(SUBMISSIONS, [behind, fromMs, endMs]);
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows;
    behind = last.id;
  }
}

function bearersIn({ carried }: PostgresColumns, submission: SubmissionRow): readonly Bearer[] {
  const pairs = Array.isArray(carried) ? carried.map((each) => JSON.parse(String(each))) : [];
  return pairs
    .filter(([transaction]) => isMovedBy(submission, transaction))
    .map(([, route, binding]) => bearerOf({ route, binding }));
}

function paidIn(columns: PostgresColumns): PaidPayment {
  const { paidMs, refundedMs } = columns;
  const times = {
    paidMs: Number(paidMs),
    refundedMs: refundedMs === null ? null : Number(refundedMs),
  };
  return readPaid(columns, times);
}

/** What is to be added to the totals when those payments go. */
export function readClosing(
  session: Session,
  keys: readonly string[],
): Promise<readonly PostgresColumns[]> {
  return session.query(NAMED, [keys]);
}

/** Of a payment that has just gone. */
export async function closePayment(session: Session, columns: PostgresColumns): Promise<void> {
  await close(session, entriesOf(paidIn(columns)));
  const [found] = await session.query(LOCK, [columns.submission]);
  if (found === undefined) return;
  const submission = readSubmissionRow(found);
  if (!isMovedBy(submission, columns.transaction)) return;
  const shared = shareOf(submission, bearerOf(columns));
  if (shared === undefined) return;
  await close(session, [shared.entry]);
  await session.query(SHARE, [submission.id, JSON.stringify(shared.left)]);
}

/** Of a submission that has just gone. */
export function closeSubmission(session: Session, columns: PostgresColumns): Promise<void> {
  return close(session, gasOf(readSubmissionRow(columns), []));
}

/** Adds to the sums of their days, within its caller's transaction. */
export async function close(session: Session, entries: readonly Entry[]): Promise<void> {
  for (const { day, kind, route, network, asset, account, count, amount, attodollars } of entries) {
    const sums = [count, String(amount), attodollars === null ? null : String(attodollars)];
    await session.query(CLOSE, [day, kind, route, network, asset, account, ...sums]);
  }
}
