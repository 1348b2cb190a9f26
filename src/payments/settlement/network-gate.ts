/**
 * Which networks may be used. A network opens when its checks passed: until the RPC endpoint has shown
 * the right chain and the right token, nothing is signed and nothing is concluded from what it says. The
 * checks go on while the process runs: an endpoint that turns to another chain, or an account without
 * gas, closes its network; one that cannot be reached makes the process unready and is tried again. What was
 * signed before is watched as long as the chain is the right one, whatever else is wrong.
 */
import type { Finding, Mechanism } from "../../mechanism/mechanism.ts";
import type { Telemetry } from "../../telemetry/telemetry.ts";
import type { Time } from "../../time/time.ts";
import { messageOf } from "../../x402/result.ts";

/** First pause before networks are checked again while one of them is not open, milliseconds; it doubles. */
const FIRST_RETRY_MS = 250;
/** The longest of these pauses, milliseconds. */
const MAX_RETRY_MS = 5_000;
/** Pause before they are checked again while all is well, milliseconds. */
const RECHECK_MS = 30_000;
/** Longest that the checks of one network may take, milliseconds. */
const PROBE_TIMEOUT_MS = 10_000;

/** What the checks of one network found. `state` is `open` without errors. */
export interface NetworkProbe {
  readonly network: string;
  readonly state: "open" | "wrong" | "unreachable";
  readonly findings: readonly Finding[];
}

export class NetworkGate {
  readonly #mechanisms: readonly Mechanism[];
  readonly #telemetry: Telemetry;
  /** Networks whose endpoint has proven itself, reachable now or not. */
  readonly #open = new Set<string>();
  /** Those, and the ones where nothing is wrong but on our side. */
  readonly #trusted = new Set<string>();
  readonly #states = new Map<string, NetworkProbe["state"]>();
  readonly #time: Time;
  readonly #closing = new AbortController();
  #retryMs = FIRST_RETRY_MS;
  /** Ends the pause before the next checks. */
  #pause = new AbortController();

  constructor(mechanisms: readonly Mechanism[], telemetry: Telemetry, time: Time) {
    this.#mechanisms = mechanisms;
    this.#telemetry = telemetry;
    this.#time = time;
  }

  /** Whether payments may be judged and signed there. */
  isOpen(network: string): boolean {
    return this.#open.has(network);
  }

  /** Whether its chain may be believed, and given what was signed before. */
  isTrusted(network: string): boolean {
    return this.#trusted.has(network);
  }

  /** Networks that are configured and on which payments fail now. */
  closed(): readonly string[] {
    const names = this.#mechanisms.map(({ network }) => network);
    return names.filter((name) => this.#states.get(name) !== "open");
  }

  /** Checks every network once, and again in the background until the gate is closed. */
  async probe(): Promise<readonly NetworkProbe[]> {
    const { signal } = this.#closing;
    const time = this.#time;
    const probes = await Promise.all(this.#mechanisms.map((each) => probe(each, time, signal)));
    for (const { network, state, findings } of probes) {
      this.#states.set(network, state);
      if (state === "unreachable") continue;
      mark(this.#open, network, state === "open");
      mark(this.#trusted, network, findings.every(isHarmless));
    }
    if (signal.aborted) return probes;
    this.#pause.abort();
    this.#pause = new AbortController();
    void this.#probeAfter(this.#nextPause(), this.#pause.signal);
    return probes;
  }

  /** Ends the checks that are running, and the checking again. */
  close(): void {
    this.#closing.abort();
    this.#pause.abort();
  }

  #nextPause(): number {
    if (this.closed().length === 0) {
      this.#retryMs = FIRST_RETRY_MS;
      return RECHECK_MS;
    }
    const pauseMs = this.#retryMs;
    this.#retryMs = Math.min(pauseMs * 2, MAX_RETRY_MS);
    return pauseMs;
  }

  async #probeAfter(pauseMs: number, ended: AbortSignal): Promise<void> {
    await this.#time.sleep(pauseMs, ended);
    if (ended.aborted) return;
    const { logger } = this.#telemetry;
    const before = new Map(this.#states);
    const probes = await this.probe();
    if (this.#closing.signal.aborted) return;
    for (const { network, state, findings } of probes) {
      const isNews = before.get(network) !== state;
      if (state === "open" && !isNews) continue;
      for (const { level, message } of findings) {
        if (level === "error") logger.error({ network }, message);
        else logger.warn({ network }, message);
      }
      if (state === "open") logger.info({ network }, "network is ready");
    }
  }
}

function mark(networks: Set<string>, network: string, isSo: boolean): void {
  if (isSo) networks.add(network);
  else networks.delete(network);
}

/** As far as the chain is concerned. */
function isHarmless({ level, isChainRight }: Finding): boolean {
  return level === "warning" || isChainRight === true;
}

async function probe(
  mechanism: Mechanism,
  time: Time,
  closing: AbortSignal,
): Promise<NetworkProbe> {
  const { network } = mechanism;
  try {
    const signal = AbortSignal.any([closing, time.timeout(PROBE_TIMEOUT_MS)]);
    const findings = await mechanism.probe(signal);
    const wrong = findings.some(({ level }) => level === "error");
    return { network, state: wrong ? "wrong" : "open", findings };
  } catch (cause) {
    const reason = messageOf(cause);
    const message = `${network} cannot be checked: ${reason}; payments on it wait until it can`;
    return { network, state: "unreachable", findings: [{ level: "warning", message }] };
  }
}
