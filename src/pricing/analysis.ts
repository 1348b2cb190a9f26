/**
 * What is known of an expression before any request: what of a request it reads, how much work it is at most, and
 * between which values its result lies. Work is bounded in steps for a body of n values, a polynomial in n; from that
 * follows how many values a body may have.
 */
import type { ASTNode } from "@marcbachmann/cel-js";
import { err, ok, type Result } from "../x402/result.ts";
import { boundsOf, type Bounds } from "./bounds.ts";
import { isReadableHeader } from "./readable-headers.ts";

/** What is wrong with an expression, and where in it. */
export interface ExpressionFault {
  readonly message: string;
  readonly hint?: string;
  /** UTF-16 code units from its beginning. */
  readonly offset: number;
  readonly length: number;
}

/** Which requests it is for. */
export interface ExpressionGround {
  /** Upper-case; null: any. */
  readonly methods: readonly string[] | null;
  /** Names of the parameters in the path. */
  readonly parameters: readonly string[];
}

/** What is known of one. */
export interface ExpressionFacts {
  readonly reads: Reads;
  /** Of numbers: between which they are, as the expression has them; undefined: nothing is known. */
  readonly bounds: Bounds | undefined;
  /** Where `size(` stands in its text: the library counts text slowly. */
  readonly sizesAt: readonly number[];
  /** Values that a body may have, so that it takes no more than {@link MAX_STEPS}. */
  readonly maxBodyValues: number;
}

/** What of a request an expression asks for. */
export interface Reads {
  readonly method: boolean;
  readonly body: boolean;
  /** Names of members of the body, at whatever depth. */
  readonly members: ReadonlySet<string>;
  readonly path: ReadonlySet<string>;
  readonly query: ReadonlySet<string>;
  /** Lower-case. */
  readonly headers: ReadonlySet<string>;
}

/** One is about 50 ns: all of them take half of a millisecond. */
export const MAX_STEPS = 12_000;
/** Values of a body of which there may be as many as fit into it. */
const MAX_BODY_VALUES = 8_192;
/** A body that may have fewer is of no use. */
const LEAST_BODY_VALUES = 32;

/** Functions, and what one call costs beside its arguments, steps; of text of 64 KiB where one is given. */
const FUNCTIONS: ReadonlyMap<string, number> = new Map([
  ["int", 400],
  ["double", 2_000],
  ["string", 400],
  ["bool", 20],
  ["usd", 20],
  ["min", 2],
  ["max", 2],
  ["ceil", 2],
  ["floor", 2],
  ["sum", 2],
  ["size", 6_400],
]);
const METHODS: ReadonlyMap<string, number> = new Map([
  ["startsWith", 100],
  ["endsWith", 100],
  ["contains", 1_000],
  ["lowerAscii", 1_000],
  ["upperAscii", 1_000],
  ["trim", 400],
]);
/** Each is called with a name for the members of a list, and what is done with them. */
const LOOPS: ReadonlySet<string> = new Set(["all", "exists", "exists_one", "map", "filter"]);
const COMPARISONS: ReadonlySet<string> = new Set(["==", "!=", "in", "<", "<=", ">", ">="]);
const ARITHMETIC: ReadonlySet<string> = new Set(["+", "-", "*", "/", "%", "&&", "||"]);
/** Of two pieces of text of 64 KiB. */
const COMPARING = 200;
/** Text that is looked for in text: with a long one that repeats itself it could take minutes. */
const MAX_NEEDLE = 64;
const VARIABLES: ReadonlySet<string> = new Set(["method", "path", "query", "headers", "body"]);
const NAMED = ["path", "query", "headers"] as const;
type Named = (typeof NAMED)[number];

/** A member of a list that is looked at in a loop. */
interface Item {
  /** Where in the body it stands; null: it was made by the expression. */
  readonly place: string | null;
  /** In how many of the loops around a value this one of a list in a list is. */
  readonly chain: number;
}
type Scope = ReadonlyMap<string, Item>;

/** Where a part of an expression stands. */
interface At {
  readonly scope: Scope;
  /** Loops around it. */
  readonly depth: number;
}

/** Carries a fault out of the walk. */
class Refused extends Error {
  override readonly name = "Refused";
  readonly fault: ExpressionFault;
  constructor(fault: ExpressionFault) {
    super(fault.message);
    this.fault = fault;
  }
}

export class Analysis {
  readonly #ground: ExpressionGround;
  #method = false;
  #body = false;
  readonly #members = new Set<string>();
  readonly #sizesAt: number[] = [];
  readonly #names: Readonly<Record<Named, Set<string>>> = {
    path: new Set(),
    query: new Set(),
    headers: new Set(),
  };
  /** Steps, by the power of n. */
  readonly #steps: number[] = [0];
  /** Reading all text at one place of the body, by that place and the power of n: the places are parts of one body. */
  readonly #scans = new Map<string, number>();

  constructor(ground: ExpressionGround) {
    this.#ground = ground;
  }

  of(ast: ASTNode): Result<ExpressionFacts, ExpressionFault> {
    try {
      this.#visit(ast, { scope: new Map(), depth: 0 });
    } catch (cause) {
      if (cause instanceof Refused) return err(cause.fault);
      throw cause;
    }
    const maxBodyValues = this.#maxValues();
    if (maxBodyValues < LEAST_BODY_VALUES) {
      const message = "is too much work for each request";
      const hint = "loop over a list once, and read each text once";
      return err({ message, hint, offset: ast.start, length: ast.end - ast.start });
    }
    const reads = {
      method: this.#method,
      body: this.#body,
      members: this.#members,
      ...this.#names,
    };
    return ok({ reads, bounds: boundsOf(ast), sizesAt: this.#sizesAt, maxBodyValues });
  }

  #maxValues(): number {
    for (let most = MAX_BODY_VALUES; most > 0; most = Math.floor(most * 0.9)) {
      if (this.#stepsFor(most) <= MAX_STEPS) return most;
    }
    return 0;
  }

  #stepsFor(values: number): number {
    const own = this.#steps.reduce((all, count, power) => all + count * values ** power, 0);
    // Those of different places together are no more than the largest: each is a part of the same 64 KiB.
    const byPower = Map.groupBy(this.#scans, ([name]) => powerIn(name));
    return [...byPower].reduce((all, [power, scans]) => {
      const fixed = scans.filter(([name]) => !name.includes("[*]")).map(([, steps]) => steps);
      const moving = scans.filter(([name]) => name.includes("[*]")).map(([, steps]) => steps);
      const most = Math.max(0, ...fixed) + moving.reduce((sum, steps) => sum + steps, 0);
      return all + most * values ** power;
    }, own);
  }

  #spend(steps: number, depth: number): void {
    for (let power = this.#steps.length; power <= depth; power += 1) this.#steps.push(0);
    this.#steps[depth] = (this.#steps[depth] ?? 0) + steps;
  }

  #visit(node: ASTNode, at: At): void {
    this.#spend(1, at.depth);
    switch (node.op) {
      case "value":
        return;
      case "id":
        this.#readWhole(node, node.args, at.scope);
        return;
      case ".":
      case "[]":
        this.#access(node, at);
        return;
      case "call":
        this.#call(node, node.args[0], node.args[1], at);
        return;
      case "rcall":
        this.#callOn(node, node.args, at);
        return;
      case "list":
      case "?:":
        for (const each of node.args) this.#visit(each, at);
        return;
      case "map":
        for (const each of node.args.flat()) this.#visit(each, at);
        return;
      case "!_":
      case "-_":
        this.#visit(node.args, at);
        return;
      default:
        this.#operator(node, at);
    }
  }

  #operator(node: ASTNode, at: At): void {
    const { op, args } = node;
    const isKnown = COMPARISONS.has(op) || ARITHMETIC.has(op);
    if (!isKnown || !isPair(args)) return this.#refuse(node, "has what prices have not");
    const [left, right] = args;
    if (op === "in" && left.op === "value" && isNamed(right)) {
      this.#readName(node, right.args, left.args);
      return;
    }
    if (op === "in") this.#noteMember(left);
    if (COMPARISONS.has(op)) {
      // A literal ends it at once, or is short.
      const isShort =
        op === "in" ? right.op === "list" : [left, right].some((each) => each.op === "value");
      if (!isShort) {
        this.#scan(COMPARING, [left, right], at);
        this.#spend(2, at.depth + 1);
      }
    }
    this.#visit(left, at);
    this.#visit(right, at);
  }

  #call(node: ASTNode, name: string, args: readonly ASTNode[], at: At): void {
    if (name === "has") {
      const [of] = args;
      if (of?.op === "[]") {
        this.#refuse(node, "has() takes a name behind a point", 'write "name" in headers');
      }
      for (const each of args) this.#visit(each, at);
      return;
    }
    const steps = FUNCTIONS.get(name);
    if (steps === undefined) {
      const hint = `there are ${[...FUNCTIONS.keys(), "has"].join(", ")}`;
      return this.#refuse(node, `there is no function ${name} in a price`, hint);
    }
    this.#scan(steps, args, at);
    if (name === "size") this.#sizesAt.push(node.start);
    if (name === "sum") this.#spend(1, at.depth + 1);
    for (const each of args) this.#visit(each, at);
  }

  #callOn(
    node: ASTNode,
    [name, receiver, args]: readonly [string, ASTNode, readonly ASTNode[]],
    at: At,
  ): void {
    if (LOOPS.has(name)) return this.#loop(node, receiver, args, at);
    const steps = METHODS.get(name);
    if (steps === undefined) {
      const hint = `there are ${[...METHODS.keys(), ...LOOPS].join(", ")}`;
      return this.#refuse(node, `there is no .${name}() in a price`, hint);
    }
    const [needle] = args;
    const isSought = name === "contains" || name === "startsWith" || name === "endsWith";
    const sought = needle?.op === "value" ? needle.args : undefined;
    if (isSought && (typeof sought !== "string" || sought.length > MAX_NEEDLE)) {
      const message = `.${name}() takes text in quotes, of at most ${MAX_NEEDLE} characters`;
      return this.#refuse(needle ?? node, message);
    }
    this.#scan(steps, [receiver], at);
    this.#visit(receiver, at);
    for (const each of args) this.#visit(each, at);
  }

  #loop(node: ASTNode, list: ASTNode, [variable, ...parts]: readonly ASTNode[], at: At): void {
    const { scope, depth } = at;
    if (variable?.op !== "id")
      return this.#refuse(node, "needs a name for the members of the list");
    const name = variable.args;
    if (VARIABLES.has(name) || scope.has(name)) {
      return this.#refuse(variable, `${name} has a meaning here already: choose another name`);
    }
    this.#visit(list, at);
    const place = listPlace(list, scope);
    if (place === undefined) {
      const hint = "loop over a list of the body, or over one that is written out";
      return this.#refuse(list, "has a loop over what has no known length", hint);
    }
    const around = place === null ? undefined : rootOf(list, scope);
    const chain = (around?.chain ?? 0) + 1;
    const item = { place: place === null ? null : `${place}[*]`, chain };
    const inner = new Map([...scope, [name, item]]);
    // What the library does with each member itself.
    this.#spend(4, depth + 1);
    const within = { scope: inner, depth: depth + 1 };
    for (const each of parts) this.#visit(each, within);
  }

  /** A member of something, or of a part of the request by its name. */
  #access(node: ASTNode, at: At): void {
    if (node.op !== "." && node.op !== "[]") return;
    const [of, key] = node.args;
    if (isNamed(of)) {
      const name = typeof key === "string" ? key : key.op === "value" ? key.args : undefined;
      this.#readName(node, of.args, name);
      return;
    }
    this.#noteMember(key);
    this.#visit(of, at);
    if (typeof key !== "string") this.#visit(key, at);
  }

  #noteMember(key: string | ASTNode): void {
    const name = typeof key === "string" ? key : key.op === "value" ? key.args : undefined;
    if (typeof name === "string") this.#members.add(name);
  }

  #readName(node: ASTNode, part: Named, name: unknown): void {
    if (typeof name !== "string") {
      const message = `${part} is read by names that are written out`;
      return this.#refuse(node, message, `write ${part}["name"]`);
    }
    if (part === "path" && !this.#ground.parameters.includes(name)) {
      const { parameters } = this.#ground;
      const hint =
        parameters.length === 0
          ? "write :name in its path"
          : `write ${parameters.map((each) => `path.${each}`).join(" or ")}`;
      return this.#refuse(node, `the route has no :${name} in its path`, hint);
    }
    if (part === "headers" && name !== name.toLowerCase()) {
      const hint = `write headers["${name.toLowerCase()}"]`;
      return this.#refuse(node, "names of headers are in lower case", hint);
    }
    if (part === "headers" && !isReadableHeader(name)) {
      return this.#refuse(
        node,
        `the header ${name} is not for a price: it is no part of what is sold`,
      );
    }
    this.#names[part].add(name);
  }

  /** A variable that stands alone. */
  #readWhole(node: ASTNode, name: string, scope: Scope): void {
    if (isPart(name) && !scope.has(name)) {
      const message = `${name} is read by names that are written out`;
      return this.#refuse(node, message, `write ${name}["name"]`);
    }
    if (scope.has(name)) return;
    if (name === "method") this.#method = true;
    if (name !== "body") return;
    const { methods } = this.#ground;
    if (methods?.every((method) => method === "GET" || method === "HEAD") === true) {
      const message = `reads a body, and ${methods.join(" and ")} has none`;
      return this.#refuse(node, message, "read path, query or headers");
    }
    this.#body = true;
  }

  /** All text of the values is read. */
  #scan(steps: number, values: readonly ASTNode[], at: At): void {
    const { scope, depth } = at;
    for (const value of values) {
      const place = placeOf(value, scope);
      const width = widthOf(value);
      if (value.op === "value" || value.op === "list" || isNumber(value) || isMadeList(value))
        this.#spend(2, depth);
      else if (place === undefined) this.#spend(steps * width, depth);
      else {
        // Of each member of a list once: they are parts of the same body.
        const chain = rootOf(value, scope)?.chain ?? 0;
        const name = `${depth - chain} ${place}`;
        this.#scans.set(name, (this.#scans.get(name) ?? 0) + steps);
        this.#spend(2, depth);
      }
    }
  }

  #refuse(node: ASTNode, message: string, hint?: string): never {
    const place = { offset: node.start, length: Math.max(1, node.end - node.start) };
    throw new Refused({ message, ...place, ...(hint === undefined ? {} : { hint }) });
  }
}

function powerIn(name: string): number {
  const [power] = name.split(" ", 1);
  return Number(power);
}

function isPart(name: string): name is Named {
  return NAMED.some((each) => each === name);
}

function isNamed(node: ASTNode): node is ASTNode & { readonly op: "id"; readonly args: Named } {
  return node.op === "id" && isPart(node.args);
}

function isPair(args: unknown): args is readonly [ASTNode, ASTNode] {
  return Array.isArray(args) && args.length === 2;
}

/** What is a number whatever the request: nothing of it is as long as the request. */
function isNumber({ op, args }: ASTNode): boolean {
  if (op === "call")
    return ["int", "double", "usd", "size", "ceil", "floor", "sum"].includes(args[0]);
  return op === "-" || op === "*" || op === "/" || op === "%" || op === "-_";
}

/** A list that a loop has made: nothing of it is read to count it. */
function isMadeList({ op, args }: ASTNode): boolean {
  return op === "rcall" && (args[0] === "filter" || args[0] === "map");
}

/** Where in the body it stands, `[*]` in place of an index that is not written out; undefined: it is computed. */
function placeOf(node: ASTNode, scope: Scope): string | undefined {
  if (node.op === "id") {
    if (node.args === "body") return "body";
    return scope.get(node.args)?.place ?? undefined;
  }
  if (node.op === "." && isNamed(node.args[0])) return `${node.args[0].args}.${node.args[1]}`;
  if (node.op === "[]" && isNamed(node.args[0]))
    return `${node.args[0].args}.${keyOf(node.args[1])}`;
  if (node.op !== "." && node.op !== "[]") return undefined;
  const of = placeOf(node.args[0], scope);
  if (of === undefined) return undefined;
  const [, key] = node.args;
  const name = typeof key === "string" ? key : key.op === "value" ? keyOf(key) : "[*]";
  return `${of}.${name}`;
}

function keyOf({ op, args }: ASTNode): string {
  return op === "value" && typeof args !== "object" ? String(args) : "[*]";
}

/** The member of a list that it begins with. */
function rootOf(node: ASTNode, scope: Scope): Item | undefined {
  if (node.op === "id") return scope.get(node.args);
  if (node.op === "." || node.op === "[]") return rootOf(node.args[0], scope);
  if (node.op === "rcall") return rootOf(node.args[1], scope);
  return undefined;
}

/** Where a list stands whose members are gone through; null: they are made here; undefined: nobody knows how many. */
function listPlace(node: ASTNode, scope: Scope): string | null | undefined {
  if (node.op === "list") return null;
  if (node.op !== "rcall") return placeOf(node, scope);
  const [name, receiver] = node.args;
  const of = name === "filter" || name === "map" ? listPlace(receiver, scope) : undefined;
  return of === undefined || name === "filter" ? of : null;
}

/** How many times the text of a request a value may be as long. */
function widthOf(node: ASTNode): number {
  const { op, args } = node;
  const parts = (Array.isArray(args) ? args.flat() : [args]).filter(isNode);
  const widths = parts.map(widthOf);
  if (op === "+") return widths.reduce((all, each) => all + each, 0);
  return Math.max(1, ...widths);
}

function isNode(value: unknown): value is ASTNode {
  return typeof value === "object" && value !== null && "op" in value;
}
