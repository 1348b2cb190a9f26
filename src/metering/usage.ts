/** What an answer says of its use: a number as it is written, never through a binary one. */

/** An exact decimal, 0 or more: `units` at so many decimals. */
export interface Decimal {
  readonly units: bigint;
  readonly decimals: number;
}

/** What was used, and as it was written. */
export interface Usage extends Decimal {
  readonly text: string;
}

/**
 * Why an answer does not say what it has used.
 * - `absent`: nothing of it has the path or the header, or `null` stands there;
 * - `no-number`: something else than a number of 0 or more, or a longer one than anybody counts to;
 * - `twice`: it is there twice, and programs differ in which one they take;
 * - `malformed`: the body is no JSON, or is deeper than is read;
 * - `too-long`: it may be behind what is read of an answer;
 * - `encoded`: the backend has compressed it, though it was asked not to;
 * - `left`: the buyer has left, and the rest was not read to its end.
 */
export const UNREAD_REASONS = [
  "absent",
  "no-number",
  "twice",
  "malformed",
  "too-long",
  "encoded",
  "left",
] as const;

export type UnreadReason = (typeof UNREAD_REASONS)[number];

export type UsageReading =
  | { readonly kind: "read"; readonly usage: Usage }
  | { readonly kind: "unread"; readonly reason: UnreadReason };

export const ABSENT: UsageReading = { kind: "unread", reason: "absent" };

export function unread(reason: UnreadReason): UsageReading {
  return { kind: "unread", reason };
}

/** Of a number, characters: whoever counts further than that is not believed. */
export const MAX_NUMBER_LENGTH = 40;
/** Zeros that an exponent adds at most, before the point or behind it. */
const MAX_EXPONENT = 40;

/** As JSON has it; a sign is none of ours, not even of a zero. */
const NUMBER = /^(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]{1,3}))?$/;

/** `12`, `1.5`, `1e3`: undefined for whatever else stands there. */
export function readNumber(text: string): Usage | undefined {
  if (text.length > MAX_NUMBER_LENGTH) return undefined;
  const [match, whole = "", fraction = "", sign, power = "0"] = NUMBER.exec(text) ?? [];
  if (match === undefined) return undefined;
  const exponent = BigInt(power);
  if (exponent > MAX_EXPONENT) return undefined;
  const units = BigInt(whole + fraction);
  const shift = BigInt(fraction.length) + (sign === "-" ? exponent : -exponent);
  if (shift >= 0n) return { units, decimals: Number(shift), text };
  return { units: units * 10n ** -shift, decimals: 0, text };
}
