/** What payments with assertions may cost: their bids, their losses within an hour, and what is under way. */
import { beforeEach, describe, expect, test } from "vitest";
import {
  GuardBudget,
  type Guarded,
  type GuardState,
} from "../../../../src/mechanism/solana/guard-budget.ts";
import type { Confirmation, Look } from "../../../../src/mechanism/mechanism.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import { never } from "../../../support/solana-requests.ts";

const BASE = 10_000n;
/** Holds five payments of new payers, and five more of others. */
const HOURLY = 100_000n;
const HOUR_MS = 3_600_000;
const OFF = /assertions are off for now.*pay with a wallet that adds no assertions/;

let time: ManualTime;
let budget: GuardBudget;
let told: GuardState[];
let left: bigint;
let readings: number;
let count = 0;

beforeEach(() => {
  time = new ManualTime();
  told = [];
  left = 10_000_000n;
  readings = 0;
  budget = new GuardBudget({
    lighthouseLossPerHour: HOURLY,
    time,
    balances: { willKeep: (_, lamports) => left >= lamports },
    readBalance: () => Promise.resolve((readings += 1)),
    onGuardState: (state) => told.push(state),
  });
});

/** Of somebody new, where it is not said. */
function payment(changes: Partial<Guarded> = {}): Guarded {
  count += 1;
  return {
    messageHash: `message ${count}`,
    payer: `payer ${count}`,
    feePayer: "us",
    feePayerKeeps: 0n,
    networkFeeLamports: BASE,
    ...changes,
  };
}

function signed(changes: Partial<Guarded> = {}): Guarded {
  const each = payment(changes);
  expect(budget.fits(each)).toBe(true);
  budget.reserve(each);
  budget.signed(each.messageHash);
  return each;
}

const paid: Confirmation = { kind: "confirmed", transaction: "t" };
const failed: Confirmation = {
  kind: "failed",
  refusal: { code: "invalid_transaction_state", detail: "" },
  retriable: false,
};
const block = { transaction: "t", confirmations: 1, isFinal: false };
const found = (said: Confirmation, isIncluded = true): Look => {
  return { payments: [said], included: isIncluded ? block : null, isSpent: true };
};
const look = ({ messageHash, payer }: Guarded, at: Look): void =>
  budget.found(messageHash, payer, at);

async function refusalOf(each: Guarded): Promise<string> {
  const admitted = await budget.admit(each, never);
  return admitted.ok ? "admitted" : admitted.error.detail;
}

describe("a payer's bid", () => {
  test("is next to nothing before the first success, and free from then on", async () => {
    const [payer, other] = ["one", "other"];
    const high = { networkFeeLamports: 50_000n };
    expect(await refusalOf(payment({ networkFeeLamports: BASE + 2n }))).toBe("admitted");
    expect(await refusalOf(payment({ networkFeeLamports: BASE + 3n }))).toBe(
      "a payer's first payment here that holds wallet assertions may bid 2 lamports of priority fee, " +
        "and this one bids up to 3; lower the priority fee, or pay once without assertions",
    );
    expect(budget.fits(payment({ payer, ...high }))).toBe(false);
    look(payment({ payer }), found(paid));
    expect(await refusalOf(payment({ payer, ...high }))).toBe("admitted");
    expect(budget.fits(payment({ payer, ...high }))).toBe(true);
    expect(budget.fits(payment({ payer: other, ...high }))).toBe(false);
  });

  test("is next to nothing again after a failure", () => {
    const payer = "one";
    look(payment({ payer }), found(paid));
    look(signed({ payer }), found(failed));
    expect(budget.isProven(payer)).toBe(false);
    look(payment({ payer }), found(paid));
    expect(budget.isProven(payer)).toBe(true);
  });

  test("is not held down by a payment that was in no block", () => {
    look(payment({ payer: "one" }), found(paid));
    look(signed({ payer: "one" }), found(failed, false));
    expect(budget.isProven("one")).toBe(true);
  });

  test("is forgotten of him who was not met for longest", () => {
    look(payment({ payer: "first" }), found(paid));
    for (let index = 0; index < 10_000; index += 1) {
      look(payment({ payer: `other ${index}` }), found(paid));
    }
    expect(budget.isProven("first")).toBe(false);
    expect(budget.isProven("other 0")).toBe(true);
  });
});

describe("the losses of an hour", () => {
  test("turn assertions off for new payers, then for all, and come back with the hour", async () => {
    look(payment({ payer: "one" }), found(paid));
    for (let lost = 0; lost < 5; lost += 1) {
      expect(await refusalOf(payment())).toBe("admitted");
      look(signed(), found(failed));
    }
    expect(told.at(-1)).toEqual({ lostLamports: 50_000n, isOff: true });
    expect(told.filter(({ isOff }) => isOff)).toHaveLength(1);
    expect(await refusalOf(payment())).toMatch(OFF);
    expect(budget.fits(payment())).toBe(false);
    const regular = { payer: "one", networkFeeLamports: 50_001n };
    expect(await refusalOf(payment({ ...regular, networkFeeLamports: 50_000n }))).toBe("admitted");
    expect(await refusalOf(payment(regular))).toMatch(OFF);
    await time.advance(HOUR_MS - 1);
    expect(await refusalOf(payment())).toMatch(OFF);
    await time.advance(1);
    budget.tell();
    expect(told.at(-1)).toEqual({ lostLamports: 0n, isOff: false });
    expect(await refusalOf(payment())).toBe("admitted");
  });

  test("are counted once, whatever later looks find", () => {
    const each = signed();
    look(each, found(failed));
    look(each, found(failed));
    expect(told).toEqual([{ lostLamports: BASE, isOff: false }]);
    look(each, found(paid));
    expect(told.at(-1)).toEqual({ lostLamports: 0n, isOff: false });
  });

  test("are none of a payment without assertions", () => {
    look(payment(), found(failed));
    expect(told.at(-1)?.lostLamports ?? 0n).toBe(0n);
  });
});

describe("what is under way", () => {
  test("counts from its signature on, so that a burst does not pass", async () => {
    const all = Array.from({ length: 5 }, () => signed());
    expect(budget.fits(payment())).toBe(false);
    const waiting = refusalOf(payment());
    await time.advance(2_000);
    expect(await waiting).toMatch(/too many payments with wallet assertions are under way/);
    expect(told.at(-1)?.lostLamports ?? 0n).toBe(0n);
    for (const each of all) look(each, found(failed));
    expect(told.at(-1)).toEqual({ lostLamports: 50_000n, isOff: true });
  });

  test.each([
    ["paid", found(paid)],
    ["in no block for ever", found(failed, false)],
  ])("makes room for who waits, when one is %s", async (_, what) => {
    const [first] = Array.from({ length: 5 }, () => signed());
    if (first === undefined) throw new Error("five payments");
    const next = payment();
    const waiting = refusalOf(next);
    await time.advance(1_000);
    look(first, what);
    expect(await waiting).toBe("admitted");
    expect(budget.fits(next)).toBe(true);
  });

  test("is not decided by a look that does not know", () => {
    const [first] = Array.from({ length: 5 }, () => signed());
    if (first === undefined) throw new Error("five payments");
    look(first, found({ kind: "unknown", detail: "" }));
    expect(budget.fits(payment())).toBe(false);
  });

  test("is itself no reason to refuse the same payment once more", () => {
    const all = Array.from({ length: 5 }, () => signed());
    expect(all.map((each) => budget.fits(each))).toEqual(all.map(() => true));
  });

  test("counts for two minutes where it was never signed, else for an hour", async () => {
    for (let index = 0; index < 5; index += 1) budget.reserve(payment());
    await time.advance(119_999);
    expect(budget.fits(payment())).toBe(false);
    await time.advance(1);
    for (let index = 0; index < 5; index += 1) signed();
    await time.advance(HOUR_MS - 1);
    expect(budget.fits(payment())).toBe(false);
    await time.advance(1);
    expect(budget.fits(payment())).toBe(true);
  });

  test("is waited for by so many only, and their callers may give up", async () => {
    for (let index = 0; index < 5; index += 1) signed();
    const abandoned = new AbortController();
    const waiting = Array.from({ length: 256 }, () => budget.admit(payment(), abandoned.signal));
    expect(await refusalOf(payment())).toMatch(/under way/);
    abandoned.abort();
    const ends = await Promise.allSettled(waiting);
    expect(ends.every(({ status }) => status === "rejected")).toBe(true);
    // Their places are free again.
    const next = refusalOf(payment());
    let isOver = false;
    void next.then(() => (isOver = true));
    await time.advance(1_999);
    expect(isOver).toBe(false);
    await time.advance(1);
    expect(await next).toMatch(/under way/);
  });
});

describe("what the fee payer is to keep", () => {
  test("is less than it has, as far as is known or can be read", async () => {
    const each = payment({ feePayerKeeps: 9_990_000n });
    expect(await refusalOf(each)).toBe("admitted");
    expect(budget.fits(each)).toBe(true);
    expect(readings).toBe(0);
    left -= 1n;
    expect(await refusalOf(each)).toMatch(
      /^the assertions want us to keep 9990000 lamports.*sign a new/,
    );
    expect(budget.fits(each)).toBe(false);
    expect(readings).toBe(1);
    expect(await refusalOf(payment())).toBe("admitted");
  });
});
