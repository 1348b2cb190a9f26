import { describe, expect, test } from "vitest";
import { sooner } from "../../../src/time/time.ts";

describe("the sooner of two signals", () => {
  test("aborts with whichever aborts first, and for its reason", () => {
    for (const first of [0, 1]) {
      const both = [new AbortController(), new AbortController()] as const;
      const signal = sooner(both[0].signal, both[1].signal);
      expect(signal.aborted).toBe(false);
      const reason = new Error(`number ${first}`);
      both[first]?.abort(reason);
      expect(signal.aborted).toBe(true);
      expect(signal.reason).toBe(reason);
    }
  });

  test("is aborted from the beginning where one of them is", () => {
    const { signal } = new AbortController();
    expect(sooner(signal, AbortSignal.abort()).aborted).toBe(true);
    expect(sooner(AbortSignal.abort(), signal).aborted).toBe(true);
  });

  test("is one signal for the same two, and another for any other two", () => {
    const [one, other, limit] = [0, 1, 2].map(() => new AbortController().signal);
    if (one === undefined || other === undefined || limit === undefined) throw new Error("three");
    const first = sooner(one, limit);
    const second = sooner(other, limit);
    expect(second).not.toBe(first);
    expect(sooner(one, limit)).toBe(first);
    expect(sooner(other, limit)).toBe(second);
    expect(sooner(one, other)).not.toBe(first);
  });
});
