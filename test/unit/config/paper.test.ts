import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { configPaper, PAPER } from "../../support/config-paper.ts";

test("the paper tells every key, as the schema does", async () => {
  const paper = configPaper();
  expect(await readFile(PAPER, "utf8")).toBe(paper);
  expect(paper).toContain("- `facilitator.embedded.networks.NAME.");
  expect(paper).toContain("- `routes.NAME.");
  // A key of which nothing is said is nobody's to find.
  expect(paper).not.toMatch(/^- `[^`]+`: *$/m);
});
