/**
 * Places for requests that may hold a backend, the chain, or memory of ours for as long as their clients like. An
 * address has its share of them; some are kept for payments. What is answered at once takes none. Where there is none
 * left for an address, those make room whose clients have long been to move and have hardly moved, of the addresses that
 * have most places first; and where nobody does, it waits for a while for what others leave.
 */
import { Counts } from "../fairness/counts.ts";
import { networkOf } from "../http/ip-address.ts";
import { Bag, type Bagged } from "./message/bag.ts";
import type { InboundSocket } from "./message/inbound.ts";

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

/** Longest that a request waits for a place, milliseconds: many come and are refused in that time. */
const WAIT_MS = 1_500;
/** Requests that wait for one; an address has its share. */
export const MAX_WAITING = 1_024;
/** Of them, those that present no payment, of an address one at a time. */
export const MAX_WAITING_FREE = 512;

/** For a payment that is presented, or for anything else that is forwarded. */
type Need = "payment" | "free";

/** Whoever has a place. */
export interface Holder {
  /** How far its client is behind, in sending or in taking, milliseconds; 0 where others are waited for. */
  readonly stalledMs: number;
  /** Ends it: its place is another's. */
  evict(): void;
  /** What it was asked by, if anything. */
  readonly request?: { readonly socket: InboundSocket };
}

/** Whoever may have to wait for one. */
export interface Comer extends Holder {
  isGone(): boolean;
  /** Hears that the client has left; what it returns ends that. */
  onGone(listener: () => void): () => void;
}

interface Place extends Bagged {
  readonly network: string;
  readonly holder: Holder;
}

interface Waiting {
  readonly network: string;
  readonly need: Need;
  /** Places that there are for what it needs one for. */
  readonly usable: number;
  readonly holder: Holder;
  /** Undefined: it got none. */
  readonly end: (leave: (() => void) | undefined) => void;
}

export class Room {
  readonly #byNetwork = new Counts();
  /** The oldest first. */
  readonly #waiting = new Set<Waiting>();
  readonly #waitingByNetwork = new Counts();
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

  /** Payments that wait for a place. */
  get waiting(): number {
    return [...this.#waiting].filter(({ need }) => need === "payment").length;
  }

  /** Holders that had to make room, up to now. */
  get evicted(): number {
    return this.#evicted;
  }

  /** Those of all requests that have a place. */
  get sockets(): readonly InboundSocket[] {
    return this.#places.all().flatMap(({ holder }) => holder.request?.socket ?? []);
  }

  /** Whether so many places are nearly all taken. */
  isPressed(most: number): boolean {
    return this.taken > most * PRESSED;
  }

  /**
   * Takes a place of so many, for an address (of IPv6: its /64). What it returns gives it back, once; undefined: the
   * address has its share, and nobody had to make room for it.
   */
  enter(address: string, most: number, need: Need, holder: Holder): (() => void) | undefined {
    const network = networkOf(address);
    const usable = usableOf(most, need);
    if (!this.#byNetwork.hasShare(network, usable)) {
      this.#makeRoom(network, most);
      if (!this.#byNetwork.hasShare(network, usable)) return undefined;
    }
    return this.#take(network, holder);
  }

  /**
   * The same for one for which there was none: it waits for one that somebody leaves, for {@link WAIT_MS} and as long as
   * its client at the most. Payments are next before others, and of them the oldest of an address that has fewest, of
   * those that have a place and those that wait.
   */
  async wait(
    address: string,
    most: number,
    need: Need,
    comer: Comer,
  ): Promise<(() => void) | undefined> {
    const network = networkOf(address);
    if (comer.isGone() || !this.#mayWait(network, need)) return undefined;
    const { promise, resolve } = Promise.withResolvers<(() => void) | undefined>();
    const usable = usableOf(most, need);
    const waiting: Waiting = { network, need, usable, holder: comer, end: resolve };
    const giveUp = (): void => {
      this.#forget(waiting);
      resolve(undefined);
    };
    const timer = setTimeout(giveUp, WAIT_MS);
    const stop = comer.onGone(giveUp);
    this.#waiting.add(waiting);
    this.#waitingByNetwork.change(network, 1);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      stop();
    }
  }

  #mayWait(network: string, need: Need): boolean {
    if (need === "payment") return this.#waitingByNetwork.hasShare(network, MAX_WAITING);
    return this.#waitingByNetwork.of(network) === 0 && this.#waiting.size < MAX_WAITING_FREE;
  }

  #take(network: string, holder: Holder): () => void {
    const place = { network, holder, at: -1 };
    this.#places.add(place);
    this.#byNetwork.change(network, 1);
    return () => {
      this.#leave(place);
      this.#serveWaiting();
    };
  }

  /** As many as have a share now. */
  #serveWaiting(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      this.#forget(next);
      next.end(this.#take(next.network, next.holder));
    }
  }

  #next(): Waiting | undefined {
    let next: Waiting | undefined;
    let fewest = Infinity;
    for (const waiting of this.#waiting) {
      const { network, need, usable } = waiting;
      const ahead = need === "payment" ? 0 : MAX_WAITING;
      const count = ahead + this.#byNetwork.of(network) + this.#waitingByNetwork.of(network);
      if (count >= fewest || !this.#byNetwork.hasShare(network, usable)) continue;
      [next, fewest] = [waiting, count];
    }
    return next;
  }

  #forget(waiting: Waiting): void {
    if (this.#waiting.delete(waiting)) this.#waitingByNetwork.change(waiting.network, -1);
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

function usableOf(most: number, need: Need): number {
  if (need === "payment") return most;
  const least = Math.min(LEAST_RESERVED, most - BESIDE_RESERVED);
  return most - Math.floor(Math.max(most * RESERVED, least));
}
