import * as fc from "fast-check";
import { Histogram } from "prom-client";
import { describe, expect, test } from "vitest";
import { FlatHistogram } from "../../../src/telemetry/histogram.ts";
import { MetricRegistry } from "../../../src/telemetry/metric-registry.ts";
import { readScrape } from "./scrape.ts";

const NAME = "test_duration_seconds";
const HELP = "How long it took";
const BOUNDS = [0.001, 0.5, 1, 10];

function open(bounds: readonly number[] = BOUNDS) {
  const registry = new MetricRegistry();
  return { registry, histogram: new FlatHistogram(NAME, HELP, bounds, registry) };
}

/** The order of lines in a metric and of labels in a line mean nothing. */
function sorted(text: string): readonly string[] {
  const lines = readScrape(text).samples.map(({ name, labels, value }) => {
    const pairs = Object.keys(labels)
      .sort()
      .map((label) => `${label}=${labels[label]}`);
    return JSON.stringify([name, pairs, value.toPrecision(12)]);
  });
  return lines.sort();
}

describe("a flat histogram", () => {
  test("counts into cumulative buckets, a bound belonging to its own bucket", async () => {
    const { registry, histogram } = open();
    const distribution = histogram.prepare({ route: "/a" });
    for (const value of [0, 0.001, 0.0011, 0.5, 1, 1, 9.99, 10, 10.1, 1e9]) {
      distribution.observe(value);
    }
    const { samples, types } = readScrape(await registry.metrics());
    expect(types).toEqual(new Map([[NAME, "histogram"]]));
    const buckets = samples.filter(({ name }) => name === `${NAME}_bucket`);
    expect(buckets.map(({ labels, value }) => [labels["route"], labels["le"], value])).toEqual([
      ["/a", "0.001", 2],
      ["/a", "0.5", 4],
      ["/a", "1.0", 6],
      ["/a", "10.0", 8],
      ["/a", "+Inf", 10],
    ]);
    expect(samples.find(({ name }) => name === `${NAME}_count`)?.value).toBe(10);
    const sum = samples.find(({ name }) => name === `${NAME}_sum`)?.value;
    expect(sum).toBeCloseTo(1e9 + 32.5921, 3);
  });

  test("is scraped exactly as prom-client's own histogram is", async () => {
    const observations = fc.array(
      fc.record({
        route: fc.constantFrom("GET /a", 'quo"ted', "back\\slash", "two\nlines", "ünïcode"),
        value: fc.oneof(fc.constantFrom(...BOUNDS), fc.double({ min: 0, max: 100, noNaN: true })),
      }),
      { maxLength: 50 },
    );
    await fc.assert(
      fc.asyncProperty(observations, async (list) => {
        const { registry, histogram } = open();
        const theirs = new MetricRegistry();
        const reference = new Histogram({
          name: NAME,
          help: HELP,
          labelNames: ["route"],
          buckets: BOUNDS,
          registers: [theirs],
        });
        for (const { route, value } of list) {
          histogram.prepare({ route }).observe(value);
          reference.observe({ route }, value);
        }
        const [ours, expected] = [await registry.metrics(), await theirs.metrics()];
        expect(sorted(ours)).toEqual(sorted(expected));
      }),
      { numRuns: 100 },
    );
  });

  test("is empty but announced before anything was observed, and after what was is dropped", async () => {
    const { registry, histogram } = open();
    const samples = async () => readScrape(await registry.metrics()).samples;
    expect(readScrape(await registry.metrics())).toEqual({
      samples: [],
      types: new Map([[NAME, "histogram"]]),
    });
    const distribution = histogram.prepare({ route: "/" });
    expect(await samples()).toEqual([]);
    distribution.observe(0);
    expect(await samples()).toHaveLength(7);
    histogram.drop({ route: "/" });
    expect(await samples()).toEqual([]);
  });

  test("keeps one row for each label set, however often it is prepared", () => {
    const { histogram } = open();
    const first = histogram.prepare({ route: "/a" });
    expect(histogram.prepare({ route: "/a" })).toBe(first);
    for (const other of [{ route: "/b" }, { method: "/a" }, { route: "/a", method: "" }, {}]) {
      expect(histogram.prepare(other)).not.toBe(first);
    }
  });

  test("is a plain value in a snapshot", async () => {
    const { registry, histogram } = open();
    histogram.prepare({ route: "/a" }).observe(2);
    const [metric] = await registry.snapshot();
    expect(metric).toMatchObject({ name: NAME, help: HELP, type: "histogram" });
  });
});
