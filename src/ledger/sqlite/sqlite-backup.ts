/** A copy of a ledger's file as it is at one moment, made beside the gateway that writes it, and read back. */
import { existsSync } from "node:fs";
import { link, open, rm, stat } from "node:fs/promises";
import { backup, DatabaseSync } from "node:sqlite";
import { LedgerUnavailable } from "../ledger.ts";
import { SqliteDatabase } from "./sqlite-database.ts";
import { schemaVersion } from "./sqlite-schema.ts";

/** For the owner alone, as the ledger is. */
const FILE_MODE = 0o600;
/** All in one step, which is one moment: between two steps a writer would have it begin anew. */
const ALL_PAGES = 2 ** 31 - 1;

export interface Backup {
  readonly payments: number;
  readonly bytes: number;
}

/** Where a copy grows until it is whole. */
export function partOf(to: string): string {
  return `${to}.part`;
}

/**
 * Nothing is there under that name before the copy was read back whole, and nothing that is there is replaced.
 * @throws {LedgerUnavailable} where there is no ledger, or its copy is not whole; `EEXIST` and others of the file system
 */
export async function backUpSqlite(
  { path }: { readonly path: string },
  to: string,
): Promise<Backup> {
  if (!existsSync(path)) throw new LedgerUnavailable(`there is no ledger at ${path}`);
  const part = partOf(to);
  await (await open(part, "wx", FILE_MODE)).close();
  try {
    await copy(path, part);
    const payments = readBack(part);
    const file = await open(part, "r+");
    await file.sync();
    await file.close();
    await link(part, to);
    return { payments, bytes: (await stat(to)).size };
  } finally {
    await Promise.all(
      ["", "-wal", "-shm", "-journal"].map((end) => rm(part + end, { force: true })),
    );
  }
}

async function copy(path: string, part: string): Promise<void> {
  const source = new DatabaseSync(path, { readOnly: true });
  try {
    await backup(source, part, { rate: ALL_PAGES });
  } catch (error) {
    throw new LedgerUnavailable(`the ledger cannot be copied: ${String(error)}`, { cause: error });
  } finally {
    source.close();
  }
}

/** As one file without a log beside it; resolves with the number of its payments. */
function readBack(part: string): number {
  const database = new SqliteDatabase(part);
  try {
    database.exec("PRAGMA journal_mode = DELETE");
    const faults = [
      ...database.all("PRAGMA integrity_check", []).map((row) => String(row.integrity_check)),
      ...database.all("PRAGMA foreign_key_check", []).map((row) => `a row of ${String(row.table)}`),
    ].filter((said) => said !== "ok");
    if (faults.length > 0) throw new LedgerUnavailable(`the copy is not whole: ${faults[0]}`);
    if (schemaVersion(database) === 0)
      throw new LedgerUnavailable(`there is no ledger in that file`);
    return Number(database.get("SELECT count(*) AS n FROM payments", [])?.n);
  } finally {
    database.close();
  }
}
