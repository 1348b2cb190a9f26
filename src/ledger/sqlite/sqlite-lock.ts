/**
 * Keeps a second process away from a ledger: its tidying up at the start would take the first one's
 * live claims and deliveries for leftovers of a crash.
 */
import { existsSync } from "node:fs";
import { LedgerUnavailable } from "../ledger.ts";
import { isBusy, SqliteDatabase } from "./sqlite-database.ts";

/** Another process has the file open, and writes it alone. */
export class LedgerInUse extends LedgerUnavailable {}

/**
 * Locks `PATH-lock`, an empty database beside an opened one, until it is closed: the operating system
 * frees the lock when the process dies. Not the ledger itself, which backups go on reading. Nothing is
 * locked for `:memory:`. Throws {@link LedgerInUse} at once where the lock is held.
 */
export function lockLedger(database: SqliteDatabase): SqliteDatabase | undefined {
  // Absolute and without symbolic links, so that one file has one lock; empty in memory.
  const path = String(database.get("PRAGMA database_list", {})?.file ?? "");
  if (path === "") return undefined;
  const lock = new SqliteDatabase(`${path}-lock`, { timeout: 0 });
  try {
    lock.exec("BEGIN EXCLUSIVE");
    return lock;
  } catch (error) {
    lock.close();
    if (!isBusy(error)) throw error;
    throw new LedgerInUse(
      `another process is using the ledger ${path}: stop it, or give each its own file`,
      { cause: error },
    );
  }
}

/**
 * Whether a process has the ledger at that path open, told by reading the lock and not by taking it. `path` is
 * absolute and without symbolic links.
 */
export function isLedgerLocked(path: string): boolean {
  const file = `${path}-lock`;
  if (!existsSync(file)) return false;
  const lock = new SqliteDatabase(file, { timeout: 0, readOnly: true });
  try {
    lock.get("SELECT count(*) FROM sqlite_schema", {});
    return false;
  } catch (error) {
    if (!isBusy(error)) throw error;
    return true;
  } finally {
    lock.close();
  }
}
