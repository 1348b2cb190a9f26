/**
 * Which versions of the protocol one facilitator elsewhere takes, by network: as its `GET /supported` lists them, and as
 * its answers have shown. The list is a hint, since one that lists version 1 alone may take both: what is neither listed
 * nor shown goes out as it came.
 */
import { nameOfKind } from "../x402/version-2.ts";
import {
  EXACT_SCHEME,
  X402_VERSION,
  X402_VERSION_2,
  type SupportedKind,
  type X402Version,
} from "../x402/x402.ts";

export class ToldVersions {
  /** By the last answer. */
  #listed: ReadonlyMap<string, ReadonlySet<number>> = new Map();
  /** What it has taken after it did not take the other one. */
  readonly #shown = new Map<string, X402Version>();

  /** Takes in one whole answer. */
  record(kinds: readonly SupportedKind[]): void {
    const listed = new Map<string, Set<number>>();
    for (const kind of kinds) {
      const network = nameOfKind(kind);
      if (network === undefined || kind.scheme !== EXACT_SCHEME) continue;
      listed.set(network, (listed.get(network) ?? new Set()).add(kind.x402Version));
    }
    this.#listed = listed;
  }

  lists(network: string, version: X402Version): boolean {
    return this.#listed.get(network)?.has(version) === true;
  }

  /** It has taken this version, and not the other one. */
  learn(network: string, version: X402Version): void {
    this.#shown.set(network, version);
  }

  /** In which a payment that came in the version `own` is to be sent, and then, where that is not taken. */
  inOrder(network: string, own: X402Version): readonly [X402Version, X402Version] {
    const other = own === X402_VERSION ? X402_VERSION_2 : X402_VERSION;
    const isListed = this.lists(network, other) && !this.lists(network, own);
    const first = this.#shown.get(network) ?? (isListed ? other : own);
    return first === own ? [own, other] : [other, own];
  }
}
