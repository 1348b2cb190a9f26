/**
 * The accounts from which one facilitator elsewhere pays network fees on Solana, as its `GET /supported`
 * tells them (protocol section 2.5). A payment there names such an account before it is signed, so what was
 * told before goes on being remembered: some facilitators tell another of their accounts each time.
 */
import { findNetwork } from "../x402/network.ts";
import { isSolanaAddress } from "../x402/solana-address.ts";
import { nameOfKind } from "../x402/version-2.ts";
import { EXACT_SCHEME, type SupportedKind } from "../x402/x402.ts";

/** Accounts remembered for one network; the one that was not told for longest is forgotten first. */
export const MAX_REMEMBERED = 64;

interface Told {
  /** By the last answer; undefined where it named none for the network. */
  current: string | undefined;
  /** In the order in which they were last told. */
  readonly all: Set<string>;
}

export class ToldFeePayers {
  /** By network. */
  readonly #told = new Map<string, Told>();

  /** Takes in one whole answer. Kinds of other versions and schemes say nothing about our payments. */
  record(kinds: readonly SupportedKind[]): void {
    for (const told of this.#told.values()) told.current = undefined;
    for (const kind of kinds) {
      const address = kind.extra?.["feePayer"];
      const network = nameOfKind(kind);
      if (network === undefined || kind.scheme !== EXACT_SCHEME) continue;
      if (findNetwork(network)?.kind !== "solana") continue;
      if (typeof address === "string" && isSolanaAddress(address)) this.#add(network, address);
    }
  }

  /** What a buyer has to be told now; undefined where the last answer did not say. */
  current(network: string): string | undefined {
    return this.#told.get(network)?.current;
  }

  /** Whether it was ever told to pay from that account; undefined where it never told any. */
  has(network: string, address: string): boolean | undefined {
    return this.#told.get(network)?.all.has(address);
  }

  #add(network: string, address: string): void {
    const told = this.#told.get(network) ?? { current: undefined, all: new Set() };
    this.#told.set(network, told);
    told.current ??= address;
    told.all.delete(address);
    told.all.add(address);
    const [oldest = address] = told.all;
    if (told.all.size > MAX_REMEMBERED) told.all.delete(oldest);
  }
}
