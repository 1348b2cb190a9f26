/** Configuration -> whom nothing is sold to, and how much of everything in an hour. */
import type { Config } from "../config/config.ts";
import type { SaleRules } from "../payments/sale/sale-guard.ts";
import { atOnce, type Steps } from "../time/breath.ts";
import { ATTODOLLAR_DECIMALS } from "../x402/amount.ts";
import { findNetwork, networkOf } from "../x402/network.ts";

/** Decimals of a dollar in which sales are counted. */
const MICRODOLLAR_DECIMALS = 6;

/** Decimals of the tokens that something is sold for, by network and address as {@link nameOf} has them. */
export type TokenDecimals = ReadonlyMap<string, number>;

/** @param earlier of configurations that were replaced, of which a price may still be paid */
export function saleRules(config: Config, ...earlier: readonly TokenDecimals[]): SaleRules {
  return atOnce(saleRuleSteps(config, ...earlier)).rules;
}

/** The same, a step for each route, and what tokens its prices are in. */
export function* saleRuleSteps(
  { payers, limits, routes, facilitator }: Config,
  ...earlier: readonly TokenDecimals[]
): Steps<{ readonly rules: SaleRules; readonly decimals: TokenDecimals }> {
  const decimals = new Map<string, number>();
  const lowest = new Map<string, number>();
  for (const { key, action } of routes) {
    yield;
    if (action.kind !== "priced") continue;
    const asked = [...action.offers, ...action.prices.flatMap(({ offers }) => offers)];
    const worths = asked.map(({ network, asset, amountAtomic, leastAtomic }) => {
      decimals.set(nameOf(network, asset.address), asset.decimals);
      return inMicrodollars(leastAtomic ?? amountAtomic, asset.decimals);
    });
    lowest.set(key, Math.min(...worths));
  }
  const known = new Map([...earlier, decimals].flatMap((each) => [...each]));
  const worthOf: SaleRules["worthOf"] = (network, asset, amount) => {
    const usual = findNetwork(network)?.asset.decimals ?? 0;
    return inMicrodollars(amount, known.get(nameOf(network, asset)) ?? usual);
  };
  const { payerPerHour: perPayer, salesPerHour: sales, gasPerHour } = limits;
  const gas = facilitator.embedded.flatMap(({ network, nativePriceAttodollars: price }) => {
    if (gasPerHour === null || price === null) return [];
    const { decimals } = networkOf(network).nativeCurrency;
    const attodollars =
      BigInt(gasPerHour) * 10n ** BigInt(ATTODOLLAR_DECIMALS - MICRODOLLAR_DECIMALS);
    const most = (attodollars * 10n ** BigInt(decimals)) / price;
    return [[network, Number(most)] as const];
  });
  const { deny, allow } = payers;
  const rules = { deny, allow, perPayer, sales, gas: new Map(gas), prices: lowest, worthOf };
  return { rules, decimals };
}

/** Routes that are sold, and what for. */
export function pricedIn(routes: Config["routes"]) {
  return routes.flatMap(({ key, action }) =>
    action.kind === "priced" ? [{ key, offers: action.offers }] : [],
  );
}

/** Rounded up: nothing is sold for nothing. A whole unit of any token counts as a dollar, which is what prices do. */
function inMicrodollars(amount: bigint, decimals: number): number {
  const unit = 10n ** BigInt(decimals);
  const whole = (amount * 10n ** BigInt(MICRODOLLAR_DECIMALS) + unit - 1n) / unit;
  return Number(whole);
}

function nameOf(network: string, asset: string): string {
  return `${network} ${asset.toLowerCase()}`;
}
