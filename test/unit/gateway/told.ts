/** Fee payers as a test tells them. */
import type { FeePayers } from "../../../src/payments/sale/offers.ts";

export class Told implements FeePayers {
  /** How often the revision was read. */
  reads = 0;
  #revision = 0;
  readonly #known = new Set<string>();
  readonly #offered = new Map<string, string>();

  constructor(offered: Readonly<Record<string, string>> = {}) {
    for (const [network, address] of Object.entries(offered)) this.tell(network, address);
  }

  get revision(): number {
    this.reads += 1;
    return this.#revision;
  }

  /** Undefined: nobody is told any more; who was told before is still known. */
  tell(network: string, address: string | undefined): void {
    this.#revision += 1;
    if (address === undefined) {
      this.#offered.delete(network);
      return;
    }
    this.#offered.set(network, address);
    this.#known.add(`${network} ${address}`);
  }

  offered(network: string): string | undefined {
    return this.#offered.get(network);
  }

  isKnown(network: string, address: string): boolean {
    return this.#known.has(`${network} ${address}`);
  }
}
