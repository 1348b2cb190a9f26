/**
 * Which networks may be used. A network opens when its checks passed: until the RPC endpoint has shown
 * the right chain and the right token, nothing is signed and nothing is concluded from what it says. The
 * checks go on while the process runs: an endpoint that turns to another chain, or accounts without
 * gas, close their network; so does one that cannot be reached, though what it said before stays proven. What was
 * signed before is watched as long as the chain is the right one, whatever else is wrong. Each is looked at by
 * itself: one that is closed costs the others nothing.
 */
import type { Finding, Probed } from "../../mechanism/mechanism.ts";
import type { ClosedReason } from "../../telemetry/network-meter.ts";
import type { Telemetry } from "../../telemetry/telemetry.ts";
import type { Time } from "../../time/time.ts";
import { Lookout, type Looked, type LookoutOptions } from "./lookout.ts";

/** What the checks of one network found. */
export interface NetworkProbe extends Looked {
  readonly network: string;
}

type Gated = Probed & { readonly network: string };

/** Checked, and not in use as yet. */
export interface PreparedNetwork {
  readonly network: string;
  readonly lookout: Lookout;
  readonly looked: Looked;
}

export class NetworkGate {
  /** Networks whose endpoint has proven itself, reachable now or not. */
  readonly #open = new Set<string>();
  /** Those, and the ones where nothing is wrong but on our side. */
  readonly #trusted = new Set<string>();
  readonly #lookouts = new Map<string, Lookout>();
  readonly #ground: Pick<LookoutOptions, "logger" | "time">;

  constructor(networks: readonly Gated[], { logger }: Pick<Telemetry, "logger">, time: Time) {
    this.#ground = { logger, time };
    for (const probed of networks) {
      this.#lookouts.set(probed.network, this.#lookoutOf(probed));
    }
  }

  /** Whether payments may be judged and signed there. */
  isOpen(network: string): boolean {
    return this.#open.has(network);
  }

  /** Whether its chain may be believed, and given what was signed before. */
  isTrusted(network: string): boolean {
    return this.#trusted.has(network);
  }

  /** Why payments there fail now; undefined: they do not, or nothing here looks at that network. */
  closedReason(network: string): ClosedReason | undefined {
    return this.#lookouts.get(network)?.closed;
  }

  /** Whether they may fail in a moment. */
  isDoubted(network: string): boolean {
    return this.#lookouts.get(network)?.isDoubted === true;
  }

  /** Something has failed there: its checks are made soon. */
  doubt(network: string): void {
    this.#lookouts.get(network)?.doubt();
  }

  /** Checks every network, and again in the background until the gate is closed. */
  probe(): Promise<readonly NetworkProbe[]> {
    const probing = [...this.#lookouts].map(async ([network, lookout]): Promise<NetworkProbe> => {
      return { network, ...(await lookout.open()) };
    });
    return Promise.all(probing);
  }

  /**
   * The first checks of what is to be used for its network, and then more, until it is {@link put} in, or closed. What
   * they find opens and closes nothing until then.
   */
  async prepare(probed: Gated): Promise<PreparedNetwork> {
    const lookout = this.#lookoutOf(probed);
    const { network } = probed;
    return { network, lookout, looked: await lookout.open({ isTrial: true }) };
  }

  /** In place of what was looked at for that network, which goes on being used for nothing. */
  async put({ network, lookout, looked }: PreparedNetwork): Promise<void> {
    const before = this.#lookouts.get(network);
    this.#lookouts.set(network, lookout);
    this.#open.delete(network);
    this.#trusted.delete(network);
    this.#looked(network, looked);
    await before?.close();
  }

  /** The network is used no more. */
  async remove(network: string): Promise<void> {
    const before = this.#lookouts.get(network);
    this.#lookouts.delete(network);
    this.#open.delete(network);
    this.#trusted.delete(network);
    await before?.close();
  }

  /** Ends the checks that are running, and the checking again. */
  async close(): Promise<void> {
    await Promise.all([...this.#lookouts.values()].map((lookout) => lookout.close()));
  }

  #lookoutOf(probed: Gated): Lookout {
    const { network: name } = probed;
    const probe: Probed["probe"] = (signal) => probed.probe(signal);
    const onLook = (looked: Looked): void => {
      if (this.#lookouts.get(name) === lookout) this.#looked(name, looked);
    };
    const options = { probe, onLook, ...this.#ground };
    const lookout: Lookout = new Lookout({ what: "network", name, away: "rpc", ...options });
    return lookout;
  }

  #looked(network: string, { state, findings }: Looked): void {
    if (state === "unreachable") return;
    mark(this.#open, network, state === "open");
    mark(this.#trusted, network, findings.every(isHarmless));
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
