/**
 * Groups of whoever holds a token. What its chain has said of an account is known here for a while, so that most requests
 * of a member ask nobody; of whom nothing is known, or nothing could be asked, is no member.
 */
import { LRUCache } from "lru-cache";
import type { PaymentService, ShownHolder } from "../payments/sale/payment-service.ts";
import { systemTime } from "../time/time.ts";
import { holdingKey, type HolderTerms, type Holding } from "../x402/holding.ts";
import { networkOf, findNetwork } from "../x402/network.ts";
import type { MemberTerms } from "./membership.ts";

/** Accounts of whom it is known whether they hold something; the one that was asked for longest ago goes for a new one. */
export const MAX_KNOWN_HOLDINGS = 50_000;
/** How long who holds too little counts so, milliseconds, where the group does not say less: he may have bought some. */
export const LACKING_MS = 10_000;
/** After which a chain that could not be asked is asked again, milliseconds. */
export const UNKNOWN_MS = 1_000;

export const UNHELD =
  "it could not be asked whether this account holds what members hold; try again";

/** Proven, or named by a payment. */
interface Account {
  readonly network: string;
  readonly address: string;
}

interface Known {
  readonly holding: Holding;
  readonly untilMs: number;
}

/** All that a process knows of who holds what, whatever the configuration says by now. */
export class Holders {
  readonly #known = new LRUCache<string, Known>({ max: MAX_KNOWN_HOLDINGS });
  readonly #payments: Pick<PaymentService, "holdings">;
  readonly #now: () => number;

  constructor(payments: Pick<PaymentService, "holdings">, now = () => systemTime.now()) {
    this.#payments = payments;
    this.#now = now;
  }

  listOf(terms: HolderTerms): HolderList {
    return new HolderList(terms, this);
  }

  /** Undefined: it was not asked, or too long ago. */
  of(terms: HolderTerms, address: string): Holding | undefined {
    const known = this.#known.get(holdingKey(terms, address));
    return known === undefined || known.untilMs <= this.#now() ? undefined : known.holding;
  }

  /** Asks of all of them at once; of an account that is not proven nothing becomes known. Throws what the service throws. */
  async learn(
    lists: readonly HolderList[],
    address: string,
    { shown, client }: { readonly shown: ShownHolder; readonly client: string },
  ): Promise<void> {
    const terms = lists.map((list) => list.terms);
    // By when it was asked: what is told is never older than that.
    const nowMs = this.#now();
    const found = (await this.#payments.holdings(shown, terms, client)) ?? [];
    for (const [index, each] of terms.entries()) {
      const holding = found[index];
      if (holding === undefined) continue;
      const ms = holding === null ? UNKNOWN_MS : holding ? each.forMs : LACKING_MS;
      const untilMs = nowMs + Math.min(ms, each.forMs);
      this.#known.set(holdingKey(each, address), { holding, untilMs });
    }
  }
}

/** The members of one such group, in place of a list of them. */
export class HolderList {
  readonly terms: HolderTerms;
  readonly holders: Holders;

  constructor(terms: HolderTerms, holders: Holders) {
    this.terms = terms;
    this.holders = holders;
  }

  /** By a key, which is one account on all chains of its kind. */
  has(network: string, address: string): boolean {
    return this.canHave(network) && this.holders.of(this.terms, address) === true;
  }

  /** By code, which is somebody else's on another chain. */
  hasOn(network: string, address: string): boolean {
    return network === this.terms.network && this.holders.of(this.terms, address) === true;
  }

  canHave(network: string): boolean {
    return findNetwork(network)?.kind === networkOf(this.terms.network).kind;
  }
}

/** Whether who is a member here may have to be asked of a chain. */
export function hasHolders({ members }: { readonly members: readonly MemberTerms[] }): boolean {
  return members.some(({ list }) => list instanceof HolderList);
}

/** Those of which nobody knows yet whether an account is in them. */
export function unaskedOf(
  groups: readonly MemberTerms[],
  { network, address }: Account,
): HolderList[] {
  return groups.flatMap(({ list }) => {
    const isOne = list instanceof HolderList && list.canHave(network);
    return isOne && list.holders.of(list.terms, address) === undefined ? [list] : [];
  });
}

/** Whether it has to be asked what an account holds before it is known what anything costs it. */
export function isUnasked(groups: readonly MemberTerms[], account: Account): boolean {
  return unaskedOf(groups, account).length > 0;
}

/** Of an account that has signed in, or shows a session. False: a chain could not be asked. */
export async function learnHoldings(
  groups: readonly MemberTerms[],
  shown: Exclude<ShownHolder, { readonly paymentPayload: unknown }>,
  client: string,
): Promise<boolean> {
  const lists = unaskedOf(groups, shown);
  await lists[0]?.holders.learn(lists, shown.address, { shown, client });
  return isKnown(groups, shown);
}

/** False: a chain could not be asked a moment ago. */
export function isKnown(groups: readonly MemberTerms[], { network, address }: Account): boolean {
  return !groups.some(
    ({ list }) =>
      list instanceof HolderList &&
      list.canHave(network) &&
      list.holders.of(list.terms, address) === null,
  );
}
