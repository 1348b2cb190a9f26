/** How a PostgreSQL database becomes a ledger, which ones are refused, and what is never told. */
import { Writable } from "node:stream";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LedgerUnavailable, type ClaimTerms } from "../../../src/ledger/ledger.ts";
import { MIGRATIONS } from "../../../src/ledger/postgres/postgres-schema.ts";
import { openPostgresBooks } from "../../../src/ledger/postgres/postgres.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { examplePayment, PAYER, type ExamplePayment } from "../../unit/ledger/example-payment.ts";
import { bring, SALE, termsOf, word } from "../../unit/ledger/ledger-driver.ts";
import { columnsOfThePaper } from "../../unit/ledger/stored-of-whom.ts";
import { Replicas, sql, until } from "./stage.ts";

const payment = examplePayment(1);
let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});

afterAll(async () => server.stop());

/** Presented again by whoever has proven to be its payer. */
const byPayer = (presented: ExamplePayment): ClaimTerms =>
  termsOf(presented, { claimant: "anywhere", proof: "valid" });

/** What a failing call says, with everything that hangs on its error. */
async function complaint(call: Promise<unknown>): Promise<string> {
  try {
    await call;
  } catch (error) {
    expect(error).toBeInstanceOf(LedgerUnavailable);
    if (!(error instanceof Error)) throw error;
    return `${error.message} ${JSON.stringify(error.cause)} ${JSON.stringify(error)}`;
  }
  throw new Error("did not fail");
}

/** An empty database becomes what the program left that knew so many migrations. */
async function leaveAt(url: string, version: number): Promise<void> {
  await sql(url, "CREATE SCHEMA coinslot");
  await sql(
    url,
    `CREATE TABLE coinslot.migrations (
       version integer NOT NULL PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`,
  );
  for (const each of MIGRATIONS.slice(0, version)) await sql(url, each);
  await sql(url, `INSERT INTO coinslot.migrations SELECT generate_series(1, ${version})`);
}

describe("the tables", () => {
  it("are made once by five replicas that start together", async () => {
    const url = await server.database();
    await using replicas = new Replicas(url);
    const lives = ["one", "two", "three", "four", "five"];
    const ledgers = await Promise.all(lives.map((life) => replicas.open(life)));
    const words = await Promise.all(
      ledgers.map((ledger) =>
        word(ledger.step(payment.key, { kind: "claim", terms: termsOf(payment) })),
      ),
    );
    expect(words.toSorted()).toEqual(["busy", "busy", "busy", "busy", "granted"]);
    const versions = MIGRATIONS.map((_, index) => ({ version: index + 1 }));
    const asked = "SELECT version FROM coinslot.migrations ORDER BY version";
    expect(await sql(url, asked)).toEqual(versions);
    const columns = await sql(
      url,
      `SELECT table_name || '.' || column_name AS "column" FROM information_schema.columns
       WHERE table_schema = 'coinslot'`,
    );
    // What is stored of whom is told of each.
    const told = columnsOfThePaper("PostgreSQL");
    expect(columns.map(({ column }) => String(column)).toSorted()).toEqual(told);
  });

  it("survive being opened again, with what they hold", async () => {
    const url = await server.database();
    await using replicas = new Replicas(url);
    const one = await replicas.open("one");
    await bring(one, payment, "settled");
    await one.close();
    const two = await replicas.open("two");
    expect(await two.outcome(payment.key)).toMatchObject({ kind: "settled" });
  });

  it("get what a newer program wants where an older one made them, and keep what they hold", async () => {
    const url = await server.database();
    await using replicas = new Replicas(url);
    // As the first version left it.
    await leaveAt(url, 1);
    await sql(
      url,
      `INSERT INTO coinslot.payments (payment_key, state, version, binding, target, idempotency_key,
         request, network, asset, amount_atomic, pay_to, payer, offered, settled_transaction,
         attempts, replays, claimed_by, created_ms, updated_ms)
       VALUES ('${payment.key}', 'SETTLED', 3, '${SALE.binding}', '${SALE.target}', 'a key',
         '${JSON.stringify(payment.request)}', 'base-sepolia', '', '10000', '', '${PAYER}', false,
         '0xaa', 0, 0, 'one', 0, 0)`,
    );
    expect(await complaint(openPostgresBooks({ url }))).toContain("schema version 1, older than");
    const two = await replicas.open("two");
    expect(await two.outcome(payment.key)).toMatchObject({ kind: "settled" });
    expect(await two.sold.since(0, 1)).toEqual([]);
    // Whose client claimed it was not stored then: it is owed to whoever proves to be the payer.
    const next = examplePayment(2).request.paymentPayload;
    expect((await two.recall(next, SALE)).owed).toMatchObject([{ key: payment.key }]);
    expect(await word(two.step(payment.key, { kind: "claim", terms: termsOf(payment) }))).toBe(
      "withheld",
    );
  });

  it("change while an older program is between the lock of a row and its write, and stop neither", async () => {
    const url = await server.database();
    await using replicas = new Replicas(url);
    // An index takes the weaker lock of the table, a trigger behind it the stronger one.
    const known = MIGRATIONS.findIndex((each) => each.includes("CREATE INDEX transfers_back"));
    await leaveAt(url, known);
    const older = new Client({ connectionString: url });
    await older.connect();
    try {
      await older.query("BEGIN");
      await older.query("SELECT FROM coinslot.payments FOR UPDATE");
      const opened = replicas.open("newer");
      opened.catch(() => undefined);
      const waits = `SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
        AND relation = 'coinslot.payments'::regclass`;
      await until(async () => (await sql(url, waits)).length > 0);
      await older.query("UPDATE coinslot.payments SET version = version + 1");
      await older.query("COMMIT");
      await bring(await opened, payment, "settled");
    } finally {
      await older.end();
    }
  });

  it("are good beside an older program, and what it leaves behind is its payer's", async () => {
    const url = await server.database();
    await using replicas = new Replicas(url);
    const one = await replicas.open("one");
    for (const state of ["signed", "handed", "settled", "retried", "delivering"] as const) {
      const left = examplePayment(10);
      await bring(one, left, state);
      // As a program writes that knows no more columns than the first tables had.
      await sql(url, "UPDATE coinslot.payments SET holder = NULL, claimant = NULL");
      if (state === "delivering") {
        await sql(url, "UPDATE coinslot.payments SET claimed_by = 'older'");
        expect(await word(one.step(left.key, { kind: "claim", terms: byPayer(left) }))).toBe(
          "busy",
        );
        await until(async () => (await one.upkeep.reap()) === 1);
      }
      const next = examplePayment(11).request.paymentPayload;
      expect((await one.recall(next, SALE)).owed).toMatchObject([{ key: left.key }]);
      expect(await word(one.step(left.key, { kind: "claim", terms: termsOf(left) }))).toBe(
        "withheld",
      );
      const isPaid = state !== "signed" && state !== "handed";
      expect(await word(one.step(left.key, { kind: "claim", terms: byPayer(left) }))).toBe(
        isPaid ? "settled" : "unresolved",
      );
      await sql(url, "TRUNCATE coinslot.payments, coinslot.submissions CASCADE");
      await sql(url, "TRUNCATE coinslot.submission_transactions, coinslot.accounts");
    }
  });

  it("are left alone where a newer program made them", async () => {
    const url = await server.database();
    await using replicas = new Replicas(url);
    await (await replicas.open("one")).close();
    await sql(url, "INSERT INTO coinslot.migrations (version) VALUES (99)");
    expect(await complaint(replicas.open("two"))).toContain("schema version 99, newer than");
    expect(await complaint(openPostgresBooks({ url }))).toContain("schema version 99, newer than");
  });

  it("are found whatever the search path is, by a role that may not make schemas", async () => {
    const url = await server.database();
    await sql(url, "DROP ROLE IF EXISTS tenant");
    await sql(url, "CREATE ROLE tenant LOGIN PASSWORD 'tenants-secret'");
    await sql(url, "ALTER ROLE tenant SET search_path = nowhere");
    await sql(url, "CREATE SCHEMA coinslot AUTHORIZATION tenant");
    const own = new URL(url);
    own.username = "tenant";
    own.password = "tenants-secret";
    await using replicas = new Replicas(own.href);
    const one = await replicas.open("one");
    await bring(one, payment, "kept");
    expect(await one.books.list({ limit: 5 })).toHaveLength(1);
  });

  it("keep numbers that are larger than 32 bits, exactly", async () => {
    const url = await server.database();
    await using replicas = new Replicas(url);
    const one = await replicas.open("one");
    await bring(one, payment, "claimed");
    const large = 2 ** 53 - 1;
    await sql(url, "UPDATE coinslot.payments SET version = $1", [large]);
    expect(await one.outcome(payment.key)).toEqual({ kind: "pending", version: large });
    await sql(url, "UPDATE coinslot.payments SET version = version + 1");
    expect(await complaint(one.outcome(payment.key))).toContain("too large");
  });

  it("refuse what the machine does not allow", async () => {
    const url = await server.database();
    await using replicas = new Replicas(url);
    const one = await replicas.open("one");
    await bring(one, payment, "signed");
    for (const wrong of [
      "state = 'SETTLED'",
      "state = 'CLAIMED'",
      "state = 'FAILED'",
      "offered = true",
      "attempts = 4",
      "version = 0",
      "replays = 1",
    ]) {
      const change = sql(url, `UPDATE coinslot.payments SET ${wrong}`);
      await expect(change, wrong).rejects.toThrow("violates check constraint");
    }
  });
});

describe("a session", () => {
  it("commits durably, reads what is committed, and waits for nothing for ever", async () => {
    const url = await server.database();
    const database = new URL(url).pathname.slice(1);
    await sql(url, `ALTER DATABASE ${database} SET synchronous_commit = off`);
    await sql(url, `ALTER DATABASE ${database} SET default_transaction_isolation = serializable`);
    await sql(url, `ALTER DATABASE ${database} SET statement_timeout = 0`);
    await using replicas = new Replicas(url);
    const one = await replicas.open("one");
    await bring(one, payment, "claimed");
    // What the ledger's own sessions have, told by the transaction of one that writes.
    await sql(
      url,
      `CREATE TABLE public.seen (name text, value text);
       CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         INSERT INTO public.seen SELECT name, setting FROM pg_settings WHERE name IN
           ('synchronous_commit', 'transaction_isolation', 'statement_timeout');
         RETURN NULL; END $$;
       CREATE TRIGGER seeing AFTER UPDATE ON coinslot.payments EXECUTE FUNCTION see()`,
    );
    await one.step(payment.key, {
      kind: "handedOver",
      facilitator: "https://facilitator.example.com",
    });
    expect(await sql(url, "SELECT name, value FROM seen ORDER BY name")).toEqual([
      { name: "statement_timeout", value: "5000" },
      { name: "synchronous_commit", value: "on" },
      { name: "transaction_isolation", value: "read committed" },
    ]);
  });
});

describe("the books alone", () => {
  it("are read beside a ledger, without a life of their own", async () => {
    const url = await server.database();
    await using replicas = new Replicas(url);
    const one = await replicas.open("one");
    await bring(one, payment, "settled");
    const books = await openPostgresBooks({ url });
    expect(await books.list({ limit: 5 })).toEqual(await one.books.list({ limit: 5 }));
    expect(await books.show(payment.key)).toEqual(await one.books.show(payment.key));
    expect(await books.counts()).toMatchObject({ unresolved: 0, undelivered: 1, offered: 0 });
    expect(await sql(url, "SELECT life FROM coinslot.lives")).toEqual([{ life: "one" }]);
    await books.close();
    await expect(books.counts()).rejects.toThrow(LedgerUnavailable);
  });

  it("are refused where there is no ledger, which they do not make", async () => {
    const url = await server.database();
    expect(await complaint(openPostgresBooks({ url }))).toContain("holds no ledger yet");
    expect(await sql(url, "SELECT to_regnamespace('coinslot') AS made")).toEqual([{ made: null }]);
  });
});

describe("the password", () => {
  it("is in no complaint and in no log", async () => {
    const url = await server.database();
    const lines: string[] = [];
    const destination = new Writable({
      write(line, _encoding, done) {
        lines.push(String(line));
        done();
      },
    });
    const logger = createLogger({ level: "trace", format: "json", destination });
    await using replicas = new Replicas(url);
    const wrong = url.replace("correct-horse", "wrong-secret");
    const complaints = [
      await complaint(replicas.open("one", { url: wrong, logger })),
      await complaint(replicas.open("one", { url: url.replace("postgres:", "http:"), logger })),
      await complaint(replicas.open("one", { url: "postgres://u:wrong-secret@[::bad/x", logger })),
      await complaint(replicas.open("one", { url: `${wrong}_none`, logger })),
      await complaint(openPostgresBooks({ url: wrong.replace(/:\d+\//, ":1/") })),
    ];
    await replicas.open("two", { logger });
    await server.restart();
    await until(async () => lines.some((line) => line.includes("was lost")));
    for (const text of [...complaints, ...lines]) {
      expect(text).not.toContain("wrong-secret");
      expect(text).not.toContain("correct-horse");
    }
  });
});
