/** A SQLite ledger of any age: sales as the program stores them, cloned in bulk, and tombstones of those before. */
import { randomBytes } from "node:crypto";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { openSqliteLedger } from "../../src/ledger/sqlite/sqlite.ts";
import { systemTime } from "../../src/time/time.ts";
import { examplePayment, PAYER } from "../unit/ledger/example-payment.ts";
import { bring } from "../unit/ledger/ledger-driver.ts";

export interface GrownLedger {
  /** Payments with a row. */
  readonly rows: number;
  readonly tombstones: number;
}

const DAY_MS = 86_400_000;
/** Of a settlement of one payment on an EVM network. */
const RAW_BYTES = 560;
/** Buyers come again and again. */
const PAYERS = 50_000;
const FILLED_AT_ONCE = 50_000;
/** Of the payments with a row: one in so many failed, one is on another network, one waits for its outcome. */
const FAILED_EACH = 100;
const ELSEWHERE_EACH = 50;
const SIGNED = 20;

const hex = (bytes: number): string => `0x${randomBytes(bytes).toString("hex")}`;

type Row = Readonly<Record<string, SQLInputValue>>;

/** Makes the file, which must not be there. */
export async function growLedger(path: string, { rows, tombstones }: GrownLedger): Promise<void> {
  const ledger = await openSqliteLedger({ path, time: systemTime, life: crypto.randomUUID() });
  await bring(ledger, examplePayment(1), "delivered");
  await ledger.close();
  const database = new DatabaseSync(path);
  try {
    database.exec(`PRAGMA journal_mode = DELETE; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;
      PRAGMA cache_size = -1000000; PRAGMA temp_store = MEMORY`);
    const indexes = database
      .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
      .all();
    for (const { name } of indexes) database.exec(`DROP INDEX ${String(name)}`);
    fillPayments(database, rows);
    fillTombstones(database, tombstones);
    for (const { sql } of indexes) database.exec(String(sql));
    database.exec("PRAGMA journal_mode = WAL");
  } finally {
    database.close();
  }
}

function fillPayments(database: DatabaseSync, count: number): void {
  const payment = theOnly(database, "payments");
  const submission = theOnly(database, "submissions");
  database.exec(
    "DELETE FROM payments; DELETE FROM submission_transactions; DELETE FROM submissions",
  );
  const payers = Array.from({ length: Math.min(PAYERS, count) }, () => hex(20));
  const startMs = Date.now() - 90 * DAY_MS;
  const insert = {
    payment: insertion(database, "payments", payment),
    submission: insertion(database, "submissions", submission),
  };
  inParts(database, count, (number) => {
    const payer = payers[Math.floor(Math.random() * payers.length)] ?? PAYER;
    const [nonce, id] = [hex(32), hex(32)];
    const changed = (column: string): string =>
      textIn(payment, column)
        .replaceAll(PAYER, payer)
        .replaceAll(PAYER.toLowerCase(), payer)
        .replaceAll(ONE, nonce);
    const isFailed = number % FAILED_EACH === 0;
    const isSigned = number < SIGNED;
    const settled = isFailed || isSigned ? null : id;
    const state = isSigned ? "SIGNED" : isFailed ? "FAILED" : "DELIVERED";
    const ms = startMs + Math.floor((number * 90 * DAY_MS) / count);
    insert.submission({
      ...submission,
      id,
      account_nonce: number,
      state: "CLOSED",
      signed_ms: ms,
      variants: JSON.stringify([
        { transaction: id, raw: hex(RAW_BYTES), account: payer, accountNonce: number },
      ]),
    });
    insert.payment({
      ...payment,
      payment_key: changed("payment_key"),
      identity: changed("identity"),
      request: changed("request"),
      network: number % ELSEWHERE_EACH === 1 ? "polygon" : "base-sepolia",
      payer,
      state,
      submission: id,
      settled_transaction: settled,
      failure_code: state === "FAILED" ? "insufficient_funds" : null,
      idempotency_key: crypto.randomUUID(),
      created_ms: ms,
      updated_ms: ms,
    });
  });
}

function textIn(row: Row, column: string): string {
  const value = row[column];
  if (typeof value !== "string") throw new TypeError(`no text in ${column}`);
  return value;
}

/** The nonce of the payment that is cloned. */
const ONE = `0x${"1".padStart(64, "0")}`;

function fillTombstones(database: DatabaseSync, count: number): void {
  const insert = insertion(database, "tombstones", { payment_key: "", transaction_id: "" });
  inParts(database, count, () => {
    // The digest of a key, and a hash behind its mark.
    insert({
      payment_key: randomBytes(16),
      transaction_id: Buffer.concat([MARK, randomBytes(32)]),
    });
  });
}

const MARK = Buffer.of(1);

function theOnly(database: DatabaseSync, table: string): Row {
  const row = database.prepare(`SELECT * FROM ${table}`).get();
  if (row === undefined) throw new Error(`nothing in ${table}`);
  return row;
}

function insertion(database: DatabaseSync, table: string, row: Row): (row: Row) => void {
  const names = Object.keys(row);
  const places = names.map(() => "?").join(", ");
  const statement = database.prepare(
    `INSERT INTO ${table} (${names.join(", ")}) VALUES (${places})`,
  );
  return (values) => void statement.run(...names.map((name) => values[name] ?? null));
}

function inParts(database: DatabaseSync, count: number, step: (number: number) => void): void {
  for (let first = 0; first < count; first += FILLED_AT_ONCE) {
    database.exec("BEGIN");
    const end = Math.min(count, first + FILLED_AT_ONCE);
    for (let number = first; number < end; number += 1) step(number);
    database.exec("COMMIT");
  }
}
