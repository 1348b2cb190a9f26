/** Prices as a route writes them. Dollars and atomic units must never be confused, so one has a `$`. */
import { parseDollars } from "../x402/amount.ts";
import { err, ok, type Result } from "../x402/result.ts";
import type { Fault } from "./problem.ts";
import { bad, fault } from "./reading.ts";
import { didYouMean } from "./suggestion.ts";

/** `$0.01`: its form is right; whether a token can express it depends on the token. */
export interface DollarPrice {
  readonly kind: "dollars";
  readonly dollars: string;
}

export type Price = DollarPrice | { readonly kind: "free" };

const DOLLARS = /^\$(?:0|[1-9][0-9]{0,76})(?:\.[0-9]{1,77})?$/;
const BARE_NUMBER = /^(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,6})?$/;
/** What most stablecoins have; only used to phrase a hint. */
const USUAL_DECIMALS = 6;

/** `free` or `$0.01`. */
export function readPrice(text: string): Result<Price, Fault> {
  if (text === "free") return ok({ kind: "free" });
  return readDollars(text, ["free"]);
}

/** What stands for a whole route in one word: `free`, `deny` or `$0.01`. */
export function readAction(text: string): Result<Price | { readonly kind: "deny" }, Fault> {
  if (text === "free" || text === "deny") return ok({ kind: text });
  return readDollars(text, ["free", "deny"]);
}

function readDollars(text: string, words: readonly string[]): Result<DollarPrice, Fault> {
  if (DOLLARS.test(text)) return ok({ kind: "dollars", dollars: text });
  if (BARE_NUMBER.test(text)) return ambiguous(text);
  const wanted = [...words, "a price such as $0.01"].join(" or ");
  const digits = /[0-9]+(?:\.[0-9]+)?/.exec(text)?.[0];
  const near = digits !== undefined && DOLLARS.test(`$${digits}`) ? `write $${digits}` : undefined;
  return bad(`must be ${wanted}`, didYouMean(text, words) ?? near);
}

/** A number of YAML is refused as a price, whatever it is. */
export function readBarePrice(number: number): Result<never, Fault> {
  return ambiguous(String(number));
}

function ambiguous(digits: string): Result<never, Fault> {
  const message = "a bare number as a price could mean dollars or atomic units";
  const whole = !digits.includes(".");
  const converted = parseDollars(`$${digits}`, USUAL_DECIMALS);
  const atomic = whole ? digits : converted.ok ? converted.value.toString() : undefined;
  const suggestion =
    atomic === undefined
      ? 'write $0.01, or in atomic units { amount: "10000", asset: USDC }'
      : `write $${digits}, or in atomic units { amount: "${atomic}", asset: USDC }`;
  return err(fault("ambiguous-price", message, suggestion));
}
