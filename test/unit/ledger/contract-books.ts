/** What operators are told. */
import { digestedTarget } from "../../../src/ledger/stored-target.ts";
import { describe, expect, it } from "vitest";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, PAYER } from "./example-payment.ts";
import {
  ACCOUNT,
  BINDING,
  bring,
  FACILITATOR,
  FAILURE,
  keep,
  leaseOf,
  NETWORK,
  replayed,
  SETTLEMENT,
  sign,
  signWith,
  TARGET,
  UNANSWERED,
} from "./ledger-driver.ts";

export function describeBooks(open: OpenLedger): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key, request } = payment;
  const { asset, payTo, resource } = request.paymentRequirements;

  describe("tells in its books", () => {
    it("everything about a payment, with its history in order", async () => {
      const { ledger, time } = place();
      const claimedMs = time.nowMs;
      const steps = [
        () => bring(ledger, payment, "claimed"),
        () => sign(ledger, [payment], { seed: 5 }),
        () => ledger.step(key, { kind: "settled", settlement: SETTLEMENT }),
        () => ledger.step(key, { kind: "delivering" }),
        () => ledger.step(key, { kind: "undelivered", broken: UNANSWERED }),
        () => ledger.step(key, { kind: "delivering" }),
        () => ledger.step(key, { kind: "delivered" }),
      ];
      for (const step of steps) {
        await step();
        time.nowMs += 1000;
      }
      const id = signWith(5).transaction;
      const shown = await ledger.books.show(key);
      expect(shown).toEqual({
        key,
        state: "DELIVERED",
        network: NETWORK,
        asset,
        amount: "10000",
        payer: PAYER,
        payTo,
        binding: BINDING,
        target: digestedTarget(TARGET),
        facilitator: null,
        transaction: SETTLEMENT.transaction,
        heldTransaction: null,
        refund: null,
        isTransferBack: false,
        attempts: 2,
        isLeft: false,
        keptUntilMs: null,
        repeatUntilMs: null,
        ledTo: null,
        isHeadOnly: false,
        renewableMs: 0,
        failureCode: null,
        failureDetail: null,
        claimedMs,
        updatedMs: claimedMs + 6000,
        resource,
        events: expect.any(Array),
        submission: {
          id,
          state: "OPEN",
          account: ACCOUNT,
          accountNonce: 5,
          transactions: [id],
        },
      });
      expect(shown?.events.map(({ state, by, atMs }) => [state, by, atMs - claimedMs])).toEqual([
        ["CLAIMED", "first", 0],
        ["SIGNED", "first", 1000],
        ["SETTLED", "first", 2000],
        ["DELIVERING", "first", 3000],
        ["SETTLED", "first", 4000],
        ["DELIVERING", "first", 5000],
        ["DELIVERED", "first", 6000],
      ]);
      expect(shown?.events.map(({ note }) => note)).toEqual([
        expect.stringContaining(BINDING),
        expect.stringContaining(id),
        expect.stringContaining("0xaa"),
        "attempt 1 of 3",
        "delivery broke",
        "attempt 2 of 3",
        "",
      ]);
    });

    it("no line of history for a step that was refused, and none of a claim that was dropped", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "claimed");
      await ledger.step(key, { kind: "delivering" });
      await expect(ledger.step(key, { kind: "delivered" })).rejects.toMatchObject({
        code: "LEDGER_CONFLICT",
      });
      expect((await ledger.books.show(key))?.events).toHaveLength(1);
      await ledger.step(key, { kind: "released" });
      expect(await ledger.books.show(key)).toBeUndefined();
      await bring(ledger, payment, "claimed");
      expect((await ledger.books.show(key))?.events).toHaveLength(1);
    });

    it("by a transaction one that it has paid, rather than one that it has left behind", async () => {
      const { ledger, time } = place();
      const [moved, left] = [examplePayment(1), examplePayment(2)];
      for (const each of [moved, left]) {
        await bring(ledger, each, "claimed");
        time.nowMs += 1;
      }
      const { id } = await sign(ledger, [moved, left]);
      const settlement = { ...SETTLEMENT, transaction: id };
      await ledger.step(moved.key, { kind: "settled", settlement });
      await ledger.step(left.key, { kind: "withdrawn" });
      await ledger.step(left.key, { kind: "failed", failure: FAILURE });
      expect((await ledger.books.show(id))?.key).toBe(moved.key);
      expect((await ledger.books.show(left.key))?.submission?.id).toBe(id);
    });

    it("a payment by its key, each of its transactions and its nonce, in any letter case", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "signed");
      await bring(ledger, examplePayment(2), "signed");
      const lease = await leaseOf(ledger);
      const raised = signWith(0, ACCOUNT, 1);
      await ledger.signing.replaced(lease, signWith(0).transaction, raised);
      await ledger.step(key, {
        kind: "settled",
        settlement: { ...SETTLEMENT, transaction: "0xAbCd" },
      });
      const nonce = `0x${"0".repeat(63)}1`;
      const names = [key, nonce, "0xabcd", signWith(0).transaction, raised.transaction];
      for (const name of names) {
        for (const spelt of [name, name.toLowerCase(), name.toUpperCase()]) {
          const found = await ledger.books.show(spelt);
          expect({ spelt, key: found?.key }).toEqual({ spelt, key });
        }
      }
      expect((await ledger.books.show(key))?.submission?.transactions).toEqual([
        signWith(0).transaction,
        raised.transaction,
      ]);
      for (const name of ["", "0x", "%", nonce.slice(0, -1), "0xno"]) {
        expect({ name, found: await ledger.books.show(name) }).toEqual({ name, found: undefined });
      }
    });

    it("what was sold, newest first and page by page, with when it was delivered first", async () => {
      const { ledger, time } = place();
      const start = time.nowMs;
      // What is not paid, failed, or was settled for somebody else was not sold.
      const states = ["claimed", "settled", "begun", "failed", "exhausted"] as const;
      for (const [index, state] of states.entries()) {
        time.nowMs = start + index * 1000;
        await bring(ledger, examplePayment(index), state);
      }
      await ledger.step(examplePayment(2).key, { kind: "settled", settlement: SETTLEMENT });
      for (const index of [5, 6, 7]) {
        time.nowMs = start + 5_000;
        const each = examplePayment(index);
        await bring(ledger, each, "settled");
        await ledger.step(each.key, { kind: "delivering" });
        time.nowMs += index * 100;
        if (index === 7) continue;
        await keep(ledger, each);
        // Told again later: the first time is what counts.
        time.nowMs += 60_000;
        await replayed(ledger, each.key);
      }
      const read = (page: object) => ledger.books.sales({ sinceMs: 0, limit: 100, ...page });
      const all = await read({});
      const shown = all.map(({ claimedMs, deliveredMs, ...each }) => ({
        ...each,
        claimedMs: claimedMs - start,
        deliveredMs: deliveredMs === null ? null : deliveredMs - start,
      }));
      const sale = (
        index: number,
        state: string,
        claimedMs: number,
        deliveredMs: number | null,
      ) => {
        const { key } = examplePayment(index);
        return { key, binding: BINDING, payer: PAYER, state, claimedMs, deliveredMs };
      };
      const expected = [
        sale(7, "DELIVERING", 5_000, null),
        sale(6, "DELIVERED", 5_000, 5_600),
        sale(5, "DELIVERED", 5_000, 5_500),
        sale(4, "SETTLED", 4_000, null),
        sale(1, "SETTLED", 1_000, null),
      ];
      expect(shown).toEqual(expected);
      expect(await read({ sinceMs: start + 4_000 })).toEqual(all.slice(0, 4));
      const paged = [];
      for (let after: (typeof all)[number] | undefined; ;) {
        const page = await read({ limit: 2, after });
        paged.push(...page);
        after = page.at(-1);
        if (page.length < 2) break;
      }
      expect(paged).toEqual(all);
    });

    it("the payments that match, the newest first", async () => {
      const { ledger, time } = place();
      const start = time.nowMs;
      const states = ["claimed", "handed", "settled", "begun", "failed", "exhausted"] as const;
      for (const [index, state] of states.entries()) {
        time.nowMs = start + index * 1000;
        await bring(ledger, examplePayment(index), state);
      }
      await ledger.step(examplePayment(3).key, { kind: "settled", settlement: SETTLEMENT });
      const numbers = new Map(states.map((_, index) => [examplePayment(index).key, index]));
      const list = async (filter: object): Promise<unknown> => {
        const found = await ledger.books.list({ limit: 100, ...filter });
        return found.map((each) => numbers.get(each.key));
      };
      expect(await list({})).toEqual([5, 4, 3, 2, 1, 0]);
      expect(await list({ limit: 2 })).toEqual([5, 4]);
      expect(await list({ states: ["CLAIMED", "SIGNED"] })).toEqual([1, 0]);
      expect(await list({ states: [] })).toEqual([]);
      expect(await list({ undelivered: true })).toEqual([5, 2]);
      expect(await list({ undelivered: false })).toEqual([5, 4, 3, 2, 1, 0]);
      expect(await list({ sinceMs: start + 3000 })).toEqual([5, 4, 3]);
      expect(await list({ sinceMs: start + 3000, untilMs: start + 5000 })).toEqual([4, 3]);
      expect(await list({ payer: PAYER.toUpperCase() })).toEqual([5, 4, 3, 2, 1, 0]);
      expect(await list({ payer: ACCOUNT })).toEqual([]);
      expect(await list({ network: "base" })).toEqual([]);
      expect(await list({ network: NETWORK, undelivered: true, limit: 1 })).toEqual([5]);
      const [, failed, ...rest] = await ledger.books.list({ limit: 100 });
      expect(failed).toMatchObject({ failureCode: FAILURE.code, failureDetail: FAILURE.detail });
      expect(rest[0]).toMatchObject({ binding: null, target: null, transaction: "0xaa" });
      expect(rest[2]).toMatchObject({ facilitator: FACILITATOR });
    });

    it("page by page, each payment once, though all were claimed at the same moment", async () => {
      const { ledger } = place();
      const payments = Array.from({ length: 25 }, (_, index) => examplePayment(index));
      for (const each of payments) await bring(ledger, each, "claimed");
      const keys: string[] = [];
      for (;;) {
        const after = keys.at(-1);
        const page = await ledger.books.list({
          limit: 10,
          ...(after === undefined ? {} : { after: after as typeof key }),
        });
        keys.push(...page.map((each) => each.key));
        if (page.length < 10) break;
      }
      expect(keys).toHaveLength(25);
      expect(new Set(keys).size).toBe(25);
      expect(keys).toEqual((await ledger.books.list({ limit: 100 })).map((each) => each.key));
    });

    it("how many payments wait for what", async () => {
      const { ledger } = place();
      expect(await ledger.books.counts()).toEqual({
        held: 0,
        unresolved: 0,
        undelivered: 0,
        offered: 0,
        refunding: 0,
        unrefunded: 0,
      });
      const states = [
        ...(["signed", "handed", "handedsigned", "settled", "retried", "exhausted"] as const),
        ...(["offered", "claimed", "delivering", "delivered", "failed"] as const),
      ];
      for (const [index, state] of states.entries()) {
        await bring(ledger, examplePayment(index), state);
      }
      const begun = examplePayment(100);
      await bring(ledger, begun, "begun");
      await ledger.step(begun.key, { kind: "settled", settlement: SETTLEMENT });
      expect(await ledger.books.counts()).toEqual({
        held: 0,
        unresolved: 3,
        undelivered: 3,
        offered: 1,
        refunding: 0,
        unrefunded: 0,
      });
    });
  });
}
