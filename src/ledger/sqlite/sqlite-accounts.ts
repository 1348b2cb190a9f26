/** The accounts of the SQLite ledger: read at one moment, and what a sweep closes. */
import {
  bearerOf,
  entriesOf,
  gasOf,
  isMovedBy,
  plus,
  readEntry,
  readPaid,
  shareOf,
  spanOf,
  timesOf,
  Totals,
  type Bearer,
  type Days,
  type Entry,
  type PaidPayment,
} from "../accounts.ts";
import type { Evidence, PaymentEvent } from "../books.ts";
import { gasEvidence, readEvent, readPaidEvidence } from "../books-row.ts";
import { stateOf } from "../payment-row.ts";
import { readSubmissionRow, type SubmissionRow } from "../submission-row.ts";
import type { Columns, SqliteDatabase } from "./sqlite-database.ts";

/** Payments, or submissions, that are read at once. */
const PAGE = 1_000;

const PAID_COLUMNS = `payment_key AS "key", rowid AS "id", created_ms AS "ms", state, binding, route, network, asset,
  amount_atomic AS "amount", pay_to AS "payTo", payer, refund_state AS "refundState", submission,
  coalesce(settled_transaction, held_transaction) AS "transaction", history`;
const IS_PAID = "coalesce(settled_transaction, held_transaction) IS NOT NULL";
const SUBMISSION = `id, network, state, variants, signed_ms AS "signedMs", cost`;

/** All at one moment: nothing else is done meanwhile by this process. */
export function readAccounts(database: SqliteDatabase, days: Days): readonly Entry[] {
  const totals = new Totals(days);
  return database.snapshot(() => {
    const closed = "SELECT * FROM closed_entries WHERE day BETWEEN ? AND ?";
    totals.add(database.all(closed, [days.from, days.to]).map(readEntry));
    for (const rows of paidPages(database, days)) {
      for (const columns of rows) totals.add(entriesOf(paidIn(columns)));
    }
    for (const submissions of costlyPages(database, days)) {
      for (const each of submissions) totals.add(gasOf(each, bearersOf(database, each)));
    }
    return totals.list();
  });
}

/** Page by page: what happens between two pages may be seen or not. */
export function* readEvidence(
  database: SqliteDatabase,
  days: Days,
): Generator<readonly Evidence[]> {
  const { fromMs, endMs } = spanOf(days);
  for (const rows of paidPages(database, days, ", request")) {
    yield rows.flatMap((columns) => {
      const { paidMs } = paidIn(columns);
      return paidMs >= fromMs && paidMs < endMs ? [readPaidEvidence(columns)] : [];
    });
  }
  for (const submissions of costlyPages(database, days)) yield submissions.flatMap(gasEvidence);
}

/** Payments that may have been paid, or paid back, on those days. */
function* paidPages(
  database: SqliteDatabase,
  days: Days,
  more = "",
): Generator<readonly Columns[]> {
  const { fromMs, endMs } = spanOf(days);
  for (let behind = [-1, 0]; ;) {
    const rows = database.all(
      `SELECT ${PAID_COLUMNS}${more} FROM payments INDEXED BY payments_by_time
       WHERE (created_ms, rowid) > (?, ?) AND created_ms < ? AND updated_ms >= ? AND ${IS_PAID}
       ORDER BY created_ms, rowid LIMIT ${PAGE}`,
      [...behind, endMs, fromMs],
    );
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows;
    behind = [Number(last.ms), Number(last.id)];
  }
}

/** Signed on those days. */
function* costlyPages(database: SqliteDatabase, days: Days): Generator<readonly SubmissionRow[]> {
  const { fromMs, endMs } = spanOf(days);
  for (let behind = 0; ;) {
    const rows = database.all(
      `SELECT ${SUBMISSION}, rowid AS "place" FROM submissions
       WHERE rowid > ? AND cost IS NOT NULL AND signed_ms >= ? AND signed_ms < ?
       ORDER BY rowid LIMIT ${PAGE}`,
      [behind, fromMs, endMs],
    );
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows.map(readSubmissionRow);
    behind = Number(last.place);
  }
}

/** Of the payments that it moved and that are still there. */
function bearersOf(database: SqliteDatabase, submission: SubmissionRow): readonly Bearer[] {
  const rows = database.all(
    `SELECT ${PAID_COLUMNS} FROM payments WHERE submission = ? AND ${IS_PAID} ORDER BY rowid`,
    [submission.id],
  );
  return rows.filter((columns) => isMovedBy(submission, columns.transaction)).map(bearerOf);
}

function paidIn(columns: Columns): PaidPayment {
  return readPaid(columns, timesOf(stateOf(columns.state), readHistory(columns.history)));
}

/** A line is JSON of `[atMs, state, note, life]`. */
export function readHistory(history: Columns[string] | undefined): readonly PaymentEvent[] {
  const lines = String(history ?? "").split("\n");
  return lines.filter(Boolean).map((line) => {
    const [atMs, state, note, by] = Object(JSON.parse(line)) as readonly unknown[];
    return readEvent({ atMs, state, note, by });
  });
}

/** What is to be added to the totals when that payment goes; within its caller's transaction. */
export function readClosing(database: SqliteDatabase, key: string): Columns | undefined {
  const sql = `SELECT ${PAID_COLUMNS} FROM payments WHERE payment_key = ? AND ${IS_PAID}`;
  return database.get(sql, [key]);
}

/** Of a payment that has just gone. */
export function closePayment(database: SqliteDatabase, columns: Columns): void {
  close(database, entriesOf(paidIn(columns)));
  const sql = `SELECT ${SUBMISSION} FROM submissions WHERE id = ?`;
  const found = database.get(sql, [columns.submission ?? null]);
  if (found === undefined) return;
  const submission = readSubmissionRow(found);
  if (!isMovedBy(submission, columns.transaction)) return;
  const shared = shareOf(submission, bearerOf(columns));
  if (shared === undefined) return;
  close(database, [shared.entry]);
  const left = JSON.stringify(shared.left);
  database.run("UPDATE submissions SET cost = ? WHERE id = ?", [left, submission.id]);
}

/** Of a submission that has just gone. */
export function closeSubmission(database: SqliteDatabase, submission: SubmissionRow): void {
  close(database, gasOf(submission, []));
}

/** Adds to the sums of their days, within its caller's transaction. */
export function close(database: SqliteDatabase, entries: readonly Entry[]): void {
  for (const entry of entries) {
    const { day, kind, route, network, asset, account } = entry;
    const name = [day, kind, route, network, asset, account];
    const known = database.get(
      `SELECT * FROM closed_entries WHERE day = ? AND kind = ? AND route = ? AND network = ?
         AND asset = ? AND account = ?`,
      name,
    );
    const { count, amount, attodollars } =
      known === undefined ? entry : plus(readEntry(known), entry);
    database.run(
      `INSERT OR REPLACE INTO closed_entries (day, kind, route, network, asset, account, count, amount, attodollars)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      [...name, count, String(amount), attodollars === null ? null : String(attodollars)],
    );
  }
}
