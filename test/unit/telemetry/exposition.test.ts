import { describe, expect, test } from "vitest";
import { expose, formatFor, labelText, type Family } from "../../../src/telemetry/exposition.ts";
import { readScrape } from "./scrape.ts";

const COUNTER: Family = {
  name: "test_events_total",
  help: "Events\nof two lines and a \\",
  type: "counter",
  merge: "sum",
  rows: [
    { labels: 'kind="a"', values: [3] },
    { labels: "", values: [4] },
  ],
};
const GAUGE: Family = {
  name: "test_level",
  help: "A level",
  type: "gauge",
  merge: "sum",
  rows: [
    { labels: "", values: [-0.5] },
    { labels: 'kind="full"', values: [Number.POSITIVE_INFINITY] },
    { labels: 'kind="none"', values: [Number.NaN] },
  ],
};
const HISTOGRAM: Family = {
  name: "test_duration_seconds",
  help: "How long",
  type: "histogram",
  merge: "sum",
  bounds: [0.5, 1],
  rows: [
    {
      labels: 'route="/"',
      values: [2, 1, 4, 9.5],
      exemplars: [undefined, { labels: 'trace_id="ab"', value: 0.75 }, undefined],
    },
  ],
};
const ALL = [COUNTER, GAUGE, HISTOGRAM];

describe("the text format", () => {
  test("is written as Prometheus reads it, without exemplars", () => {
    expect(expose(ALL)).toBe(`# HELP test_events_total Events\\nof two lines and a \\\\
# TYPE test_events_total counter
test_events_total{kind="a"} 3
test_events_total 4
# HELP test_level A level
# TYPE test_level gauge
test_level -0.5
test_level{kind="full"} +Inf
test_level{kind="none"} NaN
# HELP test_duration_seconds How long
# TYPE test_duration_seconds histogram
test_duration_seconds_bucket{route="/",le="0.5"} 2
test_duration_seconds_bucket{route="/",le="1.0"} 3
test_duration_seconds_bucket{route="/",le="+Inf"} 7
test_duration_seconds_sum{route="/"} 9.5
test_duration_seconds_count{route="/"} 7
`);
  });

  test("keeps label values that hold what has a meaning in it", () => {
    const route = 'quo"ted back\\slash two\nlines';
    const labels = labelText({ route, code: 200, left: undefined });
    const [sample] = readScrape(expose([{ ...COUNTER, rows: [{ labels, values: [1] }] }])).samples;
    expect(sample?.labels).toEqual({ route, code: "200" });
  });
});

describe("OpenMetrics", () => {
  test("names counters without their ending, has exemplars, and ends with a mark", () => {
    const text = expose(ALL, "openmetrics");
    expect(text).toContain("# TYPE test_events counter\n");
    expect(text).toContain('test_events_total{kind="a"} 3\n');
    expect(text).toContain(
      'test_duration_seconds_bucket{route="/",le="1.0"} 3 # {trace_id="ab"} 0.75\n',
    );
    expect(text.match(/# \{/g)).toHaveLength(1);
    expect(text.endsWith("\n# EOF\n")).toBe(true);
  });

  test.each([
    [undefined, "text"],
    ["*/*", "text"],
    ["text/plain;version=0.0.4", "text"],
    ["application/openmetrics-text", "openmetrics"],
    // What Prometheus 2.42 sends.
    [
      "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75," +
        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
      "openmetrics",
    ],
    ["application/openmetrics-text;version=2.0.0,text/plain;q=0.2", "text"],
    ["application/openmetrics-text;q=0.2, text/plain;q=0.9", "text"],
    ["application/openmetrics-text;q=0", "text"],
    ["application/openmetrics-text;q=much", "text"],
    ["nonsense,;;=,", "text"],
  ] as const)("answers Accept: %s with %s", (accept, format) => {
    expect(formatFor(accept)).toBe(format);
  });
});
