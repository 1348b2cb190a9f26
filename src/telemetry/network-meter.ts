/** What is known of each network: whether payments on it are taken, and how far its chain is. */
import { Gauge } from "prom-client";
import type { MetricRegistry } from "./metric-registry.ts";

export class NetworkMeter {
  readonly #heads: Gauge;
  #readOpen = (): ReadonlyMap<string, boolean> => new Map();

  constructor(registry: MetricRegistry) {
    const registers = [registry];
    const labelNames = ["network"];
    this.#heads = new Gauge({
      name: "coinslot_rpc_head_timestamp_seconds",
      help: "Time of the newest block as its own chain tells it, Unix time, by network",
      labelNames,
      registers,
    });
    const open = new Gauge({
      name: "coinslot_network_open",
      help: "1 where payments on the network are taken, 0 where its start-up checks do not pass",
      labelNames,
      registers,
      collect: () => {
        open.reset();
        for (const [network, isOpen] of this.#readOpen()) open.set({ network }, Number(isOpen));
      },
    });
  }

  /** @param timestamp of the newest block, Unix seconds */
  head(network: string, timestamp: number): void {
    this.#heads.set({ network }, timestamp);
  }

  /** Whether each network is open is asked at each scrape. */
  observeOpen(read: () => ReadonlyMap<string, boolean>): void {
    this.#readOpen = read;
  }
}
