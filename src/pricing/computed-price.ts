/**
 * The price of a request by an expression: what of the request it is computed from, what it comes to, and which requests
 * have none. What backends may read in another way than it is read here has no price: whoever sends a field twice would
 * pay by one of them and be served by the other.
 */
import { parseDollars, ATTODOLLAR_DECIMALS, formatAmount } from "../x402/amount.ts";
import { err, ok, type Result } from "../x402/result.ts";
import type { ExpressionFault, ExpressionGround } from "./analysis.ts";
import { compile, type Expression } from "./expression.ts";
import { readPrice, unitsOf } from "./exact-price.ts";
import { foldedName, readJsonBody, type JsonValue } from "./json-body.ts";

/** Largest body by which a price is computed, bytes. */
export const MAX_PRICED_BODY_BYTES = 64 * 1024;

/** A price as a file has it. */
export interface PriceTerms {
  /** The expression. */
  readonly by: string;
  /** Dollars, as a price is written: least and most that a request costs. */
  readonly from: string;
  readonly to: string;
}

/** A part of a route's pattern. */
type PatternPart =
  | { readonly kind: "static"; readonly text: string }
  | { readonly kind: "param"; readonly name: string }
  | { readonly kind: "rest" };

export interface PricedRoute {
  readonly methods: readonly string[] | null;
  readonly segments: readonly PatternPart[];
  /** Of the tokens in which it is paid: the most that one of them has. */
  readonly decimals: number;
}

/** What of a request a price is computed from. */
export interface PricedRequest {
  /** For which it is sold: `GET` for a `HEAD` of the same route. */
  readonly method: string;
  /** Canonical path and query. */
  readonly target: string;
  /** Raw `name, value` pairs. */
  readonly rawHeaders: readonly string[];
  /** Whole; undefined: it has none, or nobody has read it. */
  readonly body?: Uint8Array | undefined;
}

/** What a request costs, in attodollars: a value that each token of its route can express. */
export type Attodollars = bigint;

export class ComputedPrice {
  readonly #expression: Expression;
  readonly #segments: readonly PatternPart[];
  readonly #decimals: number;
  readonly #terms: PriceTerms;
  readonly #from: bigint;
  readonly #to: bigint;

  private constructor(expression: Expression, terms: PriceTerms, route: PricedRoute) {
    this.#expression = expression;
    this.#segments = route.segments;
    this.#decimals = route.decimals;
    this.#terms = terms;
    this.#from = dollars(terms.from);
    this.#to = dollars(terms.to);
  }

  static of(terms: PriceTerms, route: PricedRoute): Result<ComputedPrice, ExpressionFault> {
    const compiled = compile(terms.by, groundOf(route));
    return compiled.ok ? ok(new ComputedPrice(compiled.value, terms, route)) : compiled;
  }

  /** Whether {@link PricedRequest.body} is needed. */
  get readsBody(): boolean {
    return this.#expression.reads.body;
  }

  /** Whether method, path and query are all that it depends on. */
  get isOfTarget(): boolean {
    const { body, headers } = this.#expression.reads;
    return !body && headers.size === 0;
  }

  /** What its result is never outside of, as far as that shows: in dollars; undefined: it does not. */
  get bounds(): Expression["bounds"] {
    return this.#expression.bounds;
  }

  get maxBodyValues(): number {
    return this.#expression.maxBodyValues;
  }

  /** The most that a request costs. */
  get most(): Attodollars {
    return this.#to;
  }

  /** What the request costs, or a sentence on why it has no price. Throws nothing. */
  priceOf(request: PricedRequest): Result<Attodollars, string> {
    const input = this.#inputOf(request);
    if (!input.ok) return input;
    const result = this.#expression.evaluate(input.value);
    if (!result.ok) return err(`it cannot be computed: ${result.error}`);
    const price = readPrice(result.value);
    if (!price.ok) return price;
    const whole = unitsOf(price.value, this.#decimals);
    const exact = whole * 10n ** BigInt(ATTODOLLAR_DECIMALS - this.#decimals);
    const { from, to } = this.#terms;
    if (exact < this.#from) return err(`it comes to less than ${from}, the least that is sold`);
    if (exact > this.#to) return err(`it comes to more than ${to}, the most that is sold at once`);
    return ok(exact);
  }

  #inputOf(request: PricedRequest) {
    const { reads, maxBodyValues } = this.#expression;
    const { method, target, rawHeaders, body } = request;
    const [path = "", query = ""] = target.split("?", 2);
    const asked = reads.query.size === 0 ? ok(NOTHING) : readQuery(query, reads.query);
    if (!asked.ok) return asked;
    const headers = reads.headers.size === 0 ? ok(NOTHING) : readHeaders(rawHeaders, reads.headers);
    if (!headers.ok) return headers;
    let value: JsonValue = null;
    if (reads.body) {
      if (body === undefined) return err("its body is missing");
      const read = readJsonBody(body, { maxValues: maxBodyValues, members: reads.members });
      if (!read.ok) return read;
      value = read.value;
    }
    return ok({
      method,
      path: reads.path.size === 0 ? NOTHING : this.#parametersOf(path),
      query: asked.value,
      headers: headers.value,
      body: value,
    });
  }

  #parametersOf(path: string): ReadonlyMap<string, string> {
    const parts = path.slice(1).split("/");
    const found = new Map<string, string>();
    for (const [index, segment] of this.#segments.entries()) {
      if (segment.kind === "param") found.set(segment.name, decoded(parts[index] ?? ""));
    }
    return found;
  }
}

const NOTHING: ReadonlyMap<string, string> = new Map();

function groundOf({
  methods,
  segments,
}: Pick<PricedRoute, "methods" | "segments">): ExpressionGround {
  const parameters = segments.flatMap((each) => (each.kind === "param" ? [each.name] : []));
  return { methods, parameters };
}

/** `$0.0123` */
export function dollarsText(attodollars: Attodollars): string {
  return `$${formatAmount(attodollars, ATTODOLLAR_DECIMALS)}`;
}

function dollars(text: string): bigint {
  const read = parseDollars(text, ATTODOLLAR_DECIMALS);
  if (read.ok) return read.value;
  throw new Error(read.error.message);
}

function readQuery(
  query: string,
  names: ReadonlySet<string>,
): Result<ReadonlyMap<string, string>, string> {
  const found = readParameters(query, names);
  if (!found.ok || !query.includes(";")) return found;
  // Rack 2 and older Pythons begin a parameter behind a semicolon, Go drops the one that has it.
  const split = readParameters(query.replaceAll(";", "&"), names);
  const isSame =
    split.ok && [...names].every((each) => split.value.get(each) === found.value.get(each));
  return isSame ? found : err("a semicolon is in what the query is read for");
}

function readParameters(
  query: string,
  names: ReadonlySet<string>,
): Result<ReadonlyMap<string, string>, string> {
  const found = new Map<string, string>();
  const folded = new Set([...names].map(foldedParameter));
  for (const [name, value] of new URLSearchParams(query)) {
    if (!folded.has(foldedParameter(name))) continue;
    if (!names.has(name))
      return err("a query parameter is there in other letters than is asked for");
    if (found.has(name)) return err(`the query parameter ${name} is there twice`);
    if (value === "") return err(`the query parameter ${name} is empty`);
    found.set(name, value);
  }
  return ok(found);
}

/**
 * The same for names that a framework takes for one: PHP passes over spaces in front, ends at a NUL, and has `_` for `.`
 * and spaces; PHP, Rack and `qs` take `n[]` and `n[0]` for `n`.
 */
function foldedParameter(name: string): string {
  const [begun = ""] = name.replace(/^ +/, "").split(/[\0[]/, 1);
  return foldedName(begun.replaceAll(/[. ]/g, "_"));
}

/** One that is named in Connection does not reach the backend: here it is not there, either. */
function readHeaders(
  raw: readonly string[],
  names: ReadonlySet<string>,
): Result<ReadonlyMap<string, string>, string> {
  const found = new Map<string, string>();
  const dropped = new Set<string>();
  for (let index = 0; index < raw.length; index += 2) {
    const name = (raw[index] ?? "").toLowerCase();
    const value = raw[index + 1] ?? "";
    if (name === "connection") {
      for (const each of value.split(",")) dropped.add(each.trim().toLowerCase());
    }
    if (!names.has(name)) continue;
    if (found.has(name)) return err(`the header ${name} is there twice`);
    if (value === "") return err(`the header ${name} is empty`);
    found.set(name, value);
  }
  for (const name of dropped) found.delete(name);
  return ok(found);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
