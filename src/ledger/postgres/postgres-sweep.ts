/**
 * How what is over leaves the PostgreSQL ledger: one replica at a time, a few rows in each transaction. The
 * space is used again once the server's autovacuum has seen it.
 */
import type { PaymentKey } from "../../x402/payment-key.ts";
import type { PaymentDetail } from "../books.ts";
import { requestIn, stateOf } from "../payment-row.ts";
import { closePayment, closeSubmission, readClosing } from "./postgres-accounts.ts";
import { PostgresBooks } from "./postgres-books.ts";
import type { PostgresColumns, PostgresDatabase, Session, Statement } from "./postgres-database.ts";
import type { OnUnreadable } from "./postgres-queues.ts";
import { submissionStateOf } from "../submission-row.ts";
import {
  fateOf,
  type Candidate,
  type Fate,
  type SweepPlace,
  type SweepStep,
  type Swept,
} from "../sweep.ts";
import { digestOf, packTransaction, tombstoneOf } from "../tombstone.ts";
import { messageOf } from "../../x402/result.ts";

/** Payments, or submissions, that one step looks at. */
const SWEPT_TOGETHER = 100;

/** Names the lock under which one replica sweeps while the others leave it alone. */
export const SWEEP_LOCK = "coinslot sweep";

const PAYMENTS: SweepPlace = { stage: "payments", ms: -1, id: 0 };
const SUBMISSIONS: SweepPlace = { stage: "submissions", ms: -1, id: "" };

const TRY_LOCK: Statement = {
  name: "try_sweep_lock",
  text: `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS "locked"`,
};

/** What {@link candidateIn} and {@link removal} need, of payments that are called `p` and their submissions, `s`. */
export const CANDIDATE = `p.payment_key AS "key", p.id AS "id", p.created_ms AS "ms", p.version AS "version",
  p.state AS "state", p.binding IS NULL AS "isForOthers", p.updated_ms AS "updatedMs",
  p.state = 'FAILED' AND p.held_transaction IS NOT NULL AS "isPaidBack",
  p.refund_state AS "refundState", s.state AS "submissionState", p.binding AS "binding",
  p.settled_transaction AS "settledTransaction", p.held_transaction AS "heldTransaction",
  CASE WHEN p.binding IS NULL THEN p.idempotency_key END AS "idempotencyKey",
  CASE WHEN p.state = 'FAILED' THEN p.request END AS "request"`;

const CANDIDATES: Statement = {
  name: "sweep_candidates",
  text: `
    SELECT ${CANDIDATE}
    FROM coinslot.payments AS p LEFT JOIN coinslot.submissions AS s ON s.id = p.submission
    WHERE (p.created_ms, p.id) > ($1, $2) AND p.created_ms < $3
      AND p.look_again_ms IS NULL
    ORDER BY p.created_ms, p.id LIMIT $4`,
};

/** Takes a list of objects; a digest is in hex there. */
const REMOVE: Statement = {
  name: "sweep_payments",
  text: `
    WITH given AS (
      SELECT * FROM json_to_recordset($1::json)
        AS g("key" text, "id" bigint, "version" bigint, "digest" text, "transaction" text, "caller" text)
    ),
    gone AS (
      DELETE FROM coinslot.payments AS p USING given AS g
      WHERE p.payment_key = g."key" AND p.id = g."id" AND p.version = g."version"
      RETURNING g."key", g."digest", g."transaction", g."caller"
    ),
    buried AS (
      INSERT INTO coinslot.tombstones (payment_key, transaction_id, caller)
      SELECT decode("digest", 'hex'), decode("transaction", 'hex'), decode("caller", 'hex')
      FROM gone WHERE "transaction" IS NOT NULL
      ON CONFLICT (payment_key) DO NOTHING
    )
    SELECT "key" FROM gone`,
};

/**
 * One row a submission that was looked at, gone or not. One that has left a payment behind stays until that is decided:
 * where it fails, or is held, its submission is that one again.
 */
const submissionsOn = (page: string): string => `
    WITH page AS (
      SELECT s.id, s.signed_ms, s.variants FROM coinslot.submissions AS s
      WHERE s.state = 'CLOSED' AND ${page}
    ),
    gone AS (
      DELETE FROM coinslot.submissions AS s USING page
      WHERE s.id = page.id
        AND NOT EXISTS (SELECT FROM coinslot.payments AS p WHERE p.submission = page.id)
        AND NOT EXISTS (
          SELECT FROM coinslot.payments AS p WHERE p.state IN ('CLAIMED', 'SIGNED')
            AND p.submission IS NULL AND p.left_by = page.id)
      RETURNING s.*
    ),
    named AS (
      DELETE FROM coinslot.submission_transactions WHERE transaction_id IN (
        SELECT lower(v ->> 'transaction') FROM gone, json_array_elements(gone.variants::json) AS v)
    )
    SELECT page.id AS "id", page.signed_ms AS "ms", gone.network AS "network", gone.state AS "state",
      gone.variants AS "variants", gone.signed_ms AS "signedMs", gone.cost AS "cost"
    FROM page LEFT JOIN gone ON gone.id = page.id ORDER BY page.signed_ms, page.id`;

const REMOVE_SUBMISSIONS: Statement = {
  name: "sweep_submissions",
  text: submissionsOn(`(s.signed_ms, s.id) > ($1, $2) AND s.signed_ms < $3
      ORDER BY s.signed_ms, s.id LIMIT $4`),
};

export const REMOVE_NAMED_SUBMISSIONS: Statement = {
  name: "forget_submissions",
  text: submissionsOn("s.id = ANY ($1)"),
};

const FORGET: Statement = {
  name: "forget_used_elsewhere",
  text: `DELETE FROM coinslot.used_elsewhere WHERE seen_ms < $1`,
};

/** See {@link Sweeping.sweep}. */
export function sweepOnce(
  database: PostgresDatabase,
  step: SweepStep & { readonly nowMs: number },
  onUnreadable: OnUnreadable,
): Promise<Swept> {
  return database.transaction(async (session) => {
    const [lock] = await session.query(TRY_LOCK, [SWEEP_LOCK]);
    if (lock?.locked !== true) return { payments: 0, next: undefined };
    const { from = PAYMENTS } = step;
    return from.stage === "payments"
      ? sweepPayments(session, { ...step, from }, onUnreadable)
      : sweepSubmissions(session, { ...step, from });
  });
}

interface Placed {
  readonly from: SweepPlace;
}

async function sweepPayments(
  session: Session,
  { beforeMs, nowMs, from, archive }: SweepStep & Placed & { readonly nowMs: number },
  onUnreadable: OnUnreadable,
): Promise<Swept> {
  const rows = await session.query(CANDIDATES, [from.ms, from.id, beforeMs, SWEPT_TOGETHER]);
  const doomed = rows.flatMap((columns) => {
    const fate = readFate(columns, { beforeMs, nowMs }, onUnreadable);
    return fate === "kept" ? [] : [{ columns, fate }];
  });
  if (archive !== undefined && doomed.length > 0) {
    const books = new PostgresBooks(session);
    const shown: PaymentDetail[] = [];
    for (const { columns } of doomed) {
      const detail = await books.show(String(columns.key));
      if (detail !== undefined) shown.push(detail);
    }
    await archive(shown);
  }
  const gone = await removePayments(session, doomed);
  return { payments: gone.size, next: behind(from, rows) ?? SUBMISSIONS };
}

export interface RemovedPayment {
  readonly columns: PostgresColumns;
  readonly fate: Fate;
}

/** The keys of those that were there as they were read, and are not any more. */
export async function removePayments(
  session: Session,
  doomed: readonly RemovedPayment[],
): Promise<ReadonlySet<unknown>> {
  const given = doomed.map(({ columns, fate }) => removal(columns, fate === "buried"));
  if (given.length === 0) return new Set();
  const closing = await readClosing(
    session,
    given.map(({ key }) => key),
  );
  const removed = await session.query(REMOVE, [JSON.stringify(given)]);
  const gone = new Set(removed.map(({ key }) => key));
  for (const columns of closing) if (gone.has(columns.key)) await closePayment(session, columns);
  return gone;
}

export function candidateIn(columns: PostgresColumns): Candidate {
  const { submissionState } = columns;
  return {
    state: stateOf(columns.state),
    isForOthers: columns.isForOthers === true,
    isPaidBack: columns.isPaidBack === true,
    refundState: typeof columns.refundState === "string" ? columns.refundState : null,
    updatedMs: Number(columns.updatedMs),
    submissionState: submissionState === null ? null : submissionStateOf(submissionState),
    request: () => requestIn(String(columns.request)),
  };
}

function readFate(
  columns: PostgresColumns,
  { beforeMs, nowMs }: { readonly beforeMs: number; readonly nowMs: number },
  onUnreadable: OnUnreadable,
): Fate {
  try {
    return fateOf(candidateIn(columns), beforeMs, nowMs);
  } catch (error) {
    onUnreadable(String(columns.key), messageOf(error));
    return "kept";
  }
}

function removal(columns: PostgresColumns, isBuried: boolean): { readonly key: PaymentKey } {
  const { key, id, version } = columns;
  return Object.assign(
    { key: String(key) as PaymentKey, id, version },
    isBuried && staying(columns),
  );
}

function staying(columns: PostgresColumns): object {
  const { transaction, caller } = tombstoneOf({
    state: stateOf(columns.state),
    binding: textIn(columns.binding),
    idempotencyKey: textIn(columns.idempotencyKey),
    settledTransaction: textIn(columns.settledTransaction),
    heldTransaction: textIn(columns.heldTransaction),
  });
  return {
    digest: digestOf(String(columns.key)).toString("hex"),
    transaction: packTransaction(transaction).toString("hex"),
    caller: caller?.toString("hex") ?? null,
  };
}

function textIn(column: unknown): string | null {
  return typeof column === "string" ? column : null;
}

async function sweepSubmissions(
  session: Session,
  { beforeMs, from }: SweepStep & Placed,
): Promise<Swept> {
  const values = [from.ms, from.id, beforeMs, SWEPT_TOGETHER];
  const rows = await session.query(REMOVE_SUBMISSIONS, values);
  for (const columns of rows) if (columns.state !== null) await closeSubmission(session, columns);
  const next = behind(from, rows);
  if (next === undefined) await session.query(FORGET, [beforeMs]);
  return { payments: 0, next };
}

/** Where the next step of a stage goes on; undefined where the stage is over. */
function behind({ stage }: SweepPlace, rows: readonly PostgresColumns[]): SweepPlace | undefined {
  const last = rows.length < SWEPT_TOGETHER ? undefined : rows.at(-1);
  if (last === undefined) return undefined;
  const id = stage === "payments" ? Number(last.id) : String(last.id);
  return { stage, ms: Number(last.ms), id };
}
