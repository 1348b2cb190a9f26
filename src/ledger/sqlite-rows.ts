/** Payments as rows of SQLite, each with its history and the answer that is kept. */
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

const INSERT = `INSERT INTO payments (payment_key, state, version, binding, target, idempotency_key,
    request, network, asset, amount_atomic, pay_to, payer, identity, facilitator, offered,
    submission, settled_transaction, attempts, served_target, body_hash, replays,
    replay_until_ms, failure_code, failure_detail, claimed_by, created_ms, updated_ms)
  VALUES (:key, :state, :version, :binding, :target, :idempotencyKey,
    :request, :network, :asset, :amount, :payTo, :payer, :identity, :facilitator, :offered,
    :submission, :settledTransaction, :attempts, :servedTarget, :bodyHash, :replays,
    :replayUntilMs, :failureCode, :failureDetail, :claimedBy, :now, :now)`;

const UPDATE = `UPDATE payments SET state = :state, version = :version, payer = :payer,
    facilitator = :facilitator, offered = :offered, submission = :submission,
    settled_transaction = :settledTransaction, attempts = :attempts,
    served_target = :servedTarget, body_hash = :bodyHash, replays = :replays,
    replay_until_ms = :replayUntilMs, failure_code = :failureCode,
    failure_detail = :failureDetail, claimed_by = :claimedBy, updated_ms = :now
  WHERE payment_key = :key AND version = :before`;

const UPDATE_FIRST_USE = `UPDATE payments SET binding = :binding, target = :target,
    idempotency_key = :idempotencyKey, request = :request, network = :network, asset = :asset,
    amount_atomic = :amount, pay_to = :payTo, identity = :identity, created_ms = :now
  WHERE payment_key = :key`;

/** What a step of the machine makes of a row. */
export interface Change {
  readonly key: string;
  readonly before: PaymentRow | undefined;
  readonly step: Step<unknown>;
  readonly moment: Moment;
}

/** Every method that writes is part of its caller's transaction. */
export class SqliteRows {
  readonly #database: SqliteDatabase;

  constructor(database: SqliteDatabase) {
    this.#database = database;
  }

  read(key: string): PaymentRow | undefined {
    const columns = this.#database.get(
      `SELECT ${ROW_COLUMNS} FROM payments WHERE payment_key = :key`,
      { key },
    );
    return columns && readPaymentRow(columns);
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
    if (next === null) {
      this.#database.run("DELETE FROM payments WHERE payment_key = :key", { key });
      return;
    }
    this.#store(key, before, next, moment.nowMs);
    const { state, version } = next;
    this.#database.run(
      `INSERT INTO payment_events (payment_key, version, at_ms, state, note, life)
       VALUES (:key, :version, :now, :state, :note, :life)`,
      { key, version, now: moment.nowMs, state, note, life: moment.life },
    );
  }

  keep(key: string, { status, headers, body }: StoredResponse, untilMs: number): void {
    this.#database.run(
      `INSERT INTO responses (payment_key, status, headers, body, until_ms)
       VALUES (:key, :status, :headers, :body, :untilMs)`,
      { key, status, headers: JSON.stringify(headers), body, untilMs },
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

  #store(key: string, before: PaymentRow | undefined, next: PaymentRow, now: number): void {
    if (before === undefined) {
      this.#database.run(INSERT, {
        key,
        now,
        ...firstUse(next),
        ...lasting(next),
        ...latest(next),
      });
      return;
    }
    const values = { key, now, before: before.version, ...latest(next) };
    if (this.#database.run(UPDATE, values) !== 1) {
      throw new LedgerConflict("a payment was written by somebody else meanwhile");
    }
    // Another caller's payment in the place of one that failed.
    const isAnew = FIRST_USE.some((name) => before[name] !== next[name]);
    if (!isAnew) return;
    this.#database.run(UPDATE_FIRST_USE, { key, now, ...firstUse(next), ...lasting(next) });
  }
}

const FIRST_USE = ["binding", "target", "idempotencyKey", "request", "network"] as const;

function firstUse({ binding, target, idempotencyKey, request, network }: PaymentRow): Values {
  return { binding, target, idempotencyKey, request, network };
}

/** What is told to operators, and what a payment is recalled by. */
function lasting(row: PaymentRow): Values {
  const request = requestOf(row);
  const { asset, payTo } = request.paymentRequirements;
  return { asset, payTo, amount: amountOf(request), identity: identityOf(request.paymentPayload) };
}

function latest(row: PaymentRow): Values {
  return {
    state: row.state,
    version: row.version,
    payer: row.payer,
    facilitator: row.facilitator,
    offered: Number(row.offered),
    submission: row.submission,
    settledTransaction: row.settledTransaction,
    attempts: row.attempts,
    servedTarget: row.servedTarget,
    bodyHash: row.bodyHash,
    replays: row.replays,
    replayUntilMs: row.replayUntilMs,
    failureCode: row.failureCode,
    failureDetail: row.failureDetail,
    claimedBy: row.claimedBy,
  };
}

function readHeaders(json: unknown): StoredResponse["headers"] {
  const list: unknown = JSON.parse(String(json));
  if (!Array.isArray(list)) throw new LedgerUnavailable("a kept answer has no readable headers");
  return list.map((pair: unknown) => {
    const [name, value] = Array.isArray(pair) ? pair : [];
    return [String(name), String(value)] as const;
  });
}
