/** What other gateways sold, in the memory that the lives of a memory ledger share. */
import type { SoldOffer, SoldOffers, SoldResource } from "../../src/ledger/sold-offers.ts";

export class MemorySoldOffers implements SoldOffers {
  readonly #offers: Map<string, SoldOffer>;

  constructor(offers: Map<string, SoldOffer>) {
    this.#offers = offers;
  }

  async note(offer: SoldOffer): Promise<void> {
    const { gateway, resource, method, network, asset, hash } = offer;
    const way = JSON.stringify([gateway, resource, method, network, asset]);
    const known = this.#offers.get(way);
    if (known !== undefined && known.soldMs > offer.soldMs) return;
    const changedAt = known?.hash === hash ? known.changedAt : offer.changedAt;
    this.#offers.set(way, { ...offer, changedAt });
  }

  async since(soldMs: number, limit: number): Promise<readonly SoldOffer[]> {
    const found = [...this.#offers.values()].filter((each) => each.soldMs >= soldMs);
    return found.toSorted((left, right) => right.soldMs - left.soldMs).slice(0, limit);
  }

  async forget({ gateway, resource, method }: SoldResource): Promise<void> {
    this.#drop((each) => {
      return each.gateway === gateway && each.resource === resource && each.method === method;
    });
  }

  async forgetBefore(soldMs: number): Promise<number> {
    return this.#drop((each) => each.soldMs < soldMs);
  }

  #drop(isGone: (offer: SoldOffer) => boolean): number {
    const gone = [...this.#offers].filter(([, offer]) => isGone(offer));
    for (const [way] of gone) this.#offers.delete(way);
    return gone.length;
  }
}
