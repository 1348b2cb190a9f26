/** What every implementation of the ledger has to do; each runs this suite against itself. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LedgerConflict, type Ledger } from "../../../src/ledger/ledger.ts";
import { examplePayment, PAYER } from "./example-payment.ts";
import {
  ACCOUNT,
  bring,
  CALLER,
  FAILURE,
  NETWORK,
  OBSERVED,
  OTHER_TARGET,
  observe,
  perform,
  SETTLEMENT,
  sign,
  signWith,
  termsOf,
  word,
  type LedgerStore,
} from "./ledger-driver.ts";
import { describeGuards } from "./ledger-guards.ts";
import { describeSequences } from "./ledger-sequences.ts";
import { TRANSITIONS } from "./ledger-transitions.ts";

const clock = (): number => 1_700_000_000_000;

/** `createStore` makes a new, empty store for each test. */
export function describeLedger(name: string, createStore: () => Promise<LedgerStore>): void {
  describe(`the ${name} ledger`, () => {
    let store: LedgerStore;
    let ledger: Ledger;

    beforeEach(async () => {
      store = await createStore();
      ledger = await store.open({ bootId: "first", clock });
    });

    afterEach(async () => {
      await ledger.close();
      await store.remove();
    });

    async function restart(bootId: string): Promise<void> {
      await ledger.close();
      ledger = await store.open({ bootId, clock });
    }

    /** Signs one more payment for an account; its account nonce. */
    async function allocate(number: number, seed: number, address = ACCOUNT): Promise<number> {
      const payment = examplePayment(number);
      await bring(ledger, payment, "begun");
      const account = { network: NETWORK, address, seed };
      const { accountNonce } = await ledger.signed(payment.key, account, (nonce) =>
        signWith(nonce, address),
      );
      return accountNonce;
    }

    describe("answers every transition from every state as its contract says", () => {
      for (const { start, cells } of TRANSITIONS) {
        it(`from ${start}`, async () => {
          let number = 0;
          for (const { operation, answer, next } of cells) {
            number += 1;
            const payment = examplePayment(number);
            await bring(ledger, payment, start);
            const met = await perform(ledger, payment, operation);
            expect(`${operation}: ${met}`).toBe(`${operation}: ${answer}`);
            const state = await observe(ledger, payment);
            expect(`after ${operation}: ${state}`).toBe(`after ${operation}: ${OBSERVED[next]}`);
          }
        });
      }
    });

    it("grants one of fifty concurrent claims, and to the others it is unresolved", async () => {
      const payment = examplePayment(1);
      const claims = Array.from({ length: 50 }, async () =>
        word(ledger.claim(payment.key, termsOf(payment))),
      );
      const words = (await Promise.all(claims)).sort();
      expect(words).toEqual(["granted", ...Array.from({ length: 49 }, () => "unresolved")]);
    });

    it("grants one of fifty concurrent settlements that show no key", async () => {
      const { key, request } = examplePayment(1);
      const begun = Array.from({ length: 50 }, async () =>
        word(ledger.begin(key, request, undefined)),
      );
      const words = (await Promise.all(begun)).sort();
      expect(words).toEqual(["granted", ...Array.from({ length: 49 }, () => "taken")]);
    });

    it("grants each payment to one of two processes that share the database", async () => {
      const second = await store.open({ bootId: "second", clock, shared: true });
      const payments = Array.from({ length: 25 }, (_, index) => examplePayment(index));
      const claims = payments.flatMap((payment) =>
        [ledger, second].map(async (each) => word(each.claim(payment.key, termsOf(payment)))),
      );
      const words = await Promise.all(claims);
      await second.close();
      expect(words.filter((each) => each === "granted")).toHaveLength(payments.length);
      expect(words.filter((each) => each === "busy")).toHaveLength(payments.length);
    });

    it("lets one of two concurrent signers of one payment through", async () => {
      const payment = examplePayment(1);
      await bring(ledger, payment, "begun");
      const words = await Promise.all([word(sign(ledger, payment)), word(sign(ledger, payment))]);
      expect(words.sort()).toEqual(["conflict", "ok"]);
      expect(await ledger.nextAccountNonce(NETWORK, ACCOUNT)).toBe(1);
    });

    it("gives an unresolved claim the terms of its first use, word for word", async () => {
      const payment = examplePayment(1);
      await bring(ledger, payment, "handed");
      const later = termsOf(payment, { idempotencyKey: "a later key", target: OTHER_TARGET });
      const outcome = await ledger.claim(payment.key, later);
      expect(outcome).toEqual({ kind: "unresolved", terms: termsOf(payment) });
    });

    it("tells whether a payment has a row, and makes none by being asked", async () => {
      const [seen, unseen] = [examplePayment(1), examplePayment(2)];
      await bring(ledger, seen, "failed");
      expect(await ledger.isRecorded(seen.key)).toBe(true);
      expect(await ledger.isRecorded(unseen.key)).toBe(false);
      expect(await word(ledger.claim(unseen.key, termsOf(unseen)))).toBe("granted");
    });

    it("gives back what was settled and why it failed", async () => {
      const [paid, refused] = [examplePayment(1), examplePayment(2)];
      await bring(ledger, paid, "settled");
      await bring(ledger, refused, "failed");
      expect(await ledger.claim(paid.key, termsOf(paid))).toEqual({
        kind: "settled",
        settlement: SETTLEMENT,
        attempts: 0,
      });
      expect(await ledger.begin(paid.key, paid.request, CALLER)).toEqual({
        kind: "settled",
        settlement: SETTLEMENT,
      });
      expect(await ledger.claim(refused.key, termsOf(refused))).toEqual({
        kind: "failed",
        failure: FAILURE,
      });
    });

    it("keeps the first reason of a payment that fails twice", async () => {
      const payment = examplePayment(1);
      await bring(ledger, payment, "failed");
      await ledger.failed(payment.key, { code: "invalid_transaction_state", detail: "again" });
      const outcome = await ledger.begin(payment.key, payment.request, CALLER);
      expect(outcome).toEqual({ kind: "failed", failure: FAILURE });
    });

    it("signs a payment that failed without bytes for another caller", async () => {
      const payment = examplePayment(1);
      await bring(ledger, payment, "begunfailed");
      await ledger.begin(payment.key, payment.request, undefined);
      expect(await sign(ledger, payment)).toEqual(signWith(0));
    });

    it("lists the signed payments with their bytes, the oldest signature first", async () => {
      let now = 1000;
      await ledger.close();
      ledger = await store.open({ bootId: "first", clock: () => now });
      const payments = [3, 1, 2].map(examplePayment);
      for (const payment of payments) await bring(ledger, payment, "claimed");
      for (const payment of payments) {
        now += 1;
        await sign(ledger, payment);
      }
      await bring(ledger, examplePayment(4), "handed");
      await bring(ledger, examplePayment(5), "settled");
      expect(await ledger.unfinished()).toEqual(
        payments.map(({ key, request }, nonce) => ({ key, request, signed: signWith(nonce) })),
      );
    });

    it("answers ping while it is open and refuses every call once closed", async () => {
      await ledger.ping();
      await ledger.ping();
      await ledger.close();
      await ledger.close();
      await expect(ledger.ping()).rejects.toMatchObject({ code: "LEDGER_UNAVAILABLE" });
      await expect(
        ledger.claim(examplePayment(1).key, termsOf(examplePayment(1))),
      ).rejects.toMatchObject({ code: "LEDGER_UNAVAILABLE" });
    });

    describe("allocates account nonces", () => {
      it("starting from the chain's next nonce", async () => {
        expect(await ledger.nextAccountNonce(NETWORK, ACCOUNT)).toBeUndefined();
        expect(await allocate(1, 7)).toBe(7);
        expect(await ledger.nextAccountNonce(NETWORK, ACCOUNT)).toBe(8);
      });

      it("without a gap or a repeat, whatever an older answer of the chain says", async () => {
        const nonces = [];
        for (let number = 0; number < 20; number += 1) {
          nonces.push(await allocate(number, number % 3));
        }
        expect(nonces).toEqual(Array.from({ length: 20 }, (_, index) => index));
      });

      it("skipping forward where the chain is ahead of the store", async () => {
        expect(await allocate(1, 0)).toBe(0);
        expect(await allocate(2, 5)).toBe(5);
        expect(await allocate(3, 5)).toBe(6);
      });

      it("once per account, whatever the letter case of its address", async () => {
        expect(await allocate(1, 0)).toBe(0);
        expect(await allocate(2, 0, ACCOUNT.toLowerCase())).toBe(1);
        expect(await ledger.nextAccountNonce(NETWORK, ACCOUNT.toLowerCase())).toBe(2);
      });

      it("apart for each account and network", async () => {
        expect(await allocate(1, 0)).toBe(0);
        expect(await allocate(2, 0, PAYER)).toBe(0);
        expect(await ledger.nextAccountNonce("base", ACCOUNT)).toBeUndefined();
      });

      it("giving none away when signing throws, and keeping the claim", async () => {
        const payment = examplePayment(1);
        await bring(ledger, payment, "begun");
        const account = { network: NETWORK, address: ACCOUNT, seed: 3 };
        const broken = ledger.signed(payment.key, account, () => {
          throw new RangeError("no key");
        });
        await expect(broken).rejects.toThrow(RangeError);
        expect(await ledger.nextAccountNonce(NETWORK, ACCOUNT)).toBeUndefined();
        expect(await ledger.unfinished()).toEqual([]);
        expect(await sign(ledger, payment)).toEqual(signWith(0));
      });

      it("refusing bytes that were signed for another nonce or account", async () => {
        const payment = examplePayment(1);
        await bring(ledger, payment, "begun");
        const account = { network: NETWORK, address: ACCOUNT, seed: 0 };
        for (const bytes of [signWith(9), signWith(0, PAYER)]) {
          await expect(ledger.signed(payment.key, account, () => bytes)).rejects.toThrow(
            `instead of ${ACCOUNT} 0`,
          );
        }
        expect(await ledger.nextAccountNonce(NETWORK, ACCOUNT)).toBeUndefined();
      });

      it("calling the signer only for a payment that can be signed", async () => {
        const payment = examplePayment(1);
        await bring(ledger, payment, "settled");
        const account = { network: NETWORK, address: ACCOUNT, seed: 0 };
        let called = false;
        const again = ledger.signed(payment.key, account, (nonce) => {
          called = true;
          return signWith(nonce);
        });
        await expect(again).rejects.toThrow(LedgerConflict);
        expect(called).toBe(false);
      });
    });

    describe("after a restart", () => {
      it("drops claims that were never signed, so that the payer may use them again", async () => {
        await bring(ledger, examplePayment(1), "claimed");
        await bring(ledger, examplePayment(2), "begun");
        await restart("second");
        for (const number of [1, 2]) {
          const payment = examplePayment(number);
          expect(await word(ledger.claim(payment.key, termsOf(payment)))).toBe("granted");
        }
      });

      it("keeps the claims of its own life", async () => {
        const payment = examplePayment(1);
        await bring(ledger, payment, "claimed");
        await restart("first");
        expect(await word(ledger.claim(payment.key, termsOf(payment)))).toBe("unresolved");
      });

      it("keeps the claims and deliveries that its own life took over from an earlier one", async () => {
        const [failed, settled] = [examplePayment(1), examplePayment(2)];
        await bring(ledger, failed, "claimfailed");
        await bring(ledger, settled, "settled");
        await restart("second");
        await ledger.begin(failed.key, failed.request, "another key");
        await ledger.delivering(settled.key);
        await restart("second");
        expect(await word(ledger.claim(failed.key, termsOf(failed)))).toBe("busy");
        expect(await word(ledger.claim(settled.key, termsOf(settled)))).toBe("busy");
      });

      it("allows a delivery that was cut off again, with its attempts counted", async () => {
        const payment = examplePayment(1);
        for (const [attempts, life] of ["second", "third", "fourth"].entries()) {
          await (attempts === 0
            ? bring(ledger, payment, "delivering")
            : ledger.delivering(payment.key));
          await restart(life);
        }
        expect(await word(ledger.claim(payment.key, termsOf(payment)))).toBe("spent");
        expect(await ledger.delivering(payment.key)).toBe(false);
      });

      it("finds every other state as it was", async () => {
        const paid = ["settled", "retried", "served", "exhausted", "delivered"];
        const kept = ["signed", "handed", ...paid, "failed", "claimfailed", "begunfailed"];
        for (const [number, state] of kept.entries()) {
          const start = TRANSITIONS.find((row) => row.start === state)?.start ?? "none";
          await bring(ledger, examplePayment(number), start);
        }
        await restart("second");
        for (const [number, state] of kept.entries()) {
          expect(await observe(ledger, examplePayment(number))).toBe(OBSERVED[state]);
        }
      });

      it("goes on with the account nonce where it was", async () => {
        await bring(ledger, examplePayment(1), "signed");
        await restart("second");
        await bring(ledger, examplePayment(2), "begun");
        expect(await sign(ledger, examplePayment(2))).toEqual(signWith(1));
      });
    });

    describe("remembers when a route's terms changed", () => {
      it("as the time of first sight, and then of each change", async () => {
        expect(await ledger.termsChangedAt("GET /a", "one", 100)).toBe(100);
        expect(await ledger.termsChangedAt("GET /a", "one", 200)).toBe(100);
        expect(await ledger.termsChangedAt("GET /b", "one", 300)).toBe(300);
        expect(await ledger.termsChangedAt("GET /a", "two", 400)).toBe(400);
        expect(await ledger.termsChangedAt("GET /a", "one", 500)).toBe(500);
      });

      it("across restarts", async () => {
        await ledger.termsChangedAt("GET /a", "one", 100);
        await restart("second");
        expect(await ledger.termsChangedAt("GET /a", "one", 200)).toBe(100);
      });
    });
  });

  describeGuards(name, createStore);
  describeSequences(name, createStore);
}
