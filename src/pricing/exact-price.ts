/**
 * What an expression comes to, as money. Whole numbers are millionths of a dollar, text is dollars as a price is written
 * anywhere, both exact; any other number is dollars and is rounded up to what the token can express, so that nothing is
 * sold for less than was meant.
 */
import { ATTODOLLAR_DECIMALS, parseDollars } from "../x402/amount.ts";
import { err, ok, type Result } from "../x402/result.ts";

/** Of a dollar, in which whole numbers count. */
const MICRO_DECIMALS = 6;
/**
 * What of a binary number is looked at: as many decimal digits as each of them holds. Those behind are remains of
 * arithmetic in binary, and would round 0.1 + 0.2 up by a unit.
 */
const DIGITS = 15;
/** A larger number of dollars has not enough of those digits for millionths. */
const MAX_DOLLARS = 1_000_000_000;

/** Attodollars, or a sentence on why it is no price. It may be below zero. */
export function readPrice(result: unknown): Result<bigint, string> {
  if (typeof result === "bigint") return ok(result * 10n ** unitsBehind(MICRO_DECIMALS));
  if (typeof result === "number") return readNumber(result);
  if (typeof result !== "string") return err("it comes to no number");
  const exact = parseDollars(result, ATTODOLLAR_DECIMALS);
  return exact.ok ? exact : err("it comes to text that is no price such as $0.01");
}

function readNumber(dollars: number): Result<bigint, string> {
  if (Number.isNaN(dollars)) return err("it comes to no number");
  if (Math.abs(dollars) > MAX_DOLLARS) return err("it comes to more than is sold");
  const [digits = "", exponent = "0"] = dollars.toExponential(DIGITS - 1).split("e");
  const [, minus = "", whole = "", fraction = ""] = /^(-?)(\d)\.(\d+)$/.exec(digits) ?? [];
  const value = BigInt(minus + whole + fraction);
  const shift = ATTODOLLAR_DECIMALS + Number(exponent) - (DIGITS - 1);
  if (shift >= 0) return ok(value * 10n ** BigInt(shift));
  return ok(ceiled(value, 10n ** BigInt(-shift)));
}

/** Atomic units of a token with so many decimals, at most {@link ATTODOLLAR_DECIMALS}: rounded up. */
export function unitsOf(attodollars: bigint, decimals: number): bigint {
  return ceiled(attodollars, 10n ** unitsBehind(decimals));
}

function unitsBehind(decimals: number): bigint {
  return BigInt(ATTODOLLAR_DECIMALS - decimals);
}

function ceiled(value: bigint, by: bigint): bigint {
  const quotient = value / by;
  return value > quotient * by ? quotient + 1n : quotient;
}
