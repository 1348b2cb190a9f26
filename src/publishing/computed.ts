/** A route whose price is computed, as a route of one price. */
import type { PricedAction, RouteSettings } from "../config/config.ts";
import { unitsOf } from "../pricing/exact-price.ts";
import { ComputedPrice, dollarsText, type Attodollars } from "../pricing/computed-price.ts";
import { parseAtomicAmount } from "../x402/amount.ts";

/** Undefined: each request costs the same. */
export function computedPrice(
  { methods, segments }: Pick<RouteSettings, "methods" | "segments">,
  { computed, offers }: Pick<PricedAction, "computed" | "offers">,
): ComputedPrice | undefined {
  if (computed === null) return undefined;
  const decimals = Math.max(0, ...offers.map(({ asset }) => asset.decimals));
  const price = ComputedPrice.of(computed, { methods, segments, decimals });
  // A file with such an expression is refused.
  if (!price.ok) throw new Error(price.error.message);
  return price.value;
}

/** What is sold, at one of its prices. */
export function actionAt(action: PricedAction, price: Attodollars): PricedAction {
  const dollars = dollarsText(price);
  const offers = action.offers.map((offer) => {
    const amountAtomic = parseAtomicAmount(unitsOf(price, offer.asset.decimals).toString());
    if (amountAtomic === undefined) throw new Error("a price that no token can express");
    return { ...offer, amountAtomic, dollars };
  });
  return { ...action, offers };
}
