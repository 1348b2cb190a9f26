/** `credits`: what buyers can prepay at once, and what of it a process may have answered before that is written. */
import { z } from "zod";
import { formatAmount, parseDollars, type PriceProblem } from "../x402/amount.ts";
import { BALANCE_PATH, CREDITS_PATH } from "../x402/prepaid.ts";
import type { Context } from "./reading/context.ts";
import type { OwnRoute } from "./routes/own.ts";
import type { Pricing } from "./routes/pricing.ts";
import { bad, fault, ONE_OF_TWO } from "./reading/reading.ts";
import { described, listOf, map, matching, optional, reader } from "./reading/shapes.ts";
import { ok } from "../x402/result.ts";

export interface CreditsConfig {
  /** What is sold at once, dollars as written: `$5`; 1 to {@link MAX_PACKS}, all different, in the order written. */
  readonly packs: readonly string[];
  /**
   * What of all balances together one process may have answered and not written, in the smallest unit of the token, which is
   * a millionth of a dollar on every network.
   */
  readonly atRisk: bigint;
}

/** Each is a route, and stands in the listing. */
const MAX_PACKS = 8;
/** Of the stablecoin of every network. */
const CREDIT_DECIMALS = 6;
const AT_RISK = "$1";

const FORM = "must be an amount such as $1";

const dollars = reader(
  z.union([z.string(), z.number()], FORM),
  (written) => {
    const amount = parseDollars(String(written), CREDIT_DECIMALS);
    if (amount.ok) return ok({ written: String(written), amount: amount.value });
    return bad(FORM, hintFor(String(written), amount.error));
  },
  matching(/^\$[0-9]+(?:\.[0-9]{1,6})?$/, FORM, "$1", "$0.50"),
);

function hintFor(written: string, { kind }: PriceProblem): string | undefined {
  if (kind === "zero") return "it has to be more than nothing";
  if (kind === "too-precise") return `write at most ${CREDIT_DECIMALS} digits behind the point`;
  return parseDollars(`$${written}`, CREDIT_DECIMALS).ok ? `write $${written}` : undefined;
}

export const credits = map({
  packs: described(
    listOf(dollars),
    `What is sold at once, each at its own address, /.x402/credits/1 for $1; at most ${MAX_PACKS}. The first one is also at ` +
      "/.x402/credits. It is paid in the networks of `accept`, in their USDC, to `payTo`.",
  ),
  atRisk: optional(
    dollars,
    "What of all balances together each process may have answered and not written yet: the most that you lose when it is " +
      "killed. An answer beyond it waits until its debit is written. Buyers lose nothing.",
    AT_RISK,
  ),
});

/** Null: nothing is prepaid here. */
export function resolveCredits(
  written: z.output<typeof credits> | undefined,
  { problems, tree }: Context,
): CreditsConfig | null {
  if (written === undefined) return null;
  const { packs, atRisk } = written;
  const place = ["credits", "packs"];
  if (packs.length > MAX_PACKS) {
    problems.error(place, fault("bad-value", `must be at most ${MAX_PACKS} amounts`));
  }
  if (packs.length === 0 && tree.intact(place)) {
    problems.error(place, fault("bad-value", "must have at least one amount", "write [$1, $5]"));
  }
  for (const [index, { amount }] of packs.entries()) {
    if (!tree.intact(place)) break;
    if (packs.findIndex((each) => each.amount === amount) === index) continue;
    problems.error([...place, index], fault("duplicate-entry", "is sold twice", ONE_OF_TWO));
  }
  return { packs: packs.map((each) => each.written), atRisk: atRisk.amount };
}

/** Where balances are bought and told at one site. */
export function creditsRoutes(
  { packs }: CreditsConfig,
  pricing: Pricing,
  { problems, tree }: Context,
): readonly OwnRoute[] {
  const [first] = packs;
  const place = ["credits", "packs"];
  const routes = packs.flatMap((dollars, index): readonly OwnRoute[] => {
    const amount = parseDollars(dollars, CREDIT_DECIMALS);
    if (!amount.ok) return [];
    const at = [...place, index];
    const offers = pricing.dollarOffers(["credits"], { kind: "dollars", dollars }, at);
    const path = `${CREDITS_PATH}/${formatAmount(amount.value, CREDIT_DECIMALS)}`;
    const sold = {
      place: at,
      offers,
      own: { kind: "credits" },
      description: `${dollars} of credit, to be spent on requests here without a payment for each`,
    } as const;
    const own = { ...sold, key: `${METHODS} ${path}` };
    if (dollars !== first) return [own];
    return [{ ...sold, key: `${METHODS} ${CREDITS_PATH}`, discoverable: false }, own];
  });
  const isUnsold = routes.length > 0 && routes.every(({ offers }) => offers.length === 0);
  if (isUnsold && tree.intact(["accept"])) {
    const message = "cannot be sold: nothing that is accepted is paid in dollars";
    problems.error(place, fault("no-accept", message, "add accept: [base-sepolia]"));
  }
  return routes;
}

/** Paths that no route of the file can have where balances are sold. */
export function creditsKeys(routes: readonly OwnRoute[]): readonly string[] {
  return [...routes.map(({ key }) => key), `GET ${BALANCE_PATH}`];
}

/** `GET` is there for browsers, which are shown the page that sells. */
const METHODS = "GET,POST";
