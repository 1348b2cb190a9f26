/**
 * Places for requests that may hold a backend, the chain, or memory of ours for as long as their clients like. An
 * address may have as many as are still free, so never more than half of them, and the second of two who take what
 * they can half of the rest. Some are kept for payments. What is answered at once takes none.
 */
import { Counts } from "./client/counts.ts";
import { networkOf } from "./client/ip-address.ts";

/** Of all places, the part that only presented payments get. */
const RESERVED = 1 / 10;

/** For a payment that is presented, or for anything else that is forwarded. */
export type Need = "payment" | "free";

export class Room {
  readonly #byNetwork = new Counts();
  #taken = 0;

  /**
   * Takes a place of so many, for an address (of IPv6: its /64). What it returns gives it back, once; undefined: the
   * address has as many as are free.
   */
  enter(address: string, most: number, need: Need): (() => void) | undefined {
    const network = networkOf(address);
    const usable = need === "payment" ? most : most - Math.floor(most * RESERVED);
    if (this.#byNetwork.of(network) >= usable - this.#taken) return undefined;
    this.#count(network, 1);
    return () => this.#count(network, -1);
  }

  #count(network: string, change: 1 | -1): void {
    this.#taken += change;
    this.#byNetwork.change(network, change);
  }
}
