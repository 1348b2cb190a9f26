/** A ledger that an older version of the program wrote. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ClaimTerms, Ledger } from "../../../../src/ledger/ledger.ts";
import { OLDER_SCHEMAS } from "../../../../src/ledger/sqlite/sqlite-older-schemas.ts";
import { openSqliteLedger } from "../../../../src/ledger/sqlite/sqlite.ts";
import { systemTime } from "../../../../src/time/time.ts";
import { examplePayment, PAYER } from "../example-payment.ts";
import {
  ACCOUNT,
  BINDING,
  bring,
  CALLER,
  FAILURE,
  NETWORK,
  SETTLEMENT,
  SALE,
  sign,
  signWith,
  TARGET,
  termsOf,
  word,
} from "../ledger-driver.ts";

const NOW_MS = 1_700_000_000_000;
const DAY_MS = 86_400_000;

/** The payment with that number as version 2 stored it; one that was signed has its number as nonce. */
function older(
  database: DatabaseSync,
  number: number,
  columns: Record<string, SQLInputValue>,
): void {
  const { key, request } = examplePayment(number);
  const row: Record<string, SQLInputValue> = {
    payment_key: key,
    binding: BINDING,
    target: TARGET,
    idempotency_key: CALLER,
    request: JSON.stringify(request),
    network: NETWORK,
    payer: PAYER,
    amount_atomic: "10000",
    claimed_by: "older",
    created_ms: NOW_MS,
    updated_ms: NOW_MS,
    ...columns,
  };
  const names = Object.keys(row);
  database
    .prepare(
      `INSERT INTO payments (${names.join(", ")}) VALUES (${names.map((each) => `:${each}`).join(", ")})`,
    )
    .run(row);
}

const bytes = (number: number, transactions?: string): Record<string, SQLInputValue> => {
  const { transaction, raw, account, accountNonce } = signWith(number);
  return {
    raw,
    account,
    account_nonce: accountNonce,
    transactions: transactions ?? JSON.stringify([transaction]),
  };
};

describe("a ledger of an older version", () => {
  let folder: string;
  let path: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "coinslot-migration-"));
    path = join(folder, "ledger.db");
  });

  afterEach(async () => rm(folder, { recursive: true, force: true }));

  const open = (): Promise<Ledger> => openSqliteLedger({ path, life: "newer", time: systemTime });

  const versions = (count: number): DatabaseSync => {
    const database = new DatabaseSync(path);
    for (const sql of OLDER_SCHEMAS.slice(0, count)) database.exec(sql);
    database.exec(`PRAGMA user_version = ${count}`);
    return database;
  };

  const paid = { settled_transaction: SETTLEMENT.transaction };
  const refused = { failure_code: FAILURE.code, failure_detail: FAILURE.detail };

  it("keeps its payments, and what was signed for them", async () => {
    const database = versions(2);
    older(database, 0, { state: "SIGNED", ...bytes(0) });
    older(database, 1, { state: "SETTLED", ...bytes(1), ...paid });
    older(database, 2, { state: "SETTLED", ...bytes(2), ...paid, updated_ms: NOW_MS - 2 * DAY_MS });
    older(database, 3, { state: "FAILED", ...bytes(3), ...refused });
    older(database, 4, { state: "SIGNED" });
    older(database, 5, { state: "FAILED", ...refused });
    older(database, 6, {
      state: "DELIVERED",
      ...bytes(6),
      ...paid,
      attempts: 2,
      served_target: TARGET,
    });
    older(database, 7, { state: "CLAIMED" });
    older(database, 8, { state: "DELIVERING", ...bytes(8), ...paid, attempts: 1 });
    older(database, 9, { state: "CLAIMED", binding: null, target: null, idempotency_key: null });
    database
      .prepare("INSERT INTO accounts (network, address, next_nonce) VALUES (?, ?, 10)")
      .run(NETWORK, ACCOUNT.toLowerCase());
    database.exec("INSERT INTO route_terms VALUES ('GET /a', 'one', 100)");
    database.close();

    const ledger = await open();
    const { owed } = await ledger.recall(examplePayment(99).request.paymentPayload, SALE);
    const inWork = [0, 1, 2, 4, 8].map((number) => examplePayment(number).key);
    expect(owed.map(({ key }) => key).toSorted()).toEqual(inWork);
    const expected = [
      [0, "unresolved"],
      [1, "settled"],
      [2, "settled"],
      [3, "failed"],
      [4, "unresolved"],
      [5, "failed"],
      [6, "spent"],
      [8, "settled"],
    ] as const;
    for (const [number, kind] of expected) {
      const payment = examplePayment(number);
      const met = await word(ledger.step(payment.key, { kind: "claim", terms: byPayer(payment) }));
      expect({ number, met }).toEqual({ number, met: kind });
      const { request } = await ledger.recall(payment.request.paymentPayload, SALE);
      expect(request).toEqual(payment.request);
    }
    for (const number of [7, 9]) {
      expect(await ledger.books.show(examplePayment(number).key)).toBeUndefined();
    }
    const unfinished = await ledger.signing.unfinished(NETWORK, ACCOUNT);
    expect(unfinished.map(({ variants, state }) => [variants, state])).toEqual([
      [[signWith(0)], "OPEN"],
      [[signWith(1)], "INCLUDED"],
      [[signWith(3)], "OPEN"],
      [[signWith(6)], "INCLUDED"],
      [[signWith(8)], "INCLUDED"],
    ]);
    expect(unfinished[0]?.payments).toEqual([
      {
        ...examplePayment(0),
        route: null,
        isTransferBack: false,
        state: "SIGNED",
        settledTransaction: null,
        heldTransaction: null,
      },
    ]);
    expect(await ledger.books.show(signWith(2).transaction)).toMatchObject({
      key: examplePayment(2).key,
      submission: { state: "CLOSED", accountNonce: 2 },
      asset: examplePayment(2).request.paymentRequirements.asset,
      events: [{ atMs: NOW_MS - 2 * DAY_MS, state: "SETTLED", by: "older" }],
    });
    expect(await ledger.termsChangedAt("GET /a", "one", 200)).toBe(100);
    await bring(ledger, examplePayment(10), "claimed");
    expect((await sign(ledger, [examplePayment(10)])).variants).toEqual([signWith(10)]);
    await ledger.close();
    await (await open()).close();
  });

  it("of the first version is unresolved as it was", async () => {
    const database = versions(1);
    const { key, request } = examplePayment(0);
    const { transaction, raw, account, accountNonce } = signWith(0);
    database
      .prepare(
        `INSERT INTO payments (payment_key, state, binding, idempotency_key, request, network, payer,
           amount_atomic, claimed_by, created_ms, updated_ms, raw, account, account_nonce,
           transactions)
         VALUES (?, 'SIGNED', ?, ?, ?, ?, ?, '10000', 'older', 1, 1, ?, ?, ?, ?)`,
      )
      .run(
        key,
        BINDING,
        CALLER,
        JSON.stringify(request),
        NETWORK,
        PAYER,
        raw,
        account,
        accountNonce,
        JSON.stringify([transaction]),
      );
    database.close();
    const ledger = await open();
    const { target: _target, ...storedTerms } = termsOf({ request }, { claimant: "" });
    expect(await ledger.step(key, { kind: "claim", terms: byPayer({ request }) })).toEqual({
      kind: "unresolved",
      terms: storedTerms,
      facilitator: null,
      isSigned: true,
      handedOverAt: null,
    });
    await ledger.close();
  });

  it("keeps a payment whose bytes or request cannot be read any more", async () => {
    const database = versions(2);
    older(database, 0, { state: "SIGNED", ...bytes(0, "[]") });
    older(database, 1, { state: "SETTLED", ...bytes(1), ...paid, request: "{}" });
    database.close();
    const ledger = await open();
    const [first, second] = [examplePayment(0), examplePayment(1)];
    expect(await word(ledger.step(first.key, { kind: "claim", terms: byPayer(first) }))).toBe(
      "unresolved",
    );
    expect(await ledger.books.show(second.key)).toMatchObject({ state: "SETTLED", payTo: "" });
    await ledger.close();
  });

  it("is as it was where it cannot be brought up to date", async () => {
    const database = versions(2);
    older(database, 0, { state: "SETTLED", ...bytes(0), ...paid, attempts: 99 });
    database.close();
    await expect(open()).rejects.toThrow("constraint");
    const again = new DatabaseSync(path);
    expect(again.prepare("PRAGMA user_version").get()).toEqual({ user_version: 2 });
    expect(again.prepare("SELECT attempts, raw FROM payments").all()).toEqual([
      { attempts: 99, raw: signWith(0).raw },
    ]);
    again.close();
  });
});

/** Whose client claimed a payment was not stored then: it is for whoever proves to be the payer. */
function byPayer(payment: Parameters<typeof termsOf>[0]): ClaimTerms {
  return termsOf(payment, { claimant: "another client", proof: "valid" });
}
