/**
 * What a settlement costs us against what it earns. There is no price feed: the operator writes what the
 * network's currency is worth (`nativePrice`), and where that is missing nothing is compared.
 */
import type { Config } from "../config/config.ts";
import type { Finding, WalletBalance } from "../mechanism/mechanism.ts";
import { ATTODOLLAR_DECIMALS, formatAmount, worthOf } from "../x402/amount.ts";
import { networkOf, type Asset, type NetworkName } from "../x402/network.ts";
import { isSameToken } from "../x402/token.ts";

type Cost = Pick<WalletBalance, "settlementAtomic" | "decimals">;

/** Digits of a cost that are shown: it changes with every block. */
const SHOWN_DIGITS = 3;

/** Warnings about routes whose price does not pay for settling it, alone, on that network. */
export function findLosses(
  config: Config,
  network: NetworkName,
  { settlementAtomic, decimals }: Cost,
): readonly Finding[] {
  const settings = config.facilitator.embedded.find((each) => each.network === network);
  const attodollars = settings?.nativePriceAttodollars ?? null;
  if (attodollars === null) return [];
  const gasAttodollars = worthOf(settlementAtomic, decimals, attodollars);
  const { kind, nativeCurrency } = networkOf(network);
  const { symbol } = nativeCurrency;
  const what = kind === "evm" ? "gas" : "network fees";
  const cost =
    `about $${roughly(gasAttodollars, ATTODOLLAR_DECIMALS)} of ${what} ` +
    `(${roughly(settlementAtomic, decimals)} ${symbol} at $${formatAmount(attodollars, ATTODOLLAR_DECIMALS)})`;
  return [...routesByEarnings(config, network)]
    .filter(([earnedAttodollars]) => earnedAttodollars < gasAttodollars)
    .map(([earnedAttodollars, [first = "", ...others]]) => {
      const earned = `$${formatAmount(earnedAttodollars, ATTODOLLAR_DECIMALS)}`;
      const more = others.length === 0 ? "" : ` (as do ${others.length} more)`;
      const message = `${first} earns ${earned}${more}, its settlement alone costs ${cost}`;
      return { level: "warning", message };
    });
}

/** What others have to pay at least, so that it is settled for them: `allow.minAmount`, else about its gas. */
export class LeastAmounts {
  #config: Pick<Config, "facilitator">;
  readonly #costs = new Map<string, Cost>();

  constructor(config: Pick<Config, "facilitator">) {
    this.#config = config;
  }

  /** By which it is from now on. */
  know(config: Pick<Config, "facilitator">): void {
    this.#config = config;
  }

  /** What a settlement costs there by now. */
  note(network: string, cost: Cost): void {
    this.#costs.set(network, cost);
  }

  /** Atomic units of that token, 1 or more; a whole unit of any counts as a dollar. */
  of({ network, asset }: { readonly network: string; readonly asset: string }): bigint {
    const { embedded, leastAttodollars } = this.#config.facilitator;
    const settings = embedded.find((each) => each.network === network);
    const tokens: readonly Asset[] = settings?.assets ?? [];
    const token = tokens.find(({ address }) => isSameToken(network, address, asset));
    if (settings === undefined || token === undefined) return 1n;
    const cost = this.#costs.get(network);
    const native = settings.nativePriceAttodollars;
    const gas =
      cost === undefined || native === null
        ? 0n
        : worthOf(cost.settlementAtomic, cost.decimals, native);
    const least = leastAttodollars ?? gas;
    const atomic = (least * 10n ** BigInt(token.decimals)) / 10n ** BigInt(ATTODOLLAR_DECIMALS);
    return atomic > 0n ? atomic : 1n;
  }
}

/** Keys of the routes that are paid in the network's dollar token, by what one payment earns. */
function routesByEarnings(config: Config, network: NetworkName): ReadonlyMap<bigint, string[]> {
  const dollar = networkOf(network).asset;
  const unit = 10n ** BigInt(dollar.decimals);
  const routes = new Map<bigint, string[]>();
  for (const { key, action } of config.routes) {
    const offers = action.kind === "priced" ? action.offers : [];
    const offer = offers.find(
      (each) =>
        each.network === network && isSameToken(network, each.asset.address, dollar.address),
    );
    if (offer === undefined) continue;
    const attodollars =
      ((offer.leastAtomic ?? offer.amountAtomic) * 10n ** BigInt(ATTODOLLAR_DECIMALS)) / unit;
    routes.set(attodollars, [...(routes.get(attodollars) ?? []), key]);
  }
  return routes;
}

/** Three digits of an amount, rounded up: `0.00000213`. */
export function roughly(atomic: bigint, decimals: number): string {
  const surplus = atomic.toString().length - SHOWN_DIGITS;
  if (surplus <= 0) return formatAmount(atomic, decimals);
  const step = 10n ** BigInt(surplus);
  return formatAmount(((atomic + step - 1n) / step) * step, decimals);
}
