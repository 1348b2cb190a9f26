/**
 * Who has the tunnels of one target. Any address may have all of them while nobody else wants one; where none is left,
 * one of the address with most makes room, the one that has been silent longest: never for an address that would then
 * have as many, so that two who do the same do not end each other. What was sold makes no room, and gets it always. One
 * that is being sold is reserved from before it is paid, or the last one would be sold to each who asks meanwhile.
 */
import { Counts } from "../../fairness/counts.ts";
import { networkOf } from "../../http/ip-address.ts";

/** Silent for so long, the only tunnel of an address makes room for one of an address that has none, milliseconds. */
export const LONG_SILENCE_MS = 60_000;

/** Whoever has a tunnel, or is about to. */
export interface TunnelHolder {
  /** Since something moved, in either direction, milliseconds. */
  readonly silentMs: number;
  /** Ends it: its place is another's. */
  evict(): void;
}

interface Place {
  readonly network: string;
  readonly holder: TunnelHolder;
}

export class TunnelPlaces {
  readonly #most: number;
  /** What nobody has paid for. */
  readonly #free = new Set<Place>();
  readonly #byNetwork = new Counts();
  #sold = 0;
  readonly #reserved = new Counts();

  constructor(most: number) {
    this.#most = most;
  }

  get taken(): number {
    return this.#free.size + this.#sold;
  }

  /** Those that are neither sold nor reserved. */
  get #forSale(): number {
    return this.#most - this.#sold - this.#reserved.total;
  }

  /**
   * One for a sale. What it returns lets go of it, also for {@link enter}; undefined: there is none. An address may
   * reserve as many as are left, since nothing proves yet that it pays.
   */
  reserve(address: string): (() => void) | undefined {
    const network = networkOf(address);
    if (!this.#reserved.hasShare(network, this.#most - this.#sold)) return undefined;
    this.#reserved.change(network, 1);
    return once(() => this.#reserved.change(network, -1));
  }

  /** What it returns gives the place back, once; undefined: there is none, and nobody had to make room. */
  enter(address: string, isSold: boolean, holder: TunnelHolder): (() => void) | undefined {
    const network = networkOf(address);
    if (isSold && this.#forSale <= 0) return undefined;
    if (this.taken >= this.#most && !this.#makeRoom(network, isSold)) return undefined;
    if (isSold) {
      this.#sold += 1;
      return once(() => {
        this.#sold -= 1;
      });
    }
    const place = { network, holder };
    this.#free.add(place);
    this.#byNetwork.change(network, 1);
    return () => this.#leave(place);
  }

  #makeRoom(newcomer: string, isSold: boolean): boolean {
    const own = this.#byNetwork.of(newcomer);
    let found: { readonly place: Place; readonly count: number; readonly ms: number } | null = null;
    for (const place of this.#free) {
      const count = this.#byNetwork.of(place.network);
      const ms = place.holder.silentMs;
      const mayEnd = isSold || count > own + 1 || (own === 0 && ms >= LONG_SILENCE_MS);
      if (!mayEnd) continue;
      const isBetter =
        found === null || count > found.count || (count === found.count && ms > found.ms);
      if (isBetter) found = { place, count, ms };
    }
    if (found === null) return false;
    this.#leave(found.place);
    found.place.holder.evict();
    return true;
  }

  #leave(place: Place): void {
    if (this.#free.delete(place)) this.#byNetwork.change(place.network, -1);
  }
}

function once(leave: () => void): () => void {
  let isLeft = false;
  return () => {
    if (!isLeft) leave();
    isLeft = true;
  };
}
