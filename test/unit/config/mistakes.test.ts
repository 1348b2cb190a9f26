import { describe, expect, test } from "vitest";
import { formatProblems, parseConfig, type ParseResult } from "../../../src/config/config.ts";
import { reviewConfig } from "../../../src/diagnosis/config-review.ts";
import { environment } from "./fixture.ts";
import { mistakes, plant, SOUND } from "./mistakes/mistakes.ts";

/** Mistakes that are known of. */
const AT_LEAST = 200;

/** As `coinslot check` reads. */
function check(text: string): ParseResult {
  const reading = { ...environment, review: reviewConfig };
  return parseConfig(text, { file: "/etc/coinslot/gateway.yaml", ...reading });
}

test("nothing is said of the file without a mistake", () => {
  expect(check(SOUND).problems).toEqual([]);
});

test(`there are at least ${AT_LEAST} mistakes, each another one`, () => {
  const texts = new Set(mistakes().map((each) => plant(each).text));

  expect(texts.size).toBe(mistakes().length);
  expect(texts.size).toBeGreaterThanOrEqual(AT_LEAST);
});

describe("a mistake is told once, at its place, with what to do about it", () => {
  test.each(mistakes().map((each) => [`${each.group}: ${each.what}`, each] as const))(
    "%s",
    (_, mistake) => {
      const { severity, code, mend } = mistake;
      const { text, place } = plant(mistake);

      const { ok, problems, text: masked } = check(text);

      expect(problems, formatProblems(problems, masked)).toMatchObject([
        { severity, code, ...place },
      ]);
      const [problem] = problems;
      expect(`${problem?.message}\n${problem?.suggestion}`).toContain(mend);
      expect(mend.length).toBeGreaterThan(3);
      const saysWhatToWrite = /\b(?:must|needs|is required)\b/.test(problem?.message ?? "");
      expect(problem?.suggestion !== undefined || saysWhatToWrite).toBe(true);
      expect(ok).toBe(severity !== "error");
    },
  );
});
