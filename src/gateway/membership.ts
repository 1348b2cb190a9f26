/** Whom a route costs something else: members of its groups, by the account that they have proven to be theirs. */
import type { OfferPage } from "./offers/offer-page.ts";
import type { CreditPrice } from "../payments/credits/credit-price.ts";
import type { Offers } from "../payments/sale/offers.ts";
import type { Memberships } from "../payments/sale/payment-service.ts";
import type { PaymentPayload } from "../x402/x402.ts";
import { payerOf } from "../x402/payment-key.ts";
import type { PayerList } from "../x402/payer-list.ts";
import type { ProvenAccount } from "../x402/session.ts";

/** What a route costs the members of one group. */
export interface MemberTerms {
  readonly group: string;
  readonly list: Pick<PayerList, "has" | "hasOn">;
  /** Null: nothing. */
  readonly offers: Offers | null;
  /** As of a plan. */
  readonly page: OfferPage | null;
  /** As of a plan. Default: null. */
  readonly credits?: CreditPrice | null;
}

type Groups = readonly MemberTerms[];

/**
 * The first group that an account is in. A key is one account on all chains of its kind; the code at an address may be
 * somebody else's on another chain, so that only an entry with that chain counts for it.
 */
export function memberOf(
  groups: Groups,
  { network, address, hasKey }: ProvenAccount,
): MemberTerms | undefined {
  return groups.find(({ list }) =>
    hasKey ? list.has(network, address) : list.hasOn(network, address),
  );
}

/** What it would be to each route of these groups, were it proven by a key, or by code. */
export function membershipsOf(
  groups: Groups,
  account: Pick<ProvenAccount, "network" | "address">,
): Memberships {
  const membership = (hasKey: boolean): Memberships["key"] => {
    const member = groups.length === 0 ? undefined : memberOf(groups, { ...account, hasKey });
    if (member === undefined) return "none";
    return member.offers === null ? "free" : "priced";
  };
  return { key: membership(true), code: membership(false) };
}

/**
 * What is asked of the group that a payment's payer is in, by a key, and by code: it is judged later which of them has
 * signed it.
 */
export function offersOfPayer(groups: Groups, payment: PaymentPayload): readonly Offers[] {
  if (groups.length === 0) return [];
  return offersOfAccount(groups, { network: payment.network, address: payerOf(payment) });
}

/** The same of the groups that an account is in, be it proven or not yet. */
export function offersOfAccount(
  groups: Groups,
  { network, address }: { readonly network: string; readonly address: string },
): readonly Offers[] {
  // Who has it for nothing and pays all the same may pay what a group does that he is in, too.
  const priced = groups.filter(({ offers }) => offers !== null);
  const first = priced.find(({ list }) => list.has(network, address))?.offers;
  const byCode = priced.find(({ list }) => list.hasOn(network, address))?.offers;
  return [...new Set([first, byCode])].filter((each) => each !== undefined && each !== null);
}
