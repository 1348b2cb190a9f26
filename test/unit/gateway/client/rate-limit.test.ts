import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  MAX_ADDRESSES,
  UnpaidLimit,
  type UnpaidKind,
} from "../../../../src/gateway/client/rate-limit.ts";

/** A limit with a clock of its own. */
class Counter {
  nowMs = 1_000_000;
  readonly limit: UnpaidLimit;

  constructor(requests: number, perMs: number) {
    const rate = { requests, perMs };
    const rates = { asked: rate, refused: rate, unproven: rate };
    this.limit = new UnpaidLimit(rates, () => this.nowMs);
  }

  /** Asks so often and returns how often that was answered. */
  ask(times: number, address = "192.0.2.1", kind: UnpaidKind = "asked"): number {
    let answered = 0;
    for (let index = 0; index < times; index += 1) {
      if (this.limit.waitSeconds(address, kind) > 0) continue;
      this.limit.count(address, kind);
      answered += 1;
    }
    return answered;
  }
}

describe("unpaid requests of one address", () => {
  test("are answered as often at once as the limit says, and then as often again", () => {
    const counter = new Counter(50, 1_000);
    expect(counter.ask(100)).toBe(50);
    counter.nowMs += 100;
    expect(counter.ask(100)).toBe(5);
    counter.nowMs += 10_000;
    expect(counter.ask(100)).toBe(50);
  });

  test.each([1, 3, 7, 50, 600, 999_983])("are never less than %d at once", (requests) => {
    const counter = new Counter(requests, 60_000);
    const times = Math.min(requests, 10_000);
    expect(counter.ask(times)).toBe(times);
  });

  test("are told how long to wait", () => {
    const counter = new Counter(6, 60_000);
    counter.ask(6);
    expect(counter.limit.waitSeconds("192.0.2.1", "asked")).toBe(10);
    counter.nowMs += 9_001;
    expect(counter.limit.waitSeconds("192.0.2.1", "asked")).toBe(1);
    counter.nowMs += 1_000;
    expect(counter.ask(2)).toBe(1);
  });

  test("do not keep a payment of the same address from being looked at", () => {
    const counter = new Counter(5, 1_000);
    counter.ask(100);
    expect(counter.ask(100, "192.0.2.1", "refused")).toBe(5);
    expect(counter.limit.waitSeconds("192.0.2.1", "refused")).toBe(1);
    expect(counter.limit.waitSeconds("192.0.2.1", "refused", "twice")).toBe(0);
    for (let index = 0; index < 5; index += 1) counter.limit.count("192.0.2.1", "refused");
    expect(counter.limit.waitSeconds("192.0.2.1", "refused", "twice")).toBe(1);
  });

  test("that were under way together are waited for afterwards, a minute at most", () => {
    const counter = new Counter(10, 1_000);
    for (let index = 0; index < 30; index += 1) counter.limit.count("192.0.2.1", "refused");
    expect(counter.limit.waitSeconds("192.0.2.1", "refused")).toBe(3);
    for (let index = 0; index < 5_000; index += 1) counter.limit.count("192.0.2.1", "refused");
    const seconds = counter.limit.waitSeconds("192.0.2.1", "refused");
    expect(seconds).toBeGreaterThan(59);
    expect(seconds).toBeLessThan(62);
  });

  test("that are under way count as if they had been answered", () => {
    const counter = new Counter(5, 1_000);
    const { limit } = counter;
    expect(limit.waitSeconds("192.0.2.1", "unproven", "once", 4)).toBe(0);
    expect(limit.waitSeconds("192.0.2.1", "unproven", "once", 5)).toBe(1);
    counter.ask(2, "192.0.2.1", "unproven");
    expect(limit.waitSeconds("192.0.2.1", "unproven", "once", 2)).toBe(0);
    expect(limit.waitSeconds("192.0.2.1", "unproven", "once", 3)).toBe(1);
    expect(limit.waitSeconds("192.0.2.1", "unproven", "once", 5_000)).toBe(60);
    expect(limit.waitSeconds("192.0.2.1", "refused")).toBe(0);
  });

  test("are those of a network of IPv6, and of one address of IPv4", () => {
    const counter = new Counter(5, 1_000);
    expect(counter.ask(5, "2001:db8:1:2::1")).toBe(5);
    expect(counter.ask(5, "2001:db8:1:2:ffff:ffff:ffff:ffff")).toBe(0);
    expect(counter.ask(5, "2001:db8:1:3::1")).toBe(5);
    expect(counter.ask(5, "192.0.2.1")).toBe(5);
    expect(counter.ask(5, "::ffff:192.0.2.1")).toBe(0);
    expect(counter.ask(5, "192.0.2.2")).toBe(5);
    expect(counter.ask(5, "unknown")).toBe(5);
    expect(counter.ask(5, "also unknown")).toBe(0);
  });

  test("are counted as by a bucket that is filled drop by drop", () => {
    const step = fc.record({
      waitMs: fc.integer({ min: 0, max: 700 }),
      times: fc.nat({ max: 12 }),
    });
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 30 }),
        fc.integer({ min: 1, max: 20 }),
        (steps, size) => {
          const counter = new Counter(size, 1_000);
          let tokens = size;
          for (const { waitMs, times } of steps) {
            counter.nowMs += waitMs;
            tokens = Math.min(size, tokens + (waitMs * size) / 1_000);
            const expected = Math.min(times, Math.floor(tokens + 1e-6));
            expect(counter.ask(times)).toBe(expected);
            tokens -= expected;
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

/** Each of them another network. */
const networks = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => {
    return `2001:db8:${(index >>> 16).toString(16)}:${(index & 0xffff).toString(16)}::1`;
  });

describe("what is remembered of an address", () => {
  test("is not forgotten for addresses that have used less", () => {
    const counter = new Counter(50, 60_000);
    counter.ask(50);
    for (const network of networks(4 * MAX_ADDRESSES)) counter.limit.count(network, "asked");
    expect(counter.limit.waitSeconds("192.0.2.1", "asked")).toBeGreaterThan(0);
  });

  test("is forgotten for nobody as long as few others come", () => {
    const counter = new Counter(2, 60_000);
    const few = networks(MAX_ADDRESSES / 8);
    for (const network of few) counter.ask(2, network);
    const forgotten = few.filter((network) => counter.limit.waitSeconds(network, "asked") === 0);
    // Nine of them in the same eight places are rare.
    expect(forgotten.length).toBeLessThan(few.length / 100);
  });

  test("makes place for others once it is over", () => {
    const counter = new Counter(2, 1_000);
    const many = networks(MAX_ADDRESSES);
    for (const network of many) counter.ask(2, network);
    counter.nowMs += 1_000;
    expect(counter.ask(5, "192.0.2.1")).toBe(2);
    expect(counter.limit.waitSeconds("192.0.2.1", "asked")).toBe(1);
  });
});
