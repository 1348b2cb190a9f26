import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { formatProblems, parseConfig } from "../../../src/config/config.ts";
import { PROBLEM_CODES } from "../../../src/config/reading/problem-codes.ts";
import { reviewConfig } from "../../../src/diagnosis/config-review.ts";
import { environment } from "./fixture.ts";
import { mistakes } from "./mistakes/mistakes.ts";

/** As `coinslot check` reads. */
const reading = { ...environment, review: reviewConfig };

const FOLDER = join(import.meta.dirname, "golden");
const SEPARATOR = "==========\n";

/**
 * Each file of `golden/` is a configuration, a line of `=`, and what is said about that configuration.
 * `UPDATE_GOLDEN=1` writes what is said now; read the difference before you keep it.
 */
/** Kinds that would take a file of 16 MiB (`property.test.ts`), or another day (`key-pair.test.ts`). */
const SHOWN_ELSEWHERE = [
  "not-text",
  "too-long",
  "young-certificate",
  "shared-payee",
  "shared-key",
  "large-page",
];

test("every kind of problem is shown by at least one file, or by a mistake", () => {
  const shown = new Set<string>(mistakes().map(({ code }) => code));
  const found = new Set<string>(
    readdirSync(FOLDER).flatMap((name) => {
      const [text = ""] = readFileSync(join(FOLDER, name), "utf8").split(SEPARATOR);
      return parseConfig(text, { file: name, ...reading }).problems.map(({ code }) => code);
    }),
  );

  const unseen = Object.keys(PROBLEM_CODES).filter((code) => !shown.has(code) && !found.has(code));
  expect(unseen).toEqual(SHOWN_ELSEWHERE);
});

describe("every problem is reported at its place, with the line, a caret and a way out", () => {
  test.each(readdirSync(FOLDER))("%s", (name) => {
    const path = join(FOLDER, name);
    const [text = "", expected] = readFileSync(path, "utf8").split(SEPARATOR);

    const result = parseConfig(text, { file: name.replace(/\.txt$/, ".yaml"), ...reading });

    const report = formatProblems(result.problems, result.text);
    const actual = `${report}${result.ok ? "accepted" : "refused"}\n`;
    if (process.env["UPDATE_GOLDEN"] === "1") writeFileSync(path, text + SEPARATOR + actual);
    else expect(actual).toBe(expected);
  });
});
