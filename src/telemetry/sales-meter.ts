/** What is not sold for now, and to whom nothing was. */
import { Counter, Gauge } from "prom-client";
import type { MetricRegistry } from "./metric-registry.ts";

/** Whose payment was not taken: of a payer on a list, or over his hour; or anybody's. */
const BARS = ["denied", "payer", "paused", "sales", "gas"] as const;

export class SalesMeter {
  readonly #barred: Counter;
  #readStops = (): ReadonlyMap<string, { readonly why: string }> => new Map();

  constructor(registry: MetricRegistry) {
    const registers = [registry];
    this.#barred = new Counter({
      name: "coinslot_payments_barred_total",
      help: "Payments that were not taken because of whose they were (denied), of what their payer bought in this hour (payer), or because nothing was sold, by reason",
      labelNames: ["reason"],
      registers,
    });
    for (const reason of BARS) this.#barred.inc({ reason }, 0);
    const stopped = new Gauge({
      name: "coinslot_sales_stopped",
      help: "1 for each scope in which nothing is sold: all, sales (all routes), a route or a network, and why: paused, or the limit of an hour for sales or gas; not there where all is sold",
      labelNames: ["scope", "reason"],
      registers,
      collect: () => {
        stopped.reset();
        for (const [scope, { why }] of this.#readStops()) stopped.set({ scope, reason: why }, 1);
      },
    });
  }

  /** A payment was presented, and is not taken. */
  barred(reason: (typeof BARS)[number]): void {
    this.#barred.inc({ reason });
  }

  /** What is stopped is asked at each scrape. */
  observeStops(read: () => ReadonlyMap<string, { readonly why: string }>): void {
    this.#readStops = read;
  }
}
