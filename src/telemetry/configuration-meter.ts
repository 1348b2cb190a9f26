/**
 * What the process runs with: whether the last configuration that it was given is in use, and how long its
 * certificates count.
 */
import { Counter, Gauge } from "prom-client";
import type { MetricRegistry } from "./metric-registry.ts";

export class ConfigurationMeter {
  readonly #successful: Gauge;
  readonly #loaded: Gauge;
  readonly #generations: Counter;
  readonly #info: Gauge;
  readonly #certificates: Gauge;
  readonly #refused: Counter;

  constructor(registry: MetricRegistry) {
    const registers = [registry];
    this.#successful = new Gauge({
      name: "coinslot_config_last_reload_successful",
      help: "1 where the configuration that was read last is in use, 0 where it was refused or is in force only in part",
      registers,
      // Workers are told what to do, and leave theirs at 0.
      aggregator: "max",
    });
    this.#loaded = new Gauge({
      name: "coinslot_config_last_reload_success_timestamp_seconds",
      help: "When the configuration was read that is in use, Unix time",
      registers,
      aggregator: "max",
    });
    this.#generations = new Counter({
      name: "coinslot_config_generations_total",
      help: "Configurations that were taken up, that of the start included",
      registers,
    });
    this.#info = new Gauge({
      name: "coinslot_config_info",
      help: "The configuration in use, by the beginning of the SHA-256 of its file, and of each while one is in force only in part; always 1",
      labelNames: ["hash"],
      registers,
      aggregator: "max",
    });
    this.#certificates = new Gauge({
      name: "coinslot_tls_certificate_expiry_timestamp_seconds",
      help: "When the certificate in use ends, Unix time, by its file, or by the name that an authority gives it for; 0: there is none yet",
      labelNames: ["file"],
      registers,
      // Of several processes the one that has not taken a new one up tells.
      aggregator: "min",
    });
    this.#refused = new Counter({
      name: "coinslot_acme_failures_total",
      help: "Certificates that were asked for in vain, by name",
      labelNames: ["domain"],
      registers,
    });
  }

  /**
   * To be called once for each attempt to take a configuration up, the first one included.
   * @param isInUse false: it was refused, and the one before stays in use, or it is in force only in part
   * @param nowMs milliseconds since the epoch
   * @param hashes of the files that are in force from here on, whole or in part
   */
  loaded(isInUse: boolean, nowMs: number, hashes: readonly string[]): void {
    this.#info.reset();
    for (const hash of hashes) this.#info.set({ hash }, 1);
    this.#successful.set(Number(isInUse));
    if (!isInUse) return;
    this.#loaded.set(nowMs / 1000);
    this.#generations.inc();
  }

  /**
   * A certificate is in use; `file`: its path in the configuration, or the name that it is for; `expiresMs` since the
   * epoch.
   */
  certificate(file: string, expiresMs: number): void {
    this.#certificates.set({ file }, expiresMs / 1000);
  }

  /** No certificate of that name is served any more: its end is nobody's concern. */
  unserved(domain: string): void {
    this.#certificates.remove({ file: domain });
  }

  /** A certificate for that name is to be asked for. */
  awaited(domain: string): void {
    this.#refused.inc({ domain }, 0);
  }

  /** One was asked for in vain. */
  refused(domain: string): void {
    this.#refused.inc({ domain });
  }
}
