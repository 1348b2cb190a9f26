/** Configuration -> whom nothing is sold to, and how much of everything in an hour. */
import type { Config } from "../config/config.ts";
import type { SaleRules } from "../payments/sale/sale-guard.ts";
import { ATTODOLLAR_DECIMALS } from "../x402/amount.ts";
import { findNetwork, networkOf } from "../x402/network.ts";

/** Decimals of a dollar in which sales are counted. */
const MICRODOLLAR_DECIMALS = 6;

/** @param earlier configurations that were replaced, of which a price may still be paid */
export function saleRules(
  { payers, limits, routes, facilitator }: Config,
  ...earlier: readonly Pick<Config, "routes">[]
): SaleRules {
  const priced = pricedIn(routes);
  const known = new Map(
    [...earlier.flatMap((each) => pricedIn(each.routes)), ...priced].flatMap(({ offers }) =>
      offers.map(({ network, asset }) => [nameOf(network, asset.address), asset.decimals] as const),
    ),
  );
  const worthOf: SaleRules["worthOf"] = (network, asset, amount) => {
    const usual = findNetwork(network)?.asset.decimals ?? 0;
    return inMicrodollars(amount, known.get(nameOf(network, asset)) ?? usual);
  };
  const lowest = priced.map(({ key, offers }) => {
    const worths = offers.map(({ network, asset, amountAtomic }) =>
      worthOf(network, asset.address, amountAtomic),
    );
    return [key, Math.min(...worths)] as const;
  });
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
  return { deny, allow, perPayer, sales, gas: new Map(gas), prices: new Map(lowest), worthOf };
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
