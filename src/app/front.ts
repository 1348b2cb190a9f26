/**
 * The front side: public listeners, the request path, the upstreams. It takes no money itself but asks a
 * till for it, which is in this process, or in the one that forked this one; then there are several fronts
 * with the same configuration, on the same addresses.
 */
import type { AddressInfo } from "node:net";
import type { Config } from "../config/config.ts";
import { keyPairFault } from "../config/key-pair.ts";
import { Gateway } from "../gateway/gateway.ts";
import { Listener } from "../gateway/listener.ts";
import type { FeePayers } from "../gateway/offers.ts";
import { Paywall } from "../gateway/paywall.ts";
import type { Till } from "../gateway/till.ts";
import type { Engine } from "../gateway/upstream.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { systemTime } from "../time/time.ts";
import { openBackends } from "./backends.ts";
import { clientOptions } from "./client-options.ts";
import { createSnapshot, type List } from "./selling.ts";

/** The part of a configuration that a front needs: no key of ours, and no facilitator's token. */
export type FrontConfig = Omit<Config, "facilitator" | "store" | "admin">;

export interface FrontOptions {
  readonly config: FrontConfig;
  readonly telemetry: Telemetry;
  readonly till: Till;
  readonly feePayers: FeePayers;
  readonly list: List;
  /** How many fronts share the limits on requests in flight and on connections to upstreams, this one included. */
  readonly fronts: number;
}

/** Where a front listens. */
export interface Places {
  /** In place of the configured ports, in the order of the listeners. */
  readonly ports?: readonly number[];
  /** The sockets of another process' listeners, in their order. */
  readonly sockets?: readonly object[];
}

export class Front {
  readonly #options: FrontOptions;
  readonly #engines: ReadonlyMap<string, Engine>;
  readonly #gateway: Gateway;
  #listeners: readonly Listener[] = [];
  readonly #retiring = new AbortController();

  constructor(options: FrontOptions) {
    this.#options = options;
    const { config, telemetry, till, feePayers, list, fronts } = options;
    const { metrics, logger } = telemetry;
    const { settlementWaitMs } = config.limits;
    const inFlight = Math.ceil(config.limits.inFlight / fronts);
    const tunnels = Math.ceil(config.limits.tunnels / fronts);
    this.#engines = openBackends(config, { telemetry, connections: inFlight, tunnels });
    this.#gateway = new Gateway({
      snapshot: createSnapshot(config, this.#engines, { metrics, feePayers }),
      paywall: new Paywall({ till, logger, settlementWaitMs, time: systemTime }),
      list,
      cors: typeof config.cors === "string" ? config.cors : new Set(config.cors),
      maxInFlight: inFlight,
      telemetry,
      ...clientOptions(config, fronts),
    });
    metrics.observeInFlight(() => this.#gateway.inFlight);
  }

  /** Resolves with the addresses once all of them accept connections. Rejects where one cannot be had. */
  async open({ ports = [], sockets = [] }: Places = {}): Promise<readonly AddressInfo[]> {
    const { config, fronts, telemetry } = this.#options;
    const { headerBytes } = config.limits;
    const { logger, metrics } = telemetry;
    const onUsed = (file: string, ms: number): void => metrics.configuration.certificate(file, ms);
    const retiring = this.#retiring.signal;
    const shared = { headerBytes, retiring, reusePort: fronts > 1, logger };
    this.#listeners = config.listen.map(({ host, port, tls }, index) => {
      const secure = tls === null ? null : { ...tls, judge: keyPairFault, logger, onUsed };
      const place = { host, port: ports[index] ?? port, tls: secure };
      return new Listener(this.#gateway, { ...place, ...shared });
    });
    const addresses: AddressInfo[] = [];
    for (const [index, listener] of this.#listeners.entries()) {
      addresses.push(await listener.open(sockets[index]));
    }
    return addresses;
  }

  /** What listens, to be passed on to the process that takes this one's place. */
  get sockets(): readonly unknown[] {
    return this.#listeners.map(({ socket }) => socket);
  }

  /** From here on connections are not kept for another request. */
  retire(): void {
    this.#retiring.abort();
  }

  /** Accepts nothing new, finishes what is in flight until the signal ends, and closes everything. */
  async close(signal: AbortSignal): Promise<void> {
    this.retire();
    await Promise.all(this.#listeners.map((listener) => listener.drain(signal)));
    // Settlements and deliveries go on after their clients have left.
    await this.#gateway.drain(signal);
    await Promise.all([...this.#engines.values()].map((engine) => engine.close(signal)));
  }
}
