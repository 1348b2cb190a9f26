/**
 * What a settlement costs us against what it earns. There is no price feed: the operator writes what the
 * network's currency is worth (`nativePrice`), and where that is missing nothing is compared.
 */
import type { Config } from "../config/config.ts";
import type { Finding, WalletBalance } from "../mechanism/mechanism.ts";
import { formatAmount } from "../x402/amount.ts";
import { networkOf, type NetworkName } from "../x402/network.ts";
import { isSameToken } from "./token-address.ts";

const DOLLAR_DECIMALS = 18;
/** Digits of a cost that are shown: it changes with every block. */
const SHOWN_DIGITS = 3;

/** Warnings about routes whose price does not pay for settling it, alone, on that network. */
export function findLosses(
  config: Config,
  network: NetworkName,
  { settlementAtomic, decimals }: Pick<WalletBalance, "settlementAtomic" | "decimals">,
): readonly Finding[] {
  const settings = config.facilitator.embedded.find((each) => each.network === network);
  const attodollars = settings?.nativePriceAttodollars ?? null;
  if (attodollars === null) return [];
  const gasAttodollars = (settlementAtomic * attodollars) / 10n ** BigInt(decimals);
  const { kind, nativeCurrency } = networkOf(network);
  const { symbol } = nativeCurrency;
  const what = kind === "evm" ? "gas" : "network fees";
  const cost =
    `about $${roughly(gasAttodollars, DOLLAR_DECIMALS)} of ${what} ` +
    `(${roughly(settlementAtomic, decimals)} ${symbol} at $${formatAmount(attodollars, DOLLAR_DECIMALS)})`;
  return [...routesByEarnings(config, network)]
    .filter(([earnedAttodollars]) => earnedAttodollars < gasAttodollars)
    .map(([earnedAttodollars, [first = "", ...others]]) => {
      const earned = `$${formatAmount(earnedAttodollars, DOLLAR_DECIMALS)}`;
      const more = others.length === 0 ? "" : ` (as do ${others.length} more)`;
      const message = `${first} earns ${earned}${more}, its settlement alone costs ${cost}`;
      return { level: "warning", message };
    });
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
    const attodollars = (offer.amountAtomic * 10n ** BigInt(DOLLAR_DECIMALS)) / unit;
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
