import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openSqliteBooks } from "../../../../src/ledger/sqlite/sqlite-books.ts";
import { openSqliteLedger } from "../../../../src/ledger/sqlite/sqlite.ts";
import { systemTime } from "../../../../src/time/time.ts";
import { ledgerContract } from "../../../support/ledger-contract.ts";
import { examplePayment, PAYER } from "../example-payment.ts";
import { bring } from "../ledger-driver.ts";
import { everyFilter } from "../list-filters.ts";
import {
  collectStatements,
  planOf,
  scansIn,
  squeezed,
  statementsInSources,
} from "./sqlite-plans.ts";

let folder: string;
const pathOf = (store: string): string => join(folder, `${store}.db`);
const plansPath = (): string => pathOf("plans");
const statements = collectStatements();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-ledger-"));
});

afterAll(async () => rm(folder, { recursive: true, force: true }));

ledgerContract(
  "SQLite",
  async ({ store, ...options }) => openSqliteLedger({ ...options, path: pathOf(store) }),
  {
    severalLives: false,
    async spoil(store, key, request) {
      const database = new DatabaseSync(pathOf(store));
      database.prepare("UPDATE payments SET request = ? WHERE payment_key = ?").run(request, key);
      database.close();
    },
    async age(store, key, { target, servedTarget }) {
      const database = new DatabaseSync(pathOf(store));
      database
        .prepare("UPDATE payments SET target = ?, served_target = ? WHERE payment_key = ?")
        .run(target, servedTarget, key);
      database.close();
    },
  },
);

describe("the statements of the SQLite ledger", () => {
  beforeAll(async () => {
    const ledger = await openSqliteLedger({ path: plansPath(), time: systemTime, life: "plans" });
    await bring(ledger, examplePayment(1), "delivered");
    await ledger.ping();
    await ledger.close();
  });

  test("were all prepared by the tests above", async () => {
    const prepared = [...statements].map(squeezed);
    // A backup reads its copy whole, and in no one's way.
    const served = statementsInSources().filter(({ file }) => file !== "sqlite-backup.ts");
    const missing = served.filter(({ begin }) => {
      return !prepared.some((sql) => sql.includes(begin));
    });
    expect(missing).toEqual([]);
    expect(prepared.length).toBeGreaterThan(60);
  });

  test("are looked at by who would see a scan", () => {
    const database = new DatabaseSync(plansPath());
    const scanning = [
      "SELECT * FROM payments WHERE state IN (SELECT value FROM json_each('[]')) ORDER BY created_ms LIMIT 1",
      "SELECT * FROM payments WHERE payer = '0x' ORDER BY rowid",
      "SELECT count(*) FROM tombstones",
      "DELETE FROM submission_transactions WHERE submission = 'x'",
      "SELECT 1 FROM submissions WHERE signed_ms < 5",
    ];
    const seen = scanning.map((sql) => scansIn(sql, planOf(database, sql)).length);
    database.close();
    expect(seen.every((count) => count > 0)).toBe(true);
  });

  test("use an index, but for tables that hold a handful of rows", () => {
    const database = new DatabaseSync(plansPath());
    const scans = [...statements].flatMap((sql) => {
      return scansIn(sql, planOf(database, sql)).map((step) => ({ sql: squeezed(sql), step }));
    });
    database.close();
    expect(scans).toEqual([]);
  });

  test("sort nothing but what is under way, whatever the filter of a list", async () => {
    const before = new Set(statements);
    const books = await openSqliteBooks({ path: plansPath() });
    const filters = everyFilter({
      network: "base-sepolia",
      payer: PAYER,
      key: examplePayment(1).key,
    });
    for (const filter of filters) await books.list(filter);
    await books.close();
    expect(filters.length).toBeGreaterThan(100);
    const database = new DatabaseSync(plansPath());
    const added = [...statements].filter((sql) => !before.has(sql));
    const scans = added.flatMap((sql) => scansIn(sql, planOf(database, sql)));
    database.close();
    expect(scans).toEqual([]);
    expect(added.length).toBeGreaterThan(100);
  });
});
