/** What is sold and burnt in an hour, of which no more is counted than fits, and what is paused, for all who share it. */
import { expect, it } from "vitest";
import {
  gasBudget,
  HOUR_MS,
  payerBudget,
  SALES,
  type BudgetedSale,
  type Reserved,
} from "../../../src/ledger/budgets.ts";
import type { Ledger, Resolution } from "../../../src/ledger/ledger.ts";
import type { Pause } from "../../../src/ledger/pauses.ts";
import type { LedgerCapabilities, OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, PAYER, type ExamplePayment } from "./example-payment.ts";
import { bring, FAILURE, NETWORK, sign, termsOf, word } from "./ledger-driver.ts";
import type { StartState } from "./ledger-transitions.ts";

const MINE = payerBudget(PAYER);
const LIMITS: BudgetedSale = { payer: PAYER, worth: 10, perPayer: null, sales: null };
const REFUND = { verb: "refund", note: "", by: "operator", isSent: true } as const;
const BY_HAND = { verb: "refund", note: "", by: "operator" } as const;
const COST = { priorityAtomic: "0", moved: 1, priceAttodollars: null };

export function describeBudgets(open: OpenLedger, can: LedgerCapabilities): void {
  const place = eachTestIn(open);

  const claim = async (ledger: Pick<Ledger, "step">, payment: ExamplePayment): Promise<void> => {
    const terms = termsOf(payment, { idempotencyKey: `key of ${payment.key}` });
    expect(await word(ledger.step(payment.key, { kind: "claim", terms }))).toBe("granted");
  };

  const reserve = (
    ledger: Ledger,
    { key }: ExamplePayment,
    limits: Partial<BudgetedSale> = {},
  ): Promise<Reserved> => ledger.budgets.reserve(key, { ...LIMITS, ...limits });

  const counted = async (ledger: Ledger): Promise<readonly number[]> => {
    const amounts = await ledger.budgets.counted([SALES, MINE]);
    return [SALES, MINE].map((name) => amounts.get(name) ?? 0);
  };

  /** As many payments as a test needs, of two lives where there may be two. */
  const livesOf = async (): Promise<readonly Ledger[]> => {
    const { ledger } = place();
    return can.severalLives ? [ledger, await place().live("second")] : [ledger];
  };

  it.each([
    ["perPayer", "payer"],
    ["sales", "sales"],
  ] as const)("counts no more of twenty sales at once than fit: %s", async (limit, whose) => {
    const lives = await livesOf();
    const payments = Array.from({ length: 20 }, (_, number) => examplePayment(number));
    const judged = await Promise.all(
      payments.map(async (payment, number) => {
        const ledger = lives[number % lives.length] ?? place().ledger;
        await claim(ledger, payment);
        return reserve(ledger, payment, { [limit]: 35 });
      }),
    );
    expect(judged.filter(({ kind }) => kind === "reserved")).toHaveLength(3);
    const untilMs = (Math.floor(place().time.nowMs / HOUR_MS) + 1) * HOUR_MS;
    const refused = judged.find(({ kind }) => kind === "over");
    expect(refused).toEqual({ kind: "over", whose, untilMs });
    for (const ledger of lives) expect(await counted(ledger)).toEqual([30, 30]);
  });

  it("counts a payer by one name, and nobody else's sales against him", async () => {
    const { ledger } = place();
    const [one, other, third] = [examplePayment(1), examplePayment(2), examplePayment(3)];
    for (const payment of [one, other, third]) await claim(ledger, payment);
    await reserve(ledger, one, { perPayer: 10 });
    const upper = { payer: PAYER.toUpperCase(), perPayer: 10 };
    expect(await word(reserve(ledger, other, upper))).toBe("over");
    const stranger = { payer: `0x${"12".repeat(20)}`, perPayer: 10 };
    expect(await word(reserve(ledger, third, stranger))).toBe("reserved");
  });

  it("counts one payment once, and a payment without a row not at all", async () => {
    const { ledger } = place();
    const payment = examplePayment(1);
    expect(await word(reserve(ledger, payment))).toBe("conflict");
    await claim(ledger, payment);
    await reserve(ledger, payment);
    expect(await word(reserve(ledger, payment, { perPayer: 10 }))).toBe("reserved");
    expect(await counted(ledger)).toEqual([10, 10]);
  });

  it.each<[string, (ledger: Ledger, payment: ExamplePayment) => Promise<unknown>]>([
    ["is dropped", (ledger, { key }) => ledger.step(key, { kind: "released" })],
    ["fails", (ledger, { key }) => ledger.step(key, { kind: "failed", failure: FAILURE })],
  ])("gives back what a sale counts whose payment %s, once", async (_, end) => {
    const { ledger } = place();
    const [one, other] = [examplePayment(1), examplePayment(2)];
    for (const payment of [one, other]) {
      await claim(ledger, payment);
      await reserve(ledger, payment);
    }
    await end(ledger, one);
    expect(await counted(ledger)).toEqual([10, 10]);
    await end(ledger, one);
    expect(await counted(ledger)).toEqual([10, 10]);
  });

  it.each<[string, StartState, readonly Resolution[]]>([
    ["from our key", "exhausted", [REFUND]],
    ["by other means", "exhausted", [BY_HAND]],
    ["by other means in the end", "exhausted", [REFUND, BY_HAND]],
    ["by other means, though it was delivered", "delivered", [REFUND, BY_HAND]],
  ])("counts in its hour what is paid back %s: it was sold", async (_, state, resolutions) => {
    const { ledger } = place();
    const payment = examplePayment(1);
    await bring(ledger, payment, state);
    await reserve(ledger, payment);
    for (const resolution of resolutions) {
      const done = await ledger.step(payment.key, { kind: "resolve", resolution });
      expect(done).toMatchObject({ kind: "done" });
    }
    await ledger.books.counts();
    expect(await counted(ledger)).toEqual([10, 10]);
  });

  it("counts in its hour what was held and is paid back", async () => {
    const { ledger } = place();
    const payment = examplePayment(1);
    await bring(ledger, payment, "signed");
    await reserve(ledger, payment);
    await ledger.step(payment.key, { kind: "held", transaction: "0xTheirs" });
    await ledger.step(payment.key, { kind: "resolve", resolution: BY_HAND });
    await ledger.books.counts();
    expect(await counted(ledger)).toEqual([10, 10]);
  });

  it("gives back what a dead life has reserved, and keeps what was sold, after a restart", async () => {
    const { ledger } = place();
    const [lost, sold] = [examplePayment(1), examplePayment(2)];
    await claim(ledger, lost);
    await bring(ledger, sold, "settled");
    for (const payment of [lost, sold]) await reserve(ledger, payment);
    const next = await place().restart("second");
    await next.upkeep.reap();
    expect(await counted(next)).toEqual([10, 10]);
  });

  it("begins each hour at nothing, and gives nothing back into another one", async () => {
    const { ledger, time } = place();
    const [one, other] = [examplePayment(1), examplePayment(2)];
    for (const payment of [one, other]) await claim(ledger, payment);
    await reserve(ledger, one, { sales: 10 });
    expect(await word(reserve(ledger, other, { sales: 10 }))).toBe("over");
    time.nowMs += HOUR_MS;
    expect(await counted(ledger)).toEqual([0, 0]);
    expect(await word(reserve(ledger, other, { sales: 10 }))).toBe("reserved");
    await ledger.step(one.key, { kind: "released" });
    await ledger.upkeep.reap();
    expect(await counted(ledger)).toEqual([10, 10]);
  });

  it("keeps what an hour counts from whose clock is ahead", async () => {
    const { ledger, time } = place();
    const [one, other] = [examplePayment(1), examplePayment(2)];
    for (const payment of [one, other]) await claim(ledger, payment);
    await reserve(ledger, one);
    time.nowMs += 14 * HOUR_MS;
    await ledger.upkeep.reap();
    time.nowMs -= 14 * HOUR_MS;
    expect(await counted(ledger)).toEqual([10, 10]);
    expect(await word(reserve(ledger, other, { sales: 10 }))).toBe("over");
    await ledger.step(one.key, { kind: "released" });
    expect(await counted(ledger)).toEqual([0, 0]);
  });

  it("counts gas when it is known, by network, and less where another past of the chain has it", async () => {
    const { ledger } = place();
    const gas = async (): Promise<number> => {
      const name = gasBudget(NETWORK);
      return (await ledger.budgets.counted([name, gasBudget("base")])).get(name) ?? 0;
    };
    const payment = examplePayment(1);
    await bring(ledger, payment, "claimed");
    const { id } = await sign(ledger, [payment]);
    expect(await gas()).toBe(0);
    await ledger.signing.concluded(id, "INCLUDED", { feeAtomic: "70", ...COST });
    expect(await gas()).toBe(70);
    await ledger.signing.concluded(id, "OPEN");
    expect(await gas()).toBe(0);
    await ledger.signing.concluded(id, "INCLUDED", { feeAtomic: "90", ...COST });
    await ledger.signing.concluded(id, "CLOSED", { feeAtomic: "80", ...COST });
    expect(await gas()).toBe(80);
  });

  it("remembers what is paused until it ends, for all, and after a restart", async () => {
    const { ledger, time } = place();
    const all: Pause = { scope: "all", untilMs: null, reason: "", by: "me", sinceMs: 1 };
    const untilMs = time.nowMs + 1_000;
    const route: Pause = { ...all, scope: "route GET /a", untilMs, reason: "a leak", sinceMs: 2 };
    await ledger.pauses.pause(route);
    await ledger.pauses.pause(all);
    for (const each of await livesOf()) expect(await each.pauses.list()).toEqual([all, route]);
    await ledger.pauses.pause({ ...all, reason: "another" });
    const next = await place().restart("third");
    expect(await next.pauses.list()).toEqual([{ ...all, reason: "another" }, route]);
    expect(await next.pauses.resume("network base")).toBe(0);
    expect(await next.pauses.resume("all")).toBe(1);
    expect(await next.pauses.list()).toEqual([route]);
    time.nowMs = untilMs;
    expect(await next.pauses.list()).toEqual([]);
    expect(await next.pauses.resume()).toBe(0);
    await next.pauses.pause(all);
    expect(await next.pauses.resume()).toBe(1);
    expect(await next.pauses.list()).toEqual([]);
  });
}
