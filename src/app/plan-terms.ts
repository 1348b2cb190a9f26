/** What the configuration says of a priced route that its requests are judged by, beside what is asked for. */
import {
  passesOf,
  toldPasses,
  type PassGround,
  type PricedAction,
  type RouteSettings,
} from "../config/config.ts";
import { declaredInput } from "../gateway/declared-input.ts";
import { Metering } from "../gateway/metered-answer.ts";
import type { PricedPlan } from "../gateway/decision.ts";
import { CREDITS_HEADER, CREDITS_PATH } from "../x402/prepaid.ts";
import { passLinks } from "../x402/pass-offers.ts";
import { CreditPrice } from "../payments/credits/credit-price.ts";

type PlanTerms = Pick<
  PricedPlan,
  | "tokens"
  | "cacheControl"
  | "repeat"
  | "redirects"
  | "goods"
  | "input"
  | "grants"
  | "links"
  | "quota"
  | "isSettledAfter"
  | "credits"
  | "metering"
>;

const NO_GOODS: ReadonlySet<number> = new Set();

export function planTerms(
  route: RouteSettings,
  action: PricedAction,
  ground: PassGround,
): PlanTerms {
  const { cacheControl, repeat, redirects, quota, offers, goods } = action;
  const own = action.grants === null ? [] : [{ route: route.key, ...action.grants }];
  const opening = passesOf(route, ground).map(({ key, forMs, times }) => {
    return { route: key, forMs, times };
  });
  return {
    tokens: offers.map(({ network, asset }) => ({ network, ...asset })),
    cacheControl,
    repeat,
    redirects,
    goods: goods.length === 0 ? NO_GOODS : new Set(goods),
    input: action.checkInput ? declaredInput(action.input, route.segments) : null,
    grants: [...own, ...opening],
    links: [
      ...passLinks(toldPasses(route, ground)),
      ...(action.credits ? [CREDITS_HEADER, `${ground.publicUrl ?? ""}${CREDITS_PATH}`] : []),
    ],
    quota,
    isSettledAfter: action.settle === "after",
    credits: creditsOf(action),
    ...(action.metered !== null && { metering: new Metering(action.metered) }),
  };
}

/** What it costs from a balance; null: it is not paid so. */
export function creditsOf({
  credits,
  offers,
}: Pick<PricedAction, "credits" | "offers">): CreditPrice | null {
  if (!credits) return null;
  return new CreditPrice(
    offers.map(({ network, asset, amountAtomic }) => {
      return { network, asset, amount: BigInt(amountAtomic) };
    }),
  );
}
