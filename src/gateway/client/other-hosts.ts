/**
 * Which hosts a gateway is asked by. Whoever asks by another name is somebody else's visitor: behind `host: preserve`
 * it would choose a site of the backend, and everywhere it tells the backend a name (`X-Forwarded-Host`).
 */
import type { Logger } from "../../telemetry/logger.ts";
import type { HostNames } from "../../http/host-names.ts";
import type { InboundRequest } from "../message/inbound.ts";

export interface ServedHosts {
  readonly names: HostNames;
  /** By no other name: 421. Else whoever asks by another name is answered, and the operator is told. */
  readonly only: boolean;
}

/** Pause before it is said again, milliseconds: any client may write such a name. */
const SAY_PAUSE_MS = 3_600_000;

export class OtherHosts {
  readonly #logger: Pick<Logger, "warn">;
  #saidAt = Number.NEGATIVE_INFINITY;

  constructor(logger: Pick<Logger, "warn">) {
    this.#logger = logger;
  }

  /**
   * Says so where a request that is answered asks for another host; of the characters that a host may have, at
   * most 262 of them. Null: nobody knows our names.
   */
  see({ headers }: InboundRequest, served: ServedHosts | null): void {
    const { host } = headers;
    if (served === null || served.names.has(host)) return;
    const now = performance.now();
    if (now - this.#saidAt < SAY_PAUSE_MS) return;
    this.#saidAt = now;
    const message =
      "a request asks for a host that is neither that of publicUrl nor listed under hosts; it is answered like any " +
      "other: with hosts in the file, all others get 421";
    this.#logger.warn({ host }, message);
  }
}
