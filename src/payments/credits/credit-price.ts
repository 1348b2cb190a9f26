/** What a request costs whoever has prepaid: from which of an account's pots, and how much of it. */
import { creditsPot } from "../../ledger/pots.ts";
import { formatAmount } from "../../x402/amount.ts";
import { networkOf, type NetworkName } from "../../x402/network.ts";
import { isAccountOn, type ProvenAccount } from "../../x402/session.ts";
import { isSameToken } from "../../x402/token.ts";

/** A way to pay for it on chain. */
interface Payable {
  readonly network: NetworkName;
  readonly asset: { readonly address: string };
  /** In the smallest unit of the token. */
  readonly amount: bigint;
}

/** What one pot is to give. */
export interface CreditDraw {
  readonly pot: string;
  /** In the smallest unit of its token. */
  readonly amount: bigint;
  /** The same for people: `0.001 USDC`. */
  readonly told: string;
  /** One of those on which it may have been bought. */
  readonly network: NetworkName;
}

/** What somebody has prepaid is worth what it was bought with: the token of each network, and no other. */
export class CreditPrice {
  readonly #payable: readonly Payable[];
  /** Of accounts whose sessions are known: a request of each comes many times. */
  readonly #known = new WeakMap<ProvenAccount, readonly CreditDraw[]>();

  /** @param offers all ways to pay for it */
  constructor(offers: readonly Payable[]) {
    this.#payable = offers.filter(({ network, asset }) => {
      return isSameToken(network, networkOf(network).asset.address, asset.address);
    });
  }

  /** Of each pot that the account may have the least that is asked for, in the order of the offers. */
  drawsOf(account: ProvenAccount): readonly CreditDraw[] {
    const known = this.#known.get(account);
    if (known !== undefined) return known;
    const draws = this.#drawsOf(account);
    this.#known.set(account, draws);
    return draws;
  }

  #drawsOf(account: ProvenAccount): readonly CreditDraw[] {
    const { network: own, address, hasKey } = account;
    const draws: CreditDraw[] = [];
    for (const { network: name, amount } of this.#payable) {
      const network = networkOf(name);
      const { decimals, symbol } = network.asset;
      const told = `${formatAmount(amount, decimals)} ${symbol}`;
      if (!isAccountOn(name, account)) continue;
      const pot = creditsPot(network, address, hasKey ? undefined : own);
      const place = draws.findIndex((each) => each.pot === pot);
      const known = draws[place];
      if (known === undefined) draws.push({ pot, amount, told, network: name });
      else if (amount < known.amount) draws[place] = { pot, amount, told, network: name };
    }
    return draws;
  }
}
