/** A row of `sold_offers`, whichever database has it. */
import type { SoldOffer } from "./sold-offers.ts";

export function readSoldOffer(columns: Readonly<Record<string, unknown>>): SoldOffer {
  const { gateway, resource, method, network, asset, terms, hash, changedAt, soldMs } = columns;
  return {
    gateway: String(gateway),
    resource: String(resource),
    method: String(method),
    network: String(network),
    asset: String(asset),
    terms: String(terms),
    hash: String(hash),
    changedAt: Number(changedAt),
    soldMs: Number(soldMs),
  };
}
