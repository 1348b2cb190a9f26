/** `prices` of a route: what it costs members of groups. */
import type { z } from "zod";
import type { Context } from "../reading/context.ts";
import { fault } from "../reading/reading.ts";
import { named, optional } from "../reading/shapes.ts";
import { didYouMean } from "../reading/suggestion.ts";
import type { Path } from "../reading/tree.ts";
import { GROUP_FORM } from "../reading/forms.ts";
import { memberPrice } from "./price.ts";
import type { OfferSettings, Pricing, Wanted } from "./pricing.ts";

/** What a route costs those who are in a group. */
export interface MemberPrice {
  /** Its name among `members`. */
  readonly group: string;
  /** In the order that buyers see; none: it costs them nothing. */
  readonly offers: readonly OfferSettings[];
}

export const memberPrices = optional(
  named(memberPrice, GROUP_FORM),
  "What it costs who has signed in as one of a group of `members`, or pays with such an account: { partners: $0.005, staff: free }. " +
    "Of several groups the first one written counts. Who has not signed in may pay `price`, members too.",
);

type Written = NonNullable<z.output<typeof memberPrices>>;

/** @param wanted of the route itself: each group pays in the same tokens to the same payee */
export function resolveMemberPrices(
  written: Written | undefined,
  { path, wanted }: { readonly path: Path; readonly wanted: Omit<Wanted, "price" | "pricePath"> },
  { context, pricing }: { readonly context: Context; readonly pricing: Pricing },
): readonly MemberPrice[] {
  const { tree, problems } = context;
  const place = [...path, "prices"];
  const groups = tree.keys(["members"]);
  const resolved: MemberPrice[] = [];
  for (const group of tree.keys(place)) {
    const at = [...place, group];
    if (!groups.includes(group)) {
      const hint = didYouMean(group, groups) ?? "add it to members";
      problems.errorAtKey(at, fault("unknown-group", "is no group of members", hint));
    }
    // Absent where it was refused.
    const cost = written?.[group];
    if (cost === undefined) continue;
    if ("kind" in cost && cost.kind === "free") resolved.push({ group, offers: [] });
    else {
      const offers = pricing.offers(path, { ...wanted, price: cost, pricePath: at });
      if (offers.length > 0) resolved.push({ group, offers });
    }
  }
  if (resolved.length > 0 && tree.has(["sidecar"])) {
    const message = "has no effect behind another proxy, where nobody has a session";
    problems.errorAtKey(place, fault("unused-key", message, "remove it, or listen for buyers"));
  }
  return resolved;
}
