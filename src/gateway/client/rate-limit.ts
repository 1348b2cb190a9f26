/**
 * How many requests to priced routes one address may make without paying for them. A question for the price
 * and a payment that is refused are counted apart, each as often as the limit says: a buyer who shares an
 * address with somebody who only asks is not kept from paying.
 *
 * A count is one number, the time at which all of it is forgotten (the generic cell rate algorithm). It may
 * go over the limit: what is answered at the same time is counted when it is answered, and has to be waited
 * for afterwards.
 */
import { randomBytes } from "node:crypto";
import { isIpv4, readIp } from "../../http/ip-address.ts";

/** So many requests in so many milliseconds, and so many at once. */
export interface BoundedRate {
  readonly requests: number;
  readonly perMs: number;
}

/**
 * `asked`: no payment, or none that can be read. `refused`: a payment that was looked into and not taken. `unproven`:
 * one of those for which the chain had to be asked who signed it. `known`: it was looked up who asks, and he was told the
 * price; as often as `asked`, and counted apart, since what he may have for nothing is looked up as well.
 */
export type UnpaidKind = "asked" | "refused" | "unproven" | "known";

/** How often one address may; null: as often as it wants. */
export type UnpaidRates = Readonly<Record<Exclude<UnpaidKind, "known">, BoundedRate | null>>;

export function areSameRates(one: UnpaidRates, other: UnpaidRates): boolean {
  const kinds = ["asked", "refused", "unproven"] as const;
  return kinds.every((kind) => {
    const [before, after] = [one[kind], other[kind]];
    return before?.requests === after?.requests && before?.perMs === after?.perMs;
  });
}

/**
 * Addresses that are remembered: fewer than an attacker with an IPv6 network of his own can have, so what is
 * forgotten matters. In its place in the table an address takes that of the one that has used least of its
 * limit. Somebody who wants a count forgotten has to use up the limits of {@link PLACES} other addresses first,
 * and to know which ones: where an address belongs is a secret of the process.
 */
export const MAX_ADDRESSES = 65_536;
/** Addresses that compete for the same memory. */
const PLACES = 8;
/** Longest that somebody waits who is far over the limit, milliseconds. */
const MAX_WAIT_MS = 60_000;
/** Of sums of intervals that are no whole numbers, milliseconds. */
const TOLERANCE_MS = 0.001;

/** High word of an IPv4 address's key; as IPv6 it would be multicast, which nobody sends from. */
const IPV4_KEY = 0xffffffff;
const words = new Uint32Array(4);

export class UnpaidLimit {
  /** What one request costs, and what may be used at once, milliseconds; null: there is no limit. */
  readonly #prices: Readonly<Record<UnpaidKind, Price | null>>;
  readonly #clock: () => number;
  readonly #seed = randomBytes(8);
  readonly #high = new Uint32Array(MAX_ADDRESSES);
  readonly #low = new Uint32Array(MAX_ADDRESSES);
  /** When all is forgotten, by place; in the past for places that nobody needs. */
  readonly #forgottenAt: Readonly<Record<UnpaidKind, Float64Array>> = {
    asked: new Float64Array(MAX_ADDRESSES),
    refused: new Float64Array(MAX_ADDRESSES),
    unproven: new Float64Array(MAX_ADDRESSES),
    known: new Float64Array(MAX_ADDRESSES),
  };

  /** @param clock one that only goes forward, milliseconds */
  constructor({ asked, refused, unproven }: UnpaidRates, clock = () => performance.now()) {
    this.#prices = {
      asked: priceOf(asked),
      refused: priceOf(refused),
      unproven: priceOf(unproven),
      known: priceOf(asked),
    };
    this.#clock = clock;
  }

  /**
   * Whole seconds until such a request is answered again, at least 1; 0: it is answered now.
   * @param often how many times the limit may be used at once
   * @param underWay how many of them are looked into at this moment, and are counted as if they had been answered
   */
  waitSeconds(
    address: string,
    kind: UnpaidKind,
    often: "once" | "twice" = "once",
    underWay = 0,
  ): number {
    const price = this.#prices[kind];
    const place = this.#find(address);
    if (price === null || (place === -1 && underWay === 0)) return 0;
    const now = this.#clock();
    const forgottenAt = place === -1 ? now : Math.max(this.#forgottenAt[kind][place] ?? 0, now);
    const windowMs = often === "once" ? price.windowMs : 2 * price.windowMs;
    const waitMs = forgottenAt + (1 + underWay) * price.costMs - windowMs - now;
    return waitMs <= TOLERANCE_MS ? 0 : Math.ceil(Math.min(waitMs, MAX_WAIT_MS) / 1000);
  }

  /** Such a request has been answered. */
  count(address: string, kind: UnpaidKind): void {
    const price = this.#prices[kind];
    if (price === null) return;
    const { costMs, windowMs } = price;
    const now = this.#clock();
    const known = this.#find(address);
    const place = known === -1 ? this.#replace() : known;
    const times = this.#forgottenAt[kind];
    const most = now + windowMs + MAX_WAIT_MS;
    times[place] = Math.min(Math.max(times[place] ?? 0, now) + costMs, most);
  }

  /** The address that was looked for last, its key, and where its places begin. */
  #address = "";
  #keyHigh = 0;
  #keyLow = 0;
  #first = 0;

  /** The place of an address; -1: it has none. */
  #find(address: string): number {
    this.#setKey(address);
    const end = this.#first + PLACES;
    for (let place = this.#first; place < end; place += 1) {
      if (this.#high[place] === this.#keyHigh && this.#low[place] === this.#keyLow) return place;
    }
    return -1;
  }

  /** An IPv6 network of 64 bits is one customer's, who can have each address of it. */
  #setKey(address: string): void {
    if (address === this.#address) return;
    this.#address = address;
    if (!readIp(address, words)) words.fill(0);
    const isFour = isIpv4(words);
    this.#keyHigh = isFour ? IPV4_KEY : (words[0] ?? 0);
    this.#keyLow = isFour ? (words[3] ?? 0) : (words[1] ?? 0);
    const mixed = mix(mix(this.#keyHigh ^ this.#seed.readUInt32LE(0)) ^ this.#keyLow);
    const hash = mix(mixed ^ this.#seed.readUInt32LE(4)) >>> 0;
    this.#first = (hash % (MAX_ADDRESSES / PLACES)) * PLACES;
  }

  /** Gives the key that was looked for the place of whoever has used least. */
  #replace(): number {
    const { asked, refused, unproven, known } = this.#forgottenAt;
    let least = Number.POSITIVE_INFINITY;
    let chosen = this.#first;
    for (let place = this.#first; place < this.#first + PLACES; place += 1) {
      const used = Math.max(
        asked[place] ?? 0,
        refused[place] ?? 0,
        unproven[place] ?? 0,
        known[place] ?? 0,
      );
      if (used < least) {
        least = used;
        chosen = place;
      }
    }
    this.#high[chosen] = this.#keyHigh;
    this.#low[chosen] = this.#keyLow;
    asked[chosen] = 0;
    refused[chosen] = 0;
    unproven[chosen] = 0;
    known[chosen] = 0;
    return chosen;
  }
}

interface Price {
  readonly costMs: number;
  readonly windowMs: number;
}

function priceOf(rate: BoundedRate | null): Price | null {
  return rate && { costMs: rate.perMs / rate.requests, windowMs: rate.perMs };
}

/** Each bit of the result depends on all bits of the number (the finalizer of MurmurHash3). */
function mix(number: number): number {
  let mixed = number;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
