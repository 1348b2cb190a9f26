/** What the PostgreSQL ledger does while its database cannot be asked, and afterwards. */
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LedgerUnavailable, type Ledger } from "../../../src/ledger/ledger.ts";
import { BEAT_MS, DEAD_AFTER_MS } from "../../../src/ledger/postgres/postgres-lives.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import {
  ACCOUNT,
  bring,
  leaseOf,
  NETWORK,
  SETTLEMENT,
  signWith,
  termsOf,
  word,
  takeOffers,
} from "../../unit/ledger/ledger-driver.ts";
import { startFlakyLink } from "./flaky-link.ts";
import { ifAvailable, Replicas, sql, until } from "./stage.ts";

/** Longest time that a call may take in an outage, milliseconds: a connection and an answer. */
const LONGEST_CALL_MS = 11_000;

const payment = examplePayment(1);
const { key } = payment;
let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});

afterAll(async () => server.stop());

const isBack = (ledger: Ledger): Promise<unknown> =>
  until(async () => (await ifAvailable(async () => [await ledger.ping()])) !== undefined);

/** Numbers of payments by what the ledger acknowledged of each last. */
interface Acknowledged {
  readonly claimed: Set<number>;
  readonly signed: Map<number, number>;
  readonly settled: Set<number>;
}

/** Buys one thing after another, whatever happens to the database, until it is told to end. */
async function work(
  ledger: Ledger,
  { claimed, signed, settled }: Acknowledged,
  { first, signal }: { readonly first: number; readonly signal: AbortSignal },
): Promise<void> {
  for (let number = first; !signal.aborted; number += 1) {
    const each = examplePayment(number);
    await ifAvailable(async () => {
      await ledger.step(each.key, { kind: "claim", terms: termsOf(each) });
      claimed.add(number);
      if (number % 3 === 0) return;
      const lease = await leaseOf(ledger);
      const submission = await ledger.signing.signed([each.key], { ...lease, seed: 0 }, (nonce) =>
        signWith(nonce),
      );
      signed.set(number, submission.variants[0]?.accountNonce ?? -1);
      if (number % 3 === 1) return;
      await ledger.step(each.key, { kind: "settled", settlement: SETTLEMENT });
      settled.add(number);
    });
  }
}

describe("a server that is killed while it works", () => {
  it("loses nothing that was acknowledged, grants nothing twice, and is used again", async () => {
    await using replicas = new Replicas(await server.database());
    const one = await replicas.open("one");
    const two = await replicas.open("two");
    await leaseOf(one);
    const acknowledged: Acknowledged = {
      claimed: new Set(),
      signed: new Map(),
      settled: new Set(),
    };
    for (let round = 0; round < 3; round += 1) {
      const ending = new AbortController();
      const first = 1000 * (round + 1);
      const workers = [0, 250, 500].map((offset) =>
        work(one, acknowledged, { first: first + offset, signal: ending.signal }),
      );
      const before = acknowledged.settled.size;
      await until(async () => acknowledged.settled.size > before + 5);
      await server.crash();
      ending.abort();
      await Promise.all(workers);
      const began = performance.now();
      await expect(one.step(key, { kind: "claim", terms: termsOf(payment) })).rejects.toThrow(
        LedgerUnavailable,
      );
      expect(performance.now() - began).toBeLessThan(LONGEST_CALL_MS);
      await server.start();
      await Promise.all([isBack(one), isBack(two)]);
      // Both are alive, and both were silent: neither takes the other for dead.
      expect(await two.upkeep.reap()).toBe(0);
      expect(await two.signing.lease(NETWORK, ACCOUNT)).toBeUndefined();
    }
    for (const number of acknowledged.claimed) {
      const each = examplePayment(number);
      expect(
        await word(two.step(each.key, { kind: "claim", terms: termsOf(each) })),
        `claim ${number}`,
      ).not.toBe("granted");
    }
    for (const number of acknowledged.settled) {
      expect(await two.outcome(examplePayment(number).key)).toMatchObject({ kind: "settled" });
    }
    const stored = await two.signing.unfinished(NETWORK, ACCOUNT);
    const nonces = stored.map(({ variants }) => variants[0]?.accountNonce);
    // No gap, no nonce twice, and each payment under the nonce that was acknowledged.
    expect(nonces).toEqual(nonces.map((_, index) => index));
    for (const [number, nonce] of acknowledged.signed) {
      expect(stored[nonce]?.payments.map((each) => each.key)).toEqual([examplePayment(number).key]);
    }
    expect(acknowledged.settled.size).toBeGreaterThan(15);
  }, 60_000);

  it("ends no wait for good: who waits hears of what happens after it is back", async () => {
    await using replicas = new Replicas(await server.database());
    const one = await replicas.open("one");
    const two = await replicas.open("two");
    await bring(one, payment, "signed");
    const outcome = await two.outcome(key);
    if (outcome.kind !== "pending") throw new Error(outcome.kind);
    const waited = two.changed(key, outcome.version, AbortSignal.timeout(60_000));
    const offered = two.queues.offered(AbortSignal.timeout(60_000));
    await server.restart();
    await until(() =>
      ifAvailable(async () => [await one.step(key, { kind: "settled", settlement: SETTLEMENT })]),
    );
    await bring(one, examplePayment(2), "offered");
    await waited;
    await offered;
    expect(await two.outcome(key)).toMatchObject({ kind: "settled" });
  }, 30_000);

  it("makes no life seem dead that was silent only as long as the server was away", async () => {
    await using replicas = new Replicas(await server.database());
    const lives = ["one", "two", "three"];
    const ledgers = await Promise.all(lives.map((life) => replicas.open(life)));
    const [one] = ledgers;
    if (one === undefined) throw new Error("no ledger");
    await leaseOf(one);
    await bring(one, payment, "claimed");
    await server.crash();
    await pause(DEAD_AFTER_MS + BEAT_MS);
    await server.start();
    await Promise.all(
      ledgers.map(async (ledger) => {
        const reaped = await until(() => ifAvailable(async () => [await ledger.upkeep.reap()]));
        expect(reaped.value).toEqual([0]);
        if (ledger !== one) expect(await ledger.signing.lease(NETWORK, ACCOUNT)).toBeUndefined();
      }),
    );
    expect(await one.outcome(key)).toMatchObject({ kind: "pending" });
  }, 30_000);

  it("does not keep a ledger from being closed, nor let one be opened", async () => {
    await using replicas = new Replicas(await server.database());
    const one = await replicas.open("one");
    await server.crash();
    const began = performance.now();
    await one.close();
    await expect(replicas.open("two")).rejects.toThrow(LedgerUnavailable);
    expect(performance.now() - began).toBeLessThan(LONGEST_CALL_MS);
    await server.start();
  }, 30_000);
});

describe("a listening connection that is lost", () => {
  const LISTENERS = `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND
    pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)`;

  it("is made again, and who waits is woken", async () => {
    const url = await server.database();
    await using replicas = new Replicas(url);
    const one = await replicas.open("one");
    await bring(one, payment, "signed");
    const two = await replicas.open("two");
    const outcome = await two.outcome(key);
    if (outcome.kind !== "pending") throw new Error(outcome.kind);
    const before = await sql(url, LISTENERS);
    expect(before).toHaveLength(2);
    const waited = two.changed(key, outcome.version, AbortSignal.timeout(60_000));
    await sql(url, `SELECT pg_terminate_backend(pid) FROM (${LISTENERS}) AS listeners`);
    await one.step(key, { kind: "settled", settlement: SETTLEMENT });
    await waited;
    const { value: after } = await until(async () => {
      const rows = await sql(url, LISTENERS);
      return rows.length === 2 && rows;
    });
    expect(after).not.toEqual(before);
    // Neither was taken for dead.
    await leaseOf(one);
    expect(await two.signing.lease(NETWORK, ACCOUNT)).toBeUndefined();
  });

  it("is no loss where its notice alone is lost", async () => {
    const url = await server.database();
    await using replicas = new Replicas(url);
    const one = await replicas.open("one");
    await bring(one, payment, "signed");
    const outcome = await one.outcome(key);
    if (outcome.kind !== "pending") throw new Error(outcome.kind);
    const waited = one.changed(key, outcome.version, AbortSignal.timeout(60_000));
    // A change that tells nobody.
    await sql(url, "UPDATE coinslot.payments SET version = version + 1");
    await waited;
    await bring(one, examplePayment(2), "claimed");
    // Ends for what may have been offered before the connection stood.
    await one.queues.offered(AbortSignal.timeout(60_000));
    const offered = one.queues.offered(AbortSignal.timeout(60_000));
    await sql(url, "UPDATE coinslot.payments SET offered = true WHERE state = 'CLAIMED'");
    await offered;
    expect(await takeOffers(one, NETWORK, 1)).toHaveLength(1);
  });
});

describe("an answer that is lost", () => {
  it("leaves a claim in doubt, not twice: its repeat finds it", async () => {
    const url = await server.database();
    await using link = await startFlakyLink(url);
    await using replicas = new Replicas(url);
    const one = await replicas.open("one", { url: link.url });
    link.loseAnswerTo("insert_payment");
    await expect(one.step(key, { kind: "claim", terms: termsOf(payment) })).rejects.toThrow(
      LedgerUnavailable,
    );
    expect(await word(one.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
      "unresolved",
    );
    link.loseAnswerTo("move_payment");
    await expect(
      one.step(key, { kind: "handedOver", facilitator: "https://f.example.com" }),
    ).rejects.toThrow(LedgerUnavailable);
    await one.step(key, { kind: "handedOver", facilitator: "https://f.example.com" });
    expect(await one.books.show(key)).toMatchObject({ events: [{}, {}] });
  });

  it("leaves a signature in doubt: its bytes may be stored, and then recovery finds them", async () => {
    const url = await server.database();
    await using link = await startFlakyLink(url);
    await using replicas = new Replicas(url);
    const one = await replicas.open("one", { url: link.url });
    await one.step(key, { kind: "claim", terms: termsOf(payment) });
    const lease = await leaseOf(one);
    let signatures = 0;
    const sign = (nonce: number) => {
      signatures += 1;
      return signWith(nonce);
    };
    const account = { ...lease, seed: 0 };
    link.loseAnswerTo("COMMIT");
    await expect(one.signing.signed([key], account, sign)).rejects.toThrow(LedgerUnavailable);
    expect(signatures).toBe(1);
    const stored = await one.signing.unfinished(NETWORK, ACCOUNT);
    expect(stored.map(({ payments }) => payments[0]?.key)).toEqual([key]);
    expect(await one.signing.nextAccountNonce(NETWORK, ACCOUNT)).toBe(1);
    // One that was lost before the end is not stored, and takes no nonce.
    const second = examplePayment(2);
    await one.step(second.key, { kind: "claim", terms: termsOf(second) });
    link.loseAnswerTo("insert_submission");
    await expect(one.signing.signed([second.key], account, sign)).rejects.toThrow(
      LedgerUnavailable,
    );
    const again = await one.signing.signed([second.key], account, sign);
    expect(again.variants[0]?.accountNonce).toBe(1);
  });

  it("does not hold anybody for ever where the network swallows everything", async () => {
    const url = await server.database();
    await using link = await startFlakyLink(url);
    await using replicas = new Replicas(url);
    const one = await replicas.open("one", { url: link.url });
    await bring(one, payment, "signed");
    link.stall();
    const began = performance.now();
    const calls = Array.from({ length: 30 }, (_, number) => {
      const each = examplePayment(number + 10);
      return expect(one.step(each.key, { kind: "claim", terms: termsOf(each) })).rejects.toThrow(
        LedgerUnavailable,
      );
    });
    await Promise.all(calls);
    expect(performance.now() - began).toBeLessThan(LONGEST_CALL_MS);
    link.mend();
    await isBack(one);
    const each = examplePayment(99);
    expect(await word(one.step(each.key, { kind: "claim", terms: termsOf(each) }))).toBe("granted");
  }, 30_000);
});
