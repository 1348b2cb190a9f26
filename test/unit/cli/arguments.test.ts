import { InvalidArgumentError } from "commander";
import { describe, expect, test } from "vitest";
import {
  readLimit,
  readNetworkName,
  readPayer,
  readSince,
  readStates,
  readTimeout,
} from "../../../src/cli/arguments.ts";

describe("the states", () => {
  test("are one or several, in any letter case, and add up", () => {
    expect(readStates("SIGNED")).toEqual(["SIGNED"]);
    expect(readStates("settled, Delivering", ["FAILED"])).toEqual([
      "FAILED",
      "SETTLED",
      "DELIVERING",
    ]);
  });

  test.each(["", "PAID", "SIGNED,", "SIGNED;FAILED"])("are not %j", (written) => {
    expect(() => readStates(written)).toThrow(InvalidArgumentError);
  });
});

describe("a time since", () => {
  test.each([
    ["90s", 90_000],
    ["30m", 1_800_000],
    ["24h", 86_400_000],
    ["7d", 604_800_000],
  ])("may be long ago: %s", (written, ago) => {
    const before = Date.now();
    const since = readSince(written);
    expect(since).toBeGreaterThanOrEqual(before - ago);
    expect(since).toBeLessThanOrEqual(Date.now() - ago);
  });

  test.each([
    ["2026-08-01", "2026-08-01T00:00:00.000Z"],
    ["2026-08-01T12:30Z", "2026-08-01T12:30:00.000Z"],
    ["2026-08-01T12:30:15.250+02:00", "2026-08-01T10:30:15.250Z"],
  ])("may be a moment: %s", (written, moment) => {
    expect(new Date(readSince(written)).toISOString()).toBe(moment);
  });

  test.each(["", "24", "h", "1w", "-1h", "1.5h", "yesterday", "2026-13-01", "2026-08-01T12:30"])(
    "is not %j",
    (written) => {
      expect(() => readSince(written)).toThrow(InvalidArgumentError);
    },
  );
});

test.each(["0", "-1", "1.5", "ten", "100001", "9999999"])("a limit is not %j", (written) => {
  expect(() => readLimit(written)).toThrow(InvalidArgumentError);
});

test("a limit is a number of payments", () => {
  expect([readLimit("1"), readLimit("100000")]).toEqual([1, 100_000]);
});

test("a timeout is a duration up to a day", () => {
  expect([readTimeout("0s"), readTimeout("5m"), readTimeout("24h")]).toEqual([
    0, 300_000, 86_400_000,
  ]);
  for (const written of ["60", "1d", "25h", "", "1ms"]) {
    expect(() => readTimeout(written)).toThrow(InvalidArgumentError);
  }
});

test("a network and a payer are of their forms", () => {
  expect(readNetworkName("base")).toBe("base");
  expect(() => readNetworkName("Base")).toThrow(InvalidArgumentError);
  expect(readPayer(`0x${"aB".repeat(20)}`)).toBe(`0x${"aB".repeat(20)}`);
  for (const written of ["", "0x", "me", `0x${"ab".repeat(20)}'--`]) {
    expect(() => readPayer(written)).toThrow(InvalidArgumentError);
  }
});
