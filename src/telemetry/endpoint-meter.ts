/** Which chain nodes are well, of those that are asked: one that a reload has taken away is told no more. */
import { Gauge } from "prom-client";
import type { MetricRegistry } from "./metric-registry.ts";

/** Who asks where nobody says otherwise. */
const ANYBODY = {};

export class EndpointMeter {
  readonly #healthy: Gauge;
  /** What each of those says who ask a node at the moment, by network and host. */
  readonly #said = new Map<string, Map<object, boolean>>();

  constructor(registry: MetricRegistry) {
    this.#healthy = new Gauge({
      name: "coinslot_rpc_endpoint_healthy",
      help: "1 where the chain node answers as it should, 0 where it does not, by network and host",
      labelNames: ["network", "host"],
      registers: [registry],
    });
  }

  /**
   * `isHealthy` is undefined where `who` asks it no more. While several do, as around a reload, a node is well when all
   * of them say so.
   */
  tell(network: string, host: string, isHealthy: boolean | undefined, who: object = ANYBODY): void {
    const name = `${network} ${host}`;
    const said = this.#said.get(name) ?? new Map<object, boolean>();
    if (isHealthy === undefined) said.delete(who);
    else said.set(who, isHealthy);
    if (said.size > 0) {
      this.#said.set(name, said);
      this.#healthy.set({ network, host }, Number([...said.values()].every(Boolean)));
    } else if (this.#said.delete(name)) this.#healthy.remove({ network, host });
  }
}
