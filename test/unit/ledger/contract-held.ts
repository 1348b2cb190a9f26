/** Payments that somebody else has put on chain, and what the operator makes of them. */
import { describe, expect, it } from "vitest";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment } from "./example-payment.ts";
import {
  bring,
  CALLER,
  FACILITATOR,
  FAILURE,
  NETWORK,
  OTHER_BINDING,
  SETTLEMENT,
  sign,
  signWith,
  termsOf,
  UNANSWERED,
  word,
  takeOffers,
} from "./ledger-driver.ts";

const THEIRS = "0xTheirs";
const BY = "operator alice@till";
const DELIVER = { verb: "deliver", note: "", by: BY } as const;
const REFUND = { verb: "refund", note: "in 0x77", by: BY } as const;
const HELD = { kind: "held", transaction: THEIRS };

export function describeHeld(open: OpenLedger): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key, request } = payment;
  const terms = termsOf(payment);

  async function held(from: "signed" | "handed" | "public" = "signed") {
    const { ledger } = place();
    await bring(ledger, payment, from);
    await ledger.step(key, { kind: "held", transaction: THEIRS });
    return ledger;
  }

  const lastEvent = async () => (await place().ledger.books.show(key))?.events.at(-1);

  describe("holds a payment in a transaction that is not ours", () => {
    it.each(["signed", "handed", "public"] as const)("and was %s, whoever asks", async (from) => {
      const ledger = await held(from);
      expect(await ledger.step(key, { kind: "claim", terms })).toEqual(HELD);
      expect(
        await ledger.step(key, { kind: "claim", terms: { ...terms, binding: OTHER_BINDING } }),
      ).toEqual(HELD);
      expect(await ledger.step(key, { kind: "begin", request, caller: CALLER })).toEqual(HELD);
      expect(await ledger.step(key, { kind: "begin", request, caller: "another" })).toEqual({
        kind: "taken",
      });
      expect(await ledger.outcome(key)).toEqual(HELD);
    });

    it("so that neither a look nor a signature changes it", async () => {
      const ledger = await held("handed");
      await ledger.step(key, { kind: "held", transaction: "0xAnother" });
      const steps = [
        ledger.step(key, { kind: "failed", failure: FAILURE }),
        ledger.step(key, { kind: "released" }),
        ledger.step(key, { kind: "handedOver", facilitator: FACILITATOR }),
        ledger.step(key, { kind: "withdrawn" }),
        ledger.step(key, { kind: "delivering" }),
        sign(ledger, [payment]),
      ];
      const words = await Promise.all(steps.map(word));
      const refused = ["conflict", "conflict", "conflict", "conflict", "false", "conflict"];
      expect(words).toEqual(refused);
      await ledger.step(key, { kind: "abandoned" });
      expect(await ledger.outcome(key)).toEqual(HELD);
      expect(await ledger.queues.handedOvers(10)).toEqual([]);
    });

    it("which its own facilitator has settled after all, or our own transaction", async () => {
      const ledger = await held();
      await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
      expect(await word(ledger.step(key, { kind: "claim", terms }))).toBe("settled");
      expect(await ledger.books.show(key)).toMatchObject({ heldTransaction: null });
    });

    it("though it waits for somebody to sign it again", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "public");
      await ledger.step(key, { kind: "offer" });
      await ledger.step(key, { kind: "held", transaction: THEIRS });
      expect(await takeOffers(ledger, NETWORK, 1)).toEqual([]);
      expect(await ledger.outcome(key)).toEqual(HELD);
    });

    it("after it was taken for failed", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "signed");
      await ledger.step(key, { kind: "failed", failure: FAILURE });
      await ledger.step(key, { kind: "held", transaction: THEIRS });
      expect(await ledger.step(key, { kind: "claim", terms })).toEqual(HELD);
    });

    it.each(["claimed", "settled", "delivering"] as const)(
      "but not one that is %s",
      async (state) => {
        const { ledger } = place();
        await bring(ledger, payment, state);
        expect(await word(ledger.step(key, { kind: "held", transaction: THEIRS }))).toBe(
          "conflict",
        );
      },
    );

    it("and tells the operator", async () => {
      const ledger = await held();
      const other = examplePayment(2);
      await bring(ledger, other, "handed");
      const listed = async (filter: object) => {
        return (await ledger.books.list({ ...filter, limit: 9 })).map((each) => each.key);
      };
      expect(await listed({ held: true })).toEqual([key]);
      expect(await listed({ held: false })).toEqual([other.key]);
      expect(await listed({ undelivered: true })).toEqual([key]);
      expect(await ledger.books.counts()).toMatchObject({ held: 1, unresolved: 1 });
      expect(await ledger.books.show(THEIRS)).toMatchObject({ key, heldTransaction: THEIRS });
      const events = [
        expect.anything(),
        expect.anything(),
        { note: expect.stringContaining(THEIRS) },
      ];
      expect(await ledger.books.show(key)).toMatchObject({ state: "SIGNED", events });
    });

    it("while the submission that was to carry it is looked after", async () => {
      const ledger = await held();
      const [submission] = await ledger.signing.unfinished(
        request.paymentPayload.network,
        signWith(0).account,
      );
      expect(submission?.payments).toMatchObject([{ key, heldTransaction: THEIRS }]);
    });
  });

  describe("knows the transactions that it has signed", () => {
    it("in any letter case, and no other", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "signed");
      const { transaction } = signWith(0);
      expect(await ledger.signing.hasSigned(transaction.toUpperCase())).toBe(true);
      expect(await ledger.signing.hasSigned(THEIRS)).toBe(false);
    });
  });

  describe("lets the operator", () => {
    it("deliver what is held: paid in that transaction, and sold once", async () => {
      const ledger = await held();
      expect(await ledger.step(key, { kind: "resolve", resolution: DELIVER })).toEqual({
        kind: "done",
        state: "SETTLED",
      });
      const claim = await ledger.step(key, { kind: "claim", terms });
      expect(claim).toMatchObject({ kind: "settled", settlement: { transaction: THEIRS } });
      expect(await ledger.step(key, { kind: "delivering" })).toBe(true);
      expect(await ledger.step(key, { kind: "resolve", resolution: DELIVER })).toMatchObject({
        kind: "refused",
      });
      await ledger.step(key, { kind: "delivered" });
      expect(await ledger.step(key, { kind: "resolve", resolution: DELIVER })).toMatchObject({
        kind: "refused",
      });
    });

    it("pay back what is held: nothing is owed, whatever the chain shows later", async () => {
      const ledger = await held();
      expect(await ledger.step(key, { kind: "resolve", resolution: REFUND })).toEqual({
        kind: "done",
        state: "FAILED",
      });
      const failed = { kind: "failed", failure: { detail: expect.stringContaining("refunded") } };
      expect(await ledger.step(key, { kind: "claim", terms })).toMatchObject(failed);
      expect(await lastEvent()).toMatchObject({ by: BY, note: expect.stringContaining("in 0x77") });
      await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
      await ledger.step(key, { kind: "held", transaction: "0xAnother" });
      expect(await ledger.step(key, { kind: "claim", terms })).toMatchObject(failed);
      expect(await ledger.step(key, { kind: "delivering" })).toBe(false);
      expect(await ledger.step(key, { kind: "begin", request, caller: "another" })).toMatchObject(
        failed,
      );
      expect(await ledger.step(key, { kind: "resolve", resolution: REFUND })).toMatchObject({
        kind: "refused",
      });
      expect(await ledger.step(key, { kind: "resolve", resolution: DELIVER })).toMatchObject({
        kind: "refused",
      });
      expect(await ledger.books.show(THEIRS)).toMatchObject({ key, state: "FAILED" });
    });

    it("pay back what cannot be delivered, though not while it is", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "delivering");
      expect(await ledger.step(key, { kind: "resolve", resolution: REFUND })).toMatchObject({
        kind: "refused",
      });
      await ledger.step(key, { kind: "undelivered", broken: UNANSWERED });
      expect(await ledger.step(key, { kind: "resolve", resolution: REFUND })).toEqual({
        kind: "done",
        state: "FAILED",
      });
      expect(await ledger.step(key, { kind: "delivering" })).toBe(false);
      expect(await word(ledger.step(key, { kind: "claim", terms }))).toBe("failed");
    });

    it("give attempts again where they are used up, and only there", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "settled");
      expect(await ledger.step(key, { kind: "resolve", resolution: DELIVER })).toMatchObject({
        kind: "refused",
      });
      for (let attempt = 0; attempt < 3; attempt += 1) {
        await ledger.step(key, { kind: "delivering" });
        await ledger.step(key, { kind: "undelivered", broken: UNANSWERED });
      }
      expect(await word(ledger.step(key, { kind: "claim", terms }))).toBe("exhausted");
      expect(await ledger.step(key, { kind: "resolve", resolution: DELIVER })).toEqual({
        kind: "done",
        state: "SETTLED",
      });
      expect(await ledger.step(key, { kind: "claim", terms })).toMatchObject({
        kind: "settled",
        attempts: 0,
      });
    });

    it("note something about any payment", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "handed");
      const note = { verb: "note", note: "asked the other shop", by: BY } as const;
      expect(await ledger.step(key, { kind: "resolve", resolution: note })).toEqual({
        kind: "done",
        state: "SIGNED",
      });
      expect(await lastEvent()).toMatchObject({ by: BY, note: "asked the other shop" });
      expect(await word(ledger.step(key, { kind: "claim", terms }))).toBe("unresolved");
      const none = await ledger.step(examplePayment(9).key, { kind: "resolve", resolution: note });
      expect(none).toMatchObject({ kind: "refused" });
    });

    it.each(["claimed", "signed", "handed"] as const)(
      "decide nothing while it is %s",
      async (state) => {
        const { ledger } = place();
        await bring(ledger, payment, state);
        expect(await ledger.step(key, { kind: "resolve", resolution: DELIVER })).toMatchObject({
          kind: "refused",
        });
        expect(await ledger.step(key, { kind: "resolve", resolution: REFUND })).toMatchObject({
          kind: "refused",
        });
      },
    );
  });
}
