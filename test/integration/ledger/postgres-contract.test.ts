/** The PostgreSQL ledger against the contract that every ledger has to keep. */
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { openPostgresBooks, openPostgresLedger } from "../../../src/ledger/postgres/postgres.ts";
import { prepareSession } from "../../../src/ledger/postgres/postgres-database.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { systemTime } from "../../../src/time/time.ts";
import { ledgerContract } from "../../support/ledger-contract.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { examplePayment, PAYER } from "../../unit/ledger/example-payment.ts";
import { everyFilter } from "../../unit/ledger/list-filters.ts";
import { fillPayments } from "./filled-payments.ts";
import { collectStatements, namesInSources, scansIn } from "./postgres-plans.ts";
import { sql } from "./stage.ts";

const logger = createLogger({ level: "silent", format: "json" });
const statements = collectStatements();
let server: PostgresServer;
/** Its schema is made once: a copy of it is there sooner. */
let template: string;
/** By store, of the test that is running. */
const databases = new Map<string, Promise<string>>();
/** Emptied ones: another would take longer. */
const spare: string[] = [];

beforeAll(async () => {
  server = await startPostgres();
  template = await server.database();
  const url = template;
  const ledger = await openPostgresLedger({ url, time: systemTime, life: "template", logger });
  await ledger.ping();
  await ledger.close();
});

afterAll(async () => server.stop());

/** By then the test's ledgers are closed. */
afterEach(async () => {
  for (const url of databases.values()) spare.push(await emptied(await url));
  databases.clear();
});

function urlOf(store: string): Promise<string> {
  const known = databases.get(store);
  if (known !== undefined) return known;
  const next = spare.pop();
  const url = next === undefined ? server.database(template) : Promise.resolve(next);
  databases.set(store, url);
  return url;
}

async function emptied(url: string): Promise<string> {
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ name: string }>(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'coinslot' AND tablename <> 'migrations'",
  );
  // Whatever refers to what goes, goes as well.
  const deletes = rows.map(({ name }) => `DELETE FROM coinslot.${name}`);
  await client.query(["SET session_replication_role = replica", ...deletes].join("; "));
  await client.end();
  return url;
}

ledgerContract(
  "PostgreSQL",
  async ({ store, ...options }) =>
    openPostgresLedger({ ...options, url: await urlOf(store), logger }),
  {
    severalLives: true,
    async spoil(store, key, request) {
      const spoiling = "UPDATE coinslot.payments SET request = $2 WHERE payment_key = $1";
      await sql(await urlOf(store), spoiling, [key, request]);
    },
    async age(store, key, { target, servedTarget }) {
      const aging =
        "UPDATE coinslot.payments SET target = $2, served_target = $3 WHERE payment_key = $1";
      await sql(await urlOf(store), aging, [key, target, servedTarget]);
    },
  },
);

describe("the statements of the PostgreSQL ledger", () => {
  let client: Client;
  let url: string;

  beforeAll(async () => {
    url = await server.database(template);
    const ledger = await openPostgresLedger({ url, time: systemTime, life: "plans", logger });
    await ledger.ping();
    await ledger.close();
    client = new Client({ connectionString: url });
    await client.connect();
    await fillPayments(client);
    // As the ledger's own sessions are.
    await prepareSession(client);
  });

  afterAll(async () => client.end());

  test("were all sent by the tests above", () => {
    const names = namesInSources();
    expect(names.length).toBeGreaterThan(40);
    // The first is sent by whoever opens the books alone; the other when the connection that listens was lost.
    const elsewhere = ["one_moment", "has_offers"];
    expect(names.filter((name) => !statements.has(name))).toEqual(elsewhere);
  });

  test("are looked at by who would see a scan", async () => {
    const scanning = [
      "SELECT * FROM coinslot.payments WHERE payer = $1",
      "SELECT * FROM coinslot.payments WHERE $1::text IS NULL OR network = $1 ORDER BY created_ms LIMIT 1",
      "SELECT count(*) FROM coinslot.tombstones",
      "DELETE FROM coinslot.submission_transactions WHERE submission = $1",
    ];
    for (const text of scanning) {
      expect({ text, scans: await scansIn(client, { name: "a_test", text }) }).toEqual({
        text,
        scans: [expect.any(String)],
      });
    }
  });

  test("use an index, whatever the filter of a list", { timeout: 120_000 }, async () => {
    const books = await openPostgresBooks({ url });
    const filters = everyFilter({
      network: "base-sepolia",
      payer: PAYER,
      key: examplePayment(1).key,
    });
    for (const filter of filters) await books.list(filter);
    await books.close();
    expect(statements.size).toBeGreaterThan(100);
    const scans: { readonly name: string; readonly steps: readonly string[] }[] = [];
    for (const statement of statements.values()) {
      const steps = await scansIn(client, statement);
      if (steps.length > 0) scans.push({ name: statement.name, steps });
    }
    expect(scans).toEqual([]);
  });
});
