/** A sweep of the PostgreSQL ledger, and a reading of its books, beside others who work on the same rows. */
import { join } from "node:path";
import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { moneyInThread } from "../../../src/app/read-accounts.ts";
import { Secret } from "../../../src/config/facilitator/secret.ts";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { digestOf } from "../../../src/ledger/tombstone.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import { ACCOUNT, bring, NETWORK, termsOf } from "../../unit/ledger/ledger-driver.ts";
import { Replicas, sql, until } from "./stage.ts";

const payment = examplePayment(1);
let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});

afterAll(async () => server.stop());

/** A delivered payment whose submission is final. */
async function delivered(ledger: Ledger): Promise<void> {
  await bring(ledger, payment, "delivered");
  for (const { id } of await ledger.signing.unfinished(NETWORK, ACCOUNT)) {
    await ledger.signing.concluded(id, "CLOSED");
  }
}

async function connected(url: string): Promise<Client & AsyncDisposable> {
  const client = new Client({ connectionString: url });
  await client.connect();
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
}

const everything = { beforeMs: Number.MAX_SAFE_INTEGER, from: undefined, archive: undefined };

test("a claim that waits for the deletion of its row does not get what is buried", async () => {
  const url = await server.database();
  await using replicas = new Replicas(url);
  const ledger = await replicas.open("one");
  await delivered(ledger);
  await using sweeper = await connected(url);
  await sweeper.query("BEGIN");
  await sweeper.query("DELETE FROM coinslot.payments");
  const claim = ledger.step(payment.key, { kind: "claim", terms: termsOf(payment) });
  await until(async () => {
    const waiting = await sql(url, "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
    return waiting.length > 0;
  });
  await sweeper.query(
    "INSERT INTO coinslot.tombstones (payment_key, transaction_id) VALUES ($1, $2)",
    [digestOf(payment.key), Buffer.from("\0old")],
  );
  await sweeper.query("COMMIT");
  expect(await claim).toMatchObject({ kind: "spent" });
  expect(await ledger.step(payment.key, { kind: "claim", terms: termsOf(payment) })).toEqual({
    kind: "spent",
    delivered: true,
    transaction: "old",
  });
  expect(await sql(url, "SELECT FROM coinslot.payments")).toEqual([]);
});

test("one replica sweeps at a time, and the others leave it alone", async () => {
  const url = await server.database();
  await using replicas = new Replicas(url);
  const [one, two] = [await replicas.open("one"), await replicas.open("two")];
  await delivered(one);
  const archived: string[] = [];
  const archive = async (): Promise<void> => {
    archived.push("one");
    expect(await two.upkeep.sweep(everything)).toEqual({ payments: 0, next: undefined });
  };
  expect(await one.upkeep.sweep({ ...everything, archive })).toMatchObject({ payments: 1 });
  expect(archived).toEqual(["one"]);
  expect(await two.upkeep.sweep(everything)).toMatchObject({
    payments: 0,
    next: { stage: "submissions" },
  });
});

test("what the overview tells of money is summed up in a thread with a connection of its own", async () => {
  const url = await server.database();
  await using replicas = new Replicas(url);
  await delivered(await replicas.open("one"));
  const place = { place: "a database", encryption: "none" } as const;
  const money = await moneyInThread(join(import.meta.dirname, "../../../src/main.ts"), {
    store: { kind: "postgres", url: new Secret(url), ...place },
    tokens: [],
    nowMs: Date.now(),
  });
  expect(money.units).toMatchObject([{ symbol: "USDC", today: "0.01", sales: 1 }]);
});
