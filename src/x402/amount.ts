/**
 * Money is `bigint` in atomic token units and nothing else: a price becomes an amount by moving a
 * decimal point in text. No float takes part, and a price that the token cannot express is refused
 * instead of rounded.
 */
import { err, ok, type Result } from "./result.ts";

declare const atomic: unique symbol;

/** A non-negative amount in atomic token units. */
export type AtomicAmount = bigint & { readonly [atomic]: true };

/** The largest amount that an EVM token can carry: 2^256 - 1. */
export const MAX_UINT256 = 2n ** 256n - 1n;

const DECIMAL_INTEGER = /^(?:0|[1-9][0-9]{0,77})$/;
const DOLLARS = /^\$(0|[1-9][0-9]*)(?:\.([0-9]+))?$/;

/**
 * Reads a uint256 as the wire writes it: decimal digits, no sign, no `0x`, no exponent, no leading
 * zero, below 2^256 (protocol section 2: amounts are strings in atomic units).
 */
export function parseUint256(text: string): bigint | undefined {
  if (!DECIMAL_INTEGER.test(text)) return undefined;
  const value = BigInt(text);
  return value <= MAX_UINT256 ? value : undefined;
}

export function parseAtomicAmount(text: string): AtomicAmount | undefined {
  const value = parseUint256(text);
  return value === undefined ? undefined : (value as AtomicAmount);
}

/** Why a price is refused; the sentence stands after "price ". */
export interface PriceProblem {
  readonly kind: "syntax" | "zero" | "too-precise" | "too-large";
  readonly message: string;
}

/**
 * `$0.01` at 6 decimals → 10000n. Dollars of the network's stablecoin, digits after the point up to
 * the token's decimals. Zero is refused: a route without a price says `free`.
 */
export function parseDollars(text: string, decimals: number): Result<AtomicAmount, PriceProblem> {
  const match = DOLLARS.exec(text);
  if (match === null) {
    return err({ kind: "syntax", message: `${JSON.stringify(text)} is not of the form $0.01` });
  }
  const [, whole = "0", written = ""] = match;
  const fraction = written.replace(/0+$/, "");
  if (fraction.length > decimals) {
    return err({
      kind: "too-precise",
      message: `${text} cannot be expressed by a token with ${decimals} decimals; the smallest unit is $${formatAmount(1n, decimals)}`,
    });
  }
  const digits = `${whole}${fraction.padEnd(decimals, "0")}`.replace(/^0+(?=[0-9])/, "");
  const amount = parseAtomicAmount(digits);
  if (amount === undefined) {
    return err({ kind: "too-large", message: `${text} exceeds 2^256 - 1 atomic units` });
  }
  if (amount === 0n) return err({ kind: "zero", message: `${text} is zero; write free instead` });
  return ok(amount);
}

/** 10000n at 6 decimals → `0.01`; exact, without trailing zeros, the inverse of {@link parseDollars}. */
export function formatAmount(amount: bigint, decimals: number): string {
  const digits = amount.toString().padStart(decimals + 1, "0");
  const split = digits.length - decimals;
  const fraction = digits.slice(split).replace(/0+$/, "");
  const whole = digits.slice(0, split);
  return fraction === "" ? whole : `${whole}.${fraction}`;
}

/** An attodollar is so many decimals behind a dollar. */
export const ATTODOLLAR_DECIMALS = 18;

/** Attodollars, rounded down, of an amount in the smallest unit of what costs `price` attodollars for each whole one. */
export function worthOf(atomic: bigint, decimals: number, price: bigint): bigint {
  return (atomic * price) / 10n ** BigInt(decimals);
}
