/** What the ledger refuses to whom, where somebody gains by asking: each rule on both of its sides. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MAX_DELIVERY_ATTEMPTS, type Ledger } from "../../../src/ledger/ledger.ts";
import { examplePayment, PAYER } from "./example-payment.ts";
import {
  ACCOUNT,
  bring,
  CALLER,
  CUT_OFF,
  FAILURE,
  forged,
  NETWORK,
  OTHER_BINDING,
  OTHER_TARGET,
  repriced,
  SETTLEMENT,
  sign,
  signWith,
  termsOf,
  UNANSWERED,
  UNSENT,
  word,
  type LedgerStore,
} from "./ledger-driver.ts";

const clock = (): number => 1_700_000_000_000;
const { transaction } = SETTLEMENT;

export function describeGuards(name: string, createStore: () => Promise<LedgerStore>): void {
  describe(`the ${name} ledger`, () => {
    let store: LedgerStore;
    let ledger: Ledger;
    const payment = examplePayment(1);
    const { key, request } = payment;

    beforeEach(async () => {
      store = await createStore();
      ledger = await store.open({ bootId: "first", clock });
    });

    afterEach(async () => {
      await ledger.close();
      await store.remove();
    });

    /** Signs with the account's next nonce, and fails. */
    async function fail(number: number, address = ACCOUNT): Promise<void> {
      const each = examplePayment(number);
      await bring(ledger, each, "begun");
      await ledger.signed(each.key, { network: NETWORK, address, seed: 0 }, (nonce) =>
        signWith(nonce, address),
      );
      await ledger.failed(each.key, FAILURE);
    }

    it("gives a paid delivery to its payer in any spelling, and to nobody without the signature", async () => {
      await bring(ledger, payment, "settled");
      expect(await ledger.claim(key, termsOf({ request: forged(request) }))).toEqual({
        kind: "forged",
      });
      const { payload } = request.paymentPayload;
      const signature = `0x${"AB".repeat(65)}`;
      const paymentPayload = { ...request.paymentPayload, payload: { ...payload, signature } };
      const loud = termsOf({ request: { ...request, paymentPayload } });
      expect(await word(ledger.claim(key, loud))).toBe("settled");
    });

    it("resumes a claim within its own life only, and for the binding that made it", async () => {
      await bring(ledger, payment, "claimed");
      const second = await store.open({ bootId: "first", clock, shared: true });
      expect(await second.claim(key, termsOf(payment))).toEqual({
        kind: "unresolved",
        terms: termsOf(payment),
      });
      await second.close();
      const [theirs, here] = [examplePayment(2), { bootId: "another", clock, shared: true }];
      const other = await store.open(here);
      await bring(other, theirs, "claimed");
      expect(await word(ledger.claim(theirs.key, termsOf(theirs)))).toBe("busy");
      const elsewhere = termsOf(theirs, { binding: OTHER_BINDING });
      expect(await word(other.claim(theirs.key, elsewhere))).toBe("busy");
      await other.close();
    });

    it("tells what is spent by whether it was delivered, and the transaction that paid", async () => {
      const states = ["delivered", "exhausted"] as const;
      for (const [index, state] of states.entries()) {
        const each = examplePayment(10 + index);
        await bring(ledger, each, state);
        expect(await ledger.claim(each.key, termsOf(each))).toEqual({
          kind: "spent",
          delivered: state === "delivered",
          transaction,
        });
      }
    });

    it("delivers no second target once one's answer had begun, and the first one again", async () => {
      await bring(ledger, payment, "served");
      const elsewhere = termsOf(payment, { target: OTHER_TARGET });
      const spent = { kind: "spent", delivered: false, transaction };
      expect(await ledger.claim(key, elsewhere)).toEqual(spent);
      expect(await ledger.delivering(key)).toBe(true);
      await ledger.undelivered(key, { ...CUT_OFF, served: OTHER_TARGET });
      expect(await ledger.claim(key, elsewhere)).toEqual(spent);
      expect(await ledger.claim(key, termsOf(payment))).toMatchObject({
        kind: "settled",
        attempts: 2,
      });
    });

    it("keeps the target that was served when later deliveries have no answer", async () => {
      await bring(ledger, payment, "served");
      await ledger.delivering(key);
      await ledger.undelivered(key, UNANSWERED);
      const elsewhere = termsOf(payment, { target: OTHER_TARGET });
      expect(await word(ledger.claim(key, elsewhere))).toBe("spent");
    });

    it("counts the attempts that reached the upstream, and gives the others back", async () => {
      await bring(ledger, payment, "settled");
      for (let attempt = 0; attempt < 2 * MAX_DELIVERY_ATTEMPTS; attempt += 1) {
        expect(await ledger.delivering(key)).toBe(true);
        await ledger.undelivered(key, UNSENT);
        await ledger.undelivered(key, UNSENT);
      }
      expect(await ledger.claim(key, termsOf(payment))).toMatchObject({ attempts: 0 });
      for (let attempt = 1; attempt <= MAX_DELIVERY_ATTEMPTS; attempt += 1) {
        expect(await ledger.delivering(key)).toBe(true);
        await ledger.undelivered(key, UNANSWERED);
        await ledger.undelivered(key, UNSENT);
      }
      expect(await ledger.delivering(key)).toBe(false);
    });

    it("answers a caller's key for the requirements that it was first used with only", async () => {
      await bring(ledger, payment, "settled");
      for (const change of [
        { network: "base" },
        { asset: PAYER },
        { payTo: PAYER },
        { maxAmountRequired: "9" },
        { resource: "https://api.example.com/other" },
      ]) {
        const begun = await ledger.begin(key, repriced(request, change), CALLER);
        expect({ change, begun }).toEqual({ change, begun: { kind: "taken" } });
      }
      const described = repriced(request, { description: "said in other words" });
      expect(await word(ledger.begin(key, described, CALLER))).toBe("settled");
      expect(await word(ledger.begin(key, forged(request), CALLER))).toBe("taken");
    });

    it("never signs a payment twice whose first bytes may still be sent", async () => {
      await bring(ledger, payment, "failed");
      for (const caller of [CALLER, "another key", undefined]) {
        expect(await ledger.begin(key, request, caller)).toEqual({
          kind: "failed",
          failure: FAILURE,
        });
        expect(await word(ledger.begin(key, forged(request), caller))).toBe("taken");
      }
      await expect(sign(ledger, payment)).rejects.toMatchObject({ code: "LEDGER_CONFLICT" });
    });

    describe("lists the bytes of failed payments, which may leave a gap in an account's nonces", () => {
      it("from a nonce on, ascending", async () => {
        for (const number of [9, 8, 7, 6]) await fail(number);
        const account = ACCOUNT.toLowerCase();
        for (const [from, nonces] of [
          [0, [0, 1, 2, 3]],
          [2, [2, 3]],
          [4, []],
        ] as const) {
          const unused = await ledger.unusedNonces(NETWORK, account, from);
          expect(unused).toEqual(nonces.map((nonce) => signWith(nonce)));
        }
      });

      it("of that account and network, and of no other state", async () => {
        await fail(2, PAYER);
        await bring(ledger, examplePayment(3), "signed");
        await bring(ledger, examplePayment(4), "settled");
        await bring(ledger, examplePayment(5), "claimfailed");
        await fail(6);
        expect(await ledger.unusedNonces(NETWORK, ACCOUNT, 0)).toEqual([signWith(2)]);
        expect(await ledger.unusedNonces(NETWORK, PAYER, 0)).toEqual([signWith(0, PAYER)]);
        expect(await ledger.unusedNonces("base", ACCOUNT, 0)).toEqual([]);
      });
    });
  });
}
