/**
 * What was asked for a URL before the configuration changed. A buyer who was told a price may pay it for as
 * long as that offer's `maxTimeoutSeconds` after the change, whatever the URL costs by now.
 */
import type { PaymentRequirements, X402Version } from "../../x402/x402.ts";
import type { Offers } from "../../payments/sale/offers.ts";
import type { Router } from "../paths/router.ts";

/** The prices of a configuration that was replaced. */
export interface EarlierQuotes {
  /** Null where nothing was sold. */
  readonly router: Router<Offers | null>;
  readonly publicUrl: string;
  /** When it was replaced, milliseconds since the epoch. */
  readonly replacedMs: number;
  /** When the last of its offers is over. */
  readonly untilMs: number;
}

export interface AskedEarlier {
  readonly method: string;
  /** Canonical path. */
  readonly path: string;
  /** Canonical path and query. */
  readonly target: string;
  readonly version: X402Version;
}

/** The requirements that may still be met, in the order of `earlier`. */
export function earlierRequirements(
  earlier: readonly EarlierQuotes[],
  { method, path, target, version }: AskedEarlier,
  nowMs: number,
): readonly PaymentRequirements[] {
  return earlier.flatMap(({ router, publicUrl, replacedMs }) => {
    const match = router.match(method, path);
    if (match.kind !== "route" || match.value === null) return [];
    const asked = match.value.requirements(publicUrl + target, version);
    return asked.filter(({ maxTimeoutSeconds }) => nowMs < replacedMs + maxTimeoutSeconds * 1000);
  });
}
