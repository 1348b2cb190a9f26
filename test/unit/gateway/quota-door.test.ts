/** Strangers who have something for nothing: so many, of one neighbourhood a share, and for the others the price begins. */
import { describe, expect, test } from "vitest";
import {
  MAX_OF_NEIGHBOURS,
  MAX_STRANGERS,
  QuotaDoor,
  type Stranger,
} from "../../../src/gateway/quota-door.ts";

const DAY_MS = 86_400_000;

function stranger(number: number, changes: Partial<Stranger> = {}): Stranger {
  const who = `10.${number >> 16}.${(number >> 8) & 255}.${number & 255}`;
  const neighbourhood = who.split(".").slice(0, 3).join(".");
  const told = { route: "GET /a", by: "address", windowMs: DAY_MS, untilMs: DAY_MS } as const;
  return { who, neighbourhood, ...told, ...changes };
}

function admitted(door: QuotaDoor, many: number, changes: Partial<Stranger> = {}): number {
  let count = 0;
  for (let number = 0; number < many; number += 1) {
    if (door.admits(stranger(number, changes), 0) === "in") count += 1;
  }
  return count;
}

describe("who is let in", () => {
  test("are so many in one window, and those again; for others the price begins", () => {
    const door = new QuotaDoor();
    expect(admitted(door, MAX_STRANGERS + 500)).toBe(MAX_STRANGERS);
    expect(door.size).toBe(MAX_STRANGERS);
    expect(door.admits(stranger(7), 0)).toBe("in");
    expect(door.admits(stranger(MAX_STRANGERS + 1), 0)).toBe("full");
    expect(door.admits(stranger(MAX_STRANGERS + 1, { route: "GET /b" }), 0)).toBe("in");
    expect(door.admits(stranger(MAX_STRANGERS + 1, { untilMs: 2 * DAY_MS }), DAY_MS)).toBe("in");
    expect(door.size).toBe(1);
  });

  test("are fewer in a window of less than a minute", () => {
    const short = { windowMs: 1_000, untilMs: 1_000 };
    expect(admitted(new QuotaDoor(), MAX_STRANGERS, short)).toBe(Math.ceil(MAX_STRANGERS / 60));
  });

  test("are those of what the file says now: a day that has become minutes keeps nobody out", () => {
    const door = new QuotaDoor();
    expect(admitted(door, 1_000)).toBe(1_000);
    const minute = { windowMs: 1_000, untilMs: 1_000 };
    expect(door.admits(stranger(2_000, minute), 0)).toBe("in");
    expect(door.size).toBe(1);
    expect(door.admits(stranger(2_000, { ...minute, by: "payer" }), 0)).toBe("in");
    expect(door.size).toBe(1);
  });

  test.each(["address", "payer"] as const)("are a share of one neighbourhood, by %s", (by) => {
    const door = new QuotaDoor();
    const near = { by, neighbourhood: "192.0.2.0/24" };
    expect(admitted(door, 1_000, near)).toBe(MAX_OF_NEIGHBOURS[by]);
    expect(door.admits(stranger(2_000, { by }), 0)).toBe("in");
  });

  test("who has nothing left is not looked up for a second", () => {
    const door = new QuotaDoor();
    expect(door.admits(stranger(1), 0)).toBe("in");
    door.emptied(stranger(1), 10_000);
    expect(door.admits(stranger(1), 10_999)).toBe("empty");
    expect(door.admits(stranger(1), 11_000)).toBe("in");
    expect(door.admits(stranger(2), 10_500)).toBe("in");
  });
});
