/** What others are told: written with the step that it tells of, taken by one at a time, in order for each payment. */
import { describe, expect, it } from "vitest";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import {
  KEPT_FOR_MS,
  REPLAYED_AT_ONCE,
  TAKEN_FOR_MS,
  TIDIED_AT_ONCE,
  type Given,
  type OutboxMessage,
} from "../../../src/ledger/outbox.ts";
import { EVENT_TYPES } from "../../../src/x402/event-type.ts";
import type { LedgerCapabilities, OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, type ExamplePayment } from "./example-payment.ts";
import { bring, NETWORK, SETTLEMENT, termsOf, UNANSWERED, UNSENT } from "./ledger-driver.ts";

const SHOP = { name: "shop", events: EVENT_TYPES };
const BOOKS = { name: "books", events: ["payment.refunded", "network.closed"] as const };
const BY = "operator alice@till";
const CLOSED = {
  type: "network.closed",
  subject: `network ${NETWORK}`,
  data: { network: NETWORK, reason: "rpc" },
} as const;

export function describeOutbox(open: OpenLedger, can: LedgerCapabilities): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key } = payment;

  const addressed = (): Ledger => {
    const { ledger } = place();
    ledger.outbox.address([SHOP, BOOKS]);
    return ledger;
  };

  const told = async (ledger: Ledger, recipient = "shop"): Promise<readonly OutboxMessage[]> => {
    // What was done a moment ago may not be stored yet; the books see to that.
    await ledger.books.counts();
    const messages = await ledger.outbox.list({ recipient }, 1_000);
    return messages.toSorted((one, other) => one.place - other.place);
  };

  const typesTold = async (ledger: Ledger, recipient?: string): Promise<readonly string[]> =>
    (await told(ledger, recipient)).map(({ type }) => type);

  const failOnce = async (ledger: Ledger, broken: typeof UNANSWERED | typeof UNSENT) => {
    await ledger.step(key, { kind: "delivering" });
    await ledger.step(key, { kind: "undelivered", broken });
  };

  const payBack = async (ledger: Ledger): Promise<void> => {
    const resolution = { verb: "refund", note: "in 0x77", by: BY } as const;
    expect(await ledger.step(key, { kind: "resolve", resolution })).toMatchObject({ kind: "done" });
  };

  /** What is due is given, or not, at once. */
  const give = async (
    ledger: Ledger,
    ending: Partial<Given> = {},
    recipient = "shop",
  ): Promise<readonly string[]> => {
    await ledger.books.counts();
    const taker = crypto.randomUUID();
    const taken = await ledger.outbox.take(recipient, taker, 100);
    const given = taken.map((each) => ({
      place: each.place,
      state: "DELIVERED" as const,
      dueMs: each.dueMs,
      error: null,
      ...ending,
    }));
    await ledger.outbox.given(taker, given);
    return taken.map(({ type }) => type);
  };

  const soldAndPaidBack = async (): Promise<Ledger> => {
    const ledger = addressed();
    await bring(ledger, payment, "settled");
    await failOnce(ledger, UNANSWERED);
    await payBack(ledger);
    return ledger;
  };

  describe("tells", () => {
    it("what becomes of a payment, each thing once, and of whom and how much", async () => {
      const ledger = await soldAndPaidBack();
      const messages = await told(ledger);
      expect(messages.map(({ type }) => type)).toEqual([
        "payment.sold",
        "payment.undelivered",
        "payment.refunded",
      ]);
      const [sold, undelivered, refunded] = messages.map(({ data }) => JSON.parse(data));
      expect(sold).toEqual({
        payment: key,
        network: NETWORK,
        payer: SETTLEMENT.payer,
        payTo: payment.request.paymentRequirements.payTo,
        asset: payment.request.paymentRequirements.asset,
        amountAtomic: "10000",
        route: null,
        transaction: SETTLEMENT.transaction,
      });
      expect(undelivered).toEqual({ ...sold, attempts: 1, isRefunding: false });
      expect(refunded).toEqual({ ...sold, refundTransaction: null });
      expect(messages[0]).toMatchObject({
        id: expect.stringMatching(/^msg_[\w-]{36}$/),
        subject: key,
        atMs: place().time.nowMs,
        state: "WAITING",
        attempts: 0,
        error: null,
      });
    });

    it("only who wants to hear of it, by one id", async () => {
      const ledger = await soldAndPaidBack();
      expect(await typesTold(ledger, "books")).toEqual(["payment.refunded"]);
      const [book] = await told(ledger, "books");
      expect((await told(ledger)).find(({ type }) => type === "payment.refunded")?.id).toBe(
        book?.id,
      );
      ledger.outbox.address([]);
      await bring(ledger, examplePayment(2), "settled");
      expect(await told(ledger)).toHaveLength(3);
    });

    it("nothing of claims, of attempts that do not count, of deliveries, and of what others sold", async () => {
      const ledger = addressed();
      const [failed, delivered, others] = [10, 11, 12].map(examplePayment);
      if (!failed || !delivered || !others) throw new Error("there are three");
      await bring(ledger, failed, "claimfailed");
      await bring(ledger, delivered, "delivered");
      await bring(ledger, others, "begun");
      await ledger.step(others.key, { kind: "settled", settlement: SETTLEMENT });
      await bring(ledger, payment, "settled");
      await failOnce(ledger, UNSENT);
      const sold = (await told(ledger)).map(({ type, subject }) => [type, subject]);
      expect(sold).toEqual([
        ["payment.sold", delivered.key],
        ["payment.sold", key],
      ]);
    });

    it("of a payment in a foreign transaction, and that it is sold once the operator has said so", async () => {
      const ledger = addressed();
      await bring(ledger, payment, "signed");
      await ledger.step(key, { kind: "held", transaction: "0xff" });
      await ledger.step(key, { kind: "held", transaction: "0xff" });
      const resolution = { verb: "deliver", note: "", by: BY } as const;
      await ledger.step(key, { kind: "resolve", resolution });
      expect(await typesTold(ledger)).toEqual(["payment.held", "payment.sold"]);
      expect(JSON.parse((await told(ledger))[0]?.data ?? "")).toMatchObject({
        transaction: "0xff",
      });
    });

    it("of a refund that is ours when it is there, and not when it is asked for", async () => {
      const ledger = addressed();
      await bring(ledger, payment, "settled");
      for (let attempt = 1; attempt <= 3; attempt += 1) {
        await ledger.step(key, { kind: "delivering" });
        const broken = { ...UNANSWERED, isRefundedLast: true, isBackends: true };
        await ledger.step(key, { kind: "undelivered", broken });
      }
      const last = (await told(ledger)).at(-1);
      expect(JSON.parse(last?.data ?? "")).toMatchObject({ attempts: 3, isRefunding: true });
      const { key: back, request } = examplePayment(100);
      const transfer = { key: back, request, idempotencyKey: "back", signedMs: 7 };
      const sending = { kind: "sending", attempt: 1, transfer, maxAtomic: 20_000n } as const;
      await ledger.step(key, { kind: "refund", to: sending });
      expect(await typesTold(ledger)).not.toContain("payment.refunded");
      const refunded = { kind: "refunded", attempt: 1, transaction: "0xback" } as const;
      await ledger.step(key, { kind: "refund", to: refunded });
      await ledger.step(key, { kind: "refund", to: refunded });
      expect(await typesTold(ledger)).toEqual([
        "payment.sold",
        ...Array.from({ length: 3 }, () => "payment.undelivered"),
        "payment.refunded",
      ]);
      expect(JSON.parse((await told(ledger)).at(-1)?.data ?? "")).toMatchObject({
        refundTransaction: "0xback",
        transaction: SETTLEMENT.transaction,
      });
    });

    it("what a worker does", async () => {
      const worker = addressed().worker("worker");
      await worker.step(key, { kind: "claim", terms: termsOf(payment) });
      await worker.step(key, { kind: "handedOver", facilitator: "https://f.example" });
      await worker.step(key, { kind: "settled", settlement: SETTLEMENT });
      expect(await typesTold(place().ledger)).toEqual(["payment.sold"]);
    });

    it("what a life before this one has stored, and nothing that was not", async () => {
      const ledger = await soldAndPaidBack();
      const before = await told(ledger);
      const next = await place().restart("second");
      expect(await told(next)).toEqual(before);
    });

    it("a trouble once until it is over, whoever tells it", async () => {
      const { outbox } = addressed();
      const { subject } = CLOSED;
      expect(await outbox.trouble(subject, false)).toBe(false);
      expect(await outbox.trouble(subject, true, CLOSED)).toBe(true);
      const other = can.severalLives
        ? await place().live("second")
        : await place().restart("second");
      other.outbox.address([SHOP]);
      expect(await other.outbox.trouble(subject, true, CLOSED)).toBe(false);
      const opened = { ...CLOSED, type: "network.opened" } as const;
      expect(await other.outbox.trouble(subject, false, opened)).toBe(true);
      expect(await other.outbox.trouble(subject, false, opened)).toBe(false);
      expect(await other.outbox.trouble(subject, true, CLOSED)).toBe(true);
      expect(await typesTold(other)).toEqual([
        "network.closed",
        "network.opened",
        "network.closed",
      ]);
    });
  });

  describe("gives", () => {
    it("of each payment one after the other, and what fails holds up no other", async () => {
      const ledger = await soldAndPaidBack();
      const { time } = place();
      await bring(ledger, examplePayment(2), "settled");
      const again = { state: "WAITING", dueMs: time.nowMs + 5_000, error: "status 500" } as const;
      expect(await give(ledger, again)).toEqual(["payment.sold", "payment.sold"]);
      expect(await give(ledger)).toEqual([]);
      expect((await told(ledger))[0]).toMatchObject({ attempts: 1, error: "status 500" });
      time.nowMs += 5_000;
      expect(await give(ledger)).toEqual(["payment.sold", "payment.sold"]);
      expect(await give(ledger, { state: "FAILED", error: "for days" })).toEqual([
        "payment.undelivered",
      ]);
      // What was given up holds nothing up.
      expect(await give(ledger)).toEqual(["payment.refunded"]);
      expect(await give(ledger)).toEqual([]);
      expect(await give(ledger, {}, "books")).toEqual(["payment.refunded"]);
      expect(await ledger.outbox.counts()).toEqual([
        { recipient: "shop", waiting: 0, failed: 1, oldestMs: null },
      ]);
    });

    it("what is taken to nobody else, until its time is over", async () => {
      const ledger = await soldAndPaidBack();
      await ledger.books.counts();
      const [taken] = await ledger.outbox.take("shop", "first taker", 100);
      expect(await ledger.outbox.take("shop", "second taker", 100)).toEqual([]);
      const waiting = { recipient: "shop", waiting: 3, failed: 0, oldestMs: place().time.nowMs };
      expect(await ledger.outbox.counts()).toContainEqual(waiting);
      place().time.nowMs += TAKEN_FOR_MS;
      const [again] = await ledger.outbox.take("shop", "second taker", 100);
      expect(again).toMatchObject({ id: taken?.id, attempts: 2 });
      const late = { place: taken?.place ?? 0, dueMs: 0, error: "late" };
      await ledger.outbox.given("first taker", [{ ...late, state: "FAILED" }]);
      expect((await told(ledger))[0]).toMatchObject({ state: "WAITING" });
      await ledger.outbox.given("second taker", [{ ...late, state: "DELIVERED", error: null }]);
      expect((await told(ledger))[0]).toMatchObject({ state: "DELIVERED" });
    });

    it("to several takers at once no message twice, and of no payment two", async () => {
      const ledger = addressed();
      const payments = Array.from({ length: 12 }, (_, number) => examplePayment(number));
      for (const each of payments) await sellAndFail(ledger, each);
      await ledger.books.counts();
      const lives = can.severalLives ? [ledger, await place().live("second")] : [ledger];
      const taken = await Promise.all(
        Array.from({ length: 8 }, async (_, number) => {
          const outbox = (lives[number % lives.length] ?? ledger).outbox;
          return outbox.take("shop", `taker ${number}`, 5);
        }),
      );
      const subjects = taken.flat().map(({ subject }) => subject);
      expect(new Set(subjects).size).toBe(subjects.length);
      expect(subjects.length).toBeGreaterThan(0);
      expect(taken.flat().every(({ type }) => type === "payment.sold")).toBe(true);
    });
  });

  describe("keeps", () => {
    it("what was given, to be given again when it is asked for", async () => {
      const ledger = await soldAndPaidBack();
      while ((await give(ledger)).length > 0);
      expect(await ledger.outbox.replay({ type: "no such thing" })).toBe(0);
      expect(await ledger.outbox.replay({ recipient: "shop", states: ["FAILED"] })).toBe(0);
      const { nowMs } = place().time;
      expect(await ledger.outbox.replay({ sinceMs: nowMs + 1 })).toBe(0);
      const [sold] = await told(ledger);
      expect(await ledger.outbox.replay({ id: sold?.id ?? "" })).toBe(1);
      place().time.nowMs += 7;
      expect(await ledger.outbox.replay({ recipient: "shop", sinceMs: nowMs })).toBe(3);
      expect((await told(ledger))[0]).toMatchObject({
        attempts: 0,
        sinceMs: nowMs + 7,
        atMs: nowMs,
      });
      expect(await give(ledger)).toEqual(["payment.sold"]);
      expect(await give(ledger)).toEqual(["payment.undelivered"]);
    });

    it("nothing for too long, and tells how many waited", async () => {
      const ledger = await soldAndPaidBack();
      await give(ledger);
      place().time.nowMs += KEPT_FOR_MS;
      expect(await ledger.outbox.tidy()).toEqual({ dropped: 0, isMore: false });
      expect(await told(ledger)).toHaveLength(3);
      place().time.nowMs += 1;
      // Two for the shop, one for the books.
      expect(await ledger.outbox.tidy()).toEqual({ dropped: 3, isMore: false });
      expect(await told(ledger)).toEqual([]);
    });

    it("nothing for too long, however much it is, in steps", async () => {
      const { outbox } = place().ledger;
      const many = Array.from({ length: TIDIED_AT_ONCE + 1 }, (_, number) => number);
      outbox.address(many.map((number) => ({ ...SHOP, name: `shop ${number}` })));
      await outbox.trouble(CLOSED.subject, true, CLOSED);
      place().time.nowMs += KEPT_FOR_MS + 1;
      expect(await outbox.tidy()).toEqual({ dropped: TIDIED_AT_ONCE, isMore: true });
      expect(await outbox.tidy()).toEqual({ dropped: 1, isMore: false });
    });

    it("nothing back for ever that a clock which was wrong has put off", async () => {
      const ledger = addressed();
      const { time } = place();
      const rightMs = time.nowMs;
      time.nowMs += 365 * 86_400_000;
      await ledger.outbox.trouble(CLOSED.subject, true, CLOSED);
      time.nowMs = rightMs;
      expect(await give(ledger)).toEqual([]);
      await ledger.outbox.tidy();
      expect(await give(ledger, { state: "WAITING", dueMs: time.nowMs + 21_600_000 })).toEqual([
        "network.closed",
      ]);
      await ledger.outbox.tidy();
      expect(await give(ledger)).toEqual([]);
    });

    it("what is replayed in its order, however much it is", async () => {
      const { outbox } = place().ledger;
      const many = Array.from({ length: REPLAYED_AT_ONCE + 1 }, (_, number) => number);
      outbox.address(many.map((number) => ({ ...SHOP, name: `shop ${number}` })));
      await outbox.trouble(CLOSED.subject, true, CLOSED);
      place().time.nowMs += 7;
      expect(await outbox.replay({ states: ["FAILED"] })).toBe(0);
      expect(await outbox.replay({ type: CLOSED.type })).toBe(many.length);
      const messages = await outbox.list({}, 2 * many.length);
      expect(new Set(messages.map(({ sinceMs }) => sinceMs))).toEqual(
        new Set([place().time.nowMs]),
      );
    });
  });

  async function sellAndFail(ledger: Ledger, each: ExamplePayment): Promise<void> {
    await bring(ledger, each, "settled");
    await ledger.step(each.key, { kind: "delivering" });
    await ledger.step(each.key, { kind: "undelivered", broken: UNANSWERED });
  }
}
