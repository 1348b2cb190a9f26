/**
 * What was asked for a URL before the configuration changed. A buyer who was told a price may pay it for as
 * long as that offer's `maxTimeoutSeconds` after the change, whatever the URL costs by now, and in the version in which
 * it was told.
 */
import { readIdentifier } from "../../x402/payment-identifier.ts";
import type { Refusal, Result } from "../../x402/result.ts";
import { mismatchOf } from "../../x402/version-2.ts";
import type {
  PaymentPayload,
  PaymentRequirements,
  SpokenVersions,
  X402Version,
} from "../../x402/x402.ts";
import type { Envelope } from "../../x402/schema.ts";
import type { PricedRequest } from "../../pricing/computed-price.ts";
import type { Offers } from "../../payments/sale/offers.ts";
import { offersOfPayer, type MemberTerms } from "../membership.ts";
import type { ComputedPlans } from "../computed-plans.ts";
import type { Router } from "../paths/router.ts";

/** What a route has asked of anybody, and of members of its groups. */
export interface QuotedEarlier {
  readonly offers: Offers;
  readonly members: readonly MemberTerms[];
  /** Its offers were the most that an answer costs, charged by use. Default: they were what it costs. */
  readonly isMetered?: boolean;
}

/** The prices of a configuration that was replaced. */
export interface EarlierQuotes {
  /** See `Snapshot.site`: they are for requests to this one alone. */
  readonly site: string;
  /** Null where nothing was sold. */
  readonly router: Router<QuotedEarlier | null>;
  /** Of those that were the most that a request costs: what each of them did. Default: of none. */
  readonly computed?: ReadonlyMap<Offers, ComputedPlans<Offers>>;
  readonly publicUrl: string;
  readonly protocol: SpokenVersions;
  /** When it was replaced, milliseconds since the epoch; later once it is known who has asked by it still. */
  replacedMs: number;
  /** When the last of its offers is over. */
  untilMs: number;
}

/** Others have gone by what was replaced at that time until `untilMs`: what they asked for counts from there on. */
export function askedUntil(
  earlier: readonly EarlierQuotes[],
  replacedMs: number,
  untilMs: number,
): void {
  for (const each of earlier) {
    if (each.replacedMs !== replacedMs) continue;
    each.replacedMs = untilMs;
    each.untilMs += untilMs - replacedMs;
  }
}

export interface AskedEarlier {
  readonly payment: PaymentPayload;
  readonly method: string;
  /** Canonical path. */
  readonly path: string;
  /** Canonical path and query. */
  readonly target: string;
  readonly version: X402Version;
  /** From what a price is computed. */
  readonly priced?: PricedRequest;
}

/** Whether a price that still counts was computed from the body of such a request. */
export function readsEarlierBody(
  earlier: readonly EarlierQuotes[],
  { method, path }: Pick<AskedEarlier, "method" | "path">,
  nowMs: number,
): boolean {
  return earlier.some(({ router, computed, untilMs }) => {
    if (computed === undefined || computed.size === 0 || nowMs >= untilMs) return false;
    const match = router.match(method, path);
    if (match.kind !== "route" || match.value === null) return false;
    return computed.get(match.value.offers)?.readsBody === true;
  });
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
  asked: AskedEarlier,
  nowMs: number,
): readonly PaymentRequirements[] {
  return askedEarlier(earlier, asked, nowMs).flatMap(({ requirements }) => requirements);
}

/** Whether that was asked for as the most that an answer costs, and may still be paid. */
export function isMeteredEarlier(
  earlier: readonly EarlierQuotes[],
  asked: AskedEarlier,
  paid: PaymentRequirements,
  nowMs: number,
): boolean {
  return askedEarlier(earlier, asked, nowMs).some(
    ({ isMetered, requirements }) =>
      isMetered &&
      requirements.some(
        ({ network, asset, maxAmountRequired }) =>
          network === paid.network &&
          asset === paid.asset &&
          maxAmountRequired === paid.maxAmountRequired,
      ),
  );
}

/**
 * How a payment names its purchase by what was asked for when its client was told what it has accepted; undefined
 * where it has accepted nothing of that, or named it no better for that.
 */
export function nameAskedEarlier(
  earlier: readonly EarlierQuotes[],
  { accepted, ...asked }: AskedEarlier & Envelope,
  nowMs: number,
): Result<string | undefined, Refusal> | undefined {
  if (accepted === undefined) return undefined;
  return askedEarlier(earlier, asked, nowMs)
    .filter(({ requirements }) => requirements.some((each) => !mismatchOf(accepted, each)))
    .map(({ offers }) => readIdentifier(asked.payment, offers.identifier))
    .find(({ ok }) => ok);
}

interface StillAsked {
  readonly offers: Offers;
  readonly isMetered: boolean;
  readonly requirements: readonly PaymentRequirements[];
}

function askedEarlier(
  earlier: readonly EarlierQuotes[],
  { payment, method, path, target, version, priced }: AskedEarlier,
  nowMs: number,
): readonly StillAsked[] {
  return earlier.flatMap(({ router, computed, publicUrl, replacedMs }) => {
    const match = router.match(method, path);
    if (match.kind !== "route" || match.value === null) return [];
    const { offers: most, members, isMetered = false } = match.value;
    const own = offersAt(most, computed, priced);
    const asked = [...(own === undefined ? [] : [own]), ...offersOfPayer(members, payment)];
    return asked.map((offers) => {
      const requirements = offers
        .requirements(publicUrl + target, version)
        .filter(({ maxTimeoutSeconds }) => nowMs < replacedMs + maxTimeoutSeconds * 1000);
      return { offers, isMetered, requirements };
    });
  });
}

function offersAt(
  asked: Offers,
  computed: EarlierQuotes["computed"],
  request: PricedRequest | undefined,
): Offers | undefined {
  const plans = computed?.get(asked);
  if (plans === undefined) return asked;
  const priced = request && plans.planFor(request);
  return priced?.ok === true ? priced.value : undefined;
}
