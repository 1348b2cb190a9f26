/**
 * One SQLite connection: statements prepared once and kept, transactions, and the machine's faults
 * under one stable code. Knows nothing of payments.
 */
import { closeSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import {
  DatabaseSync,
  type SQLInputValue,
  type SQLOutputValue,
  type StatementSync,
} from "node:sqlite";
import { LedgerUnavailable } from "../ledger.ts";

/** By name, or by place: the places of a statement are bound at less cost. */
export type Values = Record<string, SQLInputValue> | readonly SQLInputValue[];
export type Columns = Record<string, SQLOutputValue>;

/**
 * How long a statement waits for another process's lock, milliseconds. The wait stops this whole
 * process, so it covers a backup's moment and nothing longer.
 */
const BUSY_TIMEOUT_MS = 1000;

const BUSY = 5;

/** For the owner alone: payments, and answers that were sold. SQLite makes `-wal` and `-shm` like the file itself. */
const FILE_MODE = 0o600;

/** Pages of 4 KiB in the WAL before they go into the file itself: each once, however often it was written. */
const CHECKPOINT_PAGES = 8_000;

/** Of the file's pages in memory at most: what sales touch of a large ledger's indexes is all over them. */
const CACHE_KIBIBYTES = 65_536;

/** What is committed survives a power cut. */
export const DURABLE = `PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
  PRAGMA temp_store = MEMORY; PRAGMA cache_size = -${CACHE_KIBIBYTES}; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`;

/** SQLite's primary result codes that a correct program can meet: the machine's fault, not ours. */
const OPERATIONAL: ReadonlySet<number> = new Set([
  3, // PERM
  BUSY,
  6, // LOCKED
  7, // NOMEM
  8, // READONLY
  10, // IOERR
  11, // CORRUPT
  13, // FULL
  14, // CANTOPEN
  15, // PROTOCOL
  22, // NOLFS
  23, // AUTH
  26, // NOTADB
]);

export class SqliteDatabase {
  readonly #connection: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  /** What is written, and which file that is; undefined in memory, and where it is only read. */
  readonly #file: { readonly path: string; readonly id: string | undefined } | undefined;

  /**
   * Opens a file, made with its folder where missing and not only read, or `:memory:`. Statements wait
   * for another process's lock for `timeout` milliseconds.
   */
  constructor(path: string, { timeout = BUSY_TIMEOUT_MS, readOnly = false } = {}) {
    if (path !== ":memory:" && !readOnly) {
      makeFolder(dirname(path));
      makeFile(path);
    }
    this.#connection = unlessFaulty(() => new DatabaseSync(path, { timeout, readOnly }));
    if (path === ":memory:" || readOnly) return;
    const file = resolve(path);
    this.#file = { path: file, id: fileAt(file) };
  }

  get isOpen(): boolean {
    return this.#connection.isOpen;
  }

  /** False once a fault made SQLite roll back by itself, as a full disk does. */
  get isInTransaction(): boolean {
    return this.#connection.isOpen && this.#connection.isTransaction;
  }

  /** Runs statements that take no values. */
  exec(sql: string): void {
    this.#ask(() => this.#connection.exec(sql));
  }

  /** Rows changed. */
  run(sql: string, values: Values): number {
    return this.#ask(() => {
      const statement = this.#statement(sql);
      const { changes } = isList(values) ? statement.run(...values) : statement.run(values);
      return Number(changes);
    });
  }

  get(sql: string, values: Values): Columns | undefined {
    return this.#ask(() => {
      const statement = this.#statement(sql);
      return isList(values) ? statement.get(...values) : statement.get(values);
    });
  }

  all(sql: string, values: Values): readonly Columns[] {
    return this.#ask(() => {
      const statement = this.#statement(sql);
      return isList(values) ? statement.all(...values) : statement.all(values);
    });
  }

  /**
   * Runs a step in one write transaction: all of it is stored, or, when it throws, nothing. Throws
   * {@link LedgerUnavailable} where the file has been removed or replaced: SQLite would go on writing what
   * nobody can open again.
   */
  transaction<Value>(step: () => Value): Value {
    if (this.#file !== undefined && fileAt(this.#file.path) !== this.#file.id) {
      throw new LedgerUnavailable(
        `the ledger ${this.#file.path} was removed or replaced while it was open: nothing more is ` +
          "stored until that file is back in its place, or the gateway is started again",
      );
    }
    return this.#between("BEGIN IMMEDIATE", step);
  }

  /** Runs reads that have to fit together: another process's writes show in all of them or in none. */
  snapshot<Value>(step: () => Value): Value {
    return this.#between("BEGIN", step);
  }

  #between<Value>(begin: string, step: () => Value): Value {
    this.run(begin, []);
    try {
      const value = step();
      this.run("COMMIT", []);
      return value;
    } catch (error) {
      // A full disk makes SQLite roll back by itself; a second ROLLBACK would hide the first error.
      if (this.isInTransaction) this.run("ROLLBACK", []);
      throw error;
    }
  }

  /** Idempotent. */
  close(): void {
    if (this.#connection.isOpen) this.#ask(() => this.#connection.close());
  }

  #ask<Value>(step: () => Value): Value {
    if (!this.#connection.isOpen) throw new LedgerUnavailable("the ledger is closed");
    return unlessFaulty(step);
  }

  #statement(sql: string): StatementSync {
    const kept = this.#statements.get(sql);
    if (kept !== undefined) return kept;
    const statement = this.#connection.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** Which file stands there; undefined where none does. */
function fileAt(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false, bigint: true });
  return found === undefined ? undefined : `${found.dev}:${found.ino}`;
}

function isList(values: Values): values is readonly SQLInputValue[] {
  return Array.isArray(values);
}

function makeFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true });
  } catch (error) {
    throw new LedgerUnavailable(`the ledger's folder ${path} cannot be made`, { cause: error });
  }
}

/** What cannot be made here SQLite cannot open either, and says why. */
function makeFile(path: string): void {
  try {
    closeSync(openSync(path, "wx", FILE_MODE));
  } catch {
    // Most often it is there already, and stays as its owner has it.
  }
}

function unlessFaulty<Value>(step: () => Value): Value {
  try {
    return step();
  } catch (error) {
    if (!isFault(error)) throw error;
    throw new LedgerUnavailable(`the ledger's database: ${error.message}`, { cause: error });
  }
}

function isFault(error: unknown): error is Error {
  const code = resultCode(error);
  return code !== undefined && OPERATIONAL.has(code);
}

/** Whether a call failed since another connection holds the lock that it needs. */
export function isBusy(error: unknown): boolean {
  return error instanceof LedgerUnavailable && resultCode(error.cause) === BUSY;
}

/** SQLite's primary result code; extended ones keep it in the low byte. */
function resultCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  return typeof error.errcode === "number" ? error.errcode & 0xff : undefined;
}
