import { describe, expect, it } from "vitest";
import { readPrice, unitsOf } from "../../../src/pricing/exact-price.ts";

/** Atomic units of a token with six decimals, or why it is no price. */
function units(result: unknown, decimals = 6): bigint | string {
  const price = readPrice(result);
  return price.ok ? unitsOf(price.value, decimals) : price.error;
}

describe("a whole number", () => {
  it("is so many millionths of a dollar, exactly", () => {
    expect(units(1n)).toBe(1n);
    expect(units(9_223_372_036_854_775_807n)).toBe(9_223_372_036_854_775_807n);
    expect(units(10_000n, 18)).toBe(10_000_000_000_000_000n);
    expect(units(10_001n, 2)).toBe(2n);
    expect(units(-5n)).toBe(-5n);
  });
});

describe("a binary number", () => {
  it("is dollars by the digits that it holds, rounded up to the token's", () => {
    // In binary this is 0.30000000000000004, and would be a unit more.
    expect(units(0.1 + 0.2)).toBe(300_000n);
    expect(units(0.29 * 100)).toBe(29_000_000n);
    expect(units(1.1 * 1.1)).toBe(1_210_000n);
    expect(units(0.000_000_1)).toBe(1n);
    expect(units(0.010_000_01)).toBe(10_001n);
    expect(units(0.01, 18)).toBe(10_000_000_000_000_000n);
    expect(units(123_456.789_012)).toBe(123_456_789_012n);
    expect(units(0)).toBe(0n);
    expect(units(-0)).toBe(0n);
    expect(units(-0.000_001_5)).toBe(-1n);
    expect(units(5e-324)).toBe(1n);
  });

  it("is none where it is no amount of money", () => {
    expect(units(NaN)).toBe("it comes to no number");
    for (const large of [Infinity, -Infinity, 1e300, 1_000_000_001]) {
      expect(units(large)).toBe("it comes to more than is sold");
    }
  });

  it("never loses a unit that its decimal has", () => {
    for (let cents = 0; cents < 20_000; cents += 1) {
      const dollars = Number(`${Math.floor(cents / 1e4)}.${String(cents % 1e4).padStart(4, "0")}`);
      expect(units(dollars)).toBe(BigInt(cents) * 100n);
    }
  });
});

describe("text", () => {
  it("is a price as it is written anywhere", () => {
    expect(units("$0.0123")).toBe(12_300n);
    expect(units("$0.0000001")).toBe(1n);
    for (const text of ["0.01", "$-1", "$1e3", "free", "", "$", "$0"]) {
      expect(units(text)).toBe("it comes to text that is no price such as $0.01");
    }
  });
});

describe("anything else", () => {
  it("is no price", () => {
    for (const other of [true, null, undefined, [], new Map()]) {
      expect(units(other)).toBe("it comes to no number");
    }
  });
});
