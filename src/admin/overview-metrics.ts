/** What the operator's overview reads of the metrics: counts, gauges, and times as far as buckets tell them. */
import type { Family, SampleRow } from "../telemetry/exposition.ts";
import type { MetricsSnapshot } from "../telemetry/metric-registry.ts";
import type { PaymentOutcome } from "../telemetry/metrics.ts";
import type { OverviewView, WaitView } from "../web/overview-view.ts";

/** The steps from the 402 to the goods, and the outcomes of requests that have come so far. */
const FLOW: readonly (readonly [name: string, outcomes: readonly PaymentOutcome[]])[] = [
  ["asked to pay", ["challenged"]],
  [
    "payment shown",
    ["malformed", "refused", "unavailable", "unknown", "unsold", "paid", "undelivered"],
  ],
  ["paid", ["paid", "undelivered"]],
  ["delivered", ["paid"]],
];

export function flowOf(told: MetricsSnapshot): OverviewView["flow"]["steps"] {
  const counts = new Map<string, number>();
  for (const { labels, values } of rowsOf(told, "coinslot_http_requests_total")) {
    const { outcome = "" } = labelsOf(labels);
    counts.set(outcome, (counts.get(outcome) ?? 0) + (values[0] ?? 0));
  }
  return FLOW.map(([name, outcomes]) => {
    return { name, count: outcomes.reduce((sum, each) => sum + (counts.get(each) ?? 0), 0) };
  });
}

/** Those of the routes that were asked for most. */
export function waitsOf(told: MetricsSnapshot, limit: number): readonly WaitView[] {
  const family = told.find(({ name }) => name === "coinslot_upstream_duration_seconds");
  const waits = (family?.rows ?? []).map(({ labels, values }) => {
    const counts = [...values].slice(0, -1);
    const requests = counts.reduce((sum, count) => sum + count, 0);
    const { route = "all routes" } = labelsOf(labels);
    const within = (share: number): number =>
      1_000 * quantileOf(counts, family?.bounds ?? [], share * requests);
    return { route, requests, halfMs: within(0.5), mostMs: within(0.95) };
  });
  return waits
    .filter(({ requests }) => requests > 0)
    .toSorted((left, right) => right.requests - left.requests)
    .slice(0, limit);
}

/** ISO 8601: when the process began; what nobody knows is now. */
export function startOf(told: MetricsSnapshot, nowMs: number): string {
  const rows = rowsOf(told, "process_start_time_seconds");
  const seconds = rows.map(({ values }) => values[0] ?? 0).filter((each) => each > 0);
  return new Date(seconds.length === 0 ? nowMs : 1_000 * Math.min(...seconds)).toISOString();
}

/** Of a metric without labels. */
export function valueOf(told: MetricsSnapshot, name: string): number | undefined {
  return rowsOf(told, name)[0]?.values[0];
}

export function gaugesOf(
  told: MetricsSnapshot,
  name: string,
): readonly { readonly labels: Readonly<Record<string, string>>; readonly value: number }[] {
  return rowsOf(told, name).map(({ labels, values }) => {
    return { labels: labelsOf(labels), value: values[0] ?? 0 };
  });
}

function rowsOf(told: MetricsSnapshot, name: string): readonly SampleRow[] {
  return told.find((family: Family) => family.name === name)?.rows ?? [];
}

/** As a scraper would read them. */
function labelsOf(rendered: string): Readonly<Record<string, string>> {
  const labels: Record<string, string> = {};
  for (const [, name = "", value = ""] of rendered.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
    labels[name] = value.replace(/\\(.)/g, (_, escaped: string) =>
      escaped === "n" ? "\n" : escaped,
    );
  }
  return labels;
}

/** As Prometheus estimates it: evenly within a bucket; beyond the last bound it says that bound. */
function quantileOf(counts: readonly number[], bounds: readonly number[], rank: number): number {
  let below = 0;
  for (const [index, count] of counts.entries()) {
    const upper = bounds[index];
    if (upper === undefined) break;
    if (below + count >= rank && count > 0) {
      const lower = bounds[index - 1] ?? 0;
      return lower + ((upper - lower) * (rank - below)) / count;
    }
    below += count;
  }
  return bounds.at(-1) ?? 0;
}
