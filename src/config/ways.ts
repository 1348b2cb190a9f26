/** How a priced route is had beside a payment for each request: in words for people, and as facts for programs. */
import { formatAmount } from "../x402/amount.ts";
import type { HolderTerms } from "../x402/holding.ts";
import type { ToldPass } from "../x402/pass-offers.ts";
import { CREDITS_PATH } from "../x402/prepaid.ts";
import { keyAt, lastingText, type PassSettings } from "./passes.ts";
import type { QuotaSettings } from "./routes/quota.ts";
import type { PricedAction, RouteSettings } from "./routes/routes.ts";

/** What passes a site has, and where they are sold. */
interface SitePasses {
  readonly passes: readonly PassSettings[];
  readonly publicUrl: string | null;
}

/** The same of the file's own site, beside its others; or of one site alone, which has none beside it. */
export interface PassGround extends SitePasses {
  readonly sites?: readonly (SitePasses & { readonly name: string })[];
}

type BesidePayments = Pick<PricedAction, "quota" | "grants" | "credits">;
type KnownRoute = Pick<RouteSettings, "key" | "host">;

/** Those that open a route: sold at its own site. */
export function passesOf(route: KnownRoute, ground: PassGround): readonly PassSettings[] {
  const { key, host = "" } = route;
  const { passes } = siteOf(route, ground);
  return passes.filter(({ routes }) => routes.some((each) => keyAt(host, each) === key));
}

function siteOf({ host }: KnownRoute, ground: PassGround): SitePasses {
  return ground.sites?.find(({ name }) => name === host) ?? ground;
}

/** As buyers are told of those that open a route. */
export function toldPasses(route: KnownRoute, ground: PassGround): readonly ToldPass[] {
  const { publicUrl } = siteOf(route, ground);
  return passesOf(route, ground).map(({ name, path, price, forMs, times }) => ({
    name,
    url: `${publicUrl ?? ""}${path}`,
    price,
    seconds: Math.floor(forMs / 1000),
    ...(times !== null && { requests: times }),
  }));
}

const WINDOWS: Readonly<Record<number, string>> = {
  1_000: "second",
  60_000: "minute",
  3_600_000: "hour",
  86_400_000: "day (UTC)",
};
const BY = { address: "of an address", payer: "of an account that signs in" } as const;

/** Sentences without a final period. */
export function waysText(
  route: KnownRoute,
  { quota, grants, credits }: BesidePayments,
  ground: PassGround,
): readonly string[] {
  const ways: string[] = [];
  if (quota !== null) ways.push(quotaText(quota));
  if (grants !== null) {
    const often = grants.times === null ? "all of it" : `${grants.times} more requests`;
    ways.push(`who has paid has ${often} for ${lastingText(grants.forMs)}, signed in`);
  }
  for (const { name, price, path, forMs, times } of passesOf(route, ground)) {
    const often = times === null ? "" : `, ${times} requests`;
    ways.push(`the pass ${name} opens it: ${price} for ${lastingText(forMs)}${often} at ${path}`);
  }
  if (credits)
    ways.push(`a session may pay it from what its account has prepaid at ${CREDITS_PATH}`);
  return ways;
}

/** What members hold: `holds 5 USDC on base`. */
export function holdersText({ network, token, symbol, least, decimals }: HolderTerms): string {
  return `holds ${formatAmount(least, decimals)} ${symbol ?? `of ${token}`} on ${network}`;
}

function quotaText({ requests, windowMs, by }: QuotaSettings): string {
  return `${requests} requests ${BY[by]} are free each ${WINDOWS[windowMs] ?? lastingText(windowMs)}`;
}

/** The same for programs; nothing where there is none. */
export function waysFacts(
  route: KnownRoute,
  { quota, grants, credits }: BesidePayments,
  ground: PassGround,
): Readonly<Record<string, unknown>> {
  const passes = toldPasses(route, ground);
  return {
    ...(quota !== null && {
      free: { requests: quota.requests, seconds: quota.windowMs / 1000, by: quota.by },
    }),
    ...(grants !== null && {
      grants: {
        seconds: Math.floor(grants.forMs / 1000),
        ...(grants.times !== null && { requests: grants.times }),
      },
    }),
    ...(passes.length > 0 && { passes }),
    ...(credits && { credits: { buy: `${siteOf(route, ground).publicUrl ?? ""}${CREDITS_PATH}` } }),
  };
}
