/** What use costs, and how a meter is written. */
import { describe, expect, it } from "vitest";
import {
  costOf,
  readEach,
  readMeterSource,
  sourceText,
  unitText,
} from "../../../src/metering/meter.ts";
import { readNumber } from "../../../src/metering/usage.ts";
import { dice } from "./random-answers.ts";

function cost(usage: string, each: string, decimals = 6): bigint {
  const [used, price] = [readNumber(usage), readEach(each)];
  if (used === undefined || price === undefined) throw new Error("no number");
  return costOf(used, price, decimals);
}

describe("what use costs", () => {
  it.each([
    ["0", "$0.000002", 0n],
    ["1", "$0.000002", 2n],
    ["1234", "$0.000002", 2_468n],
    ["1", "$0.00000015", 1n],
    ["20", "$0.00000015", 3n],
    ["21", "$0.00000015", 4n],
    ["1.5", "$0.01", 15_000n],
    ["0.0000001", "$0.01", 1n],
    ["1e3", "$0.000001", 1_000n],
    ["15e-1", "$2", 3_000_000n],
    ["9007199254740993", "$0.000001", 9_007_199_254_740_993n],
  ])("%s at %s is %d units", (usage, each, units) => expect(cost(usage, each)).toBe(units));

  it("is never less than it is, and never a unit more", () => {
    const roll = dice(3);
    for (let round = 0; round < 2_000; round += 1) {
      const [used, micro] = [roll(1_000_000), roll(1_000_000) + 1];
      const exact = BigInt(used) * BigInt(micro);
      const each = `$0.${String(micro).padStart(9, "0")}`;
      const units = cost(String(used), each);
      expect(units * 1_000n >= exact && (units - 1n) * 1_000n < exact).toBe(true);
    }
  });
});

describe("a number", () => {
  it.each([
    "",
    " 1",
    "1 ",
    "-1",
    "+1",
    "01",
    "1.",
    ".5",
    "1e",
    "1e41",
    "1e9999",
    "0x10",
    "NaN",
    "1_0",
    "１",
  ])("is not %j", (text) => expect(readNumber(text)).toBeUndefined());

  it("is as long as anybody counts, and no longer", () => {
    expect(readNumber("1".repeat(40))?.units).toBe(BigInt("1".repeat(40)));
    expect(readNumber("1".repeat(41))).toBeUndefined();
    expect(readNumber("2e-40")).toEqual({ units: 2n, decimals: 40, text: "2e-40" });
  });
});

describe("how a meter is written", () => {
  it.each([
    ['json("usage.total_tokens")', 'json("usage.total_tokens")'],
    ["sse('usage.total_tokens')", 'sse("usage.total_tokens")'],
    [" json( usage.total_tokens ) ", 'json("usage.total_tokens")'],
    ['header("X-Usage")', 'header("x-usage")'],
    ['json("größe.$0")', 'json("größe.$0")'],
  ])("%s is %s", (text, expected) => {
    const read = readMeterSource(text);
    expect(read.ok && sourceText(read.value)).toBe(expected);
  });

  it.each([
    [
      "usage.total_tokens",
      'must be json("path"), sse("path") or header("Name")',
      'write json("…") around it',
    ],
    ["", 'must be json("path"), sse("path") or header("Name")', undefined],
    ['json "usage"', 'must be json("path"), sse("path") or header("Name")', undefined],
    [
      'JSON("usage")',
      "reads JSON(…), which there is not: json, sse or header",
      "write json in small letters",
    ],
    ['xml("usage")', "reads xml(…), which there is not: json, sse or header", undefined],
    ['header("X Usage")', "names no header", 'write header("X-Usage")'],
    [
      "json()",
      "names no path of members",
      'write the names of its members with dots between them: json("usage.total_tokens")',
    ],
    [
      'json("a..b")',
      "names no path of members",
      'write the names of its members with dots between them: json("usage.total_tokens")',
    ],
    [
      'json("$.usage[0]")',
      "names no path of members",
      'write the names of its members with dots between them: json("usage.total_tokens")',
    ],
    [
      `sse("${"a.".repeat(16)}a")`,
      "names no path of members",
      'write the names of its members with dots between them: sse("usage.total_tokens")',
    ],
  ])("%s is not", (text, message, hint) => {
    const read = readMeterSource(text);
    expect(read).toEqual({ ok: false, error: { message, ...(hint !== undefined && { hint }) } });
  });

  it("is told to people by what it counts", () => {
    const of = ["json(a.b)", "sse(a.b)", "header(X-C)"].flatMap((text) => {
      const read = readMeterSource(text);
      return read.ok ? [read.value] : [];
    });
    expect(unitText({ of })).toBe("a.b or x-c");
  });
});
