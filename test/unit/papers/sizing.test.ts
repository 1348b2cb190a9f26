/** What the paper tells of sizes is what is reckoned of the figures beside it, and the reckoning hangs together. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import networks from "../../../src/x402/networks.json" with { type: "json" };
import { readFigures, type Figures, type SaleCost } from "../../bench/sizing/figures.ts";
import {
  BUSY,
  checkSetting,
  MAX_REPLICAS,
  plan,
  RATES,
  reckon,
  REPLICA_CONNECTIONS,
  togetherAt,
  type Setting,
} from "../../bench/sizing/model.ts";
import { capacities } from "../../bench/sizing/networks.ts";
import { PAPER, withSizing } from "../../bench/sizing/paper.ts";

/** What the reckoning may be off by in the run that it is held against. */
const MOST_OFF = 0.3;

test("the paper tells what is made of the figures: npm run bench:sizing -- --paper", () => {
  const paper = readFileSync(PAPER, "utf8");
  expect(withSizing(paper, readFigures())).toBe(paper);
});

test("a paper without the marks is refused", () => {
  expect(() => withSizing("# In production\n", readFigures())).toThrow("has lost its marks");
});

test("the reckoning is near what was measured", () => {
  const figures = readFigures();
  const { cost } = figures.check;
  const reckoned = reckon(figures, checkSetting(figures));
  for (const name of ["gateway", "postgres", "node"] as const) {
    expect(Math.abs(reckoned[name] / cost[name] - 1), name).toBeLessThan(MOST_OFF);
  }
});

test("every network has a block", () => {
  const all = capacities();
  expect(all.map(({ network }) => network)).toEqual(
    networks.networks.map(({ network }) => network),
  );
  for (const { network, block, blocks, signer, airSeconds } of all) {
    for (const value of [block, blocks, signer, airSeconds])
      expect(value, network).toBeGreaterThan(0);
  }
});

describe("of figures that are easy to reckon with", () => {
  const NOTHING = { gateway: 0, postgres: 0, node: 0 };
  const SALE: SaleCost = {
    gateway: 4_000,
    thread: 3_000,
    postgres: 2_000,
    node: 1_000,
    together: 5,
  };
  const ELSEWHERE = {
    ...SALE,
    gateway: 6_000,
    postgres: 3_000,
    signing: { gateway: 2_000, thread: 1_000 },
    bystander: { local: 50, offered: 100 },
  };
  const FIGURES: Figures = {
    ...readFigures(),
    idle: { process: NOTHING, replica: { gateway: 10_000, postgres: 1_000, node: 500 } },
    watching: NOTHING,
    // A transaction takes 1,000 beside its payments.
    sales: {
      slow: { gateway: 4_800, thread: 3_800, postgres: 2_800, node: 1_800, together: 1 },
      fast: SALE,
      sqlite: SALE,
      workers: SALE,
      elsewhere: ELSEWHERE,
    },
  };
  const SETTING: Setting = {
    perSecond: 100,
    replicas: 1,
    layout: "shared",
    blockSeconds: 1,
    watchedSeconds: 0,
    maxTogether: 50,
  };

  test("a transaction carries what comes while it is collected, more where the air is full, and never too many", () => {
    const [second, minute] = [
      { blockSeconds: 1, maxTogether: 50 },
      { blockSeconds: 60, maxTogether: 50 },
    ];
    expect(togetherAt(0.001, second)).toBeCloseTo(1);
    expect(togetherAt(40, second)).toBe(5);
    expect(togetherAt(10, minute)).toBe(37.5);
    expect(togetherAt(10_000, second)).toBe(50);
  });

  test("a sale takes its own, its share of its transaction and of what goes on at rest", () => {
    const { gateway, postgres, node, together } = reckon(FIGURES, { ...SETTING, perSecond: 40 });
    expect(together).toBe(5);
    expect(gateway).toBe(4_000 + 10_000 / 40);
    expect(postgres).toBe(2_000 + 1_000 / 40);
    expect(node).toBe(1_000 + 500 / 40);
    expect(reckon(FIGURES, { ...SETTING, perSecond: 90 }).gateway).toBeCloseTo(3_900 + 10_000 / 90);
  });

  test("two of three sales come to a replica that does not sign, and all others hear of each", () => {
    const setting = { ...SETTING, perSecond: 40, replicas: 3 };
    const { gateway, postgres } = reckon(FIGURES, setting);
    const heard = (1 / 3) * 2 * 50 + (2 / 3) * 100;
    expect(gateway).toBeCloseTo((4_000 + 2 * 6_000) / 3 + heard + (3 * 10_000) / 40);
    expect(postgres).toBeCloseTo((2_000 + 2 * 3_000) / 3 + (3 * 1_000) / 40);
  });

  test("what is watched until it is final is a part of a sale", () => {
    const watching = { gateway: 50, postgres: 20, node: 10 };
    const setting = { ...SETTING, perSecond: 40, watchedSeconds: 60 };
    const [without, beside] = [FIGURES, { ...FIGURES, watching }].map((each) =>
      reckon(each, setting),
    );
    expect((beside?.gateway ?? 0) - (without?.gateway ?? 0)).toBeCloseTo((50 * 60) / 5);
    expect((beside?.thread ?? 0) - (without?.thread ?? 0)).toBeCloseTo((50 * 60) / 5);
  });

  test("a plan has room in its busiest thread, and no replica too many", () => {
    for (const perSecond of RATES) {
      const { ledgers, replicas, layout, connections, signers } = plan(FIGURES, perSecond);
      expect(connections).toBe((replicas / ledgers) * REPLICA_CONNECTIONS);
      expect(replicas / ledgers).toBeLessThanOrEqual(MAX_REPLICAS);
      if (layout === "own") expect(signers).toBeGreaterThanOrEqual(replicas);
    }
    // 3 ms of a thread for a sale: 233 a second where it is busy 70 % of the time.
    const most = (BUSY * 1e6) / 3_000;
    expect(plan(FIGURES, most / 2)).toMatchObject({ replicas: 1 });
    expect(plan(FIGURES, most * 1.2).replicas).toBe(2);
  });

  test("what is too much for the replicas of one ledger is divided among several", () => {
    expect(plan(FIGURES, 1_000).ledgers).toBe(1);
    const { ledgers, replicas, connections } = plan(FIGURES, 10_000);
    expect(ledgers).toBeGreaterThan(1);
    expect(replicas).toBeGreaterThan(MAX_REPLICAS);
    expect(connections).toBeLessThan(100);
  });

  test("who has more requests in the air than places in 512 MiB is told so", () => {
    // 2.6 s each, and 268 places.
    expect(plan(FIGURES, 100)).toMatchObject({ needsMemory: false });
    expect(plan(FIGURES, 110)).toMatchObject({ replicas: 1, needsMemory: true });
  });

  test("where one replica cannot sign for all, each signs for itself", () => {
    expect(plan(FIGURES, 400).layout).toBe("shared");
    expect(plan(FIGURES, 2_000)).toMatchObject({ layout: "own" });
  });

  test("what no network carries is said of all of them", () => {
    expect(plan(FIGURES, 10).cannot).toEqual([]);
    expect(plan(FIGURES, 1_000).cannot).toEqual(["avalanche", "iotex", "peaq", "sei"]);
    expect(plan(FIGURES, 10_000).cannot).toHaveLength(7);
  });
});
