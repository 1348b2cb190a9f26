/**
 * The metrics of several processes as those of one. What is counted is summed up, and what processes counted that
 * are gone stays in the sum, or a restarted worker would look like a counter that began anew. What describes a
 * process (memory, event loop) is told of each of them, under the label `worker`.
 */
import { AggregatorRegistry, type Registry } from "prom-client";

/** All metrics of one process, as plain values. */
export type MetricsSnapshot = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/** `worker`: "0" for the first process, else the number of the worker. */
export interface ProcessMetrics {
  readonly worker: string;
  readonly metrics: MetricsSnapshot;
  /** Another process takes its place: what describes this one is told no more. */
  readonly isLeaving: boolean;
}

const OF_ONE_PROCESS = /^(?:process|nodejs)_/;

/** In Prometheus' text format. */
export async function aggregateMetrics(
  processes: readonly ProcessMetrics[],
  ended: EndedMetrics,
): Promise<string> {
  const all = processes.map((each) => labelled(each));
  return AggregatorRegistry.aggregate([...all, ended.counted]).metrics();
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

  /** Adds the last that is known of a process. Not while another is being added. */
  async add(process: object, last: MetricsSnapshot): Promise<void> {
    const counted = last.filter(
      ({ name, type }) => String(type) !== "gauge" && !OF_ONE_PROCESS.test(name),
    );
    // Bounded: the labels are those of the configuration.
    const sum = AggregatorRegistry.aggregate([this.#counted, counted]);
    this.#counted = await sum.getMetricsAsJSON();
    this.#added.add(process);
  }
}

function labelled({ worker, metrics, isLeaving }: ProcessMetrics): MetricsSnapshot {
  return metrics.flatMap((metric) => {
    if (!OF_ONE_PROCESS.test(metric.name)) return [metric];
    if (isLeaving) return [];
    const values = metric.values.map((value) => ({
      ...value,
      labels: { ...value.labels, worker },
    }));
    // Their labels tell them apart, so that nothing is summed up.
    return [{ ...metric, values, aggregator: "sum" as const }];
  });
}
