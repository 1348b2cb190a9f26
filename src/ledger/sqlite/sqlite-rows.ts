/** Payments as rows of SQLite, each with its history and the answer that is kept. */
import type { SQLInputValue } from "node:sqlite";
import type { FacilitatorRequest } from "../../x402/x402.ts";
import {
  LedgerConflict,
  LedgerUnavailable,
  MAX_OWED,
  MAX_REPLAYS,
  type StoredResponse,
} from "../ledger.ts";
import type { KeptResponse } from "../machine-step.ts";
import type { OutboxEvent } from "../outbox.ts";
import type { CountedRefunds } from "../refunds.ts";
import { ledToFor } from "../payment-judgement.ts";
import { readFill } from "../pots.ts";
import { amountOf, readPaymentRow, requestIn, requestOf, type PaymentRow } from "../payment-row.ts";
import type { Columns, SqliteDatabase, Values } from "./sqlite-database.ts";
import type { SqliteOutbox } from "./sqlite-outbox.ts";
import { fillPot } from "./sqlite-pot-rows.ts";
import { storedForms } from "../stored-target.ts";
import {
  digestOf,
  packTransaction,
  readTombstone,
  tombstoneOf,
  type Tombstone,
} from "../tombstone.ts";
import {
  MAX_USED_ELSEWHERE,
  MAX_USED_ELSEWHERE_PER_PAYER,
  type UsedElsewhere,
} from "../used-elsewhere.ts";

/** The columns of a {@link PaymentRow}, under its names, `key` and `updatedMs`. */
export const ROW_COLUMNS = `payment_key AS "key", state, version, binding, target, route,
  idempotency_key AS "idempotencyKey", request, network, payer, facilitator,
  handed_over_block AS "handedOverAt", look_again_ms AS "lookAgainMs", left_by AS "leftBy", offered, submission,
  settled_transaction AS "settledTransaction", held_transaction AS "heldTransaction", attempts, served_target AS "servedTarget",
  body_hash AS "bodyHash", replays, replay_until_ms AS "replayUntilMs",
  failure_code AS "failureCode", failure_detail AS "failureDetail", claimed_by AS "claimedBy",
  holder, is_left AS "isLeft", claimant, renewals, renewed_ms AS "renewedMs", identifier,
  led_to AS "ledTo", repeats, repeat_until_ms AS "repeatUntilMs", updated_ms AS "updatedMs",
  refund_state AS "refundState", refund, refund_counted_ms AS "refundCountedMs", fills, metered`;

/** What a first use fixes, as the row names it; further columns follow from its request. */
const FIRST_USE = ["binding", "target", "route", "idempotencyKey", "request", "network"] as const;
const FIRST_COLUMNS = [
  ["binding", "target", "route", "idempotency_key", "request", "network"],
  ["asset", "amount_atomic", "pay_to", "identity", "created_ms"],
].flat();

/** What transitions change, as the row names it and as its column is named. */
const CHANGING = [
  ["state", "state"],
  ["version", "version"],
  ["payer", "payer"],
  ["facilitator", "facilitator"],
  ["handedOverAt", "handed_over_block"],
  ["lookAgainMs", "look_again_ms"],
  ["leftBy", "left_by"],
  ["offered", "offered"],
  ["submission", "submission"],
  ["settledTransaction", "settled_transaction"],
  ["heldTransaction", "held_transaction"],
  ["attempts", "attempts"],
  ["servedTarget", "served_target"],
  ["bodyHash", "body_hash"],
  ["replays", "replays"],
  ["replayUntilMs", "replay_until_ms"],
  ["ledTo", "led_to"],
  ["repeats", "repeats"],
  ["repeatUntilMs", "repeat_until_ms"],
  ["failureCode", "failure_code"],
  ["failureDetail", "failure_detail"],
  ["claimedBy", "claimed_by"],
  ["holder", "holder"],
  ["isLeft", "is_left"],
  ["claimant", "claimant"],
  ["renewals", "renewals"],
  ["renewedMs", "renewed_ms"],
  ["identifier", "identifier"],
  ["refundState", "refund_state"],
  ["refund", "refund"],
  ["refundCountedMs", "refund_counted_ms"],
  ["fills", "fills"],
  ["metered", "metered"],
] as const satisfies readonly (readonly [keyof PaymentRow, string])[];

const INSERT = insertion([
  ...FIRST_COLUMNS,
  ...CHANGING.map(([, column]) => column),
  "updated_ms",
  "history",
  "payment_key",
]);
const UPDATE_FIRST_USE = `UPDATE payments SET ${assignments(FIRST_COLUMNS)} WHERE payment_key = ?`;

/** Nothing that is too much to be told crowds out the rest. */
const OWED = `SELECT payment_key AS "key" FROM payments
  WHERE is_left = 1 AND lower(payer) = ? AND (binding = ? OR led_to = ?) AND state <> 'FAILED'
    AND network = ? AND (served_target IS NULL OR served_target IN (?, ?))
    AND (state <> 'DELIVERED' OR repeat_until_ms > ? OR replay_until_ms > ? AND replays < ${MAX_REPLAYS})
  ORDER BY created_ms LIMIT ${MAX_OWED}`;

const LEFT_PAYERS = `SELECT DISTINCT lower(payer) AS "payer" FROM payments INDEXED BY left_payments
  WHERE is_left = 1 LIMIT :limit`;
/** Payers whom something was left for that are remembered; where there are more, the index is asked about everybody. */
const MAX_LEFT_PAYERS = 100_000;

/** A sale that a payer asks for. */
export interface OwedQuestion {
  readonly payer: string;
  readonly network: string;
  readonly binding: string;
  readonly target: string;
  readonly nowMs: number;
}

/** A payment as it is to be written. */
export interface Written {
  readonly row: PaymentRow;
  /** Lines to add to its history, each JSON of `[atMs, state, note, life]` and a line feed. */
  readonly history: string;
  readonly updatedMs: number;
  /** Of its first use; undefined where another than the stored one is not known. */
  readonly createdMs: number | undefined;
  readonly identity: string | null;
  readonly answer: KeptResponse | undefined;
  /** What others are to be told of it, the oldest first. */
  readonly events: readonly DatedEvent[];
}

interface DatedEvent {
  readonly event: OutboxEvent;
  readonly atMs: number;
}

/** Every method that writes is part of its caller's transaction. */
export class SqliteRows {
  readonly #database: SqliteDatabase;
  readonly #outbox: Pick<SqliteOutbox, "add">;
  /** Statements that change some columns, by those as a set of bits: more than fit into the 32 of `|`, up to 53. */
  readonly #updates = new Map<number, string>();
  /** Whom something may have been left for, and nobody else; most payers are not among them. */
  #leftPayers: Set<string> | undefined;

  constructor(database: SqliteDatabase, outbox: Pick<SqliteOutbox, "add">) {
    this.#database = database;
    this.#outbox = outbox;
  }

  read(key: string): PaymentRow | undefined {
    const sql = `SELECT ${ROW_COLUMNS} FROM payments WHERE payment_key = ?`;
    const columns = this.#database.get(sql, [key]);
    return columns && readPaymentRow(columns);
  }

  /** Rows with their `key`, as {@link readPaymentRow} takes them; `rest` is the SQL after the table. */
  select(rest: string, values: Values): readonly Columns[] {
    return this.#database.all(`SELECT ${ROW_COLUMNS} FROM payments ${rest}`, values);
  }

  /** The requests of the payments with that {@link identityOf}. */
  recall(identity: string): FacilitatorRequest[] {
    const rows = this.select("WHERE identity = ? ORDER BY rowid", [identity]);
    return rows.map((columns) => requestOf(readPaymentRow(columns)));
  }

  /** The key of the payment that has that identifier. */
  named(identifier: string): string | undefined {
    const sql = `SELECT payment_key AS "key" FROM payments WHERE identifier = ?`;
    const columns = this.#database.get(sql, [identifier]);
    return columns && String(columns.key);
  }

  /** Keys of payments that may be owed for that sale, the oldest first. */
  owed(asked: OwedQuestion): readonly string[] {
    const { payer, network, binding, target, nowMs } = asked;
    const name = payer.toLowerCase();
    if (!this.#mayBeLeft(name)) return [];
    const sale = [binding, ledToFor(asked), network, ...storedForms(target)];
    const found = this.#database.all(OWED, [name, ...sale, nowMs, nowMs]);
    return found.map(({ key }) => String(key));
  }

  /** Nobody else writes to the payments while this program has them open. */
  #mayBeLeft(payer: string): boolean {
    this.#leftPayers ??= new Set(
      this.#database
        .all(LEFT_PAYERS, { limit: MAX_LEFT_PAYERS })
        .map((columns) => String(columns.payer)),
    );
    return this.#leftPayers.size >= MAX_LEFT_PAYERS || this.#leftPayers.has(payer);
  }

  /**
   * Inserts it, or changes the row that was stored. Throws {@link LedgerConflict} where that is not there
   * any more as it was.
   */
  write(key: string, stored: PaymentRow | undefined, written: Written): void {
    if (written.row.isLeft) this.#leftPayers?.add(written.row.payer.toLowerCase());
    if (stored === undefined) this.#insert(key, written);
    else this.#update(key, stored, written);
    if (written.answer !== undefined) this.#keep(key, written.answer);
    for (const { event, atMs } of written.events) this.#outbox.add(event, atMs);
    const { fills, route, settledTransaction } = written.row;
    // In the step that settles it, or that gives change of it.
    const wasDone =
      (stored?.settledTransaction ?? null) !== null && (stored?.fills ?? null) !== null;
    if (fills === null || settledTransaction === null || wasDone) return;
    fillPot(this.#database, { key, fill: readFill(fills), route, nowMs: written.updatedMs });
  }

  delete(key: string): void {
    this.#database.run("DELETE FROM payments WHERE payment_key = ?", [key]);
  }

  tombstone(key: string): Tombstone | undefined {
    const sql = `SELECT transaction_id AS "transaction", caller FROM tombstones WHERE payment_key = ?`;
    const columns = this.#database.get(sql, [digestOf(key)]);
    return columns && readTombstone(columns);
  }

  /** In the place of a payment that has moved something, and that its caller deletes. */
  bury(key: string, row: PaymentRow): void {
    const { transaction, caller } = tombstoneOf(row);
    this.#database.run(
      `INSERT INTO tombstones (payment_key, transaction_id, caller) VALUES (?, ?, ?)
       ON CONFLICT (payment_key) DO NOTHING`,
      [digestOf(key), packTransaction(transaction), caller],
    );
  }

  /** What refunds of that payment's network and token count since then, but for its own. */
  refundedSince(
    sinceMs: number,
    key: string,
    { network, request, payer }: PaymentRow,
  ): CountedRefunds {
    const { asset } = requestIn(request).paymentRequirements;
    const rows = this.#database.all(
      `SELECT coalesce(json_extract(refund, '$.ofCredits.creditsAtomic'), amount_atomic) AS "amount",
         count(*) AS "count", sum(payer = ?) AS "payers"
       FROM payments INDEXED BY counted_refunds
       WHERE refund_counted_ms >= ? AND network = ? AND lower(asset) = lower(?) AND payment_key <> ?
       GROUP BY 1`,
      [payer, sinceMs, network, asset, key],
    );
    const sumOf = (name: "count" | "payers"): bigint =>
      rows.reduce((sum, row) => sum + BigInt(String(row.amount)) * BigInt(Number(row[name])), 0n);
    return { all: sumOf("count"), payers: sumOf("payers") };
  }

  hasRoomFor({ key, payer }: UsedElsewhere): boolean {
    const found = this.#database.get(
      `SELECT NOT EXISTS (SELECT 1 FROM used_elsewhere WHERE payment_key = :key)
         AND (SELECT count(*) FROM used_elsewhere WHERE payer = :payer) < ${MAX_USED_ELSEWHERE_PER_PAYER}
         AND (SELECT count(*) FROM used_elsewhere) < ${MAX_USED_ELSEWHERE} AS "hasRoom"`,
      { key, payer },
    );
    return found?.hasRoom === 1;
  }

  noteUsedElsewhere(payment: UsedElsewhere): void {
    this.#database.run(
      `INSERT INTO used_elsewhere
         (payment_key, network, asset, amount_atomic, payer, pay_to, binding, seen_ms)
       VALUES (:key, :network, :asset, :amount, :payer, :payTo, :binding, :seenMs)`,
      { ...payment },
    );
  }

  answer(key: string): StoredResponse | undefined {
    const sql = `SELECT status, headers, body, body_hash AS "bodyHash" FROM responses WHERE payment_key = ?`;
    const found = this.#database.get(sql, [key]);
    if (found === undefined) return undefined;
    if (!(found.body instanceof Uint8Array)) throw new LedgerUnavailable("a kept answer is lost");
    const { status, headers, body, bodyHash } = found;
    const asked = typeof bodyHash === "string" ? { bodyHash } : {};
    return { status: Number(status), headers: readHeaders(headers), body, ...asked };
  }

  forgetAnswers(nowMs: number): void {
    this.#database.run("DELETE FROM responses WHERE until_ms <= ?", [nowMs]);
  }

  #keep(key: string, { response, untilMs }: KeptResponse): void {
    const { status, headers, body, bodyHash = null } = response;
    this.#database.run(
      `INSERT OR REPLACE INTO responses (payment_key, status, headers, body, until_ms, body_hash)
       VALUES (?, ?, ?, ?, ?, ?)`,
      [key, status, JSON.stringify(headers), body, untilMs, bodyHash],
    );
  }

  #insert(key: string, written: Written): void {
    const { row, updatedMs, history } = written;
    const changing = CHANGING.map(([name]) => asStored(row[name]));
    this.#database.run(INSERT, [...firstUse(written), ...changing, updatedMs, history, key]);
  }

  /** Only what differs is written, and only the indexes of that are touched. */
  #update(key: string, stored: PaymentRow, written: Written): void {
    const { row, updatedMs, history } = written;
    const values: SQLInputValue[] = [];
    let changed = 0;
    for (const [place, [name]] of CHANGING.entries()) {
      if (stored[name] === row[name]) continue;
      changed += 2 ** place;
      values.push(asStored(row[name]));
    }
    values.push(updatedMs, history, key, stored.version);
    if (this.#database.run(this.#updateOf(changed), values) !== 1) {
      throw new LedgerConflict("a payment was written by somebody else meanwhile");
    }
    if (isAnotherUse(stored, row)) {
      this.#database.run(UPDATE_FIRST_USE, [...firstUse(written), key]);
    }
  }

  #updateOf(changed: number): string {
    const known = this.#updates.get(changed);
    if (known !== undefined) return known;
    const columns = CHANGING.filter((_, place) => Math.floor(changed / 2 ** place) % 2 === 1);
    const names = [...columns.map(([, column]) => column), "updated_ms"];
    const sql = `UPDATE payments SET ${assignments(names)}, history = history || ?
      WHERE payment_key = ? AND version = ?`;
    this.#updates.set(changed, sql);
    return sql;
  }
}

/** Whether a row is another caller's payment in the place of one that failed. */
export function isAnotherUse(before: PaymentRow, next: PaymentRow): boolean {
  return FIRST_USE.some((name) => before[name] !== next[name]);
}

/** With what is told to operators, and what a payment is recalled by. */
function firstUse({ row, createdMs, updatedMs, identity }: Written): readonly SQLInputValue[] {
  const request = requestOf(row);
  const { asset, payTo } = request.paymentRequirements;
  const told = [asset, amountOf(request), payTo, identity, createdMs ?? updatedMs];
  return [...FIRST_USE.map((name) => row[name]), ...told];
}

function asStored(facet: PaymentRow[keyof PaymentRow]): SQLInputValue {
  return typeof facet === "boolean" ? Number(facet) : facet;
}

function insertion(columns: readonly string[]): string {
  const places = columns.map(() => "?").join(", ");
  return `INSERT INTO payments (${columns.join(", ")}) VALUES (${places})`;
}

function assignments(columns: readonly string[]): string {
  return columns.map((column) => `${column} = ?`).join(", ");
}

function readHeaders(json: unknown): StoredResponse["headers"] {
  const list: unknown = JSON.parse(String(json));
  if (!Array.isArray(list)) throw new LedgerUnavailable("a kept answer has no readable headers");
  return list.map((pair: unknown) => {
    const [name, value] = Array.isArray(pair) ? pair : [];
    return [String(name), String(value)] as const;
  });
}
