/** `paywall`: what people see who open a priced URL in a browser. */
import { flag, map, optional, plainText } from "../reading/shapes.ts";

export interface PaywallSettings {
  /** Browsers that ask for a priced route get a page that pays; false: JSON, as everybody. */
  readonly page: boolean;
  /** Whose shop it is; "" when not given. */
  readonly brand: string;
}

/** Longest name of a shop, characters: it stands in one line of the page, and in the title of its tab. */
const MAX_BRAND = 60;

export const paywall = map({
  page: optional(
    flag,
    "Shows browsers a page that pays with their wallets; programs get JSON in any case.",
    true,
  ),
  brand: optional(
    plainText.max(MAX_BRAND, `must have at most ${MAX_BRAND} characters`),
    "Whose shop it is, at the top of that page.",
  ),
}).transform(({ page, brand = "" }): PaywallSettings => ({ page, brand }));
