import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LedgerUnavailable } from "../../../src/ledger/ledger.ts";
import { SqliteBatch } from "../../../src/ledger/sqlite-batch.ts";
import { SqliteDatabase } from "../../../src/ledger/sqlite-database.ts";

describe("operations that share a transaction", () => {
  let folder: string;
  let path: string;
  let database: SqliteDatabase;
  let commits: number;
  let takenBack: number;
  let lost: LedgerUnavailable[];
  let batch: SqliteBatch;

  const events = {
    onWritten: () => void (commits += 1),
    onTakenBack: () => void (takenBack += 1),
    onLost: (error: LedgerUnavailable) => void lost.push(error),
  };

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "coinslot-batch-"));
    path = join(folder, "test.db");
    database = new SqliteDatabase(path);
    database.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (v TEXT UNIQUE) STRICT");
    commits = 0;
    takenBack = 0;
    lost = [];
    batch = new SqliteBatch(database, events);
  });

  afterEach(async () => {
    database.close();
    await rm(folder, { recursive: true, force: true });
  });

  const insert = (v: string): number => database.run("INSERT INTO t VALUES (:v)", { v });
  const values = (): unknown =>
    database.all("SELECT v FROM t ORDER BY rowid", {}).map(({ v }) => v);

  it("are committed together, in the order in which they came, and answered after that", async () => {
    const other = new DatabaseSync(path, { readOnly: true });
    const seen: unknown[] = [];
    const writes = ["a", "b", "c"].map(async (v) => {
      await batch.write(() => insert(v));
      seen.push(other.prepare("SELECT count(*) AS n FROM t").get()?.n);
    });
    expect(values()).toEqual([]);
    await Promise.all(writes);
    expect(values()).toEqual(["a", "b", "c"]);
    expect(seen).toEqual([3, 3, 3]);
    expect(commits).toBe(1);
    other.close();
  });

  it("undo only themselves when they throw", async () => {
    const results = await Promise.allSettled([
      batch.write(() => insert("a")),
      batch.write(() => {
        insert("b");
        throw new RangeError("no");
      }),
      batch.write(() => [insert("c"), insert("a")]),
      batch.write(() => values()),
    ]);
    expect(results.map(({ status }) => status)).toEqual([
      "fulfilled",
      "rejected",
      "rejected",
      "fulfilled",
    ]);
    expect(results[1]).toMatchObject({ reason: expect.any(RangeError) });
    expect(results[2]).toMatchObject({ reason: { message: "UNIQUE constraint failed: t.v" } });
    expect(results[3]).toMatchObject({ value: ["a"] });
    expect(values()).toEqual(["a"]);
    expect(commits).toBe(1);
  });

  it("are refused together, and none of them is visible, when the transaction cannot be stored", async () => {
    await batch.write(() => insert("before"));
    // A reference that is checked at the COMMIT fails there, as a disk does.
    database.exec(`CREATE TABLE r (v TEXT REFERENCES t (v) DEFERRABLE INITIALLY DEFERRED) STRICT`);
    const results = await Promise.allSettled([
      batch.write(() => insert("a")),
      batch.write(() => database.run("INSERT INTO r VALUES ('nobody')", {})),
      batch.write(() => {
        throw new RangeError("no");
      }),
    ]);
    for (const result of results) {
      expect(result).toMatchObject({ reason: { code: "LEDGER_UNAVAILABLE" } });
    }
    expect(values()).toEqual(["before"]);
    await batch.write(() => insert("after"));
    expect(values()).toEqual(["before", "after"]);
  });

  it("are refused where the disk is full, and go on when there is room again", async () => {
    const { n } = database.get("PRAGMA page_count", {}) ?? {};
    database.exec(`PRAGMA max_page_count = ${Number(n ?? 2) + 2}`);
    const results = await Promise.allSettled([
      batch.write(() => insert("small")),
      batch.write(() => insert("large ".repeat(10_000))),
    ]);
    expect(results[1]).toMatchObject({ reason: expect.any(LedgerUnavailable) });
    const stored = results[0]?.status === "fulfilled" ? ["small"] : [];
    expect(values()).toEqual(stored);
    database.exec("PRAGMA max_page_count = 10000");
    await batch.write(() => insert("large ".repeat(10_000)));
    expect(values()).toHaveLength(stored.length + 1);
  });

  it("are refused while another process writes", async () => {
    database.exec("PRAGMA busy_timeout = 0");
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    await expect(batch.write(() => insert("a"))).rejects.toMatchObject({
      code: "LEDGER_UNAVAILABLE",
    });
    other.exec("ROLLBACK");
    other.close();
    await batch.write(() => insert("a"));
  });

  it("are so many at most, and the others follow in the next turn", async () => {
    const small = new SqliteBatch(database, events, { most: 3 });
    const all = Array.from({ length: 8 }, (_, index) => String(index));
    await Promise.all(all.map((v) => small.write(() => insert(v))));
    expect(values()).toEqual(all);
    expect(commits).toBe(3);
  });

  it("throws what it throws where it is alone, and leaves nothing behind", async () => {
    const failing = batch.write(() => {
      insert("a");
      throw new RangeError("no");
    });
    await expect(failing).rejects.toThrow(RangeError);
    expect(values()).toEqual([]);
    expect(commits).toBe(0);
    expect(takenBack).toBe(1);
    expect(lost).toEqual([]);
    await batch.write(() => insert("a"));
    expect(values()).toEqual(["a"]);
  });

  it("wait for others to join them where COMMITs come thick and fast", async () => {
    const spaced = new SqliteBatch(database, events, { spaceMs: 1_000 });
    const burst = ["a", "b", "c", "d"];
    for (const v of burst) await spaced.write(() => insert(v));
    expect(commits).toBe(burst.length);
    const late = ["e", "f"].map((v) => spaced.write(() => insert(v)));
    await nextTurn();
    const later = spaced.write(() => insert("g"));
    await nextTurn();
    expect(values()).toEqual(burst);
    await Promise.all([...late, later]);
    expect(values()).toEqual([...burst, "e", "f", "g"]);
    expect(commits).toBe(burst.length + 1);
  });

  it("wait for one turn of the event loop, no longer, where they are alone", async () => {
    const stored: number[] = [];
    const write = batch.write(() => insert("a")).then((changes) => stored.push(changes));
    await nextTurn();
    expect(stored).toEqual([1]);
    await write;
  });

  it("can be told to go at once", async () => {
    const write = batch.write(() => insert("a"));
    batch.flush();
    expect(values()).toEqual(["a"]);
    await write;
    expect(commits).toBe(1);
  });

  it("are refused once the database is closed", async () => {
    database.close();
    await expect(batch.write(() => 1)).rejects.toThrow("the ledger is closed");
  });
});

describe("operations that are stored soon", () => {
  let folder: string;
  let path: string;
  let database: SqliteDatabase;
  let other: DatabaseSync;
  let lost: LedgerUnavailable[];
  let batch: SqliteBatch;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "coinslot-batch-"));
    path = join(folder, "test.db");
    database = new SqliteDatabase(path);
    database.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (v TEXT UNIQUE) STRICT");
    other = new DatabaseSync(path, { readOnly: true });
    lost = [];
    batch = new SqliteBatch(database, {
      onWritten: () => {},
      onTakenBack: () => {},
      onLost: (error) => void lost.push(error),
    });
  });

  afterEach(async () => {
    other.close();
    database.close();
    await rm(folder, { recursive: true, force: true });
  });

  const insert = (v: string): number => database.run("INSERT INTO t VALUES (:v)", { v });
  const values = (): unknown =>
    database.all("SELECT v FROM t ORDER BY rowid", {}).map(({ v }) => v);
  const stored = (): unknown => other.prepare("SELECT v FROM t ORDER BY rowid").all();

  it("run at once, and are in the file with the next COMMIT", async () => {
    expect(batch.writeSoon(() => insert("a"))).toBe(1);
    expect(values()).toEqual(["a"]);
    expect(stored()).toEqual([]);
    await batch.write(() => insert("b"));
    expect(stored()).toEqual([{ v: "a" }, { v: "b" }]);
  });

  it("are in the file after a moment where no other COMMIT comes", async () => {
    batch.writeSoon(() => insert("a"));
    await expect.poll(stored).toEqual([{ v: "a" }]);
    expect(database.isInTransaction).toBe(false);
  });

  it("are in the file once the batch is told to go", () => {
    batch.writeSoon(() => insert("a"));
    batch.flush();
    expect(stored()).toEqual([{ v: "a" }]);
  });

  it("are in the file when there are many of them", () => {
    const many = Array.from({ length: 512 }, (_, index) => String(index));
    for (const v of many) batch.writeSoon(() => insert(v));
    expect(stored()).toHaveLength(many.length);
  });

  it("undo only themselves when they throw, before and after others", async () => {
    batch.writeSoon(() => insert("a"));
    const twice = (): number => batch.writeSoon(() => insert("b") + insert("a"));
    expect(twice).toThrow("UNIQUE constraint failed: t.v");
    await expect(batch.write(() => insert("c") + insert("a"))).rejects.toThrow("UNIQUE");
    batch.writeSoon(() => insert("d"));
    batch.flush();
    expect(stored()).toEqual([{ v: "a" }, { v: "d" }]);
    expect(lost).toEqual([]);
  });

  it("can be read together in the transaction that they are in", () => {
    batch.writeSoon(() => insert("a"));
    expect(database.snapshot(values)).toEqual(["a"]);
    expect(database.isInTransaction).toBe(true);
  });

  it("are told to be lost where the COMMIT fails, and nothing of them is seen any more", async () => {
    database.exec(`CREATE TABLE r (v TEXT REFERENCES t (v) DEFERRABLE INITIALLY DEFERRED) STRICT`);
    batch.writeSoon(() => insert("a"));
    const failing = batch.write(() => database.run("INSERT INTO r VALUES ('nobody')", {}));
    await expect(failing).rejects.toMatchObject({ code: "LEDGER_UNAVAILABLE" });
    expect(lost).toHaveLength(1);
    expect(values()).toEqual([]);
    batch.writeSoon(() => insert("after"));
    batch.flush();
    expect(stored()).toEqual([{ v: "after" }]);
    expect(lost).toHaveLength(1);
  });

  it("are told to be lost where the disk is full", () => {
    batch.writeSoon(() => insert("small"));
    const { n } = database.get("PRAGMA page_count", {}) ?? {};
    database.exec(`PRAGMA max_page_count = ${Number(n ?? 2) + 2}`);
    expect(() => batch.writeSoon(() => insert("large ".repeat(10_000)))).toThrow(LedgerUnavailable);
    const isUndone = !database.isInTransaction;
    batch.flush();
    expect(stored()).toEqual(isUndone ? [] : [{ v: "small" }]);
    expect(lost).toHaveLength(isUndone ? 1 : 0);
  });

  it("are refused while another process writes", () => {
    database.exec("PRAGMA busy_timeout = 0");
    const writer = new DatabaseSync(path);
    writer.exec("BEGIN IMMEDIATE");
    expect(() => batch.writeSoon(() => insert("a"))).toThrow(LedgerUnavailable);
    writer.exec("ROLLBACK");
    writer.close();
    batch.writeSoon(() => insert("a"));
    expect(values()).toEqual(["a"]);
  });
});
