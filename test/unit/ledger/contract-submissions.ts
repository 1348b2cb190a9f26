/** What is signed with which account nonce, in how many variants, and by whom. */
import { describe, expect, it } from "vitest";
import { LedgerConflict, type Ledger } from "../../../src/ledger/ledger.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, PAYER } from "./example-payment.ts";
import {
  ACCOUNT,
  bring,
  leaseOf,
  NETWORK,
  SETTLEMENT,
  FAILURE,
  sign,
  signWith,
  termsOf,
  word,
} from "./ledger-driver.ts";

export function describeSubmissions(open: OpenLedger): void {
  const place = eachTestIn(open);

  /** Signs one more payment for an account; its account nonce. */
  async function allocate(number: number, seed: number, address = ACCOUNT): Promise<number> {
    const { ledger } = place();
    const payment = examplePayment(number);
    await bring(ledger, payment, "begun");
    const { variants } = await sign(ledger, [payment], { address, seed });
    return variants[0]?.accountNonce ?? -1;
  }

  describe("signs", () => {
    it("several payments in one transaction, and gives back what it stored", async () => {
      const { ledger, time } = place();
      const payments = [3, 1, 2].map(examplePayment);
      const route = "GET /premium-data";
      for (const payment of payments) {
        const { key } = payment;
        await ledger.step(key, { kind: "claim", terms: termsOf(payment, { route }) });
      }
      time.nowMs += 5000;
      const submission = await sign(ledger, payments, { seed: 7 });
      expect(submission).toEqual({
        id: signWith(7).transaction,
        network: NETWORK,
        state: "OPEN",
        variants: [signWith(7)],
        signedMs: time.nowMs,
        cost: null,
        payments: payments.map(({ key, request }) => ({
          key,
          request,
          route,
          isTransferBack: false,
          state: "SIGNED",
          settledTransaction: null,
          heldTransaction: null,
        })),
      });
      const [stored] = await ledger.signing.unfinished(NETWORK, ACCOUNT);
      expect({ ...stored, payments: byKey(stored?.payments ?? []) }).toEqual({
        ...submission,
        payments: byKey(submission.payments),
      });
    });

    it("all of the payments or none", async () => {
      const { ledger } = place();
      const [first, signed, second] = [1, 2, 3].map(examplePayment);
      if (!first || !signed || !second) throw new Error("three payments");
      await bring(ledger, first, "claimed");
      await bring(ledger, signed, "signed");
      await bring(ledger, second, "claimed");
      const before = await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT);
      for (const bad of [signed, examplePayment(9)]) {
        expect(await word(sign(ledger, [first, bad, second]))).toBe("conflict");
      }
      expect(await word(sign(ledger, [first, first]))).toBe("conflict");
      expect(await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT)).toBe(before);
      for (const { key } of [first, second]) {
        expect(await ledger.books.show(key)).toMatchObject({ state: "CLAIMED", submission: null });
      }
      expect(await ledger.signing.unfinished(NETWORK, ACCOUNT)).toHaveLength(1);
      await sign(ledger, [first, second]);
    });

    it("one of two concurrent callers' transactions of one payment", async () => {
      const { ledger } = place();
      const payment = examplePayment(1);
      await bring(ledger, payment, "begun");
      const words = await Promise.all([
        word(sign(ledger, [payment])),
        word(sign(ledger, [payment])),
      ]);
      expect(words.sort()).toEqual(["conflict", "ok"]);
      expect(await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT)).toBe(1);
    });

    it("concurrent payments of one account with nonces that follow on each other", async () => {
      const { ledger } = place();
      const payments = Array.from({ length: 30 }, (_, index) => examplePayment(index));
      // Of its own: which of them is signed first is chance.
      const unsigned = examplePayment(30);
      for (const payment of [unsigned, ...payments]) await bring(ledger, payment, "claimed");
      const account = { ...(await leaseOf(ledger)), seed: 4 };
      const broken = ledger.signing.signed([unsigned.key], account, () => {
        throw new RangeError("no key");
      });
      const others = payments.map(({ key }) =>
        ledger.signing.signed([key], account, (nonce) => signWith(nonce)),
      );
      await expect(broken).rejects.toThrow(RangeError);
      const nonces = (await Promise.all(others)).map(({ variants }) => variants[0]?.accountNonce);
      nonces.sort((left, right) => Number(left) - Number(right));
      expect(nonces).toEqual(payments.map((_, index) => 4 + index));
    });

    it("again in another transaction what the first one did not move", async () => {
      const { ledger } = place();
      const [moved, left] = [examplePayment(1), examplePayment(2)];
      await bring(ledger, moved, "claimed");
      await bring(ledger, left, "claimed");
      const first = await sign(ledger, [moved, left]);
      await ledger.step(moved.key, { kind: "settled", settlement: SETTLEMENT });
      await ledger.step(left.key, { kind: "withdrawn" });
      expect(await ledger.signing.unfinished(NETWORK, ACCOUNT)).toMatchObject([
        {
          id: first.id,
          payments: [{ key: moved.key, state: "SETTLED", settledTransaction: "0xaa" }],
        },
      ]);
      const second = await sign(ledger, [left]);
      expect(second.variants).toEqual([signWith(1)]);
      expect(await ledger.books.show(left.key)).toMatchObject({ submission: { id: second.id } });
    });
  });

  describe("allocates account nonces", () => {
    it("starting from the chain's next nonce", async () => {
      const { ledger } = place();
      expect(await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT)).toBeUndefined();
      await leaseOf(ledger);
      expect(await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT)).toBeUndefined();
      expect(await allocate(1, 7)).toBe(7);
      expect(await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT)).toBe(8);
    });

    it("without a gap or a repeat, whatever an older answer of the chain says", async () => {
      const nonces = [];
      for (let number = 0; number < 20; number += 1)
        nonces.push(await allocate(number, number % 3));
      expect(nonces).toEqual(Array.from({ length: 20 }, (_, index) => index));
    });

    it("skipping forward where the chain is ahead of the store", async () => {
      expect(await allocate(1, 0)).toBe(0);
      expect(await allocate(2, 5)).toBe(5);
      expect(await allocate(3, 5)).toBe(6);
    });

    it("once per account, whatever the letter case of its address", async () => {
      const { ledger } = place();
      expect(await allocate(1, 0)).toBe(0);
      expect(await allocate(2, 0, ACCOUNT.toLowerCase())).toBe(1);
      expect(await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT.toLowerCase())).toBe(2);
      expect(await ledger.signing.unfinished(NETWORK, ACCOUNT.toLowerCase())).toHaveLength(2);
    });

    it("apart for each account and network", async () => {
      const { ledger } = place();
      expect(await allocate(1, 0)).toBe(0);
      expect(await allocate(2, 0, PAYER)).toBe(0);
      expect(await ledger.signing.nextAccountNonce("base", ACCOUNT)).toBeUndefined();
      expect(await ledger.signing.unfinished("base", ACCOUNT)).toEqual([]);
    });

    it("giving none away when signing throws, and keeping the claim", async () => {
      const { ledger } = place();
      const payment = examplePayment(1);
      await bring(ledger, payment, "begun");
      const account = { ...(await leaseOf(ledger)), seed: 3 };
      const broken = ledger.signing.signed([payment.key], account, () => {
        throw new RangeError("no key");
      });
      await expect(broken).rejects.toThrow(RangeError);
      expect(await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT)).toBeUndefined();
      expect(await ledger.signing.unfinished(NETWORK, ACCOUNT)).toEqual([]);
      expect((await sign(ledger, [payment])).variants).toEqual([signWith(0)]);
    });

    it("refusing bytes that were signed for another nonce or account", async () => {
      const { ledger } = place();
      const payment = examplePayment(1);
      await bring(ledger, payment, "begun");
      const account = { ...(await leaseOf(ledger)), seed: 0 };
      for (const bytes of [signWith(9), signWith(0, PAYER)]) {
        await expect(ledger.signing.signed([payment.key], account, () => bytes)).rejects.toThrow(
          Error,
        );
      }
      expect(await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT)).toBeUndefined();
      expect(await ledger.signing.unfinished(NETWORK, ACCOUNT)).toEqual([]);
    });
  });

  describe("leases", () => {
    it("an account again to who has it, with the same epoch, and a greater one to the next", async () => {
      const { ledger } = place();
      const first = await leaseOf(ledger);
      expect(await leaseOf(ledger)).toEqual(first);
      expect(await leaseOf(ledger, ACCOUNT.toLowerCase())).toMatchObject({ epoch: first.epoch });
      const second = await leaseOf(await place().restart("second"));
      expect(second.epoch).toBeGreaterThan(first.epoch);
      await place().ledger.signing.unlease(first);
      expect(await leaseOf(place().ledger)).toEqual(second);
    });

    it("nothing to who has given it back", async () => {
      const { ledger } = place();
      const payment = examplePayment(1);
      await bring(ledger, payment, "claimed");
      const lease = await leaseOf(ledger);
      await ledger.signing.unlease(lease);
      await ledger.signing.unlease(lease);
      const late = ledger.signing.signed([payment.key], { ...lease, seed: 0 }, (nonce) =>
        signWith(nonce),
      );
      await expect(late).rejects.toThrow(LedgerConflict);
      expect(await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT)).toBeUndefined();
      await sign(ledger, [payment]);
    });

    it("no account that it was not asked for", async () => {
      const { ledger } = place();
      const payment = examplePayment(1);
      await bring(ledger, payment, "claimed");
      const lease = { ...(await leaseOf(ledger)), address: PAYER, seed: 0 };
      const never = ledger.signing.signed([payment.key], lease, (nonce) => signWith(nonce, PAYER));
      await expect(never).rejects.toThrow(LedgerConflict);
    });
  });

  it("tells the accounts whose submissions are not all closed", async () => {
    const { ledger } = place();
    expect(await ledger.signing.unattended()).toEqual([]);
    const ids: string[] = [];
    for (const [number, address] of [ACCOUNT, PAYER].entries()) {
      const payment = examplePayment(number);
      await bring(ledger, payment, "claimed");
      ids.push((await sign(ledger, [payment], { address })).id);
    }
    const [first = "", second = ""] = ids;
    await ledger.signing.concluded(first, "CLOSED");
    await ledger.signing.concluded(second, "INCLUDED");
    const { epoch } = await leaseOf(ledger, PAYER);
    const left = { network: NETWORK, address: PAYER.toLowerCase(), epoch };
    expect(await ledger.signing.unattended()).toEqual([left]);
    const next = await place().restart("second");
    expect(await next.signing.unattended()).toEqual([left]);
  });

  describe("keeps every variant of a submission", () => {
    it("in the order in which they were signed, each once", async () => {
      const { ledger, time } = place();
      const [lease, id] = await submit(ledger);
      const variants = [0, 1, 2].map((fee) => signWith(0, ACCOUNT, fee));
      time.nowMs += 9000;
      for (const variant of variants) await ledger.signing.replaced(lease, id, variant);
      expect(await ledger.signing.unfinished(NETWORK, ACCOUNT)).toMatchObject([
        { id, variants, signedMs: time.nowMs },
      ]);
      await ledger.signing.concluded(id, "INCLUDED");
      await ledger.signing.replaced(lease, id, signWith(0, ACCOUNT, 3));
    });

    it("and takes none for another nonce, another account, or after it is over", async () => {
      const { ledger } = place();
      const [lease, id] = await submit(ledger);
      const other = await leaseOf(ledger, PAYER);
      const calls = [
        () => ledger.signing.replaced(lease, id, signWith(1, ACCOUNT, 1)),
        () => ledger.signing.replaced(lease, id, signWith(0, PAYER, 1)),
        () => ledger.signing.replaced(other, id, signWith(0, PAYER, 1)),
        () => ledger.signing.replaced(lease, "0xno", signWith(0, ACCOUNT, 1)),
        () =>
          ledger.signing.replaced(
            { ...lease, epoch: lease.epoch + 1 },
            id,
            signWith(0, ACCOUNT, 1),
          ),
      ];
      for (const call of calls) await expect(call()).rejects.toThrow(LedgerConflict);
      await ledger.signing.concluded(id, "CLOSED");
      const late = ledger.signing.replaced(lease, id, signWith(0, ACCOUNT, 1));
      await expect(late).rejects.toThrow(LedgerConflict);
    });

    it("until it is over: included, undone by a reorganization, included again, closed", async () => {
      const { ledger } = place();
      const [, id] = await submit(ledger);
      for (const state of ["OPEN", "INCLUDED", "INCLUDED", "OPEN", "INCLUDED"] as const) {
        await ledger.signing.concluded(id, state);
        expect(await ledger.signing.unfinished(NETWORK, ACCOUNT)).toMatchObject([{ id, state }]);
      }
      await ledger.signing.concluded(id, "CLOSED");
      await ledger.signing.concluded(id, "CLOSED");
      expect(await ledger.signing.unfinished(NETWORK, ACCOUNT)).toEqual([]);
      await expect(ledger.signing.concluded(id, "OPEN")).rejects.toThrow(LedgerConflict);
      await expect(ledger.signing.concluded("0xno", "CLOSED")).rejects.toThrow(LedgerConflict);
    });

    it("and lists those of an account in the order of their nonces, whatever their payments", async () => {
      const { ledger } = place();
      for (const number of [1, 2, 3]) await allocate(number, 0);
      await ledger.step(examplePayment(1).key, { kind: "failed", failure: FAILURE });
      await ledger.step(examplePayment(3).key, { kind: "settled", settlement: SETTLEMENT });
      const listed = await ledger.signing.unfinished(NETWORK, ACCOUNT);
      expect(listed.map(({ variants }) => variants[0]?.accountNonce)).toEqual([0, 1, 2]);
      expect(listed.map(({ payments }) => payments[0]?.state)).toEqual([
        "FAILED",
        "SIGNED",
        "SETTLED",
      ]);
    });
  });
}

function byKey<Value extends { readonly key: string }>(list: readonly Value[]): readonly Value[] {
  return list.toSorted((left, right) => left.key.localeCompare(right.key));
}

/** One payment in one submission of the account. */
async function submit(ledger: Ledger) {
  const payment = examplePayment(1);
  await ledger.step(payment.key, { kind: "claim", terms: termsOf(payment) });
  const { id } = await sign(ledger, [payment]);
  return [await leaseOf(ledger), id] as const;
}
