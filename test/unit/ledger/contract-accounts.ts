/** What a ledger has moved, by day, before and after what is over is swept away. */
import { expect, it } from "vitest";
import { NATIVE, type Days, type Entry } from "../../../src/ledger/accounts.ts";
import type { Evidence } from "../../../src/ledger/books.ts";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, type ExamplePayment } from "./example-payment.ts";
import { ACCOUNT, BINDING, NETWORK, sign, SETTLEMENT, sweep, termsOf } from "./ledger-driver.ts";

const DAY_MS = 86_400_000;
const ALL = { from: "2000-01-01", to: "2100-01-01" };
/** A dollar for a whole unit of the currency, so that wei and attodollars are the same number. */
const PRICE = String(10n ** 18n);

/** As short as a test can say it: kind, route, count, amount, and attodollars where there are any. */
function told(entries: readonly Entry[]): readonly string[] {
  return entries
    .map(({ day, kind, route, count, amount, attodollars }) =>
      [day, kind, route || "-", count, amount, attodollars ?? ""].join(" ").trim(),
    )
    .toSorted();
}

async function evidenceOf(ledger: Ledger, days: Days = ALL): Promise<readonly Evidence[]> {
  const all: Evidence[] = [];
  for await (const page of ledger.books.evidence(days)) all.push(...page);
  return all;
}

export function describeAccounts(open: OpenLedger): void {
  const place = eachTestIn(open);

  const claim = (ledger: Ledger, payment: ExamplePayment, route?: string): Promise<unknown> => {
    const terms = termsOf(payment, route === undefined ? {} : { route });
    return ledger.step(payment.key, { kind: "claim", terms });
  };

  /** Signed together and paid by that transaction, with the rest of what a gateway does for a sale. */
  const sell = async (ledger: Ledger, payments: readonly ExamplePayment[]): Promise<string> => {
    const { id } = await sign(ledger, payments);
    for (const { key } of payments) {
      const settlement = { ...SETTLEMENT, transaction: id };
      await ledger.step(key, { kind: "settled", settlement });
      await ledger.step(key, { kind: "delivering" });
      await ledger.step(key, { kind: "delivered" });
    }
    return id;
  };

  it("tells sales by route, and of each what its share of the gas was, to the last unit", async () => {
    const { ledger, time } = place();
    const payments = [1, 2, 3].map((number) => examplePayment(number));
    const [first, second, third] = payments;
    if (!first || !second || !third) throw new Error("three payments");
    await claim(ledger, first, "GET /a");
    await claim(ledger, second, "GET /b");
    await claim(ledger, third);
    const id = await sell(ledger, payments);
    const cost = { feeAtomic: "100", priorityAtomic: "7", moved: 3, priceAttodollars: PRICE };
    await ledger.signing.concluded(id, "INCLUDED", cost);
    const day = new Date(time.nowMs).toISOString().slice(0, 10);
    const entries = await ledger.books.accounts(ALL);
    expect(told(entries)).toEqual([
      `${day} gas GET /a 0 33 33`,
      `${day} gas GET /b 0 33 33`,
      `${day} gas ${BINDING} 0 34 34`,
      `${day} sale GET /a 1 10000`,
      `${day} sale GET /b 1 10000`,
      `${day} sale ${BINDING} 1 10000`,
    ]);
    const gas = entries.find(({ kind }) => kind === "gas");
    expect(gas).toMatchObject({ network: NETWORK, asset: NATIVE, account: ACCOUNT });
    expect(await ledger.books.accounts({ from: ALL.from, to: "2000-01-02" })).toEqual([]);

    // It is the same sum after everything that is over has gone, and after a restart.
    await ledger.signing.concluded(id, "CLOSED", cost);
    time.nowMs += 400 * DAY_MS;
    expect(await sweep(ledger, time.nowMs)).toBe(3);
    expect(await ledger.books.list({ limit: 9 })).toEqual([]);
    expect(told(await ledger.books.accounts(ALL))).toEqual(told(entries));
    const next = await place().restart("second");
    expect(told(await next.books.accounts(ALL))).toEqual(told(entries));
  });

  it("tells what was paid and what it cost one by one, as far as it is not swept", async () => {
    const { ledger, time } = place();
    const [early, late] = [examplePayment(1), examplePayment(2)];
    await claim(ledger, early, "GET /a");
    await claim(ledger, late, "GET /a");
    const { id } = await sign(ledger, [early, late]);
    const settlement = { ...SETTLEMENT, transaction: id };
    for (const { key } of [early, late]) await ledger.step(key, { kind: "settled", settlement });
    await ledger.step(early.key, { kind: "delivering" });
    await ledger.step(early.key, { kind: "delivered" });
    const cost = { feeAtomic: "101", priorityAtomic: "0", moved: 2, priceAttodollars: null };
    await ledger.signing.concluded(id, "CLOSED", cost);
    const paid = ({ key, request }: ExamplePayment) => {
      const { asset, payTo, maxAmountRequired: amount } = request.paymentRequirements;
      const transaction = { transaction: id, request: expect.objectContaining({}) };
      return { kind: "payment", key, network: NETWORK, asset, amount, payTo, ...transaction };
    };
    const gas = { kind: "gas", network: NETWORK, transactions: [id] };
    const whole = { ...gas, feeAtomic: "101", isPart: false };
    expect(await evidenceOf(ledger)).toEqual([paid(early), paid(late), whole]);
    const [, first] = await evidenceOf(ledger);
    if (first?.kind !== "payment") throw new Error("a payment");
    expect(first.request?.paymentPayload).toEqual(late.request.paymentPayload);
    expect(await evidenceOf(ledger, { from: ALL.from, to: "2000-01-02" })).toEqual([]);

    // What is owed is not swept.
    time.nowMs += 400 * DAY_MS;
    expect(await sweep(ledger, time.nowMs)).toBe(1);
    expect(await evidenceOf(ledger)).toEqual([
      paid(late),
      { ...gas, feeAtomic: "51", isPart: true },
    ]);
  });

  it("adds what is swept later to what was swept before", async () => {
    const { ledger, time } = place();
    const { nowMs } = time;
    for (const number of [1, 2]) {
      const payment = examplePayment(number);
      time.nowMs = nowMs;
      await claim(ledger, payment, "GET /a");
      const id = await sell(ledger, [payment]);
      const cost = {
        feeAtomic: "5",
        priorityAtomic: "0",
        moved: 1,
        priceAttodollars: number === 1 ? PRICE : null,
      };
      await ledger.signing.concluded(id, "CLOSED", cost);
      time.nowMs += 400 * DAY_MS;
      await sweep(ledger, time.nowMs);
    }
    const day = new Date(nowMs).toISOString().slice(0, 10);
    // What nobody knew the worth of makes the worth of the sum unknown.
    expect(told(await ledger.books.accounts(ALL))).toEqual([
      `${day} gas GET /a 0 10`,
      `${day} sale GET /a 2 20000`,
    ]);
  });

  it("tells gas that moved nothing, and what a reorganization has taken back, of no route and not at all", async () => {
    const { ledger, time } = place();
    const [lost, undone] = [examplePayment(1), examplePayment(2)];
    const day = new Date(time.nowMs).toISOString().slice(0, 10);
    const cost = { feeAtomic: "9", priorityAtomic: "0", moved: 0, priceAttodollars: null };
    await claim(ledger, lost);
    await ledger.signing.concluded((await sign(ledger, [lost])).id, "CLOSED", cost);
    await claim(ledger, undone);
    const { id } = await sign(ledger, [undone]);
    await ledger.signing.concluded(id, "INCLUDED", cost);
    await ledger.signing.concluded(id, "OPEN");
    expect(told(await ledger.books.accounts(ALL))).toEqual([`${day} gas - 0 9`]);

    // The payment of the first one has failed, and goes with it.
    const failure = { code: "invalid_transaction_state", detail: "it was reverted" } as const;
    await ledger.step(lost.key, { kind: "failed", failure });
    time.nowMs += 4000 * DAY_MS;
    expect(await sweep(ledger, time.nowMs)).toBe(1);
    expect(told(await ledger.books.accounts(ALL))).toEqual([`${day} gas - 0 9`]);
  });

  it("tells what is held, what was paid back, and what was settled for others", async () => {
    const { ledger, time } = place();
    const [held, returned, foreign] = [examplePayment(1), examplePayment(2), examplePayment(3)];
    const day = new Date(time.nowMs).toISOString().slice(0, 10);
    for (const payment of [held, returned]) {
      await claim(ledger, payment, "GET /a");
      await sign(ledger, [payment]);
      await ledger.step(payment.key, { kind: "held", transaction: "0xbb" });
    }
    await ledger.step(foreign.key, { kind: "begin", request: foreign.request, caller: "b" });
    await sign(ledger, [foreign]);
    await ledger.step(foreign.key, { kind: "settled", settlement: SETTLEMENT });
    time.nowMs += DAY_MS;
    const nextDay = new Date(time.nowMs).toISOString().slice(0, 10);
    const resolution = { verb: "refund", note: "", by: "me" } as const;
    await ledger.step(returned.key, { kind: "resolve", resolution });
    const noted = { verb: "note", note: "sent by hand", by: "me" } as const;
    time.nowMs += DAY_MS;
    await ledger.step(returned.key, { kind: "resolve", resolution: noted });
    expect(told(await ledger.books.accounts(ALL))).toEqual([
      `${day} held GET /a 1 10000`,
      `${day} others - 1 10000`,
      `${day} sale GET /a 1 10000`,
      `${nextDay} refund GET /a 1 10000`,
    ]);
  });
}
