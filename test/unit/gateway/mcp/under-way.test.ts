/** What calls are called by their clients and by their backends, and until when. */
import { expect, test } from "vitest";
import { UnderWay } from "../../../../src/gateway/mcp/under-way.ts";

const called = { session: "S1", id: 7 };

test("a call is found by what its client calls it, until it is answered", () => {
  const calls = new UnderWay();
  const end = calls.begin(called, "one");
  expect(calls.find(called)).toBe("one");
  expect(calls.find({ ...called, id: "7" })).toBeUndefined();
  expect(calls.find({ ...called, session: "S2" })).toBeUndefined();
  end();
  expect([calls.find(called), calls.size]).toEqual([undefined, 0]);
});

test("of two that are called the same the later one is meant", () => {
  const calls = new UnderWay();
  const first = calls.begin(called, "one");
  const second = calls.begin(called, "two");
  first();
  expect(calls.find(called)).toBe("two");
  second();
  expect(calls.size).toBe(0);
});

test("who has no session gives calls up by leaving", () => {
  const calls = new UnderWay();
  calls.begin({ session: "", id: 1 }, "one");
  expect(calls.size).toBe(0);
});
