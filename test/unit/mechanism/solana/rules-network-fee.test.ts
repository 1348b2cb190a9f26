/** The most that a payment on Solana may cost us, V18 and V19, to the lamport. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { COMPUTE_BUDGET_PROGRAM } from "../../../../src/mechanism/solana/programs.ts";
import {
  call,
  heapFrame,
  layOut,
  loadedAccountsLimit,
  unitLimit,
  unitPrice,
} from "../../../support/solana-messages.ts";
import { judgePlan, PAYMENT, planOf, verdict } from "./judging.ts";

const CAP = 100_000n;

describe("ComputeBudget instructions (V18)", () => {
  test("each of the three may come once, in any order", () => {
    const [limit, price, loaded] = [unitLimit(1), unitPrice(1), loadedAccountsLimit(1)];
    expect(verdict(planOf({ budget: [] }))).toBe("accepted");
    expect(verdict(planOf({ budget: [loaded, price, limit] }))).toBe("accepted");
    for (const [opcode, twice] of [limit, price, loaded].entries()) {
      expect(verdict(planOf({ budget: [limit, price, loaded], last: [twice] }))).toBe(
        `instructions[5] repeats ComputeBudget instruction ${opcode + 2}; 1 is allowed`,
      );
    }
  });

  test.each([
    [2, 5],
    [3, 9],
    [4, 5],
  ])("instruction %i has exactly %i bytes", (opcode, bytes) => {
    const withLength = (length: number) =>
      verdict(
        planOf({
          budget: [call(COMPUTE_BUDGET_PROGRAM, [opcode, ...new Uint8Array(length - 1)])],
        }),
      );
    expect(withLength(bytes)).toBe("accepted");
    for (const length of [1, bytes - 1, bytes + 1]) {
      expect(withLength(length)).toBe(
        `instructions[0], ComputeBudget instruction ${opcode}, has ${length} bytes of data; it must have ${bytes}`,
      );
    }
  });

  test("a heap is never asked for", () => {
    expect(verdict(planOf({ budget: [heapFrame(32_768)] }))).toMatch(/ComputeBudget instruction 1/);
    const plan = layOut("svm", PAYMENT, { version: 1 });
    expect(verdict(plan)).toBe("accepted");
    expect(verdict({ ...plan, config: { ...plan.config, heapSize: 32_768 } })).toBe(
      "the transaction asks for a heap of 32768 bytes; none may be asked for",
    );
  });

  test("version 1 has no use for them", () => {
    const plan = layOut("svm", PAYMENT, { version: 1 });
    const instructions = [...plan.instructions, unitPrice(0)];
    expect(verdict({ ...plan, instructions })).toMatch(
      /^instructions\[2\] calls ComputeBudget, which does nothing in a transaction of version 1/,
    );
  });
});

/** By whole lamports and a rest, not by the formula under test. */
function ceilOfMillionth(product: bigint): bigint {
  return product / 1_000_000n + (product % 1_000_000n === 0n ? 0n : 1n);
}

describe("the cap of the network fee (V19)", () => {
  test("is met to the lamport, and a part of a lamport counts as one", () => {
    const met = planOf({ budget: [unitLimit(200_000), unitPrice(450_000)] });
    expect(judgePlan(met)).toMatchObject({ value: { networkFeeLamports: CAP } });
    const exceeded = planOf({ budget: [unitLimit(200_000), unitPrice(450_001)] });
    expect(verdict(exceeded)).toBe(
      "the network fee of up to 100001 lamports (10000 for signatures, up to 90001 for priority) exceeds the cap of 100000",
    );
  });

  test("takes a transaction without limit for one with the largest", () => {
    const met = planOf({ budget: [unitPrice(64_285)] });
    expect(judgePlan(met)).toMatchObject({ value: { networkFeeLamports: 99_999n } });
    const exceeded = planOf({ budget: [unitPrice(64_286)] });
    expect(verdict(exceeded)).toMatch(/100001 lamports .* exceeds the cap of 100000/);
  });

  test("is one of the sum: a high price with a low limit is fine", () => {
    expect(verdict(planOf({ budget: [unitLimit(9), unitPrice(10_000_000_000)] }))).toBe("accepted");
    expect(verdict(planOf({ budget: [unitLimit(10), unitPrice(10_000_000_000)] }))).toMatch(/cap/);
  });

  test("counts signatures alone", () => {
    const free = planOf({ budget: [] });
    expect(judgePlan(free, { options: { maxFeeLamports: 10_000n } })).toMatchObject({
      value: { networkFeeLamports: 10_000n },
    });
    expect(verdict(free, { options: { maxFeeLamports: 9_999n } })).toMatch(/cap of 9999/);
  });

  test("in version 1 counts the priority fee that is stated, whatever the limit", () => {
    const plan = layOut("svm", PAYMENT, { version: 1 });
    const stating = (priorityFeeLamports: bigint) => ({
      ...plan,
      config: { computeUnitLimit: 1_400_000, priorityFeeLamports },
    });
    expect(judgePlan(stating(90_000n))).toMatchObject({ value: { networkFeeLamports: CAP } });
    expect(verdict(stating(90_001n))).toMatch(/up to 100001 lamports/);
    expect(verdict(stating(2n ** 64n - 1n))).toMatch(/up to 18446744073709561615 lamports/);
    expect(judgePlan({ ...plan, config: {} })).toMatchObject({
      value: { networkFeeLamports: 10_000n },
    });
  });

  test("holds for any limit and price", () => {
    const price = fc.oneof(fc.bigInt(0n, 2n ** 64n - 1n), fc.bigInt(0n, 1_000_000n));
    const limit = fc.option(fc.oneof(fc.integer({ min: 0, max: 0xffffffff }), fc.nat(400_000)));
    fc.assert(
      fc.property(limit, price, (units, micro) => {
        const budget = [...(units === null ? [] : [unitLimit(units)]), unitPrice(micro)];
        const fee = 10_000n + ceilOfMillionth(BigInt(units ?? 1_400_000) * micro);
        const judged = judgePlan(planOf({ budget }));
        expect(judged.ok).toBe(fee <= CAP);
        if (judged.ok) expect(judged.value.networkFeeLamports).toBe(fee);
      }),
    );
  });
});
