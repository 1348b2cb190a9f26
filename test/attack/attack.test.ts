/** The battery once, and a short form of the properties; the long one is `npm run attack`. */
import { beforeAll, describe, expect, test } from "vitest";
import { describeFinding } from "./attack-report.ts";
import { readCases } from "./attack-case.ts";
import { runBattery, type BatteryReport } from "./battery.ts";
import { fuzzSeed } from "./canonical-path.ts";

/** Longest that all cases may take on a busy machine, milliseconds; the slow senders need 25 seconds. */
const BATTERY_TIMEOUT_MS = 480_000;
/** Longest that a seed may take on a busy machine, milliseconds. */
const FUZZ_TIMEOUT_MS = 180_000;
const SEEDS = [1, 2];
const RUNS = 500;

const topics = [...new Set(readCases().map(({ topic }) => topic)), "audit"];

describe("no attack gets through", () => {
  let report: BatteryReport;

  beforeAll(async () => {
    report = await runBattery();
  }, BATTERY_TIMEOUT_MS);

  test.each(topics)("%s", (topic) => {
    const findings = report.findings.filter((finding) => finding.topic === topic);
    const told = findings.flatMap((finding) => [...describeFinding(finding)]);
    expect(told.join("\n")).toBe("");
  });
});

test.each(SEEDS)(
  "whatever the target, all backends read the canonical path alike (seed %i)",
  (seed) => {
    expect(fuzzSeed(seed, RUNS)).toEqual([]);
  },
  FUZZ_TIMEOUT_MS,
);
