/** A PostgreSQL server that takes no connection without TLS, as managed ones do. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { FIRST, SECOND } from "../../support/listener-tls.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import { termsOf, word } from "../../unit/ledger/ledger-driver.ts";
import { Replicas, sql } from "./stage.ts";

const payment = examplePayment(1);
let server: PostgresServer;
let folder: string;
let root: string;

beforeAll(async () => {
  server = await startPostgres({ tls: FIRST });
  folder = await mkdtemp(join(tmpdir(), "coinslot-roots-"));
  root = join(folder, "root.crt");
  await writeFile(root, FIRST.cert);
  await writeFile(join(folder, "other.crt"), SECOND.cert);
});

afterAll(async () => {
  await server.stop();
  await rm(folder, { recursive: true });
});

/** Why no ledger was opened. */
async function refusal(url: string): Promise<string> {
  await using replicas = new Replicas(url);
  return replicas.open("one").then(
    () => "opened",
    (error: unknown) => String(error),
  );
}

/** The URL of a new database, with this query in place of its own. */
async function databaseWith(query: string): Promise<string> {
  return (await server.database()).replace(/\?.*/, query);
}

it.each(["verify-full", "require"])("payments are kept behind sslmode=%s", async (mode) => {
  const warnings: string[] = [];
  const hear = ({ message }: Error): void => void warnings.push(message);
  process.on("warning", hear);
  const url = await databaseWith(`?sslmode=${mode}&sslrootcert=${root}`);
  await using replicas = new Replicas(url);
  const ledgers = await Promise.all(["one", "two"].map((life) => replicas.open(life)));
  const words = await Promise.all(
    ledgers.map((ledger) =>
      word(ledger.step(payment.key, { kind: "claim", terms: termsOf(payment) })),
    ),
  );
  expect(words.toSorted()).toEqual(["busy", "granted"]);
  // Those that listen to other replicas are among them.
  const [{ count, areSecure } = {}] = await sql(server.url, SESSIONS);
  expect(count).toBeGreaterThanOrEqual(4);
  expect(areSecure).toBe(true);
  process.off("warning", hear);
  expect(warnings).toEqual([]);
});

const SESSIONS = `
  SELECT count(*)::int AS count, bool_and(ssl) AS "areSecure"
  FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'coinslot'`;

it.each([
  ["says nothing of TLS", "", /no encryption/],
  ["trusts no authority of that certificate", "?sslmode=require", /self.signed certificate/],
  ["trusts another authority", "?sslmode=verify-full&sslrootcert=OTHER", /self.signed certificate/],
  ["names a file that is not there", "?sslmode=verify-full&sslrootcert=/none.crt", /none\.crt/],
])("a configuration that %s is refused in a sentence", async (_, query, reason) => {
  const url = await databaseWith(query.replace("OTHER", join(folder, "other.crt")));
  const said = await refusal(url);
  expect(said).toMatch(/^LedgerUnavailable: the ledger's database: /);
  expect(said).toMatch(reason);
  expect(said).not.toContain("correct-horse");
});
