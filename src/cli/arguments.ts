/** Values on the command line: text to a value, or a {@link InvalidArgumentError} that says what is wanted. */
import { InvalidArgumentError } from "commander";
import type { PaymentState } from "../admin/books.ts";
import { LIMIT_DECIMALS, type Limit } from "../buyer/terms.ts";
import { NETWORK_NAMES } from "../x402/network.ts";
import { nameOfCaip2 } from "../x402/version-2.ts";

const STATES = [
  "CLAIMED",
  "SIGNED",
  "SETTLED",
  "DELIVERING",
  "DELIVERED",
  "FAILED",
] as const satisfies readonly PaymentState[];

const UNITS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
/** A day, or a moment with its offset from UTC: one without would mean something else on each machine. */
const DATE = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/;
/** More than anybody reads, and little enough to be held in memory. */
const MAX_LIMIT = 100_000;

/** `SETTLED` or `signed,failed`; may be given several times. */
export function readStates(
  text: string,
  before: readonly PaymentState[] = [],
): readonly PaymentState[] {
  const states = text.split(",").map((word) => {
    const state = STATES.find((each) => each === word.trim().toUpperCase());
    if (state === undefined) {
      throw new InvalidArgumentError(`The states are ${STATES.join(", ")}.`);
    }
    return state;
  });
  return [...before, ...states];
}

export function readNetworkName(text: string): string {
  if (NETWORK_NAMES.some((name) => name === text)) return text;
  throw new InvalidArgumentError(`The networks are ${NETWORK_NAMES.join(", ")}.`);
}

export function readPayer(text: string): string {
  if (/^[0-9A-Za-z]{32,44}$/.test(text)) return text;
  throw new InvalidArgumentError("A payer is an address.");
}

/** `30m`, `24h`, `7d`, `2026-08-01` (UTC) or `2026-08-01T12:00Z`, as milliseconds since the epoch. */
export function readSince(text: string): number {
  const [, digits, unit = ""] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (digits !== undefined) return Date.now() - Number(digits) * (UNITS[unit] ?? 0);
  const moment = DATE.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(moment)) return moment;
  throw new InvalidArgumentError("Write 24h, 7d, 2026-08-01 or 2026-08-01T12:00Z.");
}

/** `2026-08-01`, a day that there is. */
export function readDay(text: string): string {
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text)) return text;
  throw new InvalidArgumentError("A day is written as 2026-08-01.");
}

export function readLimit(text: string): number {
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new InvalidArgumentError(`A limit is a number from 1 to ${MAX_LIMIT}.`);
}

/** `90s` or `5m`, as milliseconds. */
export function readTimeout(text: string): number {
  const [, digits, unit = ""] = /^(\d{1,5})([smh])$/.exec(text) ?? [];
  const milliseconds = Number(digits) * (UNITS[unit] ?? 0);
  if (digits !== undefined && milliseconds <= 86_400_000) return milliseconds;
  throw new InvalidArgumentError("Write a duration up to 24h, such as 60s or 5m.");
}

/** `30m`, `2h` or `7d`, milliseconds, up to a year. */
export function readPauseTime(text: string): number {
  const [, digits, unit = ""] = /^([1-9]\d{0,6})([smhd])$/.exec(text) ?? [];
  const milliseconds = Number(digits) * (UNITS[unit] ?? 0);
  if (digits !== undefined && milliseconds <= 365 * 86_400_000) return milliseconds;
  throw new InvalidArgumentError("Write a time up to 365d, such as 30m or 2h.");
}

/** Networks by their name or their CAIP-2; may be given several times. */
export function readNetworkChoice(text: string, before: readonly string[] = []): readonly string[] {
  const name = nameOfCaip2(text);
  if (NETWORK_NAMES.some((each) => each === name)) return [...before, name];
  throw new InvalidArgumentError(`The networks are ${NETWORK_NAMES.join(", ")}.`);
}

const MAX_FORM = "Write '$0.05' in quotes, 0.05usd, or 50000units (atomic units of the token).";

/** A bare number could mean dollars or atomic units, so it means nothing here. */
export function readMax(text: string): Limit {
  const [, units] = /^([0-9]{1,77}) ?units$/.exec(text) ?? [];
  if (units !== undefined) return { kind: "units", amount: BigInt(units), written: text };
  const [, dollars] =
    /^\$([0-9]{1,20}(?:\.[0-9]{1,36})?)$/.exec(text) ??
    /^([0-9]{1,20}(?:\.[0-9]{1,36})?) ?usd$/i.exec(text) ??
    [];
  if (dollars === undefined) throw new InvalidArgumentError(MAX_FORM);
  const [whole = "0", fraction = ""] = dollars.split(".");
  const amount = BigInt(whole + fraction.padEnd(LIMIT_DECIMALS, "0"));
  return { kind: "dollars", amount, written: `$${dollars}` };
}
