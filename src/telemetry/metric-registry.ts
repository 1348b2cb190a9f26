/**
 * All metrics of one process: those of prom-client, and those that are kept in flat arrays because they are counted
 * at every request, or because there are thousands of them.
 */
import { Registry, type MetricObjectWithValues, type MetricValue } from "prom-client";
import { expose, labelText, type Family, type SampleRow } from "./exposition.ts";

/** Something that counts by itself and is read at a scrape. */
export interface FlatMetric {
  read(): Family;
}

/** All metrics of one process, as plain values. */
export type MetricsSnapshot = readonly Family[];

type Theirs = MetricObjectWithValues<MetricValue<string>> & { readonly bounds?: undefined };
type Value = MetricValue<string> & { readonly metricName?: string };

/** Of prom-client's own, those whose names say that they are counters, and that are none. */
const MISNAMED = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

export class MetricRegistry extends Registry {
  readonly #flat: FlatMetric[] = [];

  add(metric: FlatMetric): void {
    this.#flat.push(metric);
  }

  /** Takes out what does not keep to Prometheus' conventions. */
  tidy(): void {
    for (const name of MISNAMED) this.removeSingleMetric(name);
  }

  async snapshot(): Promise<MetricsSnapshot> {
    const theirs: readonly Theirs[] = await this.getMetricsAsJSON();
    const flat = this.#flat.map((each) => each.read());
    return [...theirs.map((each) => familyOf(each)), ...flat];
  }

  /** In Prometheus' text format. */
  override async metrics(): Promise<string> {
    return expose(await this.snapshot());
  }
}

function familyOf({ name, help, type, aggregator, values }: Theirs): Family {
  const merge = aggregator === "min" || aggregator === "max" ? aggregator : MERGES[aggregator];
  const common = { name, help, merge: merge ?? "sum" } as const;
  // Their enumeration is a string of the same name.
  if (String(type) === "histogram") {
    return { ...common, type: "histogram", ...bucketsOf(name, values) };
  }
  const rows = values.map(({ labels, value }) => ({ labels: labelText(labels), values: [value] }));
  return { ...common, type: String(type) === "counter" ? "counter" : "gauge", rows };
}

const MERGES: Readonly<Record<string, Family["merge"] | undefined>> = { first: "first" };

/** prom-client tells a histogram line by line, with cumulative counts. */
function bucketsOf(
  name: string,
  values: readonly Value[],
): { readonly bounds: readonly number[]; readonly rows: readonly SampleRow[] } {
  const bounds: number[] = [];
  const rows = new Map<string, { readonly counts: number[]; sum: number; total: number }>();
  for (const { labels, value, metricName = name } of values) {
    const { le, ...others } = labels;
    const key = labelText(others);
    const row = rows.get(key) ?? { counts: [], sum: 0, total: 0 };
    rows.set(key, row);
    if (metricName === `${name}_sum`) row.sum = value;
    if (metricName !== `${name}_bucket` || le === undefined) continue;
    if (rows.size === 1 && le !== "+Inf") bounds.push(Number(le));
    row.counts.push(value - row.total);
    row.total = value;
  }
  return {
    bounds,
    rows: [...rows].map(([labels, { counts, sum }]) => ({ labels, values: [...counts, sum] })),
  };
}
