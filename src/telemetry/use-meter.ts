/** What answers have used whose routes are charged by that, and what of what was paid that has cost. */
import { Counter } from "prom-client";
import type { MetricRegistry } from "./metric-registry.ts";

/** One answer that was given. */
interface Used {
  /** Key of its route. */
  readonly route: string;
  readonly network: string;
  /** Symbol of the token. */
  readonly asset: string;
  /** Whole tokens. */
  readonly charged: number;
  readonly change: number;
  /** Null: it has not said what it has used. */
  readonly units: number | null;
  /** Why it is not charged by what it has used; null: it is. */
  readonly reason: string | null;
}

export class UseMeter {
  readonly #units: Counter;
  readonly #answers: Counter;
  readonly #amounts: Counter;

  constructor(registry: MetricRegistry) {
    const registers = [registry];
    this.#units = new Counter({
      name: "coinslot_usage_total",
      help: "What answers have said that they have used, by route (a float: for graphs, not for books)",
      labelNames: ["route"],
      registers,
    });
    this.#answers = new Counter({
      name: "coinslot_metered_answers_total",
      help: "Answers that are charged by use, by route, and why one is not charged by what it has used: absent, no-number, twice, malformed, too-long, encoded, left, above-max; metered: it is",
      labelNames: ["route", "reason"],
      registers,
    });
    this.#amounts = new Counter({
      name: "coinslot_metered_amount_total",
      help: "What was paid for answers that are charged by use, in whole tokens, by route, network and asset: charged, or change that is in the buyer's balance (a float: for graphs, not for books)",
      labelNames: ["route", "network", "asset", "part"],
      registers,
    });
  }

  count({ route, network, asset, charged, change, units, reason }: Used): void {
    if (units !== null) this.#units.inc({ route }, units);
    this.#answers.inc({ route, reason: reason ?? "metered" });
    this.#amounts.inc({ route, network, asset, part: "charged" }, charged);
    this.#amounts.inc({ route, network, asset, part: "change" }, change);
  }
}
