import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  formatAmount,
  MAX_UINT256,
  parseAtomicAmount,
  parseDollars,
  parseUint256,
} from "../../../src/x402/amount.ts";

describe("a uint256 on the wire", () => {
  it.each([
    ["0", 0n],
    ["1", 1n],
    ["10000", 10_000n],
    ["9007199254740993", 9_007_199_254_740_993n],
    [MAX_UINT256.toString(), 2n ** 256n - 1n],
  ])("is read exactly: %s", (text, value) => {
    expect(parseUint256(text)).toBe(value);
    expect(parseAtomicAmount(text)).toBe(value);
  });

  it.each([
    ["nothing", ""],
    ["a sign", "-1"],
    ["a plus sign", "+1"],
    ["hex", "0x10"],
    ["an exponent", "1e3"],
    ["a fraction", "1.0"],
    ["a leading zero", "01"],
    ["two zeros", "00"],
    ["a space before", " 1"],
    ["a line end after", "1\n"],
    ["a separator", "1_000"],
    ["a comma", "1,000"],
    ["a suffix", "1n"],
    ["digits of another script", "١٢"],
    ["full-width digits", "１２"],
    ["a word", "Infinity"],
    ["2^256", (2n ** 256n).toString()],
    ["79 digits", "1".repeat(79)],
    ["a million digits", "9".repeat(1_000_000)],
  ])("is refused with %s", (_, text) => {
    expect(parseUint256(text)).toBeUndefined();
  });

  it("is every number from 0 to 2^256 - 1 in decimal digits, and nothing else", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: MAX_UINT256 }), (value) => {
        expect(parseUint256(value.toString())).toBe(value);
      }),
    );
    fc.assert(
      fc.property(fc.bigInt({ min: MAX_UINT256 + 1n, max: MAX_UINT256 ** 2n }), (value) => {
        expect(parseUint256(value.toString())).toBeUndefined();
      }),
    );
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const value = parseUint256(text);
        expect(value === undefined || value.toString() === text).toBe(true);
      }),
    );
  });
});

describe("a price in dollars", () => {
  it.each([
    ["$0.01", 6, 10_000n],
    ["$1", 6, 1_000_000n],
    ["$2.01", 6, 2_010_000n],
    ["$0.29", 2, 29n],
    ["$1.005", 3, 1005n],
    ["$0.000001", 6, 1n],
    ["$0.0100000000000000000000", 6, 10_000n],
    ["$7", 0, 7n],
    ["$7.000", 0, 7n],
    ["$0.1", 18, 100_000_000_000_000_000n],
    ["$9007199254740993.000001", 6, 9_007_199_254_740_993_000_001n],
  ])("of %s at %i decimals is exact", (text, decimals, amount) => {
    expect(parseDollars(text, decimals)).toEqual({ ok: true, value: amount });
  });

  it.each([
    ["$0.0000001", 6],
    ["$0.0000011", 6],
    ["$0.9999999", 6],
    ["$0.1", 0],
    ["$1.00000000000000000001", 18],
  ])("of %s at %i decimals is refused, not rounded", (text, decimals) => {
    expect(parseDollars(text, decimals)).toMatchObject({
      ok: false,
      error: { kind: "too-precise" },
    });
  });

  it("names the smallest unit where it is too precise", () => {
    const price = parseDollars("$0.0000001", 6);
    expect(price.ok ? "" : price.error.message).toBe(
      "$0.0000001 cannot be expressed by a token with 6 decimals; the smallest unit is $0.000001",
    );
  });

  it.each(["$0", "$0.0", "$0.00000000"])("of %s is refused: such a route is free", (text) => {
    expect(parseDollars(text, 6)).toMatchObject({ ok: false, error: { kind: "zero" } });
  });

  it.each(["0.01", "$", "$.5", "$1.", "$01", "$-1", "-$1", "$1e3", "$0x1", "$1,000", " $1", "$1 "])(
    "is refused where it is written %j",
    (text) => {
      expect(parseDollars(text, 6)).toMatchObject({ ok: false, error: { kind: "syntax" } });
    },
  );

  it("is refused beyond 2^256 - 1 atomic units", () => {
    const most = formatAmount(MAX_UINT256, 6);
    expect(parseDollars(`$${most}`, 6)).toEqual({ ok: true, value: MAX_UINT256 });
    const more = formatAmount(MAX_UINT256 + 1n, 6);
    expect(parseDollars(`$${more}`, 6)).toMatchObject({ error: { kind: "too-large" } });
    expect(parseDollars(`$${"9".repeat(100_000)}`, 6)).toMatchObject({
      error: { kind: "too-large" },
    });
  });

  it("is read as what is written, or refused: no accepted price differs by the smallest part", () => {
    const digits = fc.string({
      unit: fc.constantFrom("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"),
      minLength: 1,
      maxLength: 30,
    });
    const whole = digits.map((text) => text.replace(/^0+(?=.)/, ""));
    fc.assert(
      fc.property(whole, digits, fc.integer({ min: 0, max: 18 }), (left, right, decimals) => {
        const price = parseDollars(`$${left}.${right}`, decimals);
        const written = BigInt(left + right) * 10n ** BigInt(decimals);
        const unit = 10n ** BigInt(right.length);
        if (price.ok) {
          expect(price.value * unit).toBe(written);
        } else if (price.error.kind === "too-precise") {
          expect(written % unit).not.toBe(0n);
        } else {
          expect(price.error.kind).toBe("zero");
          expect(written).toBe(0n);
        }
      }),
      { numRuns: 2000 },
    );
  });

  it("goes to an amount and back over a million random values", () => {
    let state = 0x2545f491;
    const random = (): number => {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      return state >>> 0;
    };
    const failures: string[] = [];
    for (let run = 0; run < 1_000_000; run += 1) {
      const decimals = run % 4 === 0 ? random() % 19 : 6;
      // Sizes from one unit up to 2^63, so that small prices are as frequent as absurd ones.
      const wide = (BigInt(random()) << 32n) | BigInt(random());
      const amount = (wide >> BigInt(1 + (random() % 63))) + 1n;
      const text = formatAmount(amount, decimals);
      const price = parseDollars(`$${text}`, decimals);
      if (!price.ok || price.value !== amount) failures.push(`${amount} at ${decimals}: ${text}`);
    }
    expect(failures).toEqual([]);
  });
});

describe("an amount as text", () => {
  it.each([
    [10_000n, 6, "0.01"],
    [1_000_000n, 6, "1"],
    [1n, 6, "0.000001"],
    [0n, 6, "0"],
    [120n, 0, "120"],
    [2_010_000n, 6, "2.01"],
  ])("of %s at %i decimals is %s", (amount, decimals, text) => {
    expect(formatAmount(amount, decimals)).toBe(text);
  });
});
