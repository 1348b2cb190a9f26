import { describe, expect, it } from "vitest";
import { runRolling } from "./rolling.ts";
import { runChaos, runsOf, type ChaosOptions } from "./run.ts";

/** `npm run chaos` is the long form. */
const SHORT = {
  purchases: 24,
  kills: 2,
  storeRestarts: 0,
  workers: 1,
  thief: false,
  seed: 402,
  say: () => undefined,
};
const PATIENCE_MS = 240_000;

describe("whatever dies, PostgreSQL too", () => {
  it(
    "no payment is lost, doubled or given away",
    async () => {
      const options: ChaosOptions = { ...SHORT, replicas: 3, store: "postgres", storeRestarts: 1 };
      const { violations, counts } = await runChaos(options);
      expect(violations).toEqual([]);
      expect(counts).toMatchObject({ purchases: options.purchases, "kill -9": options.kills });
      expect(counts["restarts of PostgreSQL"]).toBe(options.storeRestarts);
      expect(counts["paid back"]).toBeGreaterThan(0);
      expect(counts["payments that the chain has as the books do"]).toBe(
        Number(counts["charged"]) + Number(counts["paid back"]),
      );
      expect(counts["delivered in version 1"]).toBeGreaterThan(options.purchases / 4);
      expect(counts["delivered in version 2"]).toBeGreaterThan(options.purchases / 4);
    },
    PATIENCE_MS,
  );
});

describe("a thief who shows every payment that is broadcast", () => {
  const options: ChaosOptions = {
    ...SHORT,
    purchases: 12,
    kills: 1,
    replicas: 1,
    store: "sqlite",
    thief: true,
  };
  it.each(runsOf(options))(
    "gets nothing, and nobody pays twice: %s",
    async (_name, each) => {
      const { violations, counts } = await runChaos(each);
      expect(violations).toEqual([]);
      expect(counts).toMatchObject({
        "delivered in version 1": each.purchases / 2,
        "delivered in version 2": each.purchases / 2,
        stolen: 0,
        robbed: 0,
        "charged more than once": 0,
      });
      // They roam at random, so that a short run may have no sale in one of them.
      expect(counts["places of customers"]).toBeGreaterThan(1);
      expect(counts["payments that the thief saw"]).toBeGreaterThan(each.purchases / 2);
      expect(counts["thief's shows"]).toBeGreaterThan(each.purchases);
    },
    PATIENCE_MS,
  );
});

describe("a rolling restart", () => {
  it(
    "fails no request",
    async () => {
      const { failures, counts } = await runRolling({ restarts: 2, say: () => undefined });
      expect(failures).toEqual([]);
      expect(counts["free requests"]).toBeGreaterThan(100);
      expect(counts["purchases in version 1"]).toBeGreaterThan(2);
      expect(counts["purchases in version 2"]).toBeGreaterThan(2);
    },
    PATIENCE_MS,
  );
});
