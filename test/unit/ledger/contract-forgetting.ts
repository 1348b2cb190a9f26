/** What a payer may have forgotten, and what never. */
import { describe, expect, it } from "vitest";
import {
  FORGOTTEN_TOGETHER,
  forgetAll,
  LOOKED_AT_TOGETHER,
  MESSAGES_TOGETHER,
  type ForgottenInStep,
  type ForgetStep,
} from "../../../src/ledger/forgetting.ts";
import type { Ledger, RefundStep } from "../../../src/ledger/ledger.ts";
import { FAILED_FOR_MS } from "../../../src/ledger/sweep.ts";
import { isEvmPayload, type PaymentKey } from "../../../src/x402/payment-key.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn, type Place } from "./contract-place.ts";
import { close, LATER_MS, note } from "./contract-sweeping.ts";
import { examplePayment, PAYER, type ExamplePayment } from "./example-payment.ts";
import {
  bring,
  FACILITATOR,
  FAILURE,
  SALE,
  SETTLEMENT,
  sign,
  signWith,
  termsOf,
} from "./ledger-driver.ts";
import type { StartState } from "./ledger-transitions.ts";

const DAY_MS = 86_400_000;

export function describeForgetting(open: OpenLedger): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key, request } = payment;

  /** Brought into a state, with its submission closed, and looked at long after. */
  const old = async (state: StartState): Promise<Ledger> => {
    const { ledger, time } = place();
    await bring(ledger, payment, state);
    await close(ledger);
    time.nowMs = LATER_MS;
    return ledger;
  };

  describe("forgets a payer", () => {
    const NOTHING = {
      payments: 0,
      buried: 0,
      submissions: 0,
      usedElsewhere: 0,
      unfinished: 0,
      named: [] as readonly unknown[],
    };
    const OTHER = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
    const ALL = { from: "2000-01-01", to: "2100-01-01" };
    const forget = ({ ledger }: Place, payer = PAYER, isTried = false) =>
      forgetAll((step) => ledger.upkeep.forget(step), { payer, isTried });
    const by = (number: number, from: string): ExamplePayment => {
      const { key: whole, request: asked } = examplePayment(number);
      const { payload } = asked.paymentPayload;
      if (!isEvmPayload(payload)) throw new TypeError("an EVM payment");
      const authorization = { ...payload.authorization, from };
      const paymentPayload = { ...asked.paymentPayload, payload: { ...payload, authorization } };
      const named = whole.replace(PAYER.toLowerCase(), from.toLowerCase()) as PaymentKey;
      return { key: named, request: { ...asked, paymentPayload } };
    };

    const summed = async (ledger: Ledger): Promise<readonly string[]> => {
      const entries = await ledger.books.accounts(ALL);
      return entries.map((each) => Object.values(each).join(" ")).toSorted();
    };

    it("whose payments are over: keys and sums stay, and nothing that names him", async () => {
      place().ledger.outbox.address([{ name: "shop", events: ["payment.sold"] }]);
      const ledger = await old("kept");
      expect(await ledger.outbox.list({}, 9)).toMatchObject([{ subject: key }]);
      await note(place(), 2);
      await note(place(), 3, { payer: OTHER });
      place().time.nowMs += 2 * DAY_MS;
      const sums = await summed(ledger);
      const going = { ...NOTHING, payments: 1, buried: 1, usedElsewhere: 1 };
      expect(await forget(place(), PAYER.toLowerCase(), true)).toEqual(going);
      expect(await ledger.books.show(key)).toBeDefined();
      expect(await forget(place())).toEqual({ ...going, submissions: 1 });
      expect(await ledger.books.show(key)).toBeUndefined();
      expect(await ledger.answer(key)).toBeUndefined();
      expect(await ledger.outbox.list({}, 9)).toEqual([]);
      expect(await ledger.recall(request.paymentPayload, SALE)).toMatchObject({ owed: [] });
      expect(await ledger.signing.hasSigned(signWith(0).transaction)).toBe(false);
      expect((await ledger.books.usedElsewhere(9)).map(({ payer }) => payer)).toEqual([OTHER]);
      expect(await summed(ledger)).toEqual(sums);
      expect(sums).not.toEqual([]);
      expect(sums.join()).not.toContain(PAYER);
      const again = { kind: "claim", terms: termsOf(payment) } as const;
      expect(await ledger.step(key, again)).toMatchObject({ kind: "spent", delivered: true });
      expect(await forget(place())).toMatchObject(NOTHING);
    });

    it.each([
      ...(["claimed", "offered", "begun", "begunoffered", "begunHanded", "signed"] as const),
      ...(["handed", "handedsigned", "settled", "delivering", "retried", "served"] as const),
      ...(["exhausted", "public"] as const),
    ])("not while anything of his is %s", async (state) => {
      const finished = examplePayment(2);
      await bring(place().ledger, finished, "claimfailed");
      const ledger = await old(state);
      const told = { ...NOTHING, unfinished: 1, named: [{ key, fromMs: null }] };
      for (const isTried of [true, false])
        expect(await forget(place(), PAYER, isTried)).toMatchObject(told);
      expect(await ledger.books.list({ limit: 9 })).toHaveLength(2);
    });

    it("not where a transaction of it may still be undone, nor within a day", async () => {
      const { ledger, time } = place();
      await bring(ledger, payment, "delivered");
      const fromMs = time.nowMs + DAY_MS;
      await note(place(), 5);
      time.nowMs = LATER_MS;
      expect(await forget(place())).toMatchObject({ named: [{ key, fromMs: null }] });
      expect(await ledger.books.usedElsewhere(9)).toHaveLength(1);
      await close(ledger);
      time.nowMs = fromMs - 1;
      expect(await forget(place())).toMatchObject({ unfinished: 1, named: [{ key, fromMs }] });
      time.nowMs = fromMs;
      expect(await forget(place())).toMatchObject({ payments: 1, unfinished: 0 });
    });

    it("not while the chain is to be asked for what was refused, nor while its authorization counts", async () => {
      const { ledger, time } = place();
      await bring(ledger, payment, "claimed");
      await ledger.step(key, { kind: "handedOver", facilitator: FACILITATOR, head: 7 });
      await ledger.step(key, { kind: "failed", failure: FAILURE });
      time.nowMs += 90 * DAY_MS;
      expect(await forget(place())).toMatchObject({ unfinished: 1, named: [{ fromMs: null }] });
      await ledger.step(key, { kind: "lookedAgain", nextMs: null });
      // Nobody has to see to that.
      const fromMs = time.nowMs + FAILED_FOR_MS + 1;
      time.nowMs += 2 * DAY_MS;
      expect(await forget(place())).toMatchObject({ unfinished: 1, named: [{ fromMs }] });
      time.nowMs = fromMs - 1;
      expect(await forget(place())).toMatchObject({ unfinished: 1, named: [{ fromMs }] });
      time.nowMs = fromMs;
      expect(await forget(place())).toMatchObject({ payments: 1, buried: 0 });
    });

    it("and nobody else, whose payment keeps the transaction that both were in", async () => {
      const { ledger, time } = place();
      const both = [payment, by(2, OTHER)] as const;
      for (const each of both) await bring(ledger, each, "claimed");
      const { id } = await sign(ledger, both);
      const settlement = { ...SETTLEMENT, transaction: id };
      for (const [index, each] of both.entries()) {
        const payer = index === 0 ? PAYER : OTHER;
        await ledger.step(each.key, { kind: "settled", settlement: { ...settlement, payer } });
        await ledger.step(each.key, { kind: "delivering" });
        await ledger.step(each.key, { kind: "delivered" });
      }
      const cost = { feeAtomic: "9", priorityAtomic: "0", moved: 2, priceAttodollars: null };
      await ledger.signing.concluded(id, "CLOSED", cost);
      time.nowMs = LATER_MS;
      const sums = await summed(ledger);
      expect(await forget(place())).toMatchObject({ payments: 1, submissions: 0 });
      expect((await ledger.books.list({ limit: 9 })).map((each) => each.payer)).toEqual([OTHER]);
      expect(await ledger.signing.hasSigned(id)).toBe(true);
      expect(await forget(place(), OTHER)).toMatchObject({ payments: 1, submissions: 1 });
      expect(await ledger.signing.hasSigned(id)).toBe(false);
      expect(await summed(ledger)).toEqual(sums);
    });

    const REFUND = { verb: "refund", note: "", by: "operator", isSent: true } as const;

    /** Sent in return for a payment, as its transfer of that number. */
    const sendBack = async (number: number, attempt: number): Promise<ExamplePayment> => {
      const { ledger } = place();
      const { key: whole, request: asked } = by(number, OTHER);
      const requirements = { ...asked.paymentRequirements, payTo: PAYER };
      const back = { key: whole, request: { ...asked, paymentRequirements: requirements } };
      const transfer = { ...back, idempotencyKey: "back", signedMs: 7 };
      const sending = { kind: "sending", attempt, transfer, maxAtomic: 90_000n } as const;
      await ledger.step(key, { kind: "refund", to: sending });
      const begun = { kind: "begin", caller: "back", route: "GET /a" } as const;
      await ledger.step(back.key, { ...begun, request: back.request });
      await ledger.step(back.key, { kind: "handedOver", facilitator: FACILITATOR });
      return back;
    };
    const refund = (ledger: Ledger, to: RefundStep) => ledger.step(key, { kind: "refund", to });

    it("with all that was sent back to him, in vain or not, once that is over", async () => {
      const ledger = await old("exhausted");
      const { time } = place();
      await ledger.step(key, { kind: "resolve", resolution: REFUND });
      time.nowMs += 2 * DAY_MS;
      expect(await forget(place())).toMatchObject({ unfinished: 1, named: [{ fromMs: null }] });
      const first = await sendBack(101, 1);
      await ledger.step(first.key, { kind: "failed", failure: FAILURE });
      const second = await sendBack(102, 2);
      expect(await forget(place(), PAYER, true)).toMatchObject({ payments: 0, unfinished: 3 });
      const settlement = { ...SETTLEMENT, payer: OTHER };
      await ledger.step(second.key, { kind: "settled", settlement });
      await refund(ledger, { kind: "refunded", attempt: 2, transaction: "0xback" });
      time.nowMs += 2 * DAY_MS;
      const sums = await summed(ledger);
      // Who sent them is somebody else.
      expect(await forget(place(), OTHER, true)).toMatchObject({ payments: 2 });
      expect(await forget(place())).toMatchObject({ payments: 3, unfinished: 0 });
      expect(await ledger.books.list({ limit: 9 })).toEqual([]);
      expect(await summed(ledger)).toEqual(sums);
    });

    it("in steps where there is much", { timeout: 60_000 }, async () => {
      const { ledger, time } = place();
      const count = LOOKED_AT_TOGETHER + 5;
      await bring(ledger, payment, "claimed");
      for (let number = 2; number <= count; number += 1) {
        await bring(ledger, examplePayment(number), "claimfailed");
      }
      time.nowMs = LATER_MS;
      // It is his oldest that is not over.
      const unfinished = { ...NOTHING, unfinished: 1, named: [{ key }] };
      expect(await forget(place(), PAYER, true)).toMatchObject(unfinished);
      await ledger.step(key, { kind: "failed", failure: FAILURE });
      time.nowMs += 2 * DAY_MS;
      const tried: number[] = [];
      const looked = (step: ForgetStep) => noting(tried, step);
      expect(await forgetAll(looked, { payer: PAYER, isTried: true })).toMatchObject({
        payments: count,
      });
      expect(tried).toEqual([LOOKED_AT_TOGETHER, 5, 0, 0]);
      const gone: number[] = [];
      const going = (step: ForgetStep) => noting(gone, step);
      expect(await forgetAll(going, { payer: PAYER, isTried: false })).toMatchObject({
        payments: count,
      });
      expect(Math.max(...gone)).toBe(FORGOTTEN_TOGETHER);
      expect(await ledger.books.list({ limit: 9 })).toEqual([]);
    });

    const noting = async (counts: number[], step: ForgetStep): Promise<ForgottenInStep> => {
      const told = await place().ledger.upkeep.forget(step);
      counts.push(told.payments);
      return told;
    };

    it("in whose name many messages stand, so many in one step", async () => {
      const { ledger } = place();
      ledger.outbox.address([{ name: "shop", events: ["wallet.low"] }]);
      const count = MESSAGES_TOGETHER + 3;
      const told = async (number: number, payer: string): Promise<void> => {
        const event = { type: "wallet.low", subject: `wallet ${number}`, data: { payer } } as const;
        await ledger.outbox.trouble(event.subject, true, event);
      };
      await told(0, OTHER);
      for (let number = 1; number <= count; number += 1) await told(number, PAYER);
      const left = async () => (await ledger.outbox.list({}, 9_999)).length;
      const steps: number[] = [];
      const counting = async (step: ForgetStep): Promise<ForgottenInStep> => {
        const before = await left();
        const forgotten = await ledger.upkeep.forget(step);
        steps.push(before - (await left()));
        return forgotten;
      };
      await forgetAll(counting, { payer: PAYER.toUpperCase(), isTried: false });
      expect(steps).toEqual([0, 0, MESSAGES_TOGETHER - 1, 4]);
      expect(await left()).toBe(1);
    });
  });
}
