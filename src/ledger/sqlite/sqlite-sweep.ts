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
  forgottenIn,
  judgeForgetting,
  lookedAt,
  type ForgetStep,
  type Forgotten,
} from "../forgetting.ts";
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

/** What {@link Candidate} needs, of payments that are called `p` and their submissions, `s`. */
const CANDIDATE = `p.payment_key AS "key", p.rowid AS "id", p.created_ms AS "ms", p.version AS "version",
  p.state AS "state", p.binding IS NULL AS "isForOthers", p.updated_ms AS "updatedMs",
  p.refund_state AS "refundState", s.state AS "submissionState", CASE WHEN p.state = 'FAILED' THEN p.request END AS "request"`;

interface Ground {
  readonly core: SqliteCore;
  readonly database: SqliteDatabase;
  readonly books: Books;
}

interface Doomed {
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
  const remove = (each: Doomed): boolean => removePayment({ core, database }, life, each);
  const payments =
    doomed.length === 0 ? 0 : await core.writeLater(() => doomed.filter(remove).length);
  return { payments, next: behind(from, rows) ?? SUBMISSIONS };
}

/** Within a transaction; false where it has changed. */
function removePayment(
  { core, database }: Pick<Ground, "core" | "database">,
  life: string,
  { key, version, fate }: Doomed,
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
): Doomed {
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

function candidateIn(columns: Columns): Candidate {
  const { submissionState, request } = columns;
  return {
    state: stateOf(columns.state),
    isForOthers: columns.isForOthers === 1,
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
function removeSubmission(database: SqliteDatabase, submission: SubmissionRow): boolean {
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

/** His own, and what was sent to him in return for one of those. */
const OF_PAYER = `
  SELECT ${CANDIDATE}, p.look_again_ms IS NOT NULL AS "isDoubted", p.submission AS "submission"
  FROM payments AS p LEFT JOIN submissions AS s ON s.id = p.submission
  WHERE p.rowid IN (
      SELECT rowid FROM payments INDEXED BY payments_by_payer WHERE lower(payer) = :payer
      ORDER BY created_ms DESC LIMIT :limit)
    OR p.payment_key IN (
      SELECT refund ->> '$.transfer.key' FROM payments INDEXED BY payments_by_payer
      WHERE lower(payer) = :payer AND refund IS NOT NULL LIMIT :limit)
  ORDER BY p.created_ms DESC, p.rowid DESC`;

/** One step of {@link Forgetting.forget}, within a transaction. */
export function forgetPayer(
  { core, database }: Pick<Ground, "core" | "database">,
  life: string,
  step: ForgetStep,
): Forgotten {
  core.storeNow();
  const payer = step.payer.toLowerCase();
  const rows = database.all(OF_PAYER, { payer, limit: lookedAt(step) });
  const known = rows.map((columns) => ({
    ...candidateIn(columns),
    key: String(columns.key) as PaymentKey,
    version: Number(columns.version),
    isDoubted: columns.isDoubted === 1,
    submission: columns.submission,
  }));
  const judged = judgeForgetting(known, core.time.now());
  if (judged.unfinished.length > 0 || step.isTried) {
    const elsewhere = "SELECT count(*) AS n FROM used_elsewhere WHERE lower(payer) = ?";
    const usedElsewhere = Number(database.get(elsewhere, [payer])?.n);
    return forgottenIn(step, rows.length, judged, { submissions: 0, usedElsewhere });
  }
  const submissions = new Set<unknown>();
  for (const { payment, fate } of judged.going) {
    if (!removePayment({ core, database }, life, { ...payment, fate })) continue;
    if (payment.submission !== null) submissions.add(payment.submission);
  }
  const gone = [...submissions].filter((id) => {
    const columns = database.get(
      `SELECT id, network, state, variants, signed_ms AS "signedMs", cost FROM submissions WHERE id = ?`,
      [String(id)],
    );
    return columns !== undefined && removeSubmission(database, readSubmissionRow(columns));
  });
  const usedElsewhere = database.run("DELETE FROM used_elsewhere WHERE lower(payer) = ?", [payer]);
  // Read through from end to end: once, with the last of his payments.
  if (rows.length < lookedAt(step)) {
    database.run("DELETE FROM outbox WHERE lower(data ->> '$.payer') = ?", [payer]);
  }
  // One that counts yet stays until it does not: it would be good for a second use.
  const isOver = "DELETE FROM used_sign_ins WHERE payer = ? AND until_ms <= ?";
  database.run(isOver, [payer, core.time.now()]);
  return forgottenIn(step, rows.length, judged, { submissions: gone.length, usedElsewhere });
}

/** Where the next step of a stage goes on; undefined where the stage is over. */
function behind({ stage }: SweepPlace, rows: readonly Columns[]): SweepPlace | undefined {
  const last = rows.length < SWEPT_TOGETHER ? undefined : rows.at(-1);
  return last && { stage, ms: Number(last.ms), id: Number(last.id) };
}
