/** Which networks are open, as a test tells it. */
import type { Stop, Stops, StopScope } from "../../../src/payments/sale/stops.ts";
import type { NetworkState, NetworkStates } from "../../../src/payments/sale/offers.ts";

export class States implements NetworkStates {
  #revision = 0;
  readonly #states: Record<string, NetworkState>;

  constructor(states: Readonly<Record<string, NetworkState>> = {}) {
    this.#states = { ...states };
  }

  get revision(): number {
    return this.#revision;
  }

  tell(network: string, state: NetworkState): void {
    this.#revision += 1;
    this.#states[network] = state;
  }

  /** What is not sold for now. */
  stops: Stops = new Map();

  stop(scope: StopScope, stop?: Stop): void {
    this.#revision += 1;
    this.stops = new Map(stop && [[scope, stop]]);
  }

  of(network: string): NetworkState {
    return this.#states[network] ?? "open";
  }
}
