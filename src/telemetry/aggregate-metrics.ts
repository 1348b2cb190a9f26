/**
 * The metrics of several processes as those of one. What is counted is summed up, and what processes counted that
 * are gone stays in the sum, or a restarted worker would look like a counter that began anew. What describes a
 * process (memory, event loop) is told of each of them, under the label `worker`.
 */
import type { Exemplar, Family, Row } from "./exposition.ts";
import type { MetricsSnapshot } from "./metric-registry.ts";

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
    this.#counted = merge([this.#counted, counted]);
    this.#added.add(process);
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

interface Merged {
  readonly family: Family;
  readonly rows: Map<string, Row>;
}

function merge(snapshots: readonly MetricsSnapshot[]): MetricsSnapshot {
  const all = new Map<string, Merged>();
  for (const snapshot of snapshots) {
    for (const family of snapshot) {
      const merged = all.get(family.name) ?? { family, rows: new Map<string, Row>() };
      all.set(family.name, merged);
      for (const row of family.rows) {
        const known = merged.rows.get(row.labels);
        merged.rows.set(row.labels, known === undefined ? row : both(known, row, family.merge));
      }
    }
  }
  return Array.from(all.values(), ({ family, rows }) => ({ ...family, rows: [...rows.values()] }));
}

function both(one: Row, other: Row, how: Family["merge"]): Row {
  if (how === "first") return one;
  const combine = COMBINE[how];
  const values = Float64Array.from(one.values);
  for (const [index, value] of other.values.entries()) {
    values[index] = combine(values[index] ?? value, value);
  }
  return { labels: one.labels, values, exemplars: latest(one.exemplars, other.exemplars) };
}

const COMBINE: Readonly<
  Record<Exclude<Family["merge"], "first">, (one: number, other: number) => number>
> = {
  sum: (one, other) => one + other,
  min: Math.min,
  max: Math.max,
};

/** Nobody knows which is younger; one of each bucket is enough. */
function latest(
  one: Row["exemplars"],
  other: Row["exemplars"],
): readonly (Exemplar | undefined)[] | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return other.every((exemplar) => exemplar !== undefined)
    ? other
    : one.map((exemplar, index) => other[index] ?? exemplar);
}
