/**
 * Metrics on their way to another process: thousands of rows whose names hardly ever change, so that these cross
 * once and only the numbers each time. To read an object for every row took the event loop longer than all the rest
 * of a scrape.
 */
import type { Exemplar, Family, SampleRow } from "./exposition.ts";
import type { MetricsSnapshot } from "./metric-registry.ts";

/** A family without its numbers. */
interface Shape extends Omit<Family, "rows"> {
  readonly labels: readonly string[];
}

/** Exemplars of all rows, side by side: row, bucket, value; the labels are one text, a line each. */
interface PackedExemplars {
  readonly rows: Uint32Array;
  readonly buckets: Uint32Array;
  readonly values: Float64Array;
  readonly labels: string;
}

export interface PackedMetrics {
  /** Names these shapes; from 1. */
  readonly revision: number;
  /** Null: those that the other end has under that revision. */
  readonly shapes: readonly Shape[] | null;
  /** Of all rows of all families, one behind the other. */
  readonly values: Float64Array;
  readonly exemplars: PackedExemplars;
}

/** At the end that counts. */
export class MetricsPacker {
  #shapes: readonly Shape[] = [];
  #revision = 0;

  /** @param known the revision that the other end has; 0: none */
  pack(snapshot: MetricsSnapshot, known: number): PackedMetrics {
    const shapes = snapshot.map(({ rows, ...about }) => ({
      ...about,
      labels: rows.map(({ labels }) => labels),
    }));
    if (this.#revision === 0 || !areSame(shapes, this.#shapes)) {
      this.#shapes = shapes;
      this.#revision += 1;
    }
    return {
      revision: this.#revision,
      shapes: known === this.#revision ? null : this.#shapes,
      values: packValues(snapshot),
      exemplars: packExemplars(snapshot),
    };
  }
}

/** At the end that tells of them. */
export class MetricsUnpacker {
  #shapes: readonly Shape[] = [];
  #revision = 0;

  get revision(): number {
    return this.#revision;
  }

  /** Undefined where the shapes are missing: to be asked again, with {@link revision}. */
  unpack({ revision, shapes, values, exemplars }: PackedMetrics): MetricsSnapshot | undefined {
    if (shapes !== null) {
      this.#shapes = shapes;
      this.#revision = revision;
    } else if (revision !== this.#revision) {
      this.#revision = 0;
      return undefined;
    }
    const ofRows = unpackExemplars(exemplars);
    let offset = 0;
    let rowNumber = 0;
    return this.#shapes.map(({ labels, ...about }) => {
      const width = widthOf(about);
      const rows = labels.map((text): SampleRow => {
        const row = { labels: text, values: values.subarray(offset, offset + width) };
        const found = ofRows.get(rowNumber);
        offset += width;
        rowNumber += 1;
        return found === undefined ? row : { ...row, exemplars: found };
      });
      return { ...about, rows };
    });
  }
}

/** How many values a row has. */
function widthOf({ bounds }: Pick<Family, "bounds">): number {
  return bounds === undefined ? 1 : bounds.length + 2;
}

function packValues(snapshot: MetricsSnapshot): Float64Array {
  const count = snapshot.reduce((sum, family) => sum + family.rows.length * widthOf(family), 0);
  const packed = new Float64Array(count);
  let offset = 0;
  for (const family of snapshot) {
    const width = widthOf(family);
    for (const { values } of family.rows) {
      packed.set(values, offset);
      offset += width;
    }
  }
  return packed;
}

function packExemplars(snapshot: MetricsSnapshot): PackedExemplars {
  const rows: number[] = [];
  const buckets: number[] = [];
  const values: number[] = [];
  const labels: string[] = [];
  let number = 0;
  for (const family of snapshot) {
    for (const { exemplars = [] } of family.rows) {
      for (const [bucket, exemplar] of exemplars.entries()) {
        if (exemplar === undefined) continue;
        rows.push(number);
        buckets.push(bucket);
        values.push(exemplar.value);
        labels.push(exemplar.labels);
      }
      number += 1;
    }
  }
  return {
    rows: Uint32Array.from(rows),
    buckets: Uint32Array.from(buckets),
    values: Float64Array.from(values),
    labels: labels.join("\n"),
  };
}

function unpackExemplars(packed: PackedExemplars): Map<number, (Exemplar | undefined)[]> {
  const labels = packed.labels.split("\n");
  const found = new Map<number, (Exemplar | undefined)[]>();
  for (const [index, row] of packed.rows.entries()) {
    const ofRow = found.get(row) ?? [];
    const bucket = packed.buckets[index] ?? 0;
    while (ofRow.length < bucket) ofRow.push(undefined);
    ofRow[bucket] = { labels: labels[index] ?? "", value: packed.values[index] ?? 0 };
    found.set(row, ofRow);
  }
  return found;
}

/** Only the names of families and rows change while a process runs. */
function areSame(some: readonly Shape[], others: readonly Shape[]): boolean {
  if (some.length !== others.length) return false;
  return some.every(({ name, labels }, index) => {
    const other = others[index];
    if (other?.name !== name || other.labels.length !== labels.length) return false;
    return labels.every((text, row) => other.labels[row] === text);
  });
}
