import { describe, expect, test } from "vitest";
import { foldName, readingsOf, type Reading } from "../../../src/http/path-readings.ts";

/** Each reading as a path; `!` where the rest was taken for something else. */
function read(path: string): readonly string[] | null {
  const isSlashed = path.endsWith("/");
  const segments = path.slice(1, isSlashed ? -1 : undefined).split("/");
  const readings = readingsOf(path === "/" ? [] : segments, isSlashed);
  return readings?.map(written) ?? null;
}

function written({ segments, isSlashed, isCut }: Reading): string {
  return `/${segments.join("/")}${isSlashed && segments.length > 0 ? "/" : ""}${isCut ? "!" : ""}`;
}

describe("the name of a segment", () => {
  test.each([
    ["Paid", "paid"],
    ["STRASSE", "straße"],
    ["STRA\u1e9eE", "straße"],
    ["caf\u00e9", "cafe"],
    ["cafe\u0301", "caf\u00e9"],
    ["\uff50\uff41\uff49\uff44", "paid"],
    ["pa\u200did", "paid"],
    ["paid.", "paid"],
    ["paid. .", "paid"],
    ["paid ", "paid"],
    [" paid", "paid"],
    ["paid::$DATA", "paid"],
    ["paid:$i30:$INDEX_ALLOCATION", "paid"],
    ["a+b", "a b"],
    ["\u0661\u0662", "12"],
    ["\u30a2\u30ac", "\u3042\u304b"],
    ["\u03bf\u03b4\u03cc\u03c2", "\u039f\u0394\u039f\u03a3"],
    ["\u1fb3", "\u03b1\u03b9"],
    ["s\u00f8\u0142\u0111", "sold"],
    ["\u0131d\u0130d", "idid"],
  ])("%j is to some backend the same as %j", (one, other) => {
    expect(foldName(one)).toBe(foldName(other));
  });

  test.each([
    ["paid", "paidx"],
    ["paid", "p.aid"],
    ["a-b", "ab"],
    ["a:b", "a"],
    ["\u{1f363}", "\u{1f37a}"],
    ["\u65e5\u672c", "\u65e5"],
  ])("%j is to nobody the same as %j", (one, other) => {
    expect(foldName(one)).not.toBe(foldName(other));
  });

  test.each(["...", " ", ".%20".replace("%20", " "), "\u2026", "\u200d", "\u0301", "\u3000"])(
    "%j is none to some",
    (name) => expect(foldName(name)).toBe(""),
  );

  test("is folded for good: no single folding of any Unicode character changes it", () => {
    const foldings: readonly ((text: string) => string)[] = [
      (text) => text.toLowerCase(),
      (text) => text.toUpperCase(),
      (text) => text.normalize("NFC"),
      (text) => text.normalize("NFD"),
      (text) => text.normalize("NFKC"),
      (text) => text.normalize("NFKD"),
      (text) => text.normalize("NFD").replaceAll(/\p{M}/gu, ""),
      (text) => text.replaceAll(/\p{Default_Ignorable_Code_Point}/gu, ""),
      (text) => text.trim(),
    ];
    const changed: string[] = [];
    for (let code = 0x21; code < 0x2fa20; code += 1) {
      const letter = String.fromCodePoint(code);
      // The iota below stands behind a vowel, where it is looked at with it (U+1FB3).
      if (/[\p{Cs}\p{Co}\p{Cn}]/u.test(letter) || code === 0x345 || letter === "/") continue;
      const name = `b${letter}b`;
      const folded = foldName(name);
      for (const fold of foldings) {
        if (foldName(fold(name)) !== folded) changed.push(`U+${code.toString(16)}`);
      }
    }
    expect(changed).toEqual([]);
  });

  test("is folded in no time that grows with the square of its length", () => {
    const names = ["+", ".", ":", ":$a", "\u3000", "\u0661"].map(
      (text) => `${text.repeat(20_000)}x`,
    );
    const started = performance.now();
    for (let round = 0; round < 10; round += 1) for (const name of names) foldName(name);
    // Hundredths of a second; with a quadratic step, most of a minute.
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});

describe("a path is read", () => {
  test.each<[string, readonly string[] | null]>([
    ["/", ["/"]],
    ["/a/b", ["/a/b"]],
    ["/a/b/", ["/a/b/"]],
    ["/caf\u00e9/\u{1f44d}", ["/caf\u00e9/\u{1f44d}"]],
    ["/a/b?c/d", ["/a/b?c/d", "/a/b!"]],
    ["/a/#", ["/a/#", "/a/!"]],
    ["/a/\u8ab0\uff1f", ["/a/\u8ab0\uff1f", "/a/\u8ab0?", "/a/\u8ab0!"]],
    ["/a\uff0fb", ["/a\uff0fb", "/a/b", "/a/b"]],
    ["/a\uff3cb", ["/a\uff3cb", "/a\\b", "/a/b"]],
    ["/a\uff1bb", ["/a\uff1bb", "/a;b", "/a"]],
    ["/\uff0561", ["/\uff0561", "/%61", "/a"]],
    ["/a/...", ["/a/...", "/a/"]],
    ["/a/.. /b", ["/a/.. /b", "/a/b", "/b"]],
    ["/a/\u2025/b", ["/a/\u2025/b", "/a/b", "/b"]],
    ["/.. ", ["/.. ", "/", "/"]],
    ["/... /\u2025/a", null],
    [`/a${"\uff0fb".repeat(20)}`, null],
  ])("%j as %j", (path, readings) => {
    expect(read(path)).toEqual(readings);
  });

  test("and a parameter of a pattern stands for itself in all readings", () => {
    const readings = readingsOf(["a", null, "b?c"], false);
    expect(readings?.map(({ segments }) => segments)).toEqual([
      ["a", null, "b?c"],
      ["a", null, "b"],
    ]);
  });
});
