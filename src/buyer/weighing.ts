/** What a 402 asks for, weighed: which offer the key can pay and the buyer allows. */
import type { SellersOffer, Quote } from "./offer.ts";
import { amountText, readTerms, type BuyerTerms } from "./terms.ts";

export interface Wishes {
  /** Null: no key is at hand, which only a dry run allows. */
  readonly family: BuyerTerms["kind"] | null;
  /** Empty: any. */
  readonly networks: readonly string[];
  /** Null: there is no way to allow one. */
  readonly allowedAssets: readonly string[] | null;
}

/** An offer, and either the terms of it or a sentence on why it is not for us. */
export interface Weighed {
  readonly offer: SellersOffer;
  readonly terms: BuyerTerms | null;
  /** "" where it can be paid. */
  readonly objection: string;
}

export function weigh({ offers }: Quote, wishes: Wishes): readonly Weighed[] {
  return offers.map((offer) => {
    const terms = readTerms(offer, wishes.allowedAssets);
    if (!terms.ok) return { offer, terms: null, objection: terms.error };
    return { offer, terms: terms.value, objection: objectionTo(terms.value, wishes) };
  });
}

function objectionTo({ kind, network }: BuyerTerms, { family, networks }: Wishes): string {
  if (networks.length > 0 && !networks.includes(network.name)) return "not the --network you want";
  if (family !== null && family !== kind) {
    return `needs a key for ${kind === "evm" ? "EVM networks" : "Solana"}`;
  }
  return "";
}

/** The first that can be paid: sellers put first what they like best. */
export function chosenOf(weighed: readonly Weighed[]): BuyerTerms | null {
  return weighed.find(({ objection }) => objection === "")?.terms ?? null;
}

/** An offer as data. */
export function offerView({ offer, terms, objection }: Weighed): Readonly<Record<string, unknown>> {
  const { amount, index: _index, extra: _extra, entry: _entry, ...rest } = offer;
  return {
    ...rest,
    amountAtomic: String(amount),
    amount: terms === null ? null : amountText(terms),
    objection: objection === "" ? null : objection,
  };
}
