/** Random prices, and random requests for them: some right, some just so, some wrong. By a seed, always the same. */
import type { Random } from "../simulation/random.ts";

const below = (random: Random, most: number): number => random.between(0, most - 1);

function oneOf<Each>(random: Random, all: readonly Each[]): Each {
  const found = all[below(random, all.length)];
  if (found === undefined) throw new Error("nothing to choose from");
  return found;
}

type Kind = "int" | "double" | "bool";

/** Text of an expression of that kind; `item` is what a loop calls the members of `body.list`. */
export function randomExpression(random: Random, kind: Kind, depth = 3, item?: string): string {
  const of = (other: Kind, within = item) => randomExpression(random, other, depth - 1, within);
  const leaf = depth <= 0;
  switch (kind) {
    case "int": {
      const leaves = [
        () => String(below(random, 50_000)),
        () => `usd("0.${String(below(random, 100_000)).padStart(6, "0")}")`,
        () => "int(body.n)",
        () => "int(query.n)",
        () => 'int(headers["x-n"])',
        () => "size(body.s)",
        () => "size(body.list)",
        () => "size(path.id)",
        ...(item === undefined ? [] : [() => `size(${item}.c)`, () => `int(${item}.n)`]),
      ];
      if (leaf) return oneOf(random, leaves)();
      return oneOf(random, [
        oneOf(random, leaves),
        () => `(${of("int")} + ${of("int")})`,
        () => `(${of("int")} - ${of("int")})`,
        () => `(${of("int")} * ${below(random, 9)})`,
        () => `(${of("int")} / ${1 + below(random, 9)})`,
        () => `(${of("int")} % ${of("int")})`,
        () => `(${of("bool")} ? ${of("int")} : ${of("int")})`,
        () => `min(${of("int")}, ${of("int")})`,
        () => `max(${of("int")}, ${of("int")})`,
        () => `ceil(${of("double")})`,
        () => `{"a": ${of("int")}, "b": 7000}[body.key]`,
        ...(item === undefined
          ? [
              () => `sum(body.list.map(x, ${of("int", "x")}))`,
              () => `size(body.list.filter(x, ${of("bool", "x")}))`,
            ]
          : []),
      ])();
    }
    case "double": {
      const leaves = [
        () => (random.next() / 10).toFixed(below(random, 9)).replace(/^(\d+)$/, "$1.0"),
        () => "double(body.f)",
        () => "double(query.f)",
      ];
      if (leaf) return oneOf(random, leaves)();
      return oneOf(random, [
        oneOf(random, leaves),
        () => `(${of("double")} + ${of("double")})`,
        () => `(${of("double")} * ${of("double")})`,
        () => `(${of("double")} / ${of("double")})`,
        () => `(double(${of("int")}) * 0.000001)`,
        () => `(${of("bool")} ? ${of("double")} : ${of("double")})`,
        () => `max(${of("double")}, ${of("double")})`,
      ])();
    }
    case "bool": {
      const leaves = [
        () => "has(body.extra)",
        () => '"n" in query',
        () => 'body.key == "a"',
        () => 'body.s.startsWith("a")',
        () => 'body.s.contains("bc")',
        () => 'method == "POST"',
        () => "body.flag == true",
        () => '("x-tier" in headers && headers["x-tier"] == "fast")',
        ...(item === undefined ? [] : [() => `${item}.c == "a"`]),
      ];
      if (leaf) return oneOf(random, leaves)();
      return oneOf(random, [
        oneOf(random, leaves),
        () => `(${of("int")} > ${of("int")})`,
        () => `(${of("double")} <= ${of("double")})`,
        () => `(${of("bool")} && ${of("bool")})`,
        () => `(${of("bool")} || ${of("bool")})`,
        () => `!${of("bool")}`,
        ...(item === undefined ? [() => `body.list.exists(x, ${of("bool", "x")})`] : []),
      ])();
    }
  }
}

export interface RandomRequest {
  /** Path below the route's own beginning, and query. */
  readonly rest: string;
  /** Raw pairs. */
  readonly headers: readonly string[];
  readonly body: string;
}

const NUMBERS = [
  "0",
  "1",
  "7",
  "-3",
  "12",
  "999",
  "49999",
  "0.5",
  "1.25e-3",
  "9223372036854775807",
  "9223372036854775808",
  "1e999",
  "null",
];

function numberText(random: Random): string {
  return random.next() < 0.7 ? String(below(random, 5_000)) : oneOf(random, NUMBERS);
}

function textOf(random: Random, most: number): string {
  const letters = ["a", "bc", "é", "\\u20ac", "\\n", " ", "😀"];
  return Array.from({ length: below(random, most) }, () => oneOf(random, letters)).join("");
}

export function randomRequest(random: Random): RandomRequest {
  const query = [
    ...(random.next() < 0.8 ? [`n=${encodeURIComponent(numberText(random))}`] : []),
    ...(random.next() < 0.1 ? ["n=1"] : []),
    ...(random.next() < 0.8
      ? [`f=${encodeURIComponent(oneOf(random, ["0.01", "0.3", "x", "NaN", "inf", "-1"]))}`]
      : []),
    ...(random.next() < 0.3 ? ["unread=1&unread=2"] : []),
  ];
  const headers = [
    ...(random.next() < 0.8 ? ["X-N", numberText(random)] : []),
    ...(random.next() < 0.1 ? ["x-n", "5"] : []),
    ...(random.next() < 0.5 ? ["X-Tier", oneOf(random, ["fast", "slow"])] : []),
  ];
  const rest = `/${oneOf(random, ["a", "abc", "%C3%A9", "x%20y"])}${query.length > 0 ? `?${query.join("&")}` : ""}`;
  return { rest, headers, body: randomBody(random) };
}

function randomBody(random: Random): string {
  const wrong = random.next();
  if (wrong < 0.02) return oneOf(random, ["", "{", "[]", "null", '"text"', "{'n':1}"]);
  if (wrong < 0.03) return "[".repeat(below(random, 40_000));
  const count = random.next() < 0.05 ? below(random, 700) : below(random, 8);
  const list = Array.from({ length: count }, () => {
    return `{"c":"${oneOf(random, ["a", "bcd", ""])}","n":${below(random, 100)}}`;
  });
  const length = random.next() < 0.05 ? 40_000 : 40;
  const members = [
    ...(random.next() < 0.95 ? [`"n":${numberText(random)}`] : []),
    ...(random.next() < 0.02 ? ['"n":2'] : []),
    `"f":${oneOf(random, ["0.01", "0.1", "1", "3e-4", "-0.5"])}`,
    `"s":"${textOf(random, length)}"`,
    ...(random.next() < 0.95 ? [`"list":[${list.join(",")}]`] : []),
    `"key":"${oneOf(random, ["a", "b", "c"])}"`,
    ...(random.next() < 0.5 ? ['"extra":{"deep":[[1]]}'] : []),
    `"flag":${oneOf(random, ["true", "false"])}`,
  ];
  return `{${members.join(random.next() < 0.5 ? "," : " ,\n ")}}`;
}
