/** What is allowed about hours and most likely a mistake: that something costs more than may be bought, or sold, in one. */
import type { Config } from "./document.ts";
import type { Context } from "./reading/context.ts";
import { fault } from "./reading/reading.ts";
import type { OfferSettings } from "./routes/pricing.ts";

const MICRO_DECIMALS = 6;

/** Whoever signs for such a thing is refused, hour after hour. */
export function reviewHours(
  { limits, routes }: Pick<Config, "limits" | "routes">,
  { problems }: Context,
): void {
  for (const [name, most] of [
    ["perPayer", limits.payerPerHour],
    ["sales", limits.salesPerHour],
  ] as const) {
    if (most === null) continue;
    const dear = routes.find(({ action }) => {
      if (action.kind !== "priced") return false;
      return action.offers.length > 0 && action.offers.every((offer) => leastOf(offer) > most);
    });
    if (dear === undefined) continue;
    const message = `is less than one request of ${dear.key} costs: nobody can ever buy it`;
    const found = fault("small-hour", message, "raise it, or lower the price");
    problems.add("warning", ["limits", name], found);
  }
}

/** Millionths of a whole unit, which counts as a dollar; rounded up. */
function leastOf({ leastAtomic, amountAtomic, asset: { decimals } }: OfferSettings): bigint {
  const unit = 10n ** BigInt(decimals);
  const micro = BigInt(leastAtomic ?? amountAtomic) * 10n ** BigInt(MICRO_DECIMALS);
  return (micro + unit - 1n) / unit;
}
