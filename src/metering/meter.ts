/**
 * What a metered route is charged by: `json("usage.total_tokens")` and its like, and what an answer costs. Pure, and exact:
 * an amount is rounded up to the token's smallest unit once, at the end, and is at most what was paid.
 */
import { err, ok, type Result } from "../x402/result.ts";
import type { Decimal } from "./usage.ts";

export const METER_KINDS = ["json", "sse", "header"] as const;

/** Of which part of an answer. */
export type MeterKind = (typeof METER_KINDS)[number];

export interface MeterSource {
  readonly kind: MeterKind;
  /** A path's names, or the one name of a header. */
  readonly path: readonly string[];
}

/** How a route is metered, as its file says it. */
export interface MeterTerms {
  /** At most one of each kind: which one counts says the answer. */
  readonly of: readonly MeterSource[];
  /** `$0.000002` */
  readonly each: string;
  /** `$0.50` */
  readonly max: string;
}

/** Names of a path at most, and characters of one. */
const MAX_PATH_NAMES = 16;
const MAX_NAME_LENGTH = 64;

const CALL = /^(\w+) *\( *(?:"([^"']*)"|'([^"']*)'|([^"'()]*?)) *\)$/;
const NAME = /^[\p{L}\p{N}_$@-]+$/u;
const HEADER = /^[A-Za-z0-9!#$%&*+.^`|~-]+$/;

/**
 * What is wrong, to stand behind the name of its key, and what to write instead. Neither repeats what was written, which may
 * have come from a variable that is a secret.
 */
export interface MeterFault {
  readonly message: string;
  readonly hint?: string;
}

export function readMeterSource(text: string): Result<MeterSource, MeterFault> {
  const [match, word = "", double, single, bare = ""] = CALL.exec(text.trim()) ?? [];
  const argument = (double ?? single ?? bare).trim();
  if (match === undefined) {
    const hint = NAME.test(text.split(".")[0] ?? "") ? 'write json("…") around it' : undefined;
    return faulty('must be json("path"), sse("path") or header("Name")', hint);
  }
  const kind = METER_KINDS.find((each) => each === word);
  if (kind === undefined) {
    const lower = METER_KINDS.find((each) => each === word.toLowerCase());
    const hint = lower === undefined ? undefined : `write ${lower} in small letters`;
    return faulty(`reads ${word}(…), which there is not: json, sse or header`, hint);
  }
  if (kind === "header") {
    if (HEADER.test(argument)) return ok({ kind, path: [argument.toLowerCase()] });
    return faulty("names no header", 'write header("X-Usage")');
  }
  const path = argument.split(".");
  const odd = path.find((name) => !NAME.test(name) || name.length > MAX_NAME_LENGTH);
  if (argument === "" || odd !== undefined || path.length > MAX_PATH_NAMES) {
    const hint = `write the names of its members with dots between them: ${kind}("usage.total_tokens")`;
    return faulty("names no path of members", hint);
  }
  return ok({ kind, path });
}

function faulty(message: string, hint?: string): Result<never, MeterFault> {
  return err({ message, ...(hint !== undefined && { hint }) });
}

/** As it is written. */
export function sourceText({ kind, path }: MeterSource): string {
  return `${kind}("${path.join(".")}")`;
}

/** What is counted, for people: `usage.total_tokens`; where several may be read, each different one. */
export function unitText({ of }: Pick<MeterTerms, "of">): string {
  const names = of.map(({ path }) => path.join("."));
  return [...new Set(names)].join(" or ");
}

/** Reads `$0.000002`: exact, however small. Undefined for another text. */
export function readEach(text: string): Decimal | undefined {
  const [match, whole = "", fraction = ""] = /^\$([0-9]+)(?:\.([0-9]+))?$/.exec(text) ?? [];
  return match === undefined
    ? undefined
    : { units: BigInt(whole + fraction), decimals: fraction.length };
}

/**
 * Atomic units of a token with so many decimals, rounded up: what so much use costs before anything bounds it.
 * @param each dollars
 */
export function costOf(used: Decimal, each: Decimal, decimals: number): bigint {
  const product = used.units * each.units * 10n ** BigInt(decimals);
  const unit = 10n ** BigInt(used.decimals + each.decimals);
  return (product + unit - 1n) / unit;
}
