import { describe, expect, test } from "vitest";
import { formatProblems, type Problem } from "../../../../src/config/config.ts";

const PROBLEM: Problem = {
  severity: "error",
  code: "unknown-key",
  message: "unknown key",
  suggestion: 'did you mean "limits"?',
  file: "gateway.yaml",
  line: 2,
  column: 1,
  length: 5,
  path: ["limts"],
};

describe("formatProblems", () => {
  test("shows place, line, caret and suggestion", () => {
    expect(formatProblems([PROBLEM], "a: 1\nlimts: {}\n")).toBe(
      [
        "gateway.yaml:2:1: error: unknown key",
        "  limts: {}",
        "  ^^^^^",
        '  did you mean "limits"?',
        "",
      ].join("\n"),
    );
  });

  test("colours severity and caret when asked", () => {
    const text = formatProblems([PROBLEM], "a: 1\nlimts: {}\n", { color: true });

    expect(text).toContain("\u001b[31merror\u001b[0m");
    expect(text).toContain("\u001b[31m^^^^^\u001b[0m");
  });

  test("keeps tabs below tabs", () => {
    const text = formatProblems([{ ...PROBLEM, line: 1, column: 3, length: 1 }], "\t\tx");

    expect(text).toContain("  \t\tx\n  \t\t^\n");
  });

  test("cuts a long line around the place", () => {
    const source = `${"a".repeat(1000)}HERE${"b".repeat(1000)}`;

    const text = formatProblems([{ ...PROBLEM, line: 1, column: 1001, length: 4 }], source);

    const [, line = "", caret = ""] = text.split("\n");
    expect(line.length).toBeLessThan(130);
    expect(line.slice(caret.indexOf("^"), caret.lastIndexOf("^") + 1)).toBe("HERE");
  });

  test("lets no control character of the file through to a terminal", () => {
    const text = formatProblems(
      [{ ...PROBLEM, message: "bad\u001b[2J" }],
      "\nli\u001b[31mts\u202e",
    );

    expect(text).not.toMatch(/[^\P{Cc}\n]|\p{Cf}/u);
  });

  test("says where nothing can be quoted only the file", () => {
    const text = formatProblems([{ ...PROBLEM, line: 0, column: 0 }], "");

    expect(text).toBe('gateway.yaml: error: unknown key\n  did you mean "limits"?\n');
  });
});
