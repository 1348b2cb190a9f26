/** Payments that are made to fail in their block, at our cost: on the real runtime, through the facilitator. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { GriefingStage, WAYS } from "../../support/griefing-stage.ts";

const TIMEOUT_MS = 30_000;
const HOUR_MS = 3_600_000;
/** Of three payments of new payers, and more of others. */
const HOURLY = 60_010n;
const BASE = 10_001n;

let stage: GriefingStage;
beforeEach(async () => {
  stage = await GriefingStage.open({ lighthouseLossPerHour: HOURLY });
});
afterEach(() => stage[Symbol.asyncDispose]());

describe("an assertion that is to fail in its block", { timeout: TIMEOUT_MS }, () => {
  test.each(WAYS)("by %s, with a high bid of a new payer, costs nothing", async (way) => {
    const payer = await stage.payer();
    const settled = await stage.attack(way, payer);
    expect(settled).toMatchObject({ success: false, transaction: "" });
    expect(stage.node.sent).toEqual([]);
    expect(stage.spent).toBe(0n);
  });

  test.each(["the clock", "the fee payer's balance"] as const)(
    "by %s costs nothing, whatever it bids, and whoever has paid",
    async (way) => {
      const payer = await stage.payer();
      expect(await stage.buy(payer, "phantom")).toMatchObject({ success: true });
      const before = stage.spent;
      for (const bid of ["high", "low"] as const) {
        expect(await stage.attack(way, payer, bid)).toMatchObject({ success: false });
      }
      expect(stage.spent).toBe(before);
    },
  );

  test("by what nobody foresees costs what is allowed within an hour, and no more", async () => {
    const way = "the payer's own lamports";
    for (let lost = 1n; lost <= 3n; lost += 1n) {
      const payer = await stage.payer();
      expect(await stage.attack(way, payer, "low")).toMatchObject({ success: false });
      expect(stage.spent).toBe(lost * BASE);
    }
    for (let more = 0; more < 5; more += 1) {
      expect(await stage.attack(way, await stage.payer(), "low")).toMatchObject({
        success: false,
        errorReason: "invalid_transaction_state",
      });
    }
    expect(stage.spent).toBe(3n * BASE);
    // A new buyer with Phantom has to wait; without assertions nobody has, nor who has paid before.
    const buyer = await stage.payer();
    expect(await stage.buy(buyer, "phantom")).toMatchObject({ success: false });
    expect(await stage.buy(buyer, "svm")).toMatchObject({ success: true });
    await stage.fund(buyer);
    expect(await stage.buy(buyer, "phantom")).toMatchObject({ success: true });
    stage.advance(HOUR_MS);
    expect(await stage.buy(await stage.payer(), "phantom")).toMatchObject({ success: true });
  });
});

test("a payer who has paid once may bid as others do, until a payment fails", async () => {
  await stage[Symbol.asyncDispose]();
  stage = await GriefingStage.open({ lighthouseLossPerHour: 1_000_000n });
  const way = "the payer's own lamports";
  const payer = await stage.payer();
  expect(await stage.attack(way, payer)).toMatchObject({ success: false });
  expect(stage.spent).toBe(0n);
  expect(await stage.buy(payer, "phantom")).toMatchObject({ success: true });
  await stage.fund(payer);
  const before = stage.spent;
  expect(await stage.attack(way, payer)).toMatchObject({ success: false });
  expect(stage.spent - before).toBe(99_999n);
  expect(await stage.attack(way, payer)).toMatchObject({ success: false });
  expect(stage.spent - before).toBe(99_999n);
});

describe("payers who move their tokens before the block", { timeout: TIMEOUT_MS }, () => {
  const MOST = 500_000n;

  test.each(["high", "low"] as const)("with a %s bid burn so much, and no more", async (bid) => {
    const payers = await Promise.all(Array.from({ length: 20 }, () => stage.payer()));
    const mover = await stage.mover(payers);
    for (let round = 0; round < 3; round += 1) {
      for (const { success } of await stage.moveFirst(payers, { mover, each: 1, bid })) {
        expect(success).toBe(false);
      }
    }
    // Usual bids that were in the air together, beyond it.
    expect(stage.spent).toBeLessThan(bid === "high" ? MOST : MOST + 20n * BASE);
    const others = await Promise.all(Array.from({ length: 20 }, () => stage.payer()));
    const way = { mover: await stage.mover(others), each: 1, bid };
    await stage.moveFirst(others, way);
    const before = stage.spent;
    await stage.moveFirst(others, way);
    expect(stage.spent - before).toBeLessThanOrEqual(4n * BASE);
  });

  test("and with many prices in one account no more than that either", async () => {
    const payer = await stage.payer();
    await stage.fund(payer, 39n);
    const mover = await stage.mover([payer]);
    await stage.moveFirst([payer], { mover, each: 40, bid: "high" });
    expect(stage.spent).toBeGreaterThan(0n);
    expect(stage.spent).toBeLessThan(MOST);
    expect(await stage.buy(await stage.payer(), "svm")).toMatchObject({ success: true });
  });
});
