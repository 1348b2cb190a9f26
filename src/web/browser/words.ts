/** What wallets, the shop and backends say, as sentences for the buyer. */
import { ended, NotPaid } from "./offer.ts";

const DECLINED = /4001|reject|declin|denied|cancel/i;
/** Longest path that is shown, and what of an answer's own words is repeated, characters. */
export const MAX_SHOWN = 300;

/** Why nothing was signed, as a sentence. */
export function reasonOf(cause: unknown): string {
  if (cause instanceof NotPaid) return cause.message;
  const { code, message } = Object(cause);
  if (DECLINED.test(`${code} ${message}`)) return "You declined in your wallet.";
  return `Your wallet says: ${ended(String(message ?? cause ?? "this is not possible"))}`;
}

/** What a backend says of an error, in the members that most use for that. */
export function said(body: unknown): string {
  const { error, message, detail } = Object(body);
  const own = [error, message, detail, error?.message].find((each) => typeof each === "string");
  return own?.slice(0, MAX_SHOWN) ?? "";
}

export function meaningOf(error: string): string {
  if (error.includes("insufficient_funds")) return "The account holds too little.";
  if (/valid_before|lockhash/.test(error)) return "The signed payment has expired.";
  return `The payment was not accepted: ${ended(error)}`;
}
