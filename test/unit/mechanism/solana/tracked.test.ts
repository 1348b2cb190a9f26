/** When a look asks a node, and whom. */
import { describe, expect, test } from "vitest";
import type { Look } from "../../../../src/mechanism/mechanism.ts";
import { openRpc } from "../../../../src/mechanism/rpc.ts";
import { POLL_MS, Tracked } from "../../../../src/mechanism/solana/tracked.ts";

const START = 1_700_000_000_000;
const NOTHING: Look = {
  payments: [{ kind: "unknown", detail: "not yet" }],
  included: null,
  isSpent: false,
};
const refusal = { code: "invalid_transaction_state", detail: "it failed" } as const;
const EXPIRED: Look = {
  payments: [{ kind: "failed", refusal, retriable: false }],
  included: null,
  isSpent: true,
};
const FAILED: Look = {
  ...EXPIRED,
  included: { transaction: "a", confirmations: 1, isFinal: false },
};

/** Two endpoints of one host; no connection is made. */
const [a, b] = [openRpc("http://a.example/1"), openRpc("http://a.example/2")];

/** Sent at the start, and looked at so many milliseconds later. */
function sent(): Tracked {
  return new Tracked(START, true);
}

function look(tracked: Tracked, atMs: number, found: Look, rpc = a): void {
  tracked.reading();
  tracked.read(found.included !== null, START + atMs);
  tracked.found(found, rpc, START + atMs);
}

describe("a transaction that was just sent", () => {
  test.each([
    ["live", POLL_MS],
    ["starting", 500],
    ["none", 200],
  ] as const)("with a subscription %s is read after %d ms", (state, ms) => {
    const tracked = sent();
    expect(tracked.isDue(state, START + ms - 1)).toBe(false);
    expect(tracked.isDue(state, START + ms)).toBe(true);
    look(tracked, ms, NOTHING);
    expect(tracked.isDue(state, START + 2 * ms - 1)).toBe(false);
    expect(tracked.isDue(state, START + 2 * ms)).toBe(true);
  });

  test("is read at once when a websocket tells, and soon again if it is not found", () => {
    const tracked = sent();
    tracked.notified(START + 10);
    expect(tracked.isDue("live", START + 10)).toBe(true);
    look(tracked, 10, NOTHING);
    expect(tracked.isDue("live", START + 209)).toBe(false);
    expect(tracked.isDue("live", START + 210)).toBe(true);
  });

  test("is not read more often for what a websocket told long ago", () => {
    const tracked = sent();
    tracked.notified(START + 10);
    look(tracked, 10_000, NOTHING);
    look(tracked, 20_000, NOTHING);
    expect(tracked.isDue("live", START + 20_000 + POLL_MS - 1)).toBe(false);
  });

  test("is read when the subscription may have come too late", () => {
    const early = sent();
    early.subscribed(START + 199);
    expect(early.isDue("live", START + 199)).toBe(false);
    const late = sent();
    late.subscribed(START + 200);
    expect(late.isDue("live", START + 200)).toBe(true);
    expect([early.isMissed, late.isMissed]).toEqual([true, false]);
  });

  test("is read when the clock was set back", () => {
    expect(sent().isDue("live", START - 1)).toBe(true);
  });
});

describe("a transaction of another life", () => {
  test("is read at once, and searched for in the history the first time", () => {
    const tracked = new Tracked(START, false);
    expect(tracked.isDue("live", START)).toBe(true);
    expect(tracked.isOld(START)).toBe(true);
    look(tracked, 0, NOTHING);
    expect(tracked.isOld(START + 19_999)).toBe(false);
    expect(tracked.isOld(START + 20_000)).toBe(true);
  });
});

describe("a transaction in no block", () => {
  test("may be expired two seconds after it was last seen in one", () => {
    const tracked = sent();
    expect(tracked.mayBeExpired(START + 1_999)).toBe(false);
    expect(tracked.mayBeExpired(START + 2_000)).toBe(true);
    look(tracked, 5_000, FAILED);
    expect(tracked.mayBeExpired(START + 6_999)).toBe(false);
    expect(tracked.mayBeExpired(START + 7_000)).toBe(true);
  });

  test("that was said to be in one is looked for elsewhere", () => {
    const tracked = sent();
    look(tracked, 5, NOTHING);
    expect(tracked.avoid).toBeUndefined();
    tracked.notified(START + 10);
    look(tracked, 10, NOTHING, b);
    expect(tracked.avoid).toBe(b);
  });
});

describe("a transaction that nobody decides", () => {
  const IN_BLOCK: Look = {
    ...NOTHING,
    included: { transaction: "a", confirmations: 1, isFinal: false },
  };
  const PAID: Look = { ...IN_BLOCK, payments: [{ kind: "confirmed", transaction: "a" }] };

  test.each([
    ["in no block", NOTHING, 10_000],
    ["in a block that is not deep enough", IN_BLOCK, 30_000],
  ])("is asked of another endpoint each time, after a while: %s", (_title, found, afterMs) => {
    const tracked = sent();
    look(tracked, afterMs - 1, found);
    expect(tracked.avoid).toBeUndefined();
    look(tracked, afterMs, found);
    expect(tracked.avoid).toBe(a);
    look(tracked, afterMs + 1, found, b);
    expect(tracked.avoid).toBe(b);
    look(tracked, afterMs + 2, PAID);
    expect(tracked.avoid).toBeUndefined();
  });

  test("is decided by who finds it failed, where the other one never comes to know of it", () => {
    const tracked = sent();
    for (let count = 0; count < 3; count += 1) {
      look(tracked, 11_000, NOTHING);
      look(tracked, 11_000, FAILED, b);
      expect(tracked.avoid).toBe(b);
    }
    look(tracked, 11_000, NOTHING);
    look(tracked, 11_000, FAILED, b);
    expect(tracked.avoid).toBe(a);
    look(tracked, 11_000, FAILED, b);
    expect(tracked.avoid).toBe(a);
  });
});

describe("a failure", () => {
  test("is looked for again at once, and at another endpoint", () => {
    const tracked = sent();
    look(tracked, 3_000, EXPIRED);
    expect(tracked.isSuspected).toBe(true);
    expect(tracked.isDue("live", START + 3_000)).toBe(true);
    expect(tracked.avoid).toBe(a);
  });

  test("is not told from memory", () => {
    const tracked = sent();
    look(tracked, 1_000, NOTHING);
    expect(tracked.last).toBe(NOTHING);
    look(tracked, 3_000, EXPIRED);
    expect(tracked.last).toBeUndefined();
    look(tracked, 3_500, NOTHING, b);
    expect(tracked.isSuspected).toBe(false);
    expect(tracked.avoid).toBeUndefined();
  });

  test("of a blockhash always needs another endpoint, one in a block three times at most", () => {
    const tracked = sent();
    const avoided: unknown[] = [];
    for (let count = 0; count < 5; count += 1) {
      look(tracked, 3_000, FAILED);
      avoided.push(tracked.avoid);
    }
    expect(avoided).toEqual([a, a, a, undefined, undefined]);
    look(tracked, 4_000, EXPIRED);
    expect(tracked.avoid).toBe(a);
  });
});
