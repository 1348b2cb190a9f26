import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LedgerUnavailable } from "../../../../src/ledger/ledger.ts";
import { SqliteBatch } from "../../../../src/ledger/sqlite/sqlite-batch.ts";
import { SqliteDatabase } from "../../../../src/ledger/sqlite/sqlite-database.ts";

describe("operations that share a transaction", () => {
  let folder: string;
  let path: string;
  let database: SqliteDatabase;
  let commits: number;
  let lost: number;
  let takenBack: number;
  let batch: SqliteBatch;

  const events = {
    onCommitted: () => void (commits += 1),
    onTakenBack: (isFault: boolean) => void (isFault ? (lost += 1) : (takenBack += 1)),
  };

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "coinslot-batch-"));
    path = join(folder, "test.db");
    database = new SqliteDatabase(path);
    database.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (v TEXT UNIQUE) STRICT");
    commits = 0;
    lost = 0;
    takenBack = 0;
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

  it("run anew where one of them throws, after what they did has been taken back", async () => {
    const seen: string[] = [];
    const say = (v: string) => (): void => {
      seen.push(`${v} after ${String(values())}, taken back ${takenBack}`);
      if (v === "b") throw new RangeError("no");
      insert(v);
    };
    await Promise.allSettled(["a", "b", "c"].map((v) => batch.write(say(v))));
    expect(seen).toEqual([
      "a after , taken back 0",
      "b after a, taken back 0",
      "a after , taken back 1",
      "b after a, taken back 1",
      "c after a, taken back 1",
    ]);
    expect(values()).toEqual(["a", "c"]);
    expect([commits, takenBack, lost]).toEqual([1, 1, 0]);
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
    expect(lost).toBe(1);
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
    expect([lost, takenBack]).toEqual([0, 1]);
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

  it("go with others where they are in no hurry, or alone after a moment", async () => {
    const later = batch.writeLater(() => insert("a"));
    await nextTurn();
    expect(values()).toEqual([]);
    await batch.write(() => insert("b"));
    expect(values()).toEqual(["a", "b"]);
    expect(commits).toBe(1);
    await later;
    await batch.writeLater(() => insert("c"));
    expect(values()).toEqual(["a", "b", "c"]);
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
