/** How much of what other gateways sell is listed. */
import { Gauge } from "prom-client";
import type { MetricRegistry } from "./metric-registry.ts";

export class CatalogueMeter {
  #read = (): ReadonlyMap<string, number> => new Map();

  constructor(registry: MetricRegistry) {
    const resources = new Gauge({
      name: "coinslot_catalogue_resources",
      help: "Resources of other gateways that are listed for what they settle here, by gateway",
      labelNames: ["gateway"],
      registers: [registry],
      collect: () => {
        resources.reset();
        for (const [gateway, count] of this.#read()) resources.set({ gateway }, count);
      },
    });
  }

  /** Is asked at each scrape. */
  observe(read: () => ReadonlyMap<string, number>): void {
    this.#read = read;
  }
}
