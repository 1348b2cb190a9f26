/**
 * Which networks may be used. A network opens when its start-up checks passed: until the RPC endpoint
 * has shown the right chain and the right token, nothing is signed and nothing is concluded from what
 * it says. One that cannot be reached is tried again; one that is wrong stays closed.
 */
import type { Finding, Mechanism } from "../mechanism/mechanism.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";

/** Pause before an unreachable network is tried again, milliseconds. */
const RETRY_MS = 5_000;
/** Longest that the checks of one network may take, milliseconds. */
const PROBE_TIMEOUT_MS = 10_000;

/** What the checks of one network found. `state` is `open` without errors. */
export interface Probe {
  readonly network: string;
  readonly state: "open" | "wrong" | "unreachable";
  readonly findings: readonly Finding[];
}

export class NetworkGate {
  readonly #mechanisms: readonly Mechanism[];
  readonly #telemetry: Telemetry;
  readonly #open = new Set<string>();
  readonly #wrong = new Set<string>();
  readonly #closing = new AbortController();
  #retry: NodeJS.Timeout | undefined;

  constructor(mechanisms: readonly Mechanism[], telemetry: Telemetry) {
    this.#mechanisms = mechanisms;
    this.#telemetry = telemetry;
  }

  isOpen(network: string): boolean {
    return this.#open.has(network);
  }

  /** Networks that are configured and cannot be used now. */
  closed(): readonly string[] {
    return this.#mechanisms.map(({ network }) => network).filter((name) => !this.#open.has(name));
  }

  /** Checks every network once; unreachable ones are tried again in the background. */
  async probe(): Promise<readonly Probe[]> {
    const decided = (network: string): boolean =>
      this.#open.has(network) || this.#wrong.has(network);
    const waiting = this.#mechanisms.filter(({ network }) => !decided(network));
    const { signal } = this.#closing;
    const probes = await Promise.all(waiting.map((mechanism) => probe(mechanism, signal)));
    for (const { network, state } of probes) {
      if (state === "open") this.#open.add(network);
      if (state === "wrong") this.#wrong.add(network);
    }
    if (!signal.aborted && probes.some(({ state }) => state === "unreachable")) {
      clearTimeout(this.#retry);
      this.#retry = setTimeout(() => void this.#again(), RETRY_MS).unref();
    }
    return probes;
  }

  /** Ends the checks that are running, and the trying again. */
  close(): void {
    this.#closing.abort();
    clearTimeout(this.#retry);
  }

  async #again(): Promise<void> {
    const { logger } = this.#telemetry;
    const probes = await this.probe();
    if (this.#closing.signal.aborted) return;
    for (const { network, state, findings } of probes) {
      for (const { level, message } of findings) {
        if (level === "error") logger.error({ network }, message);
        else logger.warn({ network }, message);
      }
      if (state === "open") logger.info({ network }, "network is ready");
    }
  }
}

async function probe(mechanism: Mechanism, closing: AbortSignal): Promise<Probe> {
  const { network } = mechanism;
  try {
    const signal = AbortSignal.any([closing, AbortSignal.timeout(PROBE_TIMEOUT_MS)]);
    const findings = await mechanism.probe(signal);
    const wrong = findings.some(({ level }) => level === "error");
    return { network, state: wrong ? "wrong" : "open", findings };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `${network} cannot be checked: ${reason}; payments on it wait until it can`;
    return { network, state: "unreachable", findings: [{ level: "warning", message }] };
  }
}
