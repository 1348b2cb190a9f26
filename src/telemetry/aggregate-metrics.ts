/**
 * The metrics of several processes as those of one. What is counted is summed up, and what processes counted that
 * are gone stays in the sum, or a restarted worker would look like a counter that began anew. What describes a
 * process (memory, event loop) is told of each of them, under the label `worker`.
 */
import type { Exemplar, Family, SampleRow } from "./exposition.ts";
import type { MetricsSnapshot } from "./metric-registry.ts";
import { toldBy, type RouteMeterSettings } from "./route-meter.ts";

/** `worker`: "0" for the first process, else the number of the worker. */
export interface ProcessMetrics {
  readonly worker: string;
  readonly metrics: MetricsSnapshot;
  /** Another process takes its place: what describes this one is told no more. */
  readonly isLeaving: boolean;
}

const OF_ONE_PROCESS = /^(?:process|nodejs)_/;

export function aggregateMetrics(
  processes: readonly ProcessMetrics[],
  ended: EndedMetrics,
): MetricsSnapshot {
  return merge([...processes.map((each) => labelled(each)), ended.counted]);
}

/** What processes have counted that are gone. */
export class EndedMetrics {
  #counted: MetricsSnapshot = [];
  #isTold: ReturnType<typeof toldBy> = () => true;
  readonly #added = new WeakSet<object>();

  get counted(): MetricsSnapshot {
    return this.#counted;
  }

  /** Whether that one's are among them. */
  has(process: object): boolean {
    return this.#added.has(process);
  }

  /** Adds the last that is known of a process. */
  add(process: object, last: MetricsSnapshot): void {
    const counted = last.filter(({ name, type }) => type !== "gauge" && !OF_ONE_PROCESS.test(name));
    // Bounded: the labels are those of the configuration.
    this.#keep(merge([this.#counted, counted]));
    this.#added.add(process);
  }

  /** As of `Metrics.configureRoutes`. */
  configureRoutes(settings: RouteMeterSettings): void {
    this.#isTold = toldBy(settings);
    this.#keep(this.#counted);
  }

  #keep(counted: MetricsSnapshot): void {
    this.#counted = counted.map((family) => {
      return { ...family, rows: family.rows.filter((row) => this.#isTold(family, row)) };
    });
  }
}

function labelled({ worker, metrics, isLeaving }: ProcessMetrics): MetricsSnapshot {
  const label = `worker="${worker}"`;
  return metrics.flatMap((family) => {
    if (!OF_ONE_PROCESS.test(family.name)) return [family];
    if (isLeaving) return [];
    const rows = family.rows.map((row) => ({
      ...row,
      labels: row.labels === "" ? label : `${row.labels},${label}`,
    }));
    return [{ ...family, rows }];
  });
}

/** One family of several processes. */
class Merged {
  readonly #family: Family;
  readonly #rows: SampleRow[];
  /** Where the row of a label set is; made when the first one is not where it is in the other process. */
  #places: Map<string, number> | undefined;

  constructor(family: Family) {
    this.#family = family;
    this.#rows = [...family.rows];
  }

  add(rows: readonly SampleRow[]): void {
    const how = this.#family.merge;
    for (const [index, row] of rows.entries()) {
      const place = this.#rows[index]?.labels === row.labels ? index : this.#placeOf(row.labels);
      const known = place === undefined ? undefined : this.#rows[place];
      if (place === undefined || known === undefined) this.#push(row);
      else if (how !== "first") this.#rows[place] = both(known, row, COMBINE[how]);
    }
  }

  family(): Family {
    return { ...this.#family, rows: this.#rows };
  }

  #placeOf(labels: string): number | undefined {
    this.#places ??= new Map(this.#rows.map((row, index) => [row.labels, index]));
    return this.#places.get(labels);
  }

  #push(row: SampleRow): void {
    this.#places?.set(row.labels, this.#rows.length);
    this.#rows.push(row);
  }
}

function merge(snapshots: readonly MetricsSnapshot[]): MetricsSnapshot {
  const all = new Map<string, Merged>();
  for (const snapshot of snapshots) {
    for (const family of snapshot) {
      const known = all.get(family.name);
      if (known === undefined) all.set(family.name, new Merged(family));
      else known.add(family.rows);
    }
  }
  return Array.from(all.values(), (merged) => merged.family());
}

type Combine = (one: number, other: number) => number;

/** Plain arrays: to make a typed one for each of thousands of rows takes longer than to add them up. */
function both(one: SampleRow, other: SampleRow, combine: Combine): SampleRow {
  const values: number[] = [];
  const longest = Math.max(one.values.length, other.values.length);
  for (let index = 0; index < longest; index += 1) {
    const [value, another] = [one.values[index], other.values[index]];
    if (value === undefined || another === undefined) values.push(value ?? another ?? 0);
    else values.push(combine(value, another));
  }
  return { labels: one.labels, values, exemplars: latest(one.exemplars, other.exemplars) };
}

const COMBINE: Readonly<Record<Exclude<Family["merge"], "first">, Combine>> = {
  sum: (one, other) => one + other,
  min: Math.min,
  max: Math.max,
};

/** Nobody knows which is younger; one of each bucket is enough. */
function latest(
  one: SampleRow["exemplars"],
  other: SampleRow["exemplars"],
): readonly (Exemplar | undefined)[] | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return other.every((exemplar) => exemplar !== undefined)
    ? other
    : one.map((exemplar, index) => other[index] ?? exemplar);
}
