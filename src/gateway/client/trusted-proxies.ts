/**
 * The addresses whose word about their clients is taken. Asked for every request, so it is a comparison of
 * numbers: nothing is allocated.
 */
import { isIpv4, maskOf, readIp, type IpWords } from "../../http/ip-address.ts";

/** `10.0.0.0/8`: an address of either family and how many of its leading bits count. */
export interface TrustedRange {
  /** As `readIp` reads it. */
  readonly address: string;
  /** 0 to 32 for an address without colons, 0 to 128 for one with. */
  readonly prefixBits: number;
}

const IPV4_BITS = 32;
const IPV6_BITS = 128;
const WORDS = 4;

/** Of the address that is asked about; nothing else is asked meanwhile. */
const asked: IpWords = new Uint32Array(WORDS);

export class TrustedProxies {
  /** One word for each range. */
  readonly #ipv4: Uint32Array;
  readonly #ipv4Masks: Uint32Array;
  /** Four words for each range. */
  readonly #ipv6: Uint32Array;
  readonly #ipv6Masks: Uint32Array;
  readonly isEmpty: boolean;

  /** @throws Error for an address that cannot be read: the configuration has refused it before */
  constructor(ranges: readonly TrustedRange[]) {
    const ipv4: number[] = [];
    const ipv4Masks: number[] = [];
    const ipv6: number[] = [];
    const ipv6Masks: number[] = [];
    for (const { address, prefixBits } of ranges) {
      if (!readIp(address, asked)) throw new Error(`not an address: ${address}`);
      const bits = address.includes(":") ? prefixBits : prefixBits + IPV6_BITS - IPV4_BITS;
      const masks = [0, 1, 2, 3].map((word) => maskOf(bits - word * 32));
      // A range that reaches beyond the mapped addresses is one of IPv6: `::/0` trusts nobody who speaks IPv4.
      if (isIpv4(asked) && bits >= IPV6_BITS - IPV4_BITS) {
        ipv4.push(asked[3] ?? 0);
        ipv4Masks.push(masks[3] ?? 0);
      } else {
        ipv6.push(...asked);
        ipv6Masks.push(...masks);
      }
    }
    this.#ipv4 = Uint32Array.from(ipv4);
    this.#ipv4Masks = Uint32Array.from(ipv4Masks);
    this.#ipv6 = Uint32Array.from(ipv6);
    this.#ipv6Masks = Uint32Array.from(ipv6Masks);
    this.isEmpty = ranges.length === 0;
  }

  /** False for what is not an address. */
  has(address: string): boolean {
    if (this.isEmpty || !readIp(address, asked)) return false;
    return isIpv4(asked) ? this.#hasIpv4(asked[3] ?? 0) : this.#hasIpv6();
  }

  #hasIpv4(number: number): boolean {
    const addresses = this.#ipv4;
    const masks = this.#ipv4Masks;
    for (let index = 0; index < addresses.length; index += 1) {
      if (((number ^ (addresses[index] ?? 0)) & (masks[index] ?? 0)) === 0) return true;
    }
    return false;
  }

  #hasIpv6(): boolean {
    const addresses = this.#ipv6;
    const masks = this.#ipv6Masks;
    for (let index = 0; index < addresses.length; index += WORDS) {
      let differs = 0;
      for (let word = 0; word < WORDS; word += 1) {
        const place = index + word;
        differs |= ((asked[word] ?? 0) ^ (addresses[place] ?? 0)) & (masks[place] ?? 0);
      }
      if (differs === 0) return true;
    }
    return false;
  }
}
