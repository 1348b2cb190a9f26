import { chmod, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LedgerUnavailable } from "../../../../src/ledger/ledger.ts";
import { SqliteDatabase } from "../../../../src/ledger/sqlite/sqlite-database.ts";

describe("an SQLite connection", () => {
  let folder: string;
  let path: string;
  let database: SqliteDatabase;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "coinslot-sqlite-"));
    path = join(folder, "test.db");
    database = new SqliteDatabase(path);
    database.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (v TEXT UNIQUE) STRICT");
  });

  afterEach(async () => {
    database.close();
    await rm(folder, { recursive: true, force: true });
  });

  const insert = (v: string): number => database.run("INSERT INTO t VALUES (:v)", { v });
  const count = (): unknown => database.get("SELECT count(*) AS n FROM t", {})?.n;

  it("makes its files for their owner alone, and leaves one that is there as it is", async () => {
    const made = await Promise.all([path, `${path}-wal`, `${path}-shm`].map((file) => stat(file)));
    expect(made.map(({ mode }) => mode & 0o777)).toEqual([0o600, 0o600, 0o600]);
    const shared = join(folder, "shared.db");
    await writeFile(shared, "");
    await chmod(shared, 0o640);
    new SqliteDatabase(shared).close();
    expect((await stat(shared)).mode & 0o777).toBe(0o640);
  });

  it("says that it is unavailable when the database is full, and keeps nothing by halves", () => {
    database.exec("PRAGMA max_page_count = 4");
    const fill = (): void => {
      database.transaction(() => {
        insert("small");
        insert("large ".repeat(10_000));
      });
    };
    expect(fill).toThrow(LedgerUnavailable);
    expect(fill).toThrow("full");
    expect(count()).toBe(0);
    expect(insert("small")).toBe(1);
  });

  it("lets nobody else write between the first read and the last write of a transaction", () => {
    const other = new DatabaseSync(path, { timeout: 0 });
    database.transaction(() => {
      expect(count()).toBe(0);
      expect(() => other.exec("INSERT INTO t VALUES ('theirs')")).toThrow("locked");
      insert("ours");
    });
    other.exec("INSERT INTO t VALUES ('theirs')");
    other.close();
    expect(count()).toBe(2);
  });

  it("passes on what is a fault of the program, and undoes the transaction it was in", () => {
    insert("one");
    const repeat = (): void => {
      database.transaction(() => {
        insert("two");
        insert("one");
      });
    };
    expect(repeat).toThrow("UNIQUE constraint failed");
    expect(repeat).not.toThrow(LedgerUnavailable);
    expect(count()).toBe(1);
  });

  it("can be closed twice, and says so when it is asked after that", () => {
    database.close();
    database.close();
    expect(count).toThrow("the ledger is closed");
  });
});
