/** How often chains were asked who holds a token, and what came of it. */
import { Counter } from "prom-client";
import type { MetricRegistry } from "./metric-registry.ts";

export class HolderMeter {
  readonly #asked: Counter;

  constructor(registry: MetricRegistry) {
    this.#asked = new Counter({
      name: "coinslot_holder_questions_total",
      help: "How often the chain was asked whether a proven account holds the token of a group of members, by network and result (held, lacking, unknown: it could not be asked, and the account counted as no member)",
      labelNames: ["network", "result"],
      registers: [registry],
    });
  }

  asked(network: string, result: "held" | "lacking" | "unknown"): void {
    this.#asked.inc({ network, result });
  }
}
