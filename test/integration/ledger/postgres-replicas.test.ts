/** Several lives on one PostgreSQL ledger: races, waiting for each other, dying and waking up again. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { PostgresDatabase } from "../../../src/ledger/postgres/postgres-database.ts";
import { readPayment, writeStep } from "../../../src/ledger/postgres/postgres-payments.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import {
  ACCOUNT,
  bring,
  CALLER,
  FAILURE,
  leaseOf,
  NETWORK,
  SETTLEMENT,
  sign,
  signWith,
  termsOf,
  word,
  takeOffers,
} from "../../unit/ledger/ledger-driver.ts";
import { Replicas, until } from "./stage.ts";

const payment = examplePayment(1);
const { key, request } = payment;
let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});

afterAll(async () => server.stop());

const stage = async (): Promise<Replicas> => new Replicas(await server.database());

async function three(replicas: Replicas): Promise<readonly [Ledger, Ledger, Ledger]> {
  return [await replicas.open("one"), await replicas.open("two"), await replicas.open("three")];
}

describe("races between replicas", () => {
  it("grants each of many payments to one of three lives that claim all of them", async () => {
    await using replicas = await stage();
    const ledgers = await three(replicas);
    const payments = Array.from({ length: 40 }, (_, number) => examplePayment(number + 1));
    const words = await Promise.all(
      payments.map((each) =>
        Promise.all(
          ledgers.map((ledger) =>
            word(ledger.step(each.key, { kind: "claim", terms: termsOf(each) })),
          ),
        ),
      ),
    );
    for (const met of words) expect(met.toSorted()).toEqual(["busy", "busy", "granted"]);
  });

  it("grants one of many settlements that lives begin, and starts one of their deliveries", async () => {
    await using replicas = await stage();
    const ledgers = await three(replicas);
    const [one] = ledgers;
    const begun = await Promise.all(
      [...ledgers, ...ledgers].map((ledger) =>
        word(ledger.step(key, { kind: "begin", request, caller: undefined })),
      ),
    );
    expect(begun.filter((met) => met === "granted")).toHaveLength(1);
    const sold = examplePayment(2);
    await bring(one, sold, "settled");
    const started = await Promise.all(
      [...ledgers, ...ledgers].map((ledger) => ledger.step(sold.key, { kind: "delivering" })),
    );
    expect(started.filter(Boolean)).toHaveLength(1);
  });

  it("takes each offered claim once, whoever asks", async () => {
    await using replicas = await stage();
    const [one, ...others] = await three(replicas);
    const payments = Array.from({ length: 30 }, (_, number) => examplePayment(number + 1));
    for (const each of payments) await bring(one, each, "offered");
    const taken = await Promise.all(others.map((ledger) => takeOffers(ledger, NETWORK, 30)));
    const keys = taken.flat().map((each) => each.key);
    expect(keys.toSorted()).toEqual(payments.map((each) => each.key).toSorted());
  });

  it("writes nothing over a claim that took the place of the one that was read", async () => {
    await using replicas = await stage();
    const [one, two] = await three(replicas);
    await using stack = new AsyncDisposableStack();
    const { url } = replicas;
    const database = new PostgresDatabase({ url, connections: 1, onLost: () => undefined });
    stack.defer(() => database.close());
    await bring(one, payment, "claimed");
    const read = await readPayment(database, key);
    if (read === undefined) throw new Error("no row");
    await one.step(key, { kind: "released" });
    await bring(two, payment, "claimed");
    const moment = { life: "one", nowMs: 0 };
    for (const next of [null, { ...read.row, version: 2, payer: "somebody" }]) {
      expect(await writeStep(database, read, { next }, { moment })).toBe(false);
    }
    expect(
      await two.step(key, { kind: "handedOver", facilitator: "https://facilitator.example.com" }),
    ).toBeUndefined();
  });

  it("keeps the terms of a route that all lives name at once", async () => {
    await using replicas = await stage();
    const ledgers = await three(replicas);
    const times = await Promise.all(
      ledgers.map((ledger, index) => ledger.termsChangedAt("/a", "hash", 100 + index)),
    );
    const [stored] = await Promise.all(
      ledgers.map((ledger) => ledger.termsChangedAt("/a", "hash", 999)),
    );
    expect(times).toContain(stored);
    expect(stored).toBeLessThan(999);
  });
});

describe("waiting for another replica", () => {
  it("ends as soon as the other one settles, and well before a look of its own would", async () => {
    await using replicas = await stage();
    const [one, two] = await three(replicas);
    await bring(one, payment, "signed");
    const outcome = await two.outcome(key);
    if (outcome.kind !== "pending") throw new Error(outcome.kind);
    for (let round = 0; round < 3; round += 1) {
      const each = examplePayment(10 + round);
      await bring(one, each, "signed");
      const before = await two.outcome(each.key);
      if (before.kind !== "pending") throw new Error(before.kind);
      let settledMs = 0;
      const waited = two.changed(each.key, before.version, AbortSignal.timeout(10_000));
      const awaited = waited.then(() => performance.now() - settledMs);
      settledMs = performance.now();
      await one.step(each.key, { kind: "settled", settlement: SETTLEMENT });
      expect(await awaited).toBeLessThan(500);
    }
  });

  it("ends at once where the row is another already, or gone", async () => {
    await using replicas = await stage();
    const [one, two] = await three(replicas);
    await bring(one, payment, "claimed");
    await one.step(key, { kind: "failed", failure: FAILURE });
    const began = performance.now();
    // Were each ended by the next look only, they would take as many seconds.
    for (let round = 0; round < 3; round += 1) {
      await two.changed(key, 1, AbortSignal.timeout(60_000));
      await two.changed(examplePayment(9).key, 1, AbortSignal.timeout(60_000));
    }
    expect(performance.now() - began).toBeLessThan(2000);
  });

  it("ends when the signal does, and when the ledger is closed", async () => {
    await using replicas = await stage();
    const [one, two] = await three(replicas);
    await bring(one, payment, "claimed");
    await two.changed(key, 1, AbortSignal.timeout(50));
    const waits = [
      two.changed(key, 1, AbortSignal.timeout(60_000)),
      two.queues.offered(AbortSignal.timeout(60_000)),
    ];
    await two.close();
    await Promise.all(waits);
  });

  it("hears of an offer, also of one between two waits", async () => {
    await using replicas = await stage();
    const [one, two] = await three(replicas);
    const waited = two.queues.offered(AbortSignal.timeout(60_000));
    await bring(one, payment, "offered");
    await waited;
    expect(await takeOffers(two, NETWORK, 5)).toHaveLength(1);
    await bring(one, examplePayment(2), "offered");
    await two.queues.offered(AbortSignal.timeout(60_000));
    expect(await takeOffers(two, NETWORK, 5)).toHaveLength(1);
  });
});

describe("the account of a life that died", () => {
  it("is leased to one life at a time, and to the next one when it is given back", async () => {
    await using replicas = await stage();
    const [one, two] = await three(replicas);
    const lease = await leaseOf(one);
    expect(await one.signing.lease(NETWORK, ACCOUNT.toLowerCase())).toMatchObject({
      epoch: lease.epoch,
    });
    expect(await two.signing.lease(NETWORK, ACCOUNT)).toBeUndefined();
    await one.signing.unlease(lease);
    const next = await leaseOf(two);
    expect(next.epoch).toBeGreaterThan(lease.epoch);
    await one.signing.unlease(lease);
    expect(await one.signing.lease(NETWORK, ACCOUNT)).toBeUndefined();
  });

  it("and its claims pass to another within seconds of a kill -9, and not before", async () => {
    await using replicas = await stage();
    const child = await replicas.spawn("child");
    const two = await replicas.open("two");
    await child.ask("lease");
    await child.ask("claim", 1);
    await child.ask("claim", 2);
    const submission = await child.ask("sign", 2);
    // Longer than a life may be silent: it is heard.
    await expect(until(() => two.signing.lease(NETWORK, ACCOUNT), 3000)).rejects.toThrow("did not");
    expect(await two.upkeep.reap()).toBe(0);
    await child.kill();
    const { value: lease, afterMs } = await until(() => two.signing.lease(NETWORK, ACCOUNT));
    expect(afterMs).toBeLessThan(3500);
    expect(lease.epoch).toBe(2);
    // The claim is dropped, and what was signed is nobody's request's any more.
    expect(await two.upkeep.reap()).toBe(2);
    expect(await word(two.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("granted");
    expect(await two.signing.unfinished(NETWORK, ACCOUNT)).toEqual([submission]);
    expect(await two.signing.nextAccountNonce(NETWORK, ACCOUNT)).toBe(1);
    const signed = await sign(two, [payment]);
    expect(signed.variants[0]?.accountNonce).toBe(1);
  });

  it("is not signed with by one that was stopped, taken for dead, and goes on", async () => {
    await using replicas = await stage();
    const child = await replicas.spawn("child");
    const two = await replicas.open("two");
    await child.ask("lease");
    await child.ask("claim", 1);
    child.signal("SIGSTOP");
    // What it will do first when it wakes.
    child.send("sign", 1);
    const { value: lease, afterMs } = await until(
      () => two.signing.lease(NETWORK, ACCOUNT),
      20_000,
    );
    expect(lease.epoch).toBe(2);
    // Its connections stand: it is given more time than a process that is gone.
    expect(afterMs).toBeGreaterThan(5000);
    child.signal("SIGCONT");
    await expect(child.answer()).rejects.toThrow("LEDGER_CONFLICT");
    expect(await two.signing.unfinished(NETWORK, ACCOUNT)).toEqual([]);
    expect(await two.upkeep.reap()).toBe(0);
    // It is heard again, and may claim what is free, but its old lease stays worthless.
    await child.ask("claim", 2);
    await expect(child.ask("sign", 2)).rejects.toThrow("LEDGER_CONFLICT");
    await expect(child.ask("lease")).rejects.toThrow("leased to another life");
  }, 40_000);

  it("keeps no other life from freeing what a stopped one had claimed", async () => {
    await using replicas = await stage();
    const child = await replicas.spawn("child");
    const two = await replicas.open("two");
    await child.ask("claim", 1);
    child.signal("SIGSTOP");
    await until(async () => (await two.upkeep.reap()) === 1, 20_000);
    expect(await word(two.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("granted");
    child.signal("SIGCONT");
    // Were it let, it would drop the other's claim.
    await expect(child.ask("release", 1)).rejects.toThrow("LEDGER_CONFLICT");
    expect(await two.outcome(key)).toMatchObject({ kind: "pending" });
  }, 40_000);

  it("passes on at once from a life that ended in order", async () => {
    await using replicas = await stage();
    const [one, two] = await three(replicas);
    await leaseOf(one);
    await bring(one, payment, "claimed");
    await bring(one, examplePayment(2), "delivering");
    await one.close();
    expect(await two.signing.lease(NETWORK, ACCOUNT)).toMatchObject({ epoch: 2 });
    expect(await two.upkeep.reap()).toBe(2);
    expect(await two.outcome(key)).toEqual({ kind: "gone" });
    expect(await two.step(examplePayment(2).key, { kind: "delivering" })).toBe(true);
  });

  it("gives out no nonce twice while two lives quarrel over it", async () => {
    await using replicas = await stage();
    const [one, two] = await three(replicas);
    const nonces: number[] = [];
    const signAll = async (ledger: Ledger, first: number): Promise<void> => {
      for (let number = first; number < first + 10; number += 1) {
        const each = examplePayment(number);
        await ledger.step(each.key, { kind: "begin", request: each.request, caller: CALLER });
        const { value: lease } = await until(() => ledger.signing.lease(NETWORK, ACCOUNT));
        const submission = await ledger.signing.signed([each.key], { ...lease, seed: 0 }, (nonce) =>
          signWith(nonce),
        );
        nonces.push(submission.variants[0]?.accountNonce ?? -1);
        await ledger.signing.unlease(lease);
      }
    };
    await Promise.all([signAll(one, 1), signAll(two, 100)]);
    expect(nonces.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, n) => n));
  });
});
