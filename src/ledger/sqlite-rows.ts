/** Payments as rows of SQLite, each with its history and the answer that is kept. */
import type { SQLInputValue } from "node:sqlite";
import type { FacilitatorRequest, PaymentPayload } from "../x402/x402.ts";
import { LedgerConflict, LedgerUnavailable, type StoredResponse } from "./ledger.ts";
import type { Moment, Step } from "./machine.ts";
import { amountOf, identityOf, readPaymentRow, requestOf, type PaymentRow } from "./payment-row.ts";
import type { Columns, SqliteDatabase, Values } from "./sqlite-database.ts";

/** The columns of a {@link PaymentRow}, under its names, `key` and `updatedMs`. */
export const ROW_COLUMNS = `payment_key AS "key", state, version, binding, target,
  idempotency_key AS "idempotencyKey", request, network, payer, facilitator, offered, submission,
  settled_transaction AS "settledTransaction", attempts, served_target AS "servedTarget",
  body_hash AS "bodyHash", replays, replay_until_ms AS "replayUntilMs",
  failure_code AS "failureCode", failure_detail AS "failureDetail", claimed_by AS "claimedBy", updated_ms AS "updatedMs"`;

/** What a first use fixes, in the order of {@link firstUse}. */
const FIRST_COLUMNS = [
  ["binding", "target", "idempotency_key", "request", "network"],
  ["asset", "amount_atomic", "pay_to", "identity", "created_ms"],
].flat();

/** What transitions change, as the row names it and as its column is named. */
const CHANGING = [
  ["state", "state"],
  ["version", "version"],
  ["payer", "payer"],
  ["facilitator", "facilitator"],
  ["offered", "offered"],
  ["submission", "submission"],
  ["settledTransaction", "settled_transaction"],
  ["attempts", "attempts"],
  ["servedTarget", "served_target"],
  ["bodyHash", "body_hash"],
  ["replays", "replays"],
  ["replayUntilMs", "replay_until_ms"],
  ["failureCode", "failure_code"],
  ["failureDetail", "failure_detail"],
  ["claimedBy", "claimed_by"],
] as const satisfies readonly (readonly [keyof PaymentRow, string])[];

const INSERT = insertion([
  ...FIRST_COLUMNS,
  ...CHANGING.map(([, column]) => column),
  "updated_ms",
  "payment_key",
]);
const UPDATE_FIRST_USE = `UPDATE payments SET ${assignments(FIRST_COLUMNS)} WHERE payment_key = ?`;

/** Rows that are remembered as they were last written. */
const MAX_RECENT = 1024;

/** What a step of the machine makes of a row. */
export interface Change {
  readonly key: string;
  readonly before: PaymentRow | undefined;
  readonly step: Step<unknown>;
  readonly moment: Moment;
}

/** Every method that writes is part of its caller's transaction. Nobody else writes the database. */
export class SqliteRows {
  readonly #database: SqliteDatabase;
  /** As they were last written, by key: the next step of a payment follows soon. */
  readonly #recent = new Map<string, PaymentRow>();
  /** Statements that change some columns, by those as a set of bits. */
  readonly #updates = new Map<number, string>();

  constructor(database: SqliteDatabase) {
    this.#database = database;
  }

  read(key: string): PaymentRow | undefined {
    const recent = this.#recent.get(key);
    if (recent !== undefined) return recent;
    const columns = this.#database.get(
      `SELECT ${ROW_COLUMNS} FROM payments WHERE payment_key = ?`,
      [key],
    );
    return columns && readPaymentRow(columns);
  }

  /** After a rollback nothing is as it was written. */
  forgetRecent(): void {
    this.#recent.clear();
  }

  version(key: string): number | undefined {
    const sql = "SELECT version FROM payments WHERE payment_key = :key";
    const columns = this.#database.get(sql, { key });
    return columns && Number(columns.version);
  }

  /** Rows with their `key`, as {@link readPaymentRow} takes them; `rest` is the SQL after the table. */
  select(rest: string, values: Values): readonly Columns[] {
    return this.#database.all(`SELECT ${ROW_COLUMNS} FROM payments ${rest}`, values);
  }

  /** The requests of all payments with that payer and authorization nonce on that network. */
  recall(payment: PaymentPayload): readonly FacilitatorRequest[] {
    const identity = identityOf(payment);
    if (identity === null) return [];
    const rows = this.select("WHERE identity = :identity ORDER BY rowid", { identity });
    return rows.map((columns) => requestOf(readPaymentRow(columns)));
  }

  /** The row and its line of history; nothing where nothing changes. */
  write(change: Change): void {
    const { key, before, step, moment } = change;
    const { next, note = "" } = step;
    if (next === undefined) return;
    this.#recent.delete(key);
    if (next === null) {
      this.#database.run("DELETE FROM payments WHERE payment_key = ?", [key]);
      return;
    }
    const now = moment.nowMs;
    if (before === undefined) this.#insert(key, next, now);
    else this.#update(key, before, next, now);
    this.#database.run(
      `INSERT INTO payment_events (payment_key, version, at_ms, state, note, life)
       VALUES (?, ?, ?, ?, ?, ?)`,
      [key, next.version, now, next.state, note, moment.life],
    );
    this.#remember(key, next);
  }

  keep(key: string, { status, headers, body }: StoredResponse, untilMs: number): void {
    this.#database.run(
      `INSERT INTO responses (payment_key, status, headers, body, until_ms)
       VALUES (?, ?, ?, ?, ?)`,
      [key, status, JSON.stringify(headers), body, untilMs],
    );
  }

  kept(key: string): StoredResponse | undefined {
    const found = this.#database.get(
      "SELECT status, headers, body FROM responses WHERE payment_key = :key",
      { key },
    );
    if (found === undefined) return undefined;
    if (!(found.body instanceof Uint8Array)) throw new LedgerUnavailable("a kept answer is lost");
    return { status: Number(found.status), headers: readHeaders(found.headers), body: found.body };
  }

  forgetAnswers(nowMs: number): void {
    this.#database.run("DELETE FROM responses WHERE until_ms <= :nowMs", { nowMs });
  }

  #insert(key: string, row: PaymentRow, now: number): void {
    const changing = CHANGING.map(([name]) => stored(row[name]));
    this.#database.run(INSERT, [...firstUse(row, now), ...changing, now, key]);
  }

  /** Only what differs is written, and only the indexes of that are touched. */
  #update(key: string, before: PaymentRow, next: PaymentRow, now: number): void {
    const values: SQLInputValue[] = [];
    let changed = 0;
    for (const [place, [name]] of CHANGING.entries()) {
      if (before[name] === next[name]) continue;
      changed |= 1 << place;
      values.push(stored(next[name]));
    }
    const sql = this.#updateOf(changed);
    if (this.#database.run(sql, [...values, now, key, before.version]) !== 1) {
      throw new LedgerConflict("a payment was written by somebody else meanwhile");
    }
    // Another caller's payment in the place of one that failed.
    const isAnew = FIRST_USE.some((name) => before[name] !== next[name]);
    if (isAnew) this.#database.run(UPDATE_FIRST_USE, [...firstUse(next, now), key]);
  }

  #updateOf(changed: number): string {
    const known = this.#updates.get(changed);
    if (known !== undefined) return known;
    const columns = CHANGING.filter((_, place) => (changed & (1 << place)) !== 0);
    const names = [...columns.map(([, column]) => column), "updated_ms"];
    const where = "WHERE payment_key = ? AND version = ?";
    const sql = `UPDATE payments SET ${assignments(names)} ${where}`;
    this.#updates.set(changed, sql);
    return sql;
  }

  #remember(key: string, row: PaymentRow): void {
    if (this.#recent.size >= MAX_RECENT) {
      const [oldest] = this.#recent.keys();
      if (oldest !== undefined) this.#recent.delete(oldest);
    }
    this.#recent.set(key, row);
  }
}

const FIRST_USE = ["binding", "target", "idempotencyKey", "request", "network"] as const;

/** With what is told to operators, and what a payment is recalled by. */
function firstUse(row: PaymentRow, now: number): readonly SQLInputValue[] {
  const request = requestOf(row);
  const { asset, payTo } = request.paymentRequirements;
  const told = [asset, amountOf(request), payTo, identityOf(request.paymentPayload), now];
  return [...FIRST_USE.map((name) => row[name]), ...told];
}

function stored(value: PaymentRow[keyof PaymentRow]): SQLInputValue {
  return typeof value === "boolean" ? Number(value) : value;
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
