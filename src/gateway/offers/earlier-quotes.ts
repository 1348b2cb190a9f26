/**
 * What was asked for a URL before the configuration changed. A buyer who was told a price may pay it for as
 * long as that offer's `maxTimeoutSeconds` after the change, whatever the URL costs by now, and in the version in which
 * it was told.
 */
import type { PaymentRequirements, SpokenVersions, X402Version } from "../../x402/x402.ts";
import type { Offers } from "../../payments/sale/offers.ts";
import type { Router } from "../paths/router.ts";

/** The prices of a configuration that was replaced. */
export interface EarlierQuotes {
  /** Null where nothing was sold. */
  readonly router: Router<Offers | null>;
  readonly publicUrl: string;
  readonly protocol: SpokenVersions;
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

/** The versions in which somebody may pay: those that are spoken, and those in which prices were told that still count. */
export function payableVersions(
  spoken: SpokenVersions,
  earlier: readonly EarlierQuotes[],
  nowMs: number,
): SpokenVersions {
  if (earlier.length === 0 || (spoken.v1 && spoken.v2)) return spoken;
  const all = [spoken, ...earlier.filter(({ untilMs }) => nowMs < untilMs).map(protocolOf)];
  return { v1: all.some(({ v1 }) => v1), v2: all.some(({ v2 }) => v2) };
}

function protocolOf({ protocol }: EarlierQuotes): SpokenVersions {
  return protocol;
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
