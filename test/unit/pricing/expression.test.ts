import { describe, expect, it } from "vitest";
import { compile } from "../../../src/pricing/expression.ts";
import { MAX_STEPS } from "../../../src/pricing/analysis.ts";

const ANY = { methods: null, parameters: ["id"] };

function faultOf(text: string, ground: Parameters<typeof compile>[1] = ANY) {
  const compiled = compile(text, ground);
  if (compiled.ok) throw new Error(`${text} is an expression`);
  const { message, offset, length } = compiled.error;
  return [message, text.slice(offset, offset + length)];
}

function expression(text: string) {
  const compiled = compile(text, ANY);
  if (!compiled.ok) throw new Error(compiled.error.message);
  return compiled.value;
}

const NOTHING = new Map<string, string>();

function valueOf(text: string, body: unknown = null): unknown {
  const input = { method: "POST", path: NOTHING, query: NOTHING, headers: NOTHING, body };
  const result = expression(text).evaluate(input);
  return result.ok ? result.value : result.error;
}

describe("what may stand in a price", () => {
  it("is told with what it reads", () => {
    const { reads } = expression(
      'size(path.id) + ("n" in query ? int(query["m"]) : 2) + (has(headers.accept) ? 1 : 0) + int(body.a.b[2])',
    );
    expect(reads).toEqual({
      method: false,
      body: true,
      members: new Set(["b", "a"]),
      path: new Set(["id"]),
      query: new Set(["n", "m"]),
      headers: new Set(["accept"]),
    });
    expect(expression('method == "GET" ? 1 : 2').reads).toMatchObject({
      method: true,
      body: false,
    });
  });

  it("comes to money", () => {
    const list = new Map([["all", ["a", "bcd"]]]);
    expect(valueOf("sum(body.all.map(each, size(each))) * 20 + 1000", list)).toBe(1_080n);
    expect(valueOf('usd("0.001") + usd("$0.02") + usd("0")')).toBe(21_000n);
    expect(valueOf("min(5, 3) + max(1, 2) + ceil(1.2) + floor(1.8)")).toBe(8n);
    expect(valueOf("min(0.5, 0.25)")).toBe(0.25);
    expect(valueOf('{"small": 10, "large": 20}["large"]')).toBe(20n);
    const texts = ["abc", "", "é€", "a😀b", "\ud800", "\ud800\ud83d\ude00", "\udc00\udc00"];
    for (const text of texts) {
      const both = "size(body.t) + 1000 * size(body.l) + 1000000 * size(body.m)";
      const body = new Map<string, unknown>([
        ["t", text],
        ["l", [1n, 2n]],
        ["m", new Map([["a", 1n]])],
      ]);
      expect(valueOf(both, body)).toBe(BigInt(Array.from(text).length) + 1_002_000n);
    }
    expect(valueOf("size(body.n)", new Map([["n", 5n]]))).toContain("'size(int)'");
    expect(valueOf('"$0.02"')).toBe("$0.02");
    expect(valueOf('size(body.all.filter(each, each == "a"))', list)).toBe(1n);
  });

  it.each([
    ["1 +", "is no expression: unexpected token: EOF", ""],
    ["foo(1)", "there is no function foo in a price", "foo(1)"],
    ["size(path.other)", "the route has no :other in its path", "path.other"],
    ["size(path)", "path is read by names that are written out", "path"],
    ["size(query)", "query is read by names that are written out", "query"],
    ["int(query[path.id])", "query is read by names that are written out", "query[path.id]"],
    ["size(headers)", "headers is read by names that are written out", "headers"],
    ['size(headers["X-Size"])', "names of headers are in lower case", 'headers["X-Size"]'],
    ["other + 1", "is no expression: unknown variable: other", "other"],
    ['has(headers["a"]) ? 1 : 2', "has() takes a name behind a point", 'has(headers["a"])'],
    ['"a" + 1', "is no expression: no such overload: string + int", '"a" + 1'],
    ["body.price", "may come to anything, and a price is int, double or string", "body.price"],
    ["[1, 2]", "comes to list<int>, and a price is int, double or string", "[1, 2]"],
    ["true", "comes to bool, and a price is int, double or string", "true"],
    ["size(timestamp(5))", "there is no function timestamp in a price", "timestamp(5)"],
    ["cel.bind(x, 5, x)", "there is no .bind() in a price", "cel.bind(x, 5, x)"],
    ["size(body.a.split(','))", "there is no .split() in a price", "body.a.split(',')"],
    ["[1].map(body, 2)[0]", "body has a meaning here already: choose another name", "body"],
  ])("is not %s", (text, message, marked) => {
    expect(faultOf(text)).toEqual([message, marked]);
  });

  it.each([
    "x-payment",
    "payment-signature",
    "sign-in-with-x",
    "x-402-payer",
    "cookie",
    "authorization",
  ])("is no secret and no proof: %s", (name) => {
    const said = `the header ${name} is not for a price: it is no part of what is sold`;
    expect(faultOf(`size(headers["${name}"])`)[0]).toBe(said);
  });

  it.each(["x-forwarded-for", "content-length", "host", "connection", "x-real-ip", "a_b"])(
    "is nothing that the backend gets from elsewhere, or not at all: %s",
    (name) => expect(faultOf(`size(headers["${name}"])`)[0]).toContain("is not for a price"),
  );

  it("is no body where there is none", () => {
    const ground = { methods: ["GET", "HEAD"], parameters: [] };
    expect(faultOf("int(body.n)", ground)).toEqual([
      "reads a body, and GET and HEAD has none",
      "body",
    ]);
    expect(compile("int(body.n)", { ...ground, methods: ["GET", "POST"] }).ok).toBe(true);
  });
});

describe("how much work a price is", () => {
  it("is bounded by how many values a body may have", () => {
    expect(expression("1000 + int(body.n)").maxBodyValues).toBe(8_192);
    const once = expression("sum(body.all.map(each, size(each)))").maxBodyValues;
    const twice = expression(
      'sum(body.all.map(each, size(body.all.filter(other, other == "a"))))',
    ).maxBodyValues;
    expect(once).toBeGreaterThan(200);
    expect(once).toBeLessThan(1_000);
    expect(twice).toBeLessThan(60);
    expect(MAX_STEPS).toBeLessThanOrEqual(12_000);
  });

  it.each([
    [
      "regular expressions, which may take for ever",
      'body.a.matches("(a+)+$") ? 1 : 2',
      "there is no .matches()",
    ],
    [
      "what a request looks for in itself",
      "body.a.contains(body.b) ? 1 : 2",
      "takes text in quotes",
    ],
    [
      "a long text that is looked for",
      `body.a.contains("${"a".repeat(65)}") ? 1 : 2`,
      "takes text in quotes",
    ],
    [
      "three loops within each other",
      "size(body.a.filter(x, body.a.exists(y, body.a.exists(z, z == y))))",
      "is too much work",
    ],
    ["one text, over and over", "size(body.a) + size(body.a) + size(body.a)", "is too much work"],
    ["one text for each of many", "sum(body.all.map(each, size(body.a)))", "is too much work"],
    ["lists that it makes itself", "size((body.a + body.a).map(x, 1))", "no known length"],
    [
      "loops over what loops have made",
      "size(body.a.map(x, [x, x, x]).map(y, size(y.map(z, 1))))",
      "no known length",
    ],
    ["an expression without end", `1${" + 1".repeat(400)}`, "is no expression"],
    ["text without end", `1${" ".repeat(3_000)}`, "at most 2000 characters"],
    ["nesting without end", `${"(".repeat(40)}1${")".repeat(40)}`, "is no expression"],
  ])("refuses %s", (_what, text, message) => {
    expect(faultOf(text)[0]).toContain(message);
  });
});

describe("between what a price lies", () => {
  it.each([
    ["5000", 0.005, 0.005],
    ["0.25", 0.25, 0.25],
    ["1000 + 20 * size(body.a)", 0.001, Infinity],
    ["max(1000, int(body.n))", 0.001, Infinity],
    ["min(max(1000, int(body.n)), 9000)", 0.001, 0.009],
    ["body.fast == true ? 2000 : 1000", 0.001, 0.002],
    ['{"a": 10, "b": 30}[path.id]', 0.00001, 0.00003],
    ['usd("0.5") - usd("0.1")', 0.4, 0.4],
    ["-size(body.a)", -Infinity, 0],
    ["int(body.n) % 10", -0.00001, 0.00001],
    ["size(body.a) / 2", 0, Infinity],
    ["sum(body.a.map(x, 20))", 0, Infinity],
    ["int(body.n)", -Infinity, Infinity],
  ])("is seen of %s", (text, least, most) => {
    const { bounds } = expression(text);
    expect(bounds?.least).toBeCloseTo(least, 9);
    expect(bounds?.most).toBeCloseTo(most, 9);
  });

  it("is not seen of text", () => expect(expression('"$0.01"').bounds).toBeUndefined());
});
