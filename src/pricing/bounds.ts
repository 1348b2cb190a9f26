/** Between which values the result of an expression lies, as far as that shows without a request. */
import type { ASTNode } from "@marcbachmann/cel-js";

/** Infinite where nothing is known. */
export interface Bounds {
  readonly least: number;
  readonly most: number;
}

const ANY: Bounds = { least: -Infinity, most: Infinity };
/** Of whatever is counted. */
const COUNT: Bounds = { least: 0, most: Infinity };

/** In the numbers of the expression itself; undefined: it is none. */
export function boundsOf(node: ASTNode): Bounds | undefined {
  switch (node.op) {
    case "value":
      return literal(node.args);
    case "-_": {
      const of = boundsOf(node.args);
      return of && { least: -of.most, most: -of.least };
    }
    case "?:":
      return joined([boundsOf(node.args[1]), boundsOf(node.args[2])]);
    case "+":
    case "-":
    case "*":
    case "/":
      return arithmetic(node.op, boundsOf(node.args[0]), boundsOf(node.args[1]));
    case "%":
      return remainder(boundsOf(node.args[0]), boundsOf(node.args[1]));
    case "call":
      return called(node.args[0], node.args[1]);
    case "rcall":
      return node.args[0] === "size" ? COUNT : undefined;
    case "[]":
      return node.args[0].op === "map"
        ? joined(node.args[0].args.map(([, value]) => boundsOf(value)))
        : ANY;
    default:
      return ANY;
  }
}

function literal(value: unknown): Bounds | undefined {
  if (typeof value !== "bigint" && typeof value !== "number") return undefined;
  const written = String(value);
  const number = Number(written);
  return { least: number, most: number };
}

function joined(all: readonly (Bounds | undefined)[]): Bounds | undefined {
  const known = all.filter((each) => each !== undefined);
  if (known.length < all.length) return undefined;
  return {
    least: Math.min(...known.map(({ least }) => least)),
    most: Math.max(...known.map(({ most }) => most)),
  };
}

function arithmetic(
  op: "+" | "-" | "*" | "/",
  left: Bounds | undefined,
  right: Bounds | undefined,
): Bounds | undefined {
  if (left === undefined || right === undefined) return undefined;
  if (op === "/" && right.least <= 0 && right.most >= 0) return ANY;
  const ends = [left.least, left.most].flatMap((one) =>
    [right.least, right.most].map((other) => computed(op, one, other)),
  );
  // Whole numbers are divided towards zero.
  const slack = op === "/" ? 1 : 0;
  if (op === "+" || op === "*") return { least: Math.min(...ends), most: Math.max(...ends) };
  if (op === "-") return { least: left.least - right.most, most: left.most - right.least };
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  return { least: least >= 0 ? Math.max(0, least - slack) : least - slack, most: most + slack };
}

function computed(op: "+" | "-" | "*" | "/", one: number, other: number): number {
  if (op === "+") return one + other;
  if (op === "-") return one - other;
  // Infinity times zero is nothing here.
  if (op === "*") return one === 0 || other === 0 ? 0 : one * other;
  return Math.abs(one) === Infinity && Math.abs(other) === Infinity ? 0 : one / other;
}

function remainder(left: Bounds | undefined, right: Bounds | undefined): Bounds | undefined {
  if (left === undefined || right === undefined) return undefined;
  const most = Math.max(Math.abs(right.least), Math.abs(right.most));
  return { least: left.least >= 0 ? 0 : -most, most };
}

function called(name: string, args: readonly ASTNode[]): Bounds | undefined {
  const [first, second] = args.map(boundsOf);
  switch (name) {
    case "size":
      return COUNT;
    case "usd":
      return microdollars(args[0]);
    case "min":
      if (first === undefined || second === undefined) return ANY;
      return {
        least: Math.min(first.least, second.least),
        most: Math.min(first.most, second.most),
      };
    case "max":
      if (first === undefined || second === undefined) return ANY;
      return {
        least: Math.max(first.least, second.least),
        most: Math.max(first.most, second.most),
      };
    case "int":
    case "double":
      return first ?? ANY;
    case "ceil":
    case "floor":
      return first === undefined
        ? ANY
        : { least: Math.floor(first.least), most: Math.ceil(first.most) };
    case "sum":
      return summed(args[0]);
    default:
      return name === "string" || name === "bool" || name === "has" ? undefined : ANY;
  }
}

function microdollars(text: ASTNode | undefined): Bounds {
  const written = text?.op === "value" ? String(text.args).replace(/^\$/, "") : "";
  const dollars = written === "" ? NaN : Number(written);
  const micro = Math.round(dollars * 1e6);
  return Number.isNaN(micro) ? ANY : { least: micro, most: micro };
}

/** Of what is made of each member of a list. */
function summed(list: ASTNode | undefined): Bounds {
  if (list?.op !== "rcall" || list.args[0] !== "map") return ANY;
  const each = boundsOf(list.args[2].at(-1) ?? list);
  if (each === undefined) return ANY;
  return { least: each.least >= 0 ? 0 : -Infinity, most: each.most <= 0 ? 0 : Infinity };
}
