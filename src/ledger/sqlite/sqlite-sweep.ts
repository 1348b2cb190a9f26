/**
 * How what is over leaves the SQLite ledger. The pages that it leaves are used again for what comes; the file
 * does not shrink. A step is short, since it stops everything else in the process with the money.
 */
import type { PaymentKey } from "../../x402/payment-key.ts";
import type { Books } from "../books.ts";
import { requestIn, stateOf } from "../payment-row.ts";
import { closePayment, closeSubmission, readClosing } from "./sqlite-accounts.ts";
import type { SqliteCore } from "./sqlite-core.ts";
import type { Columns, SqliteDatabase } from "./sqlite-database.ts";
import { readSubmissionRow, submissionStateOf, type SubmissionRow } from "../submission-row.ts";
import {
  fateOf,
  type Candidate,
  type Fate,
  type SweepPlace,
  type SweepStep,
  type Swept,
} from "../sweep.ts";
import { messageOf } from "../../x402/result.ts";

/** Payments, or submissions, that one step looks at: each takes some tenths of a millisecond to delete. */
const SWEPT_TOGETHER = 8;

const PAYMENTS: SweepPlace = { stage: "payments", ms: -1, id: 0 };
const SUBMISSIONS: SweepPlace = { stage: "submissions", ms: -1, id: 0 };

/** Of payments that are not decided: where one of them fails, or is held, its submission is that which left it behind. */
const LEFT_BY = `
  SELECT left_by FROM payments INDEXED BY claimed_payments
    WHERE state = 'CLAIMED' AND left_by IS NOT NULL
  UNION ALL SELECT left_by FROM payments INDEXED BY handed_over_payments
    WHERE state = 'SIGNED' AND submission IS NULL AND left_by IS NOT NULL`;

/** What {@link candidateIn} reads, of payments that are called `p` and their submissions, `s`. */
export const CANDIDATE = `p.payment_key AS "key", p.rowid AS "id", p.created_ms AS "ms", p.version AS "version",
  p.state AS "state", p.binding IS NULL AS "isForOthers", p.updated_ms AS "updatedMs",
  p.state = 'FAILED' AND p.held_transaction IS NOT NULL AS "isPaidBack",
  p.refund_state AS "refundState", s.state AS "submissionState", CASE WHEN p.state = 'FAILED' THEN p.request END AS "request"`;

export interface SweptGround {
  readonly core: SqliteCore;
  readonly database: SqliteDatabase;
}

interface Ground extends SweptGround {
  readonly books: Books;
}

export interface DoomedPayment {
  readonly key: PaymentKey;
  readonly version: number;
  readonly fate: Fate;
}

export async function sweepOnce(ground: Ground, life: string, step: SweepStep): Promise<Swept> {
  const { from = PAYMENTS } = step;
  return from.stage === "payments"
    ? sweepPayments(ground, life, { ...step, from })
    : sweepSubmissions(ground, { ...step, from });
}

async function sweepPayments(
  { core, database, books }: Ground,
  life: string,
  { beforeMs, from, archive }: SweepStep & { readonly from: SweepPlace },
): Promise<Swept> {
  const rows = database.all(
    `SELECT ${CANDIDATE}
     FROM payments AS p INDEXED BY payments_by_time LEFT JOIN submissions AS s ON s.id = p.submission
     WHERE (p.created_ms, p.rowid) > (:ms, :id) AND p.created_ms < :beforeMs
       AND p.look_again_ms IS NULL
     ORDER BY p.created_ms, p.rowid LIMIT :limit`,
    { ms: from.ms, id: from.id, beforeMs, limit: SWEPT_TOGETHER },
  );
  const doomed = rows.flatMap((columns) => {
    const found = doomedIn(columns, { beforeMs, nowMs: core.time.now() }, core.onUnreadable);
    return found.fate === "kept" ? [] : [found];
  });
  if (archive !== undefined && doomed.length > 0) {
    const shown = await Promise.all(doomed.map(({ key }) => books.show(key)));
    await archive(shown.filter((each) => each !== undefined));
  }
  const remove = (each: DoomedPayment): boolean => removePayment({ core, database }, life, each);
  const payments =
    doomed.length === 0 ? 0 : await core.writeLater(() => doomed.filter(remove).length);
  return { payments, next: behind(from, rows) ?? SUBMISSIONS };
}

/** Within a transaction; false where it has changed. */
export function removePayment(
  { core, database }: SweptGround,
  life: string,
  { key, version, fate }: DoomedPayment,
): boolean {
  const closing = readClosing(database, key);
  const isGone = core.remove(key, life, version, fate === "buried");
  if (isGone && closing !== undefined) closePayment(database, closing);
  return isGone;
}

function doomedIn(
  columns: Columns,
  { beforeMs, nowMs }: { readonly beforeMs: number; readonly nowMs: number },
  onUnreadable: (name: string, reason: string) => void,
): DoomedPayment {
  // The column holds nothing but keys.
  const key = String(columns.key) as PaymentKey;
  const version = Number(columns.version);
  try {
    return { key, version, fate: fateOf(candidateIn(columns), beforeMs, nowMs) };
  } catch (error) {
    onUnreadable(key, messageOf(error));
    return { key, version, fate: "kept" };
  }
}

export function candidateIn(columns: Columns): Candidate {
  const { submissionState, request } = columns;
  return {
    state: stateOf(columns.state),
    isForOthers: columns.isForOthers === 1,
    isPaidBack: columns.isPaidBack === 1,
    refundState: typeof columns.refundState === "string" ? columns.refundState : null,
    updatedMs: Number(columns.updatedMs),
    submissionState: submissionState === null ? null : submissionStateOf(submissionState),
    request: () => requestIn(String(request)),
  };
}

async function sweepSubmissions(
  { core, database }: Ground,
  { beforeMs, from }: SweepStep & { readonly from: SweepPlace },
): Promise<Swept> {
  // In the order in which they were stored, which costs no index; one that was signed anew lately may stand early.
  const rows = database.all(
    `SELECT id AS "name", rowid AS "id", network, state, variants, signed_ms AS "signedMs", cost,
       signed_ms AS "ms",
       EXISTS (SELECT 1 FROM payments WHERE submission = submissions.id) OR id IN (${LEFT_BY}) AS "isUsed"
     FROM submissions WHERE rowid > :id ORDER BY rowid LIMIT :limit`,
    { id: from.id, limit: SWEPT_TOGETHER },
  );
  const old = rows.filter(({ ms }) => Number(ms) < beforeMs);
  const unused = old.flatMap((columns) => readUnused(columns, core.onUnreadable));
  const next = old.length === 0 ? undefined : behind(from, rows);
  if (unused.length > 0 || next === undefined) {
    await core.writeLater(() => {
      for (const submission of unused) removeSubmission(database, submission);
      if (next !== undefined) return;
      database.run("DELETE FROM used_elsewhere WHERE seen_ms < ?", [beforeMs]);
    });
  }
  return { payments: 0, next };
}

function readUnused(
  columns: Columns,
  onUnreadable: (name: string, reason: string) => void,
): readonly SubmissionRow[] {
  try {
    const isUnused = columns.state === "CLOSED" && columns.isUsed === 0;
    return isUnused ? [readSubmissionRow({ ...columns, id: columns.name })] : [];
  } catch (error) {
    onUnreadable(String(columns.name), messageOf(error));
    return [];
  }
}

/** With the names of its transactions; false where it carries a payment, has left one behind, or is not final. */
export function removeSubmission(database: SqliteDatabase, submission: SubmissionRow): boolean {
  const { id, variants } = submission;
  const removed = database.run(
    `DELETE FROM submissions WHERE id = :id AND state = 'CLOSED'
       AND NOT EXISTS (SELECT 1 FROM payments WHERE submission = :id) AND :id NOT IN (${LEFT_BY})`,
    { id },
  );
  if (removed > 0) closeSubmission(database, submission);
  for (const { transaction } of removed === 0 ? [] : variants) {
    database.run(
      "DELETE FROM submission_transactions WHERE transaction_id = lower(?) AND submission = ?",
      [transaction, id],
    );
  }
  return removed > 0;
}

/** Where the next step of a stage goes on; undefined where the stage is over. */
function behind({ stage }: SweepPlace, rows: readonly Columns[]): SweepPlace | undefined {
  const last = rows.length < SWEPT_TOGETHER ? undefined : rows.at(-1);
  return last && { stage, ms: Number(last.ms), id: Number(last.id) };
}
