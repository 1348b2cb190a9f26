/**
 * Which networks payments are taken on now, as buyers and the operator are told: what is settled here is known by its
 * gate, what is settled elsewhere by whoever settles it and, where the chain is asked beside that, by the chain.
 */
import { soldNetworks, type Config } from "../config/config.ts";
import type { FacilitatorRouter } from "../facilitator/facilitator-router.ts";
import type { RemoteFacilitator } from "../facilitator/remote.ts";
import type { NetworkState, NetworkStates } from "../payments/sale/offers.ts";
import { NO_STOPS, stopOn, type Stops, type StopSource } from "../payments/sale/stops.ts";
import type { Lookout } from "../payments/settlement/lookout.ts";
import type { NetworkGate } from "../payments/settlement/network-gate.ts";
import type { ClosedReason } from "../telemetry/network-meter.ts";
import type { Time } from "../time/time.ts";
import { findNetwork, type NetworkName } from "../x402/network.ts";
import { SAME_MS } from "./fee-payers.ts";
import type { ToldStates } from "./start-order.ts";

/** So long after it was closed a network is offered behind the others, milliseconds; each time twice as long. */
export const FIRST_UNSTEADY_MS = 15_000;
/** The longest of these times, and how long without being closed makes it forgotten, milliseconds. */
export const MAX_UNSTEADY_MS = 600_000;

/** A facilitator elsewhere, and who looks whether it is there. */
export interface WatchedFacilitator {
  readonly remote: Pick<RemoteFacilitator, "name" | "word">;
  readonly lookout: Pick<Lookout, "closed" | "isDoubted">;
}

export interface NetworkSources {
  readonly gate: Pick<NetworkGate, "closedReason" | "isDoubted">;
  readonly router: Pick<FacilitatorRouter, "isRemote" | "isAvoided">;
  readonly remotes: readonly WatchedFacilitator[];
  /** Whether buyers can be told who pays the network fee there. */
  readonly hasFeePayer: (network: string) => boolean;
  /** What is not sold for now. Default: nothing is stopped. */
  readonly stopped?: StopSource;
  readonly time: Pick<Time, "now">;
}

interface Known {
  state: NetworkState;
  isClosed: boolean;
  /** When it was opened again; not steady before `untilMs`. */
  reopenedMs: number;
  untilMs: number;
}

export class KnownNetworks implements NetworkStates {
  #sources: NetworkSources;
  #used: readonly NetworkName[] = [];
  /** Those that were asked for. */
  readonly #known = new Map<string, Known>();
  #revision = 0;
  #comparedMs = Number.NEGATIVE_INFINITY;

  constructor(sources: NetworkSources) {
    this.#sources = sources;
  }

  /** What the configuration in force uses, as far as it was told. */
  get used(): readonly NetworkName[] {
    return this.#used;
  }

  /**
   * Networks on which something is sold, and those that are settled here for others.
   * @param remotes facilitators elsewhere from now on; default: those that there are
   */
  know(
    { routes, facilitator }: Pick<Config, "routes" | "facilitator">,
    remotes: NetworkSources["remotes"] = this.#sources.remotes,
  ): void {
    this.#sources = { ...this.#sources, remotes };
    const settled = facilitator.embedded.map(({ network }) => network);
    this.#used = [...new Set([...settled, ...soldNetworks(routes)])];
    for (const network of this.#used) this.of(network);
  }

  get revision(): number {
    const nowMs = this.#sources.time.now();
    if (Math.abs(nowMs - this.#comparedMs) >= SAME_MS) {
      this.#comparedMs = nowMs;
      for (const [network, known] of this.#known) this.#compare(network, known);
    }
    return this.#revision + this.#stopped.revision;
  }

  get stops(): Stops {
    return this.#stopped.stops;
  }

  get #stopped(): StopSource {
    return this.#sources.stopped ?? NO_STOPS;
  }

  of(network: string): NetworkState {
    const known = this.#known.get(network);
    if (known !== undefined) return this.#compare(network, known);
    const reason = this.closedReason(network);
    const state = reason === undefined ? "open" : "closed";
    const isClosed = reason !== undefined && !isMeant(reason);
    this.#known.set(network, { state, isClosed, reopenedMs: -Infinity, untilMs: -Infinity });
    return state;
  }

  /** Those that are not simply open, for other processes, which hear of what is stopped besides. */
  get told(): ToldStates {
    return [...this.#known].flatMap(([network, { state }]) =>
      state === "open" ? [] : [[network, state] as const],
    );
  }

  /** Why no payments are taken there; undefined: they are. */
  closedReason(network: string): ClosedReason | undefined {
    const { gate, router, hasFeePayer } = this.#sources;
    const reason = gate.closedReason(network);
    const stop = stopOn(this.stops, network);
    const stopped = stop?.why === "gas" ? "gas" : stop && "paused";
    if (reason !== undefined || !router.isRemote(network)) return reason ?? stopped;
    return (
      this.#closedElsewhere(network) ??
      (findNetwork(network)?.kind === "solana" && !hasFeePayer(network) ? "fee-payer" : stopped)
    );
  }

  /** Whether a facilitator elsewhere can be asked, about whichever network. */
  get hasElsewhere(): boolean {
    const { remotes, router } = this.#sources;
    return remotes.some(({ remote: { name }, lookout }) => {
      return lookout.closed === undefined && !router.isAvoided(name);
    });
  }

  /** Undefined where anybody settles there. */
  #closedElsewhere(network: string): ClosedReason | undefined {
    const { remotes, router } = this.#sources;
    const reasons = new Set(
      remotes.map(({ remote: { name, word }, lookout }) => {
        const isAway = router.isAvoided(name) || word.isClosed(network);
        return lookout.closed ?? (isAway ? "facilitator" : undefined);
      }),
    );
    if (reasons.has(undefined)) return undefined;
    // Where one does not know us somebody has to do something.
    return reasons.has("unauthorized") ? "unauthorized" : "facilitator";
  }

  #isDoubted(network: string): boolean {
    const { gate, router, remotes } = this.#sources;
    if (gate.isDoubted(network)) return true;
    return router.isRemote(network) && remotes.every(({ lookout }) => lookout.isDoubted);
  }

  #compare(network: string, known: Known): NetworkState {
    const nowMs = this.#sources.time.now();
    const reason = this.closedReason(network);
    const isStopped = isMeant(reason);
    // What is stopped goes on as it was: nothing was wrong with it.
    const isClosed = reason !== undefined && !isStopped;
    if (known.isClosed && !isClosed) {
      const spanMs = known.untilMs - known.reopenedMs;
      const isForgotten = !(nowMs - known.reopenedMs < MAX_UNSTEADY_MS);
      const nextMs = isForgotten ? FIRST_UNSTEADY_MS : Math.min(2 * spanMs, MAX_UNSTEADY_MS);
      known.reopenedMs = nowMs;
      known.untilMs = nowMs + nextMs;
    }
    known.isClosed = isClosed;
    const isUnsteady = nowMs < known.untilMs || this.#isDoubted(network);
    const state = isClosed || isStopped ? "closed" : isUnsteady ? "unsteady" : "open";
    if (state !== known.state) this.#revision += 1;
    known.state = state;
    return state;
  }
}

/** Whether nothing is wrong with a network that is closed: somebody has stopped it, or an hour's limit has. */
export function isMeant(reason: ClosedReason | undefined): boolean {
  return reason === "paused" || reason === "gas";
}
