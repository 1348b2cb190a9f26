/** `paywall`: what people see who open a priced URL in a browser. */
import type { Context } from "../reading/context.ts";
import type { Config } from "../settings.ts";
import { flag, map, optional, plainText } from "../reading/shapes.ts";

/** Longest name of a shop, characters: it stands in one line of the page, and in the title of its tab. */
const MAX_BRAND = 60;

const DEFAULTS = { page: true, brand: "" } as const;

export const paywallPage = map({
  page: optional(
    flag,
    "Shows browsers a page that pays with their wallets; programs get JSON in any case.",
    DEFAULTS.page,
  ),
  brand: optional(
    plainText.max(MAX_BRAND, `must have at most ${MAX_BRAND} characters`),
    "Whose shop it is, at the top of that page.",
  ),
});

export function resolvePaywall({ document }: Context): Config["paywall"] {
  return { ...DEFAULTS, ...document.paywall };
}
