import { describe, expect, it } from "vitest";
import { MAX_BODY_DEPTH, readJsonBody } from "../../../src/pricing/json-body.ts";

const MEMBERS = new Set(["asked"]);
const read = (text: string, maxValues = 1_000) =>
  readJsonBody(Buffer.from(text), { maxValues, members: MEMBERS });
const value = (text: string) => {
  const result = read(text);
  return result.ok ? result.value : result.error;
};

describe("a body that everybody reads alike", () => {
  it("is read exactly", () => {
    expect(
      value(' {"a": [1, -2, 0.5, 1e3, true, false, null, "h\\u00e9\\"\\\\"], "b": {}} '),
    ).toEqual(
      new Map<string, unknown>([
        ["a", [1n, -2n, 0.5, 1000, true, false, null, 'hé"\\']],
        ["b", new Map()],
      ]),
    );
    expect(value("9223372036854775807")).toBe(9_223_372_036_854_775_807n);
    expect(value("-9223372036854775808")).toBe(-9_223_372_036_854_775_808n);
    expect(value('{"__proto__": {"a": 1}, "constructor": 2}')).toEqual(
      new Map<string, unknown>([
        ["__proto__", new Map([["a", 1n]])],
        ["constructor", 2n],
      ]),
    );
  });

  it.each(['{"a":1,"a":2}', '{"a":1,"\\u0061":1}', '{"x":{"a":1,"a":1}}'])(
    "has no member twice: %s",
    (text) => expect(value(text)).toBe("the body has a member twice"),
  );

  it.each([
    '{"asked":1,"Asked":1000}',
    '{"ASKED":1}',
    '{"x":[{"a\u017fked":1}]}',
    '{"as\u212aed":1}',
  ])("has no member in other letters than is asked for, as Go reads it: %s", (text) =>
    expect(value(text)).toBe("the body has a member in other letters than is asked for"),
  );

  it("may have members in any letters that nobody asks for", () => {
    expect(value('{"asked":1,"b":2,"B":3}')).toBeInstanceOf(Map);
  });

  it.each([
    "9223372036854775808",
    "-9223372036854775809",
    "1e999",
    "-1e999",
    "123456789012345678901234567890",
    `1${"0".repeat(60_000)}`,
    `0.${"0".repeat(60)}1`,
  ])("has no number that others cut: %s", (text) => {
    expect(value(text)).toBe("the body has a number of more digits than are kept exactly");
  });

  it("nests no deeper than is told, however deep it nests", () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    expect(read(nested(MAX_BODY_DEPTH)).ok).toBe(true);
    expect(value(nested(MAX_BODY_DEPTH + 1))).toBe("the body nests deeper than 32");
    expect(value("[".repeat(60_000))).toBe("the body nests deeper than 32");
    expect(value('{"a":'.repeat(10_000))).toBe("the body nests deeper than 32");
  });

  it("has no more values than are told", () => {
    expect(read("[1,2,3]", 4).ok).toBe(true);
    expect(read("[1,2,3,4]", 4)).toMatchObject({ error: "the body has more than 4 values" });
  });

  it.each([
    "",
    " ",
    "{",
    "[1,]",
    '{"a":1,}',
    "{a:1}",
    "{'a':1}",
    '{"a" 1}',
    "01",
    "+1",
    ".5",
    "1.",
    "NaN",
    "Infinity",
    "nul",
    '"\n"',
    '"\\x"',
    '"abc',
    '"\\"',
    "1 2",
    "[1]]",
    "// a\n1",
    "\u00a01",
    "\ufeff1",
  ])("is JSON and nothing else: %j", (text) => expect(value(text)).toBe("the body is no JSON"));

  it("is UTF-8", () => {
    expect(
      readJsonBody(Buffer.from([0x22, 0xff, 0x22]), { maxValues: 10, members: MEMBERS }),
    ).toMatchObject({
      error: "the body is no text in UTF-8",
    });
  });

  it("is read in a time that grows with its length alone", () => {
    const hard = [
      `"${'\\"'.repeat(32_000)}"`,
      `"${"\\\\".repeat(32_000)}"`,
      `[${"1,".repeat(30_000)}`,
    ];
    for (const text of hard) {
      const half = text.slice(0, text.length / 2);
      // Twice as much text is no more than a few times the steps: what is quadratic here takes seconds.
      const started = performance.now();
      for (const each of [text, half]) void read(each, 1e6);
      expect(performance.now() - started).toBeLessThan(2_000);
    }
  });
});
