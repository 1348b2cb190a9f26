/**
 * Places for requests that may hold a backend, the chain, or memory of ours for as long as their clients like. An
 * address may have as many as are still free, so never more than half of them, and the second of two who take what
 * they can half of the rest. Some are kept for payments. What is answered at once takes none. Where there is none left
 * for an address, those make room whose clients have long been to move and have hardly moved, of the addresses that
 * have most places first.
 */
import { Counts } from "../x402/counts.ts";
import { networkOf } from "./client/ip-address.ts";
import { Bag, type Bagged } from "./message/bag.ts";

/** Of all places, the part that only presented payments get; at least so many, where others have some beside them. */
const RESERVED = 1 / 10;
const LEAST_RESERVED = 16;
const BESIDE_RESERVED = 20;
/** Of all places, the part from which on new connections get fewer streams. */
const PRESSED = 3 / 4;
/** Behind its pace by so much (`message/pace.ts`), a place may be taken from its holder, milliseconds. */
const STALLED_MS = 3_000;
/** Of all places, the part that is taken back at once: to look for them takes a walk over all. */
const TAKEN_TOGETHER = 1 / 512;
/** Whoever has as many as one for whom nothing was found is not looked for again so soon, milliseconds. */
const LOOK_PAUSE_MS = 100;

/** For a payment that is presented, or for anything else that is forwarded. */
export type Need = "payment" | "free";

/** Whoever has a place. */
export interface Holder {
  /** How far its client is behind, in sending or in taking, milliseconds; 0 where others are waited for. */
  readonly stalledMs: number;
  /** Ends it: its place is another's. */
  evict(): void;
}

interface Place extends Bagged {
  readonly network: string;
  readonly holder: Holder;
}

export class Room {
  readonly #byNetwork = new Counts();
  readonly #places = new Bag<Place>();
  readonly #clock: () => number;
  #evicted = 0;
  /** Until then nothing is found for anybody who has so many places or more. */
  #fruitless = { untilMs: 0, from: 0 };

  /** @param clock only goes forward, milliseconds */
  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  get taken(): number {
    return this.#places.size;
  }

  /** Holders that had to make room, up to now. */
  get evicted(): number {
    return this.#evicted;
  }

  /** Whether so many places are nearly all taken. */
  isPressed(most: number): boolean {
    return this.taken > most * PRESSED;
  }

  /**
   * Takes a place of so many, for an address (of IPv6: its /64). What it returns gives it back, once; undefined: the
   * address has as many as are free, and nobody had to make room for it.
   */
  enter(address: string, most: number, need: Need, holder: Holder): (() => void) | undefined {
    const network = networkOf(address);
    const usable = need === "payment" ? most : most - reservedOf(most);
    if (!this.#hasShare(network, usable)) {
      this.#makeRoom(network, most);
      if (!this.#hasShare(network, usable)) return undefined;
    }
    const place = { network, holder, at: -1 };
    this.#places.add(place);
    this.#byNetwork.change(network, 1);
    return () => this.#leave(place);
  }

  #hasShare(network: string, usable: number): boolean {
    return this.#byNetwork.of(network) < usable - this.taken;
  }

  /** For a client that has fewer places than others: those that have stalled make room. */
  #makeRoom(newcomer: string, most: number): void {
    const own = this.#byNetwork.of(newcomer);
    const nowMs = this.#clock();
    if (own >= this.#fruitless.from && nowMs < this.#fruitless.untilMs) return;
    // As many as give it one more place, beside those that it has.
    const wanted = Math.ceil(most * TAKEN_TOGETHER) + own;
    // Who has one more only would have one less then, and want it back.
    const kept = own === 0 ? 0 : own + 1;
    const stalled = this.#stalled(kept);
    if (stalled.length === 0) this.#fruitless = { untilMs: nowMs + LOOK_PAUSE_MS, from: own };
    let evicted = 0;
    for (const place of stalled) {
      if (evicted === wanted) break;
      if (this.#byNetwork.of(place.network) <= kept) continue;
      this.#leave(place);
      evicted += 1;
      place.holder.evict();
    }
    this.#evicted += evicted;
  }

  /** Of clients that have more than so many; first those that have most, then those that have stalled longest. */
  #stalled(kept: number): readonly Place[] {
    const found = this.#places.all().flatMap((place) => {
      const { stalledMs } = place.holder;
      const count = this.#byNetwork.of(place.network);
      return stalledMs >= STALLED_MS && count > kept ? [{ place, stalledMs, count }] : [];
    });
    const sorted = found.toSorted((a, b) => b.count - a.count || b.stalledMs - a.stalledMs);
    return sorted.map(({ place }) => place);
  }

  #leave(place: Place): void {
    if (this.#places.delete(place)) this.#byNetwork.change(place.network, -1);
  }
}

function reservedOf(most: number): number {
  return Math.floor(Math.max(most * RESERVED, Math.min(LEAST_RESERVED, most - BESIDE_RESERVED)));
}
