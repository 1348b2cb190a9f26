/** What is paid back: asked for once, counted on its day, and signed again only by who knows what was signed before. */
import { describe, expect, it } from "vitest";
import {
  MAX_DELIVERY_ATTEMPTS,
  type Ledger,
  type RefundStep,
  type RefundTransfer,
} from "../../../src/ledger/ledger.ts";
import { UNWATCHED_MS } from "../../../src/ledger/refund-steps.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, PAYER, type ExamplePayment } from "./example-payment.ts";
import {
  ANSWER,
  ASKED,
  bring,
  CALLER,
  CLAIMANT,
  NETWORK,
  replayed,
  SALE,
  SETTLEMENT,
  sign,
  sweep,
  TARGET,
  termsOf,
  UNANSWERED,
  word,
} from "./ledger-driver.ts";

const BY = "operator alice@till";
const REFUND = { verb: "refund", note: "", by: BY, isSent: true } as const;
const BY_HAND = { verb: "refund", note: "in 0x77", by: BY } as const;
const DELIVER = { verb: "deliver", note: "", by: BY } as const;
const GOODS = { verb: "goods", note: "", by: BY } as const;
const DAY_MS = 86_400_000;
/** Nothing can undo a payment any more: its transaction is closed. */
async function finish(ledger: Ledger, key: PaymentKey): Promise<void> {
  const { submission } = (await ledger.books.show(key)) ?? {};
  if (submission) await ledger.signing.concluded(submission.id, "CLOSED");
}

/** Twice what an example payment is of. */
const MOST = 20_000n;
const ALL = { from: "2000-01-01", to: "2100-01-01" };

export function describeRefunds(open: OpenLedger): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key } = payment;

  const ask = async (ledger: Ledger, of = key) => {
    await finish(ledger, of);
    return ledger.step(of, { kind: "resolve", resolution: REFUND });
  };
  const step = (ledger: Ledger, to: RefundStep, of = key) =>
    ledger.step(of, { kind: "refund", to });
  const transferOf = (number: number): RefundTransfer => {
    const back = examplePayment(number);
    return { key: back.key, request: back.request, idempotencyKey: `back ${number}`, signedMs: 7 };
  };
  const send = (ledger: Ledger, attempt: number, of = key, number = 100 + attempt) => {
    const transfer = transferOf(number);
    return step(ledger, { kind: "sending", attempt, transfer, maxAtomic: MOST }, of);
  };

  async function asked(): Promise<Ledger> {
    const { ledger } = place();
    await bring(ledger, payment, "exhausted");
    expect(await ask(ledger)).toEqual({ kind: "done", state: "FAILED" });
    return ledger;
  }

  describe("pays back", () => {
    it("what was asked for, and nothing is delivered for it any more", async () => {
      const ledger = await asked();
      expect(await ledger.queues.refunds(NETWORK, 9)).toMatchObject([
        { key, state: "ASKED", attempt: 0, transfer: null, amountAtomic: 10_000n },
      ]);
      expect(await ledger.queues.refunds("base", 9)).toEqual([]);
      expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
        "failed",
      );
      expect(await ledger.step(key, { kind: "delivering" })).toBe(false);
      expect(await send(ledger, 1)).toBe("done");
      const refunded = { kind: "refunded", attempt: 1, transaction: "0xback" } as const;
      expect(await step(ledger, refunded)).toBe("done");
      expect(await ledger.queues.refunds(NETWORK, 9)).toEqual([]);
      expect(await ledger.books.show(key)).toMatchObject({
        state: "FAILED",
        heldTransaction: SETTLEMENT.transaction,
        refund: { state: "REFUNDED", transaction: "0xback", transfer: transferOf(101).key },
      });
      expect(await ledger.books.counts()).toMatchObject({ undelivered: 0, refunding: 0 });
    });

    it("once: whoever asks again, or signs again, changes nothing", async () => {
      const ledger = await asked();
      const busy = { kind: "refused", reason: "it is being refunded" };
      for (const resolution of [REFUND, DELIVER, GOODS]) {
        expect(await ledger.step(key, { kind: "resolve", resolution })).toEqual(busy);
      }
      expect(await send(ledger, 1)).toBe("done");
      expect(await ledger.step(key, { kind: "resolve", resolution: BY_HAND })).toEqual(busy);
      // Another process, which has seen it unsigned.
      expect(await send(ledger, 1, key, 200)).toBe("gone");
      expect(await step(ledger, { kind: "failed", attempt: 0, detail: "late" })).toBe("gone");
      expect(await step(ledger, { kind: "refunded", attempt: 2, transaction: "0x" })).toBe("gone");
      expect(await ask(ledger)).toEqual(busy);
      const [found] = await ledger.queues.refunds(NETWORK, 9);
      expect(found).toMatchObject({ state: "SENDING", attempt: 1, transfer: transferOf(101) });
      await step(ledger, { kind: "refunded", attempt: 1, transaction: "0xback" });
      const over = { kind: "refused", reason: "it is paid back already" };
      for (const resolution of [REFUND, BY_HAND, DELIVER, GOODS]) {
        expect(await ledger.step(key, { kind: "resolve", resolution })).toEqual(over);
      }
      expect(await send(ledger, 2)).toBe("gone");
    });

    it("with another transfer, where the one before it is over", async () => {
      const ledger = await asked();
      await send(ledger, 1);
      await step(ledger, { kind: "told", attempt: 1, detail: "it is refused", isRefusal: true });
      expect(await ledger.queues.refunds(NETWORK, 9)).toMatchObject([{ detail: "it is refused" }]);
      await step(ledger, { kind: "told", attempt: 1, detail: "kept back", isRefusal: false });
      expect(await ledger.queues.refunds(NETWORK, 9)).toMatchObject([
        { detail: "kept back", refusal: "it is refused" },
      ]);
      expect(await send(ledger, 2)).toBe("done");
      expect(await ledger.queues.refunds(NETWORK, 9)).toMatchObject([
        { attempt: 2, detail: null, refusal: null, transfer: transferOf(102) },
      ]);
    });

    it("by hand what nothing was signed for, and then by no key", async () => {
      const ledger = await asked();
      const done = await ledger.step(key, { kind: "resolve", resolution: BY_HAND });
      expect(done).toEqual({ kind: "done", state: "FAILED" });
      expect(await send(ledger, 1)).toBe("gone");
      expect(await ledger.queues.refunds(NETWORK, 9)).toEqual([]);
      expect(await ask(ledger)).toEqual({ kind: "refused", reason: "it is paid back already" });
      expect(await ledger.books.show(key)).toMatchObject({ refund: null });
      const entries = await ledger.books.accounts(ALL);
      expect(entries.map(({ kind }) => kind).toSorted()).toEqual(["refund", "sale"]);
    });

    it("again after it has failed, or says that the operator has", async () => {
      const ledger = await asked();
      await send(ledger, 1);
      await step(ledger, { kind: "failed", attempt: 1, detail: "blocked" });
      expect(await ledger.queues.refunds(NETWORK, 9)).toEqual([]);
      expect(await ledger.books.counts()).toMatchObject({ refunding: 0, unrefunded: 1 });
      const refused = { kind: "refused", reason: "it is to be refunded, which has failed" };
      expect(await ledger.step(key, { kind: "resolve", resolution: DELIVER })).toEqual(refused);
      expect(await ask(ledger)).toMatchObject({ kind: "done" });
      // The number of transfers goes on: none has the nonce of another.
      expect(await ledger.queues.refunds(NETWORK, 9)).toMatchObject([
        { state: "ASKED", attempt: 1 },
      ]);
      expect(await send(ledger, 1)).toBe("gone");
      await send(ledger, 2);
      await step(ledger, { kind: "failed", attempt: 2, detail: "blocked" });
      const done = await ledger.step(key, { kind: "resolve", resolution: BY_HAND });
      expect(done).toEqual({ kind: "done", state: "FAILED" });
      expect(await ledger.books.show(key)).toMatchObject({ refund: null });
      expect(await ledger.books.counts()).toMatchObject({ unrefunded: 0 });
    });

    it("nothing that has failed, which is listed by itself, delivered or not", async () => {
      const ledger = await asked();
      const sold = examplePayment(2);
      await bring(ledger, sold, "delivered");
      await ask(ledger, sold.key);
      await bring(ledger, examplePayment(3), "claimfailed");
      const listed = async () => {
        const found = await ledger.books.list({ unrefunded: true, limit: 9 });
        return found.map((each) => each.key).toSorted();
      };
      expect(await listed()).toEqual([]);
      for (const of of [key, sold.key]) {
        await step(ledger, { kind: "failed", attempt: 0, detail: "blocked" }, of);
      }
      expect(await listed()).toEqual([key, sold.key].toSorted());
      expect(await ledger.books.list({ unrefunded: true, undelivered: true, limit: 9 })).toEqual(
        [],
      );
      await ask(ledger, sold.key);
      expect(await listed()).toEqual([key]);
    });

    it("what was delivered, which stays delivered", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "delivered");
      expect(await ledger.step(key, { kind: "resolve", resolution: BY_HAND })).toMatchObject({
        kind: "refused",
      });
      expect(await ask(ledger)).toEqual({ kind: "done", state: "DELIVERED" });
      await send(ledger, 1);
      expect(await ask(ledger)).toEqual({ kind: "refused", reason: "it is being refunded" });
      await step(ledger, { kind: "refunded", attempt: 1, transaction: "0xback" });
      expect(await ledger.books.show(key)).toMatchObject({
        state: "DELIVERED",
        transaction: SETTLEMENT.transaction,
        refund: { state: "REFUNDED" },
      });
    });

    it("what was delivered, which is not given again from then on", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "delivering");
      const sold = { ...ASKED, response: ANSWER, isUncollected: true };
      const again = { target: TARGET, forMs: DAY_MS };
      await ledger.step(key, { kind: "delivered", sold, again });
      const claim = () => word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }));
      expect(await claim()).toBe("sold");
      expect(await ledger.signIns.bought(PAYER, SALE)).toHaveLength(1);
      expect(await ledger.signIns.purchases(PAYER, null)).toHaveLength(1);
      expect(await ask(ledger)).toEqual({ kind: "done", state: "DELIVERED" });
      expect(await claim()).toBe("spent");
      expect(await ledger.signIns.bought(PAYER, SALE)).toEqual([]);
      expect(await ledger.signIns.purchases(PAYER, null)).toEqual([]);
      expect(await replayed(ledger, key)).toBeUndefined();
      const asked = { target: TARGET, claimant: CLAIMANT, times: 9 };
      expect(await ledger.step(key, { kind: "repeat", asked })).toBe(false);
    });

    it.each(["claimed", "signed", "handed", "delivering", "failed", "begun"] as const)(
      "nothing of what is %s",
      async (state) => {
        const { ledger } = place();
        await bring(ledger, payment, state);
        expect(await ask(ledger)).toMatchObject({ kind: "refused" });
        expect(await ledger.queues.refunds(NETWORK, 9)).toEqual([]);
      },
    );

    it("nothing of what was settled for another seller", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "begun");
      await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
      expect(await ask(ledger)).toEqual({
        kind: "refused",
        reason: "another resource server sold it",
      });
    });

    it("what nobody here has watched a while after it was asked for", async () => {
      const { ledger, time } = place();
      await bring(ledger, payment, "handed");
      await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
      expect(await ask(ledger)).toMatchObject({ kind: "done" });
      time.nowMs += UNWATCHED_MS - 1;
      expect(await ledger.queues.refunds(NETWORK, 9)).toEqual([]);
      time.nowMs += 1;
      expect(await ledger.queues.refunds(NETWORK, 9)).toMatchObject([{ key, state: "ASKED" }]);
      expect(await ledger.queues.refunds(NETWORK, 9, "SENDING")).toEqual([]);
      expect(await send(ledger, 1)).toBe("done");
      expect(await ledger.queues.refunds(NETWORK, 9)).toMatchObject([{ key, state: "SENDING" }]);
      expect(await ledger.queues.refunds(NETWORK, 9, "SENDING")).toMatchObject([{ key }]);
      expect(await ledger.queues.refunds(NETWORK, 9, "ASKED")).toEqual([]);
    });

    it("what is held, by the transaction that has paid it", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "signed");
      await ledger.step(key, { kind: "held", transaction: "0xTheirs" });
      expect(await ask(ledger)).toMatchObject({ kind: "done" });
      expect(await ledger.books.show(key)).toMatchObject({ heldTransaction: "0xTheirs" });
    });

    it("no more on one day than may be, of what is sent or was", async () => {
      const { ledger, time } = place();
      time.nowMs -= time.nowMs % DAY_MS;
      const sales = [1, 2, 3, 4].map((number) => examplePayment(number));
      for (const sale of sales) {
        await bring(ledger, sale, "exhausted");
        await ask(ledger, sale.key);
      }
      const keys = sales.map((sale) => sale.key);
      const sent = await Promise.all(keys.map((each, index) => send(ledger, 1, each, 101 + index)));
      expect(sent.toSorted()).toEqual(["done", "done", "over", "over"]);
      const [done, late] = ["done", "over"].map((said) => keys[sent.indexOf(said as "done")]);
      await step(ledger, { kind: "refunded", attempt: 1, transaction: "0xback" }, done);
      expect(await send(ledger, 1, late, 110)).toBe("over");
      time.nowMs += DAY_MS - 1;
      expect(await send(ledger, 1, late, 111)).toBe("over");
      time.nowMs += 1;
      expect(await send(ledger, 1, late, 112)).toBe("done");
    });

    it("what has failed counts on no day", async () => {
      const { ledger } = place();
      for (const number of [1, 2, 3]) {
        const sale = examplePayment(number);
        await bring(ledger, sale, "exhausted");
        await ask(ledger, sale.key);
        expect(await send(ledger, 1, sale.key, 100 + number)).toBe("done");
        await step(ledger, { kind: "failed", attempt: 1, detail: "blocked" }, sale.key);
      }
    });
  });

  describe("after the last attempt to deliver", () => {
    const attempt = async (
      ledger: Ledger,
      isRefundedLast: boolean,
      broken: object = {},
      of = key,
    ) => {
      await ledger.step(of, { kind: "delivering" });
      const told = { ...UNANSWERED, isBackends: true, isRefundedLast, ...broken };
      await ledger.step(of, { kind: "undelivered", broken: told });
    };

    it("asks by itself, in the same step", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "settled");
      for (let times = 1; times < MAX_DELIVERY_ATTEMPTS; times += 1) await attempt(ledger, true);
      expect(await ledger.queues.refunds(NETWORK, 9)).toEqual([]);
      await attempt(ledger, true);
      // Nothing is sent before no reorganization can undo the sale.
      expect(await ledger.queues.refunds(NETWORK, 9)).toEqual([]);
      const { submission } = (await ledger.books.show(key)) ?? {};
      await ledger.signing.concluded(submission?.id ?? "", "INCLUDED");
      expect(await ledger.queues.refunds(NETWORK, 9)).toEqual([]);
      await ledger.signing.concluded(submission?.id ?? "", "CLOSED");
      expect(await ledger.queues.refunds(NETWORK, 9)).toMatchObject([
        { key, state: "ASKED", paidIn: SETTLEMENT.transaction },
      ]);
      expect(await ledger.books.show(key)).toMatchObject({
        state: "FAILED",
        heldTransaction: SETTLEMENT.transaction,
      });
    });

    it("pays back to one payer no more on one day than his share, and what is asked for besides", async () => {
      const { ledger, time } = place();
      time.nowMs -= time.nowMs % DAY_MS;
      const sales = [1, 2, 3].map((number) => examplePayment(number));
      for (const sale of sales) {
        await bring(ledger, sale, "settled");
        for (let times = 0; times < MAX_DELIVERY_ATTEMPTS; times += 1) {
          await attempt(ledger, true, {}, sale.key);
        }
      }
      const [first, second, third] = sales.map((sale) => sale.key);
      const sendOf = (of: PaymentKey | undefined, number: number, maxAtomic: bigint) =>
        step(ledger, { kind: "sending", attempt: 1, transfer: transferOf(number), maxAtomic }, of);
      // His first is paid back, however small the share.
      expect(await sendOf(first, 101, 20_000n)).toBe("done");
      expect(await sendOf(second, 102, 199_999n)).toBe("over share");
      expect(await sendOf(second, 102, 200_000n)).toBe("done");
      expect(await sendOf(third, 103, 200_000n)).toBe("over share");
      await step(ledger, { kind: "failed", attempt: 0, detail: "share" }, third);
      expect(await ask(ledger, third)).toMatchObject({ kind: "done" });
      expect(await sendOf(third, 103, 200_000n)).toBe("done");
    });

    it.each([
      ["nobody wants it to", false, {}],
      ["a part of the answer is out", true, { served: "/premium-data?day=1" }],
      ["nothing was sent", true, { sent: false }],
      ["its buyer was refused, or has left", true, { isBackends: false }],
    ] as const)("does not, where %s", async (_, isRefundedLast, broken) => {
      const { ledger } = place();
      await bring(ledger, payment, "settled");
      for (let times = 0; times < MAX_DELIVERY_ATTEMPTS; times += 1) {
        await attempt(ledger, isRefundedLast, broken);
      }
      expect(await ledger.queues.refunds(NETWORK, 9)).toEqual([]);
      expect(await ledger.books.show(key)).toMatchObject({ state: "SETTLED", refund: null });
    });
  });

  describe("what the backend answered", () => {
    it("may be taken for the goods", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "retried");
      const done = await ledger.step(key, { kind: "resolve", resolution: GOODS });
      expect(done).toEqual({ kind: "done", state: "DELIVERED" });
      expect(await ledger.books.counts()).toMatchObject({ undelivered: 0 });
    });

    it("may not, before it was asked", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "settled");
      expect(await ledger.step(key, { kind: "resolve", resolution: GOODS })).toEqual({
        kind: "refused",
        reason: "its backend was not asked for it",
      });
    });
  });

  it("tells its buyer where it stands", async () => {
    const { ledger } = place();
    expect(await ledger.step(key, { kind: "status" })).toBeUndefined();
    await bring(ledger, payment, "exhausted");
    const status = async () => ledger.step(key, { kind: "status" });
    expect(await status()).toMatchObject({
      state: "SETTLED",
      amount: "10000",
      transaction: SETTLEMENT.transaction,
      isPaidBack: false,
      refund: null,
    });
    await ask(ledger);
    await send(ledger, 1);
    expect(await status()).toMatchObject({ isPaidBack: false, refund: { state: "SENDING" } });
    await step(ledger, { kind: "refunded", attempt: 1, transaction: "0xback" });
    expect(await status()).toMatchObject({ refund: { state: "REFUNDED", transaction: "0xback" } });
  });

  it("stands in the books by itself, with its gas, before and after the sweep", async () => {
    const { ledger, time } = place();
    await bring(ledger, payment, "exhausted");
    await ask(ledger);
    const back: ExamplePayment = examplePayment(101);
    await send(ledger, 1);
    const { request } = back;
    const begun = { kind: "begin", request, caller: CALLER, route: "GET /a" } as const;
    expect(await ledger.step(back.key, begun)).toEqual({ kind: "granted" });
    const { id, payments } = await sign(ledger, [back]);
    expect(payments).toMatchObject([{ key: back.key, isTransferBack: true }]);
    const cost = { feeAtomic: "9", priorityAtomic: "0", moved: 1, priceAttodollars: null };
    await ledger.step(back.key, {
      kind: "settled",
      settlement: { ...SETTLEMENT, transaction: id },
    });
    await ledger.signing.concluded(id, "CLOSED", cost);
    const kinds = async (): Promise<readonly string[]> =>
      (await ledger.books.accounts(ALL))
        .map(({ kind, route, count, amount }) => `${kind} of ${route || "-"}: ${count}, ${amount}`)
        .toSorted();
    const moved = [
      "refund gas of GET /a: 0, 9",
      "refund transfer of GET /a: 1, 10000",
      "sale of GET /premium-data: 1, 10000",
    ];
    expect(await kinds()).toEqual(moved);
    time.nowMs += 400 * DAY_MS;
    // The sale stays as long as its refund is not known to be over.
    await sweep(ledger, time.nowMs);
    expect((await ledger.books.list({ limit: 9 })).map((each) => each.key)).toEqual([key]);
    expect(await ledger.outcome(back.key)).toMatchObject({ kind: "settled" });
    await step(ledger, { kind: "refunded", attempt: 1, transaction: id });
    time.nowMs += 400 * DAY_MS;
    await sweep(ledger, time.nowMs);
    expect(await ledger.books.list({ limit: 9 })).toEqual([]);
    expect(await kinds()).toEqual(moved);
  });
}
