/** What buyers are answered who ask for a priced route and have not paid: as a running gateway sends it. */
import { sitesOf, type Config, type RouteSettings, type Site } from "../config/config.ts";
import type { PricedPlan } from "../gateway/decision.ts";
import { PAYMENT_REQUIRED_HEADER } from "../x402/header.ts";
import type { PaymentRequirements } from "../x402/x402.ts";
import { DryGateway, knownGround, requestFor, type DryAnswer } from "./dry-gateway.ts";

/** Routes that are named where many have the same fate. */
const MAX_NAMED = 4;

export interface RouteQuote {
  readonly route: RouteSettings;
  /** To a program. */
  readonly answer: DryAnswer;
  /** Writes what it is to the browser of somebody who comes from another origin: no head is longer than this one's. */
  readonly toBrowser: () => DryAnswer;
  readonly offers: PricedPlan["offers"];
  readonly accepts: readonly PaymentRequirements[];
}

/** Of each priced route that somebody can come to, one after the other: of thousands, all would be much to hold. */
export function* routeQuotes(config: Config): Generator<RouteQuote, void, undefined> {
  for (const site of sitesOf(config)) yield* quotesOf(site);
}

function* quotesOf(config: Site<Config>): Generator<RouteQuote, void, undefined> {
  const priced = config.routes.filter(({ action }) => action.kind === "priced");
  if (priced.length === 0) return;
  const dry = new DryGateway(config, knownGround(config));
  const origin = typeof config.cors === "string" ? "https://example.com" : (config.cors[0] ?? "");
  for (const route of priced) {
    const request = requestFor(route);
    const { decision, answer } = dry.ask(request);
    if (decision.kind !== "challenge" || answer?.status !== 402) continue;
    const headers = ["Origin", origin, "Accept", "text/html"];
    const toBrowser = (): DryAnswer => dry.ask({ ...request, headers }).answer ?? answer;
    const { offers } = decision.plan;
    yield { route, answer, toBrowser, offers, accepts: offers.accepts(decision.resource) };
  }
}

/** The value of `PAYMENT-REQUIRED`; null: there is none. */
export function quoteHeader({ lines }: DryAnswer): string | null {
  const at = lines.indexOf(PAYMENT_REQUIRED_HEADER);
  return (at < 0 ? undefined : lines[at + 1]) ?? null;
}

/** Keys of routes, the first ones of many. */
export function listed(keys: readonly string[]): string {
  const named = keys.slice(0, MAX_NAMED).join(", ");
  const more = keys.length - MAX_NAMED;
  return more > 0 ? `${named} and ${more} more` : named;
}
