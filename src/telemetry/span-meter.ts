/** What becomes of spans; all of it stays at 0 where none are recorded. */
import { Counter } from "prom-client";
import type { MetricRegistry } from "./metric-registry.ts";

/** `dropped`: more than may wait; `failed`: not taken by the collector. */
export type SpanResult = "exported" | "dropped" | "failed";

export class SpanMeter {
  readonly #spans: Counter;

  constructor(registry: MetricRegistry) {
    this.#spans = new Counter({
      name: "coinslot_trace_spans_total",
      help: "Sampled spans by what became of them (exported, dropped, failed)",
      labelNames: ["result"],
      registers: [registry],
    });
    for (const result of ["exported", "dropped", "failed"]) this.#spans.inc({ result }, 0);
  }

  count(result: SpanResult, spans: number): void {
    this.#spans.inc({ result }, spans);
  }
}
