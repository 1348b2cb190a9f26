/** What is allowed about passes and most likely a mistake: one that costs no more than a request of what it opens. */
import { parseDollars } from "../x402/amount.ts";
import type { Config } from "./document.ts";
import type { Site } from "./hosts.ts";
import { keyAt } from "./passes.ts";
import { sitePath } from "./routes/route-path.ts";
import type { Context } from "./reading/context.ts";
import { fault } from "./reading/reading.ts";
import type { RouteAction } from "./routes/routes.ts";

/** More than any token has. */
const DECIMALS = 18;

export function reviewPasses(
  { site, passes, routes }: Site<Pick<Config, "passes" | "routes">>,
  { problems }: Context,
): void {
  for (const { name, price, routes: keys } of passes) {
    const cost = atto(price);
    const dear = routes.find(({ key, action }) => {
      const least = keys.some((each) => keyAt(site, each) === key) ? leastOf(action) : null;
      return least !== null && cost !== null && cost <= least;
    });
    if (dear === undefined) continue;
    const message = `is no more than one request of ${dear.key} costs: nobody would pay for that again`;
    const found = fault("cheap-pass", message, "raise it, or leave the route out");
    problems.add("warning", [...sitePath(site), "passes", name, "price"], found);
  }
}

/** The least that a request costs in dollars; null where it is not asked for in dollars. */
function leastOf(action: RouteAction): bigint | null {
  if (action.kind !== "priced") return null;
  const { computed, offers } = action;
  const [first] = offers;
  return atto(computed?.from ?? first?.dollars ?? "");
}

function atto(dollars: string): bigint | null {
  const parsed = parseDollars(dollars, DECIMALS);
  return parsed.ok ? parsed.value : null;
}
