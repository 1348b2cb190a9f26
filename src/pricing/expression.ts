/**
 * Prices as expressions of the Common Expression Language: parsed, with types checked, and bounded before a request is
 * there. What may stand in one is listed here; the library knows more, of which nobody can say how long it takes.
 */
import { Environment, type ParseResult } from "@marcbachmann/cel-js";
import { err, ok, type Result } from "../x402/result.ts";
import { parseDollars } from "../x402/amount.ts";
import {
  Analysis,
  type ExpressionFacts,
  type ExpressionFault,
  type ExpressionGround,
} from "./analysis.ts";
import type { Bounds } from "./bounds.ts";

/** Longest expression, characters. */
const MAX_LENGTH = 2_000;
/** Of why a request has no price, characters: a name that is not there may be as long as its body. */
const MAX_SUMMARY = 200;

/** What an expression is given; only what it reads has to be there. */
export interface ExpressionInput {
  readonly method: string;
  readonly path: ReadonlyMap<string, string>;
  readonly query: ReadonlyMap<string, string>;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: unknown;
}

/** {@link ExpressionFacts.bounds} are in dollars. */
export interface Expression extends ExpressionFacts {
  /**
   * The value: whole (`bigint`), binary (`number`) or text; or a sentence on why there is none for such a request.
   * Throws nothing.
   */
  evaluate(input: ExpressionInput): Result<unknown, string>;
}

const RESULTS: ReadonlySet<string> = new Set(["int", "double", "string"]);

const language = new Environment({
  unlistedVariablesAreDyn: false,
  limits: {
    maxAstNodes: 300,
    maxDepth: 32,
    maxListElements: 100,
    maxMapEntries: 100,
    maxCallArguments: 8,
  },
})
  .registerVariable("method", "string")
  .registerVariable("path", "map<string, string>")
  .registerVariable("query", "map<string, string>")
  .registerVariable("headers", "map<string, string>")
  .registerVariable("body", "dyn")
  .registerFunction("usd(string): int", microdollars)
  .registerFunction("min(int, int): int", smaller)
  .registerFunction("min(double, double): double", smaller)
  .registerFunction("max(int, int): int", larger)
  .registerFunction("max(double, double): double", larger)
  .registerFunction("ceil(double): int", (number: number) => whole(Math.ceil(number)))
  .registerFunction("floor(double): int", (number: number) => whole(Math.floor(number)))
  .registerFunction("sum(list): int", sum)
  // In place of the library's own `size`, see OWN_SIZE.
  .registerFunction("Size(string): int", (text: string) => BigInt(characters(text)))
  .registerFunction("Size(list): int", (list: readonly unknown[]) => BigInt(list.length))
  .registerFunction("Size(map): int", (map: ReadonlyMap<unknown, unknown>) => BigInt(map.size));

/** As long as `size`, so that places in a text stay the same. */
const OWN_SIZE = "Size";

/** Parses and checks it; the first fault that is found. */
export function compile(
  text: string,
  ground: ExpressionGround,
): Result<Expression, ExpressionFault> {
  if (text.length > MAX_LENGTH) {
    return fault(`must have at most ${MAX_LENGTH} characters`, 0, text.length);
  }
  let parsed: ParseResult;
  try {
    parsed = language.parse(text);
  } catch (cause) {
    return faultOf(cause, text);
  }
  const analysis = new Analysis(ground);
  const known = analysis.of(parsed.ast);
  if (!known.ok) return known;
  // The same text, and so without a fault of its own.
  if (known.value.sizesAt.length > 0)
    parsed = language.parse(withOwnSize(text, known.value.sizesAt));
  const checked = parsed.check();
  if (!checked.valid) return faultOf(checked.error, text);
  const { type = "dyn" } = checked;
  if (!RESULTS.has(type)) {
    const hint =
      type === "dyn"
        ? "say which: int(…) for millionths of a dollar, double(…) for dollars"
        : "int: millionths of a dollar; double: dollars; string: text such as $0.01";
    const what = type === "dyn" ? "may come to anything" : `comes to ${type}`;
    return fault(`${what}, and a price is int, double or string`, 0, text.length, hint);
  }
  const { bounds, ...rest } = known.value;
  const expression: Expression = {
    ...rest,
    bounds: bounds && inDollars(bounds, type),
    evaluate: (input) => evaluate(parsed, input),
  };
  return ok(expression);
}

function withOwnSize(text: string, places: readonly number[]): string {
  return places.reduce((all, at) => {
    return all.slice(0, at) + OWN_SIZE + all.slice(at + OWN_SIZE.length);
  }, text);
}

/** Code points, as the language counts. */
function characters(text: string): number {
  if (!/[\ud800-\udbff]/.test(text)) return text.length;
  let count = text.length;
  for (let index = 1; index < text.length; index += 1) {
    const isLow = (text.charCodeAt(index) & 0xfc00) === 0xdc00;
    if (isLow && (text.charCodeAt(index - 1) & 0xfc00) === 0xd800) count -= 1;
  }
  return count;
}

function inDollars({ least, most }: Bounds, type: string): Bounds | undefined {
  if (type === "string") return undefined;
  const unit = type === "int" ? 1e6 : 1;
  return { least: least / unit, most: most / unit };
}

function evaluate(parsed: ParseResult, input: ExpressionInput): Result<unknown, string> {
  try {
    const result: unknown = parsed({ ...input });
    return ok(result);
  } catch (cause) {
    return err(summaryOf(cause));
  }
}

/** Of a library's error without the lines that point into the expression, which are the seller's own. */
function summaryOf(cause: unknown): string {
  const summary = Object(cause).summary ?? Object(cause).message;
  if (typeof summary !== "string") return "it cannot be computed";
  const said = summary.split("\n", 1).join("").replaceAll(`${OWN_SIZE}(`, "size(");
  return said.length > MAX_SUMMARY ? `${said.slice(0, MAX_SUMMARY)}…` : said;
}

function faultOf(cause: unknown, text: string): { ok: false; error: ExpressionFault } {
  const { start, end } = Object(Object(cause).range);
  const offset = typeof start === "number" ? Math.min(start, text.length) : 0;
  const until = typeof end === "number" ? end : text.length;
  const said = summaryOf(cause);
  const message = `is no expression: ${said.slice(0, 1).toLowerCase()}${said.slice(1)}`;
  return fault(message, offset, Math.max(1, until - offset), EXAMPLE);
}

const EXAMPLE = 'a price is computed as by usd("0.001") + 20 * size(body.prompt)';

function fault(
  message: string,
  offset: number,
  length: number,
  hint?: string,
): { ok: false; error: ExpressionFault } {
  return err({ message, offset, length, ...(hint === undefined ? {} : { hint }) });
}

/** `usd("0.002")`: millionths of a dollar, exact. */
function microdollars(text: string): bigint {
  const read = parseDollars(`$${text.replace(/^\$/, "")}`, 6);
  if (read.ok) return read.value;
  if (/^\$?0(?:\.0+)?$/.test(text)) return 0n;
  throw new Error(`usd() wants dollars with at most 6 digits behind the point`);
}

/** What is no number stays that, on either side. */
function smaller<Value extends bigint | number>(one: Value, other: Value): Value {
  return one < other || Number.isNaN(one) ? one : other;
}

function larger<Value extends bigint | number>(one: Value, other: Value): Value {
  return one > other || Number.isNaN(one) ? one : other;
}

function whole(number: number): bigint {
  if (Number.isSafeInteger(number)) return BigInt(number);
  throw new Error("a number is too large to be made whole");
}

function sum(list: unknown): bigint {
  if (!Array.isArray(list)) throw new Error("sum() wants a list");
  let all = 0n;
  for (const each of list as readonly unknown[]) {
    if (typeof each !== "bigint") throw new Error("sum() adds whole numbers only");
    all += each;
  }
  return all;
}
