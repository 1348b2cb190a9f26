import { describe, expect, test } from "vitest";
import { Ejection } from "../../../../../src/gateway/upstream/backend/ejection.ts";

function staged(): { readonly of: Ejection; readonly time: { ms: number } } {
  const time = { ms: 7 };
  return { of: new Ejection(() => time.ms), time };
}

function fault(of: Ejection, times: number): boolean {
  let isEnough = false;
  for (let count = 0; count < times; count += 1) isEnough = of.faulted();
  return isEnough;
}

/** Milliseconds until it may come back. */
function pauseOf({ of, time }: ReturnType<typeof staged>): number {
  const since = time.ms;
  while (!of.mayReturn(0)) time.ms += 100;
  return time.ms - since;
}

describe("a target that answers badly", () => {
  test("is left alone after five bad answers in a row, and not after four", () => {
    const { of } = staged();
    expect(fault(of, 4)).toBe(false);
    of.answered();
    expect(fault(of, 4)).toBe(false);
    expect(fault(of, 1)).toBe(true);
    expect(of.isOut).toBe(false);
    of.eject();
    expect(of.isOut).toBe(true);
  });

  test("is asked again after 5 s, once in each second, and is back with its first good answer", () => {
    const { of, time } = staged();
    fault(of, 5);
    of.eject();
    time.ms += 4_999;
    expect(of.mayReturn(0)).toBe(false);
    // What was under way before says nothing.
    expect(of.answered()).toBe(false);
    expect(of.isOut).toBe(true);
    time.ms += 1;
    expect([of.mayReturn(0), of.mayReturn(0)]).toEqual([true, false]);
    time.ms += 1_000;
    expect(of.mayReturn(0)).toBe(true);
    expect(of.answered()).toBe(true);
    expect(of.isOut).toBe(false);
  });

  test("is left alone twice as long each time, up to a minute", () => {
    const stage = staged();
    fault(stage.of, 5);
    stage.of.eject();
    const pauses: number[] = [];
    for (let round = 0; round < 6; round += 1) {
      pauses.push(pauseOf(stage));
      stage.of.faulted();
    }
    expect(pauses).toEqual([5_000, 10_000, 20_000, 40_000, 60_000, 60_000]);
  });

  test("counts the faults that come together as one", () => {
    const stage = staged();
    fault(stage.of, 5);
    stage.of.eject();
    fault(stage.of, 100);
    expect(pauseOf(stage)).toBe(5_000);
  });

  test("keeps its long pause when it soon fails again, and is forgiven after two good minutes", () => {
    const stage = staged();
    const { of, time } = stage;
    const eject = (): void => {
      if (fault(of, 5)) of.eject();
    };
    eject();
    pauseOf(stage);
    of.answered();
    time.ms += 100_000;
    eject();
    expect(pauseOf(stage)).toBe(10_000);
    of.answered();
    time.ms += 120_001;
    eject();
    expect(pauseOf(stage)).toBe(5_000);
  });

  test("is asked later by those who should not be the ones to find out", () => {
    const { of, time } = staged();
    fault(of, 5);
    of.eject();
    time.ms += 9_999;
    expect(of.mayReturn(5_000)).toBe(false);
    time.ms += 1;
    expect(of.mayReturn(5_000)).toBe(true);
  });
});
