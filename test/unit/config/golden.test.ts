import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { formatProblems, parseConfig } from "../../../src/config/config.ts";
import { environment } from "./environment.ts";

const FOLDER = join(import.meta.dirname, "golden");

/** Each `golden/NAME.yaml` is parsed, and what is said about it stands in `golden/NAME.txt`. */
describe("every problem is reported at its place, with the line, a caret and a way out", () => {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith(".yaml"));

  test.each(names)("%s", async (name) => {
    const text = readFileSync(join(FOLDER, name), "utf8");

    const result = parseConfig(text, { file: name, ...environment });

    const report = formatProblems(result.problems, result.text);
    const verdict = result.ok ? "accepted" : "refused";
    await expect(`${report}${verdict}\n`).toMatchFileSnapshot(
      join(FOLDER, name.replace(/\.yaml$/, ".txt")),
    );
  });
});
