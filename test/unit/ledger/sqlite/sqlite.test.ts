/** What is particular to the ledger in a file. */
import { copyFile, mkdtemp, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  LedgerConflict,
  LedgerUnavailable,
  MAX_DELIVERY_ATTEMPTS,
  type Ledger,
} from "../../../../src/ledger/ledger.ts";
import { openBeside } from "../../../../src/ledger/sqlite/sqlite-schema.ts";
import { openSqliteBooks } from "../../../../src/ledger/sqlite/sqlite-books.ts";
import {
  openSqliteLedger,
  type SqliteLedgerOptions,
} from "../../../../src/ledger/sqlite/sqlite.ts";
import { systemTime } from "../../../../src/time/time.ts";
import { examplePayment, PAYER } from "../example-payment.ts";
import {
  ACCOUNT,
  bring,
  SETTLEMENT,
  sign,
  signWith,
  termsOf,
  UNANSWERED,
  word,
} from "../ledger-driver.ts";
import { columnsOfThePaper } from "../stored-of-whom.ts";

describe("the SQLite file", () => {
  let folder: string;
  let path: string;
  const payment = examplePayment(1);
  const { key } = payment;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "coinslot-ledger-"));
    path = join(folder, "ledger.db");
  });

  afterEach(async () => rm(folder, { recursive: true, force: true }));

  const open = (life = "first", options: Partial<SqliteLedgerOptions> = {}): Promise<Ledger> =>
    openSqliteLedger({ path, time: systemTime, life, ...options });

  const columnsOf = async (of: string): Promise<Record<string, unknown>> => {
    const database = new DatabaseSync(of, { readOnly: true });
    const row = database.prepare("SELECT target, served_target FROM payments").get();
    database.close();
    return { ...row };
  };

  it("is made together with the folders above it", async () => {
    path = join(folder, "a", "b", "ledger.db");
    await (await open()).close();
    expect((await stat(path)).isFile()).toBe(true);
  });

  it("has no column of which the paper does not say what is stored of whom", async () => {
    await (await open()).close();
    const database = new DatabaseSync(path, { readOnly: true });
    const rows = database
      .prepare(
        `SELECT m.name AS "table", c.name AS "column" FROM sqlite_schema AS m, pragma_table_info(m.name) AS c
         WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`,
      )
      .all();
    database.close();
    const columns = rows.map(({ table, column }) => `${String(table)}.${String(column)}`);
    expect(columns.toSorted()).toEqual(columnsOfThePaper("SQLite"));
  });

  it("keeps of a query a digest, and knows those that were stored whole", async () => {
    const ledger = await open();
    const target = "/premium-data?who=me";
    const terms = termsOf(payment, { target });
    await ledger.step(key, { kind: "claim", terms });
    await sign(ledger, [payment]);
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    await ledger.step(key, { kind: "delivering" });
    await ledger.step(key, { kind: "undelivered", broken: { sent: true, served: target } });
    await ledger.close();
    const [database, first] = [new DatabaseSync(path), await columnsOf(path)];
    expect(first).toEqual({
      target: expect.stringMatching(/^\/premium-data\?~[\w-]{22}$/),
      served_target: first.target,
    });
    for (const stored of [undefined, target]) {
      if (stored !== undefined) {
        database.prepare("UPDATE payments SET target = ?, served_target = ?").run(stored, stored);
      }
      const next = await open("next");
      const other = termsOf(payment, { target: "/premium-data?who=you" });
      expect(await word(next.step(key, { kind: "claim", terms: other }))).toBe("spent");
      const { owed } = await next.recall(examplePayment(2).request.paymentPayload, terms);
      expect(owed.map((each) => each.key)).toEqual([key]);
      expect(await next.signIns.bought(PAYER, terms)).toHaveLength(1);
      expect(await next.signIns.bought(PAYER, other)).toEqual([]);
      await next.close();
    }
    database.close();
  });

  it("can be kept in memory, gone when it is closed", async () => {
    for (const life of ["first", "first"]) {
      const ledger = await open(life, { path: ":memory:" });
      expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
        "granted",
      );
      await ledger.close();
    }
  });

  it("is in WAL mode", async () => {
    const ledger = await open();
    const database = new DatabaseSync(path);
    expect(database.prepare("PRAGMA journal_mode").get()).toEqual({ journal_mode: "wal" });
    database.close();
    await ledger.close();
  });

  it("is freed of what an earlier life left as soon as it is opened", async () => {
    const ledger = await open();
    await bring(ledger, payment, "claimed");
    await ledger.close();
    const next = await open("second");
    expect(await word(next.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("granted");
    await next.close();
  });

  it("tells nobody that he is paid back before that is stored", async () => {
    const ledger = await open();
    await bring(ledger, payment, "settled");
    const broken = { ...UNANSWERED, isBackends: true, isRefundedLast: true };
    for (let times = 1; times < MAX_DELIVERY_ATTEMPTS; times += 1) {
      await ledger.step(key, { kind: "delivering" });
      await ledger.step(key, { kind: "undelivered", broken });
    }
    await ledger.step(key, { kind: "delivering" });
    const ended = ledger.step(key, { kind: "undelivered", broken });
    const asked = await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }));
    expect(asked).not.toBe("failed");
    await ended;
    const database = new DatabaseSync(path, { readOnly: true });
    expect(database.prepare("SELECT state FROM payments").get()).toEqual({ state: "FAILED" });
    database.close();
    expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("failed");
    await ledger.close();
  });

  it("refuses, by its own constraints, money in a state that cannot be", async () => {
    const ledger = await open();
    await bring(ledger, payment, "claimed");
    await ledger.close();
    const database = new DatabaseSync(path);
    for (const change of [
      "state = 'PAID'",
      "state = 'SETTLED'",
      "state = 'FAILED'",
      "state = 'DELIVERING', settled_transaction = '0xaa'",
      "settled_transaction = '0xaa'",
      "failure_code = 'insufficient_funds'",
      "submission = '0x00'",
      "state = 'SIGNED', submission = '0x00'",
      "state = 'SIGNED', offered = 1",
      "offered = 2",
      "version = 0",
      "amount_atomic = '1e4'",
      "amount_atomic = '-1'",
      "attempts = -1",
      "attempts = 4",
      "replays = 1",
      "replay_until_ms = 1",
      "body_hash = 'ab', replay_until_ms = 1, served_target = '/'",
      "request = 'not JSON'",
    ]) {
      expect(() => database.exec(`UPDATE payments SET ${change}`), change).toThrow("constraint");
    }
    expect(() => database.exec("UPDATE payments SET attempts = 'none'")).toThrow("cannot store");
    database.close();
  });

  it("never gives one account nonce to two transactions", async () => {
    const ledger = await open();
    await bring(ledger, payment, "signed");
    await ledger.close();
    const database = new DatabaseSync(path);
    database.exec("UPDATE accounts SET next_nonce = 0");
    database.close();
    const next = await open("first");
    await bring(next, examplePayment(2), "claimed");
    await expect(sign(next, [examplePayment(2)])).rejects.toThrow("UNIQUE constraint failed");
    await next.close();
  });

  it("never signs a payment with an account of another network", async () => {
    const ledger = await open();
    await bring(ledger, payment, "claimed");
    const lease = await ledger.signing.lease("base", ACCOUNT);
    if (lease === undefined) throw new Error("a free account");
    const signed = ledger.signing.signed([key], { ...lease, seed: 0 }, (nonce) => signWith(nonce));
    await expect(signed).rejects.toThrow(LedgerConflict);
    expect(await ledger.signing.nextAccountNonce("base", ACCOUNT)).toBeUndefined();
    await ledger.close();
  });

  it("is refused when a newer version of the program wrote it", async () => {
    await (await open()).close();
    const database = new DatabaseSync(path);
    database.exec("PRAGMA user_version = 99");
    database.close();
    await expect(open()).rejects.toThrow(LedgerUnavailable);
    await expect(open()).rejects.toThrow("schema version 99, newer than");
  });

  it("that was removed or replaced under an open ledger takes nothing more, until it is back", async () => {
    const ledger = await open();
    await ledger.ping();
    await rename(path, `${path}.aside`);
    await expect(ledger.ping()).rejects.toThrow(LedgerUnavailable);
    await expect(ledger.ping()).rejects.toThrow(`${path} was removed or replaced`);
    await copyFile(`${path}.aside`, path);
    const claim = { kind: "claim", terms: termsOf(payment) } as const;
    await expect(ledger.step(key, claim)).rejects.toThrow(LedgerUnavailable);
    await rename(`${path}.aside`, path);
    expect(await word(ledger.step(key, claim))).toBe("granted");
    await ledger.close();
  });

  it("is refused when it is no database", async () => {
    await writeFile(path, "not a database ".repeat(1000));
    await expect(open()).rejects.toMatchObject({
      code: "LEDGER_UNAVAILABLE",
      cause: expect.any(Error),
    });
  });

  it("is refused when its folder cannot be made", async () => {
    await writeFile(join(folder, "file"), "");
    path = join(folder, "file", "ledger.db");
    await expect(open()).rejects.toMatchObject({ code: "LEDGER_UNAVAILABLE" });
  });

  it("takes no claim while another process holds the lock, and takes it afterwards", async () => {
    const ledger = await open();
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    await expect(ledger.ping()).rejects.toMatchObject({ code: "LEDGER_UNAVAILABLE" });
    const refused = ledger.step(key, { kind: "claim", terms: termsOf(payment) });
    await expect(refused).rejects.toMatchObject({ code: "LEDGER_UNAVAILABLE" });
    other.exec("ROLLBACK");
    other.close();
    expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
      "granted",
    );
    await ledger.close();
  });

  it("keeps what it has answered while another process holds the lock, and stores it afterwards", async () => {
    const troubles: unknown[] = [];
    const ledger = await open("first", { onUnstored: (cause) => void troubles.push(cause) });
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    await bring(ledger, payment, "claimed");
    await expect.poll(() => troubles.length, { timeout: 10_000 }).toBeGreaterThan(0);
    expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
      "unresolved",
    );
    other.exec("ROLLBACK");
    other.close();
    const books = await openSqliteBooks({ path });
    await expect
      .poll(async () => (await books.show(key))?.state, { timeout: 10_000 })
      .toBe("CLAIMED");
    await books.close();
    await ledger.close();
  });

  it("takes back a step of which the transaction is not stored, and nothing that was answered", async () => {
    const ledger = await open();
    await bring(ledger, payment, "claimed");
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    await expect(
      ledger.step(key, { kind: "handedOver", facilitator: "https://far.example" }),
    ).rejects.toThrow(LedgerUnavailable);
    expect((await ledger.books.show(key))?.state).toBe(undefined);
    other.exec("ROLLBACK");
    other.close();
    expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
      "unresolved",
    );
    await ledger.step(key, { kind: "released" });
    expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
      "granted",
    );
    await ledger.close();
  });

  it("stores the others where one payment cannot be stored, and goes on with that one", async () => {
    const troubles: unknown[] = [];
    const ledger = await open("first", { onUnstored: (cause) => void troubles.push(cause) });
    const meddler = new DatabaseSync(path);
    meddler.exec(`CREATE TRIGGER refuses BEFORE INSERT ON payments WHEN new.payment_key = '${key}'
      BEGIN SELECT RAISE(ABORT, 'not this one'); END`);
    await bring(ledger, payment, "claimed");
    await bring(ledger, examplePayment(2), "claimed");
    const listed = await ledger.books.list({ limit: 10 });
    expect(listed.map((each) => each.key)).toEqual([examplePayment(2).key]);
    expect(String(troubles[0])).toContain("not this one");
    expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
      "unresolved",
    );
    meddler.exec("DROP TRIGGER refuses");
    meddler.close();
    expect(await ledger.books.list({ limit: 10 })).toHaveLength(2);
    expect(troubles).toHaveLength(1);
    await ledger.close();
  });

  it("stores what payments have come to with the conclusion of their submission, or neither", async () => {
    const ledger = await open();
    const beside = new DatabaseSync(path);
    const stored = (): unknown => [
      beside.prepare("SELECT state FROM payments WHERE payment_key = ?").get(key)?.["state"],
      beside.prepare("SELECT state FROM submissions").get()?.["state"],
    ];
    await bring(ledger, payment, "claimed");
    const { id } = await sign(ledger, [payment]);
    beside.exec(`CREATE TRIGGER refuses BEFORE UPDATE ON payments WHEN new.state = 'SETTLED'
      BEGIN SELECT RAISE(ABORT, 'not now'); END`);
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    await expect(ledger.signing.concluded(id, "INCLUDED")).rejects.toThrow("not now");
    expect(stored()).toEqual(["SIGNED", "OPEN"]);
    beside.exec("DROP TRIGGER refuses");
    await ledger.signing.concluded(id, "INCLUDED");
    expect(stored()).toEqual(["SETTLED", "INCLUDED"]);
    beside.close();
    await ledger.close();
  });

  it("stores what was asked for before it was closed", async () => {
    const ledger = await open();
    const claim = ledger.step(key, { kind: "claim", terms: termsOf(payment) });
    await ledger.close();
    expect(await word(claim)).toBe("granted");
    const next = await open();
    expect(await word(next.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
      "unresolved",
    );
    await next.close();
  });

  it("ends every wait when it is closed", async () => {
    const ledger = await open();
    await bring(ledger, payment, "claimed");
    const { signal } = new AbortController();
    const waits = [ledger.changed(key, 1, signal), ledger.queues.offered(signal)];
    await ledger.close();
    await Promise.all(waits);
    await ledger.changed(key, 1, signal);
  });

  it("tells of an offer that came between two waits, once", async () => {
    const ledger = await open();
    await bring(ledger, payment, "offered");
    await ledger.queues.offered(new AbortController().signal);
    const controller = new AbortController();
    const steps: string[] = [];
    const wait = ledger.queues.offered(controller.signal).then(() => steps.push("offered"));
    await ledger.ping();
    steps.push("a transaction later");
    controller.abort();
    await wait;
    expect(steps).toEqual(["a transaction later", "offered"]);
    await ledger.close();
  });

  describe("shows its books", () => {
    it("beside the process that writes it, as far as that has stored", async () => {
      const ledger = await open();
      await bring(ledger, payment, "delivered");
      const books = await openSqliteBooks({ path });
      const stored = (await books.show(key))?.state;
      expect(stored).toBe("DELIVERING");
      await expect
        .poll(async () => (await books.show(key))?.state, { timeout: 10_000 })
        .toBe("DELIVERED");
      expect(await books.show(key)).toEqual(await ledger.books.show(key));
      await bring(ledger, examplePayment(2), "settled");
      await ledger.books.counts();
      expect(await books.list({ limit: 10 })).toEqual(await ledger.books.list({ limit: 10 }));
      expect(await books.counts()).toMatchObject({ unresolved: 0, undelivered: 1, offered: 0 });
      await ledger.step(examplePayment(2).key, { kind: "settled", settlement: SETTLEMENT });
      await books.close();
      await expect(books.counts()).rejects.toMatchObject({ code: "LEDGER_UNAVAILABLE" });
      await ledger.close();
    });

    it("when no process has it open, and changes nothing", async () => {
      const ledger = await open();
      await bring(ledger, payment, "claimed");
      await ledger.close();
      const books = await openSqliteBooks({ path });
      expect(await books.show(key)).toMatchObject({ state: "CLAIMED" });
      await books.close();
      const next = await open();
      expect(await word(next.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
        "unresolved",
      );
      await next.close();
    });

    it("and says so where there is no ledger, or one of another version", async () => {
      await expect(openSqliteBooks({ path })).rejects.toThrow(`there is no ledger at ${path}`);
      await expect(stat(path)).rejects.toMatchObject({ code: "ENOENT" });
      await (await open()).close();
      const database = new DatabaseSync(path);
      database.exec("PRAGMA user_version = 2");
      await expect(openSqliteBooks({ path })).rejects.toThrow("has schema version 2");
      await expect(openSqliteBooks({ path })).rejects.toThrow(LedgerUnavailable);
      await expect(openSqliteBooks({ path })).rejects.toThrow(
        "brought up to date when the gateway opens it",
      );
      database.exec("PRAGMA user_version = 99");
      const newer = "newer than \\d+, the newest that this program knows: run the version";
      await expect(openSqliteBooks({ path })).rejects.toThrow(new RegExp(newer));
      expect(() => openBeside(path)).toThrow(new RegExp(newer));
      database.close();
      await writeFile(join(folder, "text"), "not a database ".repeat(1000));
      const text = openSqliteBooks({ path: join(folder, "text") });
      await expect(text).rejects.toThrow(LedgerUnavailable);
    });
  });
});
