/**
 * How payments stand in PostgreSQL: rows are read, and a step of the state machine is written in one
 * statement, with its line of history and its notice to the other replicas, only if the row is still the
 * one that was read.
 */
import type { PaymentKey } from "../../x402/payment-key.ts";
import { LedgerUnavailable, type StoredResponse } from "../ledger.ts";
import type { KeptResponse, Moment, Step } from "../machine-step.ts";
import {
  amountOf,
  identityOf,
  readPaymentRow,
  requestOf,
  type PaymentRow,
} from "../payment-row.ts";
import type { MessageDraft } from "../outbox.ts";
import { dayStart, type CountedRefunds } from "../refunds.ts";
import {
  StatementRefused,
  type PostgresColumns,
  type Session,
  type Statement,
} from "./postgres-database.ts";
import { tellingOf } from "./postgres-outbox.ts";
import { digestOf, readTombstone, type Tombstone } from "../tombstone.ts";

/** Notices carry the payment's key. */
export const CHANGED_CHANNEL = "coinslot_changed";
/** Notices carry the network. */
export const OFFERED_CHANNEL = "coinslot_offered";

/** A row as it was read. */
export interface Stored {
  readonly key: PaymentKey;
  /** Never given twice: a key that is dropped and claimed again has another. */
  readonly id: number;
  readonly row: PaymentRow;
}

/** A step from a row that was read, to a row. */
export interface Move {
  readonly stored: Stored;
  readonly next: PaymentRow;
  readonly note: string;
}

/** Each facet of a row with its column. */
const FACETS = [
  ["state", "state", "text"],
  ["version", "version", "bigint"],
  ["binding", "binding", "text"],
  ["target", "target", "text"],
  ["route", "route", "text"],
  ["idempotencyKey", "idempotency_key", "text"],
  ["request", "request", "text"],
  ["network", "network", "text"],
  ["payer", "payer", "text"],
  ["facilitator", "facilitator", "text"],
  ["handedOverAt", "handed_over_block", "bigint"],
  ["lookAgainMs", "look_again_ms", "bigint"],
  ["leftBy", "left_by", "text"],
  ["offered", "offered", "boolean"],
  ["submission", "submission", "text"],
  ["settledTransaction", "settled_transaction", "text"],
  ["heldTransaction", "held_transaction", "text"],
  ["attempts", "attempts", "integer"],
  ["servedTarget", "served_target", "text"],
  ["bodyHash", "body_hash", "text"],
  ["replays", "replays", "integer"],
  ["replayUntilMs", "replay_until_ms", "bigint"],
  ["ledTo", "led_to", "text"],
  ["repeats", "repeats", "integer"],
  ["repeatUntilMs", "repeat_until_ms", "bigint"],
  ["failureCode", "failure_code", "text"],
  ["failureDetail", "failure_detail", "text"],
  ["claimedBy", "claimed_by", "text"],
  ["holder", "holder", "text"],
  ["isLeft", "is_left", "boolean"],
  ["claimant", "claimant", "text"],
  ["renewals", "renewals", "integer"],
  ["renewedMs", "renewed_ms", "bigint"],
  ["identifier", "identifier", "text"],
  ["refundState", "refund_state", "text"],
  ["refund", "refund", "text"],
  ["refundCountedMs", "refund_counted_ms", "bigint"],
  ["fills", "fills", "text"],
  ["metered", "metered", "text"],
] as const satisfies readonly (readonly [keyof PaymentRow, string, string])[];

/** What operators are told, and what a payment is recalled by: as its first use says it. */
const LASTING = [
  ["asset", "asset"],
  ["amount", "amount_atomic"],
  ["payTo", "pay_to"],
  ["identity", "identity"],
] as const;

/** What {@link storedOf} reads. */
export const COLUMNS = [
  `p.payment_key AS "key"`,
  `p.id AS "id"`,
  ...FACETS.map(([name, column, type]) =>
    type === "boolean" ? `p.${column}::int AS "${name}"` : `p.${column} AS "${name}"`,
  ),
].join(", ");

const READ: Statement = {
  name: "read_payment",
  text: `SELECT ${COLUMNS} FROM coinslot.payments AS p WHERE p.payment_key = $1`,
};

const NAMED: Statement = {
  name: "read_named_payment",
  text: `SELECT ${COLUMNS} FROM coinslot.payments AS p WHERE p.identifier = $1`,
};

const TOMBSTONE: Statement = {
  name: "read_tombstone",
  text: `SELECT transaction_id AS "transaction", caller AS "caller"
         FROM coinslot.tombstones WHERE payment_key = $1`,
};

const GIVEN = [
  `"key" text, "id" bigint, "expected" bigint, "note" text`,
  ...LASTING.map(([name]) => `"${name}" text`),
  ...FACETS.map(([name, , type]) => `"${name}" ${type}`),
].join(", ");

const INSERT: Statement = {
  name: "insert_payment",
  text: `
    WITH given AS (SELECT * FROM json_to_record($1::json) AS g(${GIVEN})),
    made AS (
      INSERT INTO coinslot.payments (payment_key, created_ms, updated_ms,
        ${[...LASTING, ...FACETS].map(([, column]) => column).join(", ")})
      SELECT "key", $2::bigint, $2,
        ${[...LASTING, ...FACETS].map(([name]) => `"${name}"`).join(", ")}
      FROM given
      WHERE NOT EXISTS (SELECT FROM coinslot.tombstones AS t WHERE t.payment_key = $3)
      ON CONFLICT DO NOTHING
      RETURNING payment_key
    ),
    noted AS (
      INSERT INTO coinslot.payment_events (payment_key, version, at_ms, state, note, life)
      SELECT "key", "version", $2, "state", "note", "claimedBy" FROM given
      WHERE EXISTS (SELECT FROM made)
    )
    SELECT FROM made`,
};

/** Takes the moves, the time and the life; and what else is written beside them takes. */
function moving(name: string, from: "json_to_record" | "json_to_recordset", keeps = ""): Statement {
  return {
    name,
    text: `
      WITH given AS (SELECT * FROM ${from}($1::json) AS g(${GIVEN})),
      moved AS (
        UPDATE coinslot.payments AS p
        SET ${FACETS.map(([facet, column]) => `${column} = g."${facet}"`).join(", ")},
          ${LASTING.map(([name, column]) => `${column} = coalesce(g."${name}", p.${column})`).join(", ")},
          updated_ms = $2::bigint,
          created_ms = CASE WHEN g."asset" IS NULL THEN p.created_ms ELSE $2 END
        FROM given AS g
        WHERE p.payment_key = g."key" AND p.id = g."id" AND p.version = g."expected"
        RETURNING p.payment_key, p.version, p.state, p.offered, p.network, g."note"
      ),
      noted AS (
        INSERT INTO coinslot.payment_events (payment_key, version, at_ms, state, note, life)
        SELECT payment_key, version, $2, state, "note", $3 FROM moved
      )${keeps}
      SELECT pg_notify('${CHANGED_CHANNEL}', payment_key),
        CASE WHEN offered THEN pg_notify('${OFFERED_CHANNEL}', network) END
      FROM moved`,
  };
}

const MOVE = moving("move_payment", "json_to_record");
const MOVE_ALL = moving("move_payments", "json_to_recordset");
const MOVE_AND_KEEP = moving(
  "move_payment_and_keep",
  "json_to_record",
  `,
      kept AS (
        INSERT INTO coinslot.responses (payment_key, status, headers, body, until_ms, body_hash)
        SELECT payment_key, $4, $5, $6, $7, $8 FROM moved
        ON CONFLICT (payment_key) DO UPDATE SET status = EXCLUDED.status, headers = EXCLUDED.headers,
          body = EXCLUDED.body, until_ms = EXCLUDED.until_ms, body_hash = EXCLUDED.body_hash
      )`,
);

const MOVE_AND_TELL = moving(
  "move_payment_and_tell",
  "json_to_record",
  `,
      told AS (${tellingOf("$4", "$2", "moved")})`,
);

const DELETE: Statement = {
  name: "delete_payment",
  text: `
    WITH gone AS (
      DELETE FROM coinslot.payments WHERE payment_key = $1 AND id = $2 AND version = $3
      RETURNING payment_key
    )
    SELECT pg_notify('${CHANGED_CHANNEL}', payment_key) FROM gone`,
};

const RESPONSE: Statement = {
  name: "read_response",
  text: `SELECT status AS "status", headers AS "headers", body AS "body", body_hash AS "bodyHash"
         FROM coinslot.responses WHERE payment_key = $1`,
};

/** Kept answers that one statement removes at most: it must end within its time limit. */
const FORGOTTEN_AT_ONCE = 1_000;

const FORGET_RESPONSES: Statement = {
  name: "forget_responses",
  text: `DELETE FROM coinslot.responses WHERE payment_key = ANY (ARRAY(
           SELECT payment_key FROM coinslot.responses WHERE until_ms <= $1 LIMIT ${FORGOTTEN_AT_ONCE}
         ))`,
};

export async function readPayment(session: Session, key: PaymentKey): Promise<Stored | undefined> {
  const [columns] = await session.query(READ, [key]);
  return columns === undefined ? undefined : storedOf(columns);
}

/** The payment that has that identifier; none where there is no identifier. */
export async function readNamed(
  session: Session,
  identifier: string | undefined,
): Promise<PaymentRow | undefined> {
  const [columns] = identifier === undefined ? [] : await session.query(NAMED, [identifier]);
  return columns && storedOf(columns).row;
}

const LOCK_COUNTED: Statement = {
  name: "lock_counted_refunds",
  text: `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`,
};

const COUNTED: Statement = {
  name: "counted_refunds",
  text: `SELECT coalesce(sum(c.amount), 0)::text AS "all",
           coalesce(sum(c.amount) FILTER (WHERE p.payer = $5), 0)::text AS "payers"
         FROM coinslot.payments AS p, LATERAL (SELECT coalesce(
           p.refund::json->'ofCredits'->>'creditsAtomic', p.amount_atomic)::numeric AS amount) AS c
         WHERE p.refund_counted_ms >= $1 AND p.network = $2 AND lower(p.asset) = lower($3)
           AND p.payment_key <> $4`,
};

/** Until the end of the transaction no other refund of its network and token is counted. */
export async function lockCounted(session: Session, row: PaymentRow): Promise<void> {
  const { asset } = requestOf(row).paymentRequirements;
  await session.query(LOCK_COUNTED, [`coinslot refunds ${row.network} ${asset.toLowerCase()}`]);
}

/** What other refunds of its network and token count on this day. */
export async function readCounted(
  session: Session,
  { key, row }: Stored,
  nowMs: number,
): Promise<CountedRefunds> {
  const { asset } = requestOf(row).paymentRequirements;
  const asked = [dayStart(nowMs), row.network, asset, key, row.payer];
  const [found] = await session.query(COUNTED, asked);
  return { all: BigInt(String(found?.all)), payers: BigInt(String(found?.payers)) };
}

/** Reads {@link COLUMNS}. */
export function storedOf(columns: PostgresColumns): Stored {
  // The column holds nothing but keys.
  const key = String(columns.key) as PaymentKey;
  const row = readPaymentRow(columns);
  return { key, id: Number(columns.id), row: isOfOlder(row) ? { ...row, isLeft: true } : row };
}

/**
 * Whether an older program has it in work, beside this one on the same database: it never says when a request leaves,
 * so nobody would have it for ever. Such rows have no claimant and are for the payer only.
 */
function isOfOlder({ holder, binding, state }: PaymentRow): boolean {
  return holder === null && binding !== null && state !== "DELIVERED" && state !== "FAILED";
}

/** What is left of a payment that has no row. */
export async function readBuried(
  session: Session,
  key: PaymentKey,
): Promise<Tombstone | undefined> {
  const [columns] = await session.query(TOMBSTONE, [digestOf(key)]);
  return columns && readTombstone(columns);
}

/** Makes a row; false where there is one, a tombstone, or another row with its identifier. */
export async function insertPayment(
  session: Session,
  key: PaymentKey,
  { next, note }: { readonly next: PaymentRow; readonly note: string },
  { nowMs }: Moment,
): Promise<boolean> {
  const given = jsonOf({ ...next, ...lastingOf(next), key, note });
  try {
    return (await session.query(INSERT, [given, nowMs, digestOf(key)])).length === 1;
  } catch (error) {
    // It waited for the sweep that buried it, as the trigger has seen.
    if (error instanceof StatementRefused && error.sqlState === UNIQUE_VIOLATION) return false;
    throw error;
  }
}

const UNIQUE_VIOLATION = "23505";

/** What is written together with a step. */
interface Beside {
  readonly moment: Moment;
  readonly kept?: KeptResponse | undefined;
  /** Nothing with an answer that is kept. */
  readonly told?: readonly MessageDraft[];
}

/** Writes a step of the machine that changes something; false where the row is another by now. */
export async function writeStep(
  session: Session,
  stored: Stored,
  { next, note }: Pick<Step<unknown>, "next" | "note">,
  { moment, kept, told = [] }: Beside,
): Promise<boolean> {
  if (next === undefined) return true;
  if (next === null) {
    const { key, id, row } = stored;
    return (await session.query(DELETE, [key, id, row.version])).length === 1;
  }
  const given = jsonOf(givenOf({ stored, next, note: note ?? "" }));
  const values = [given, moment.nowMs, moment.life];
  if (told.length > 0) {
    return (await session.query(MOVE_AND_TELL, [...values, jsonOf(told)])).length === 1;
  }
  if (kept === undefined) return (await session.query(MOVE, values)).length === 1;
  const { status, headers, body, bodyHash = null } = kept.response;
  const answer = [status, jsonOf(headers), Buffer.from(body), kept.untilMs, bodyHash];
  return (await session.query(MOVE_AND_KEEP, [...values, ...answer])).length === 1;
}

/** Writes many at once, part of the caller's transaction; resolves with how many were still as read. */
export async function writeMoves(
  session: Session,
  moves: readonly Move[],
  { nowMs, life }: Moment,
): Promise<number> {
  return (await session.query(MOVE_ALL, [jsonOf(moves.map(givenOf)), nowMs, life])).length;
}

export async function readResponse(
  session: Session,
  key: PaymentKey,
): Promise<StoredResponse | undefined> {
  const [found] = await session.query(RESPONSE, [key]);
  if (found === undefined) return undefined;
  const { status, headers, body, bodyHash } = found;
  if (!(body instanceof Uint8Array)) throw new LedgerUnavailable("a kept answer is lost");
  // A Buffer, as the driver makes it, compares and serializes differently.
  const bytes = new Uint8Array(body.buffer, body.byteOffset, body.byteLength);
  const asked = typeof bodyHash === "string" ? { bodyHash } : {};
  return { status: Number(status), headers: headersOf(String(headers)), body: bytes, ...asked };
}

export async function forgetResponses(session: Session, nowMs: number): Promise<void> {
  await session.query(FORGET_RESPONSES, [nowMs]);
}

function givenOf({ stored: { key, id, row }, next, note }: Move): object {
  // Another caller's payment in the place of one that failed.
  const isAnew = FIRST_USE.some((name) => row[name] !== next[name]);
  return { ...next, ...(isAnew && lastingOf(next)), key, id, expected: row.version, note };
}

const FIRST_USE = ["binding", "target", "route", "idempotencyKey", "request", "network"] as const;

function lastingOf(row: PaymentRow): Record<(typeof LASTING)[number][0], string | null> {
  const request = requestOf(row);
  const { asset, payTo } = request.paymentRequirements;
  return { asset, payTo, amount: amountOf(request), identity: identityOf(request.paymentPayload) };
}

function headersOf(json: string): StoredResponse["headers"] {
  const list: unknown = JSON.parse(json);
  if (!Array.isArray(list)) throw new LedgerUnavailable("a kept answer has no readable headers");
  return list.map((pair: unknown) => {
    const [name, value] = Array.isArray(pair) ? pair : [];
    return [String(name), String(value)] as const;
  });
}

/** PostgreSQL stores neither a zero character nor half of a surrogate pair. */
function jsonOf(value: unknown): string {
  return JSON.stringify(value, (_name, each: unknown) =>
    typeof each === "string" ? each.toWellFormed().replaceAll("\0", "\uFFFD") : each,
  );
}
