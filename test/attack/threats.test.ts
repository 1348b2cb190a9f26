/** `THREATS.md` is for people who decide whether to trust this: what it says must be so. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { isRepeat, readCases, threatsOf } from "./attack-case.ts";
import { findStale, MUTANTS } from "./mutants.ts";

const ROOT = join(import.meta.dirname, "../..");
const TABLE = readFileSync(join(import.meta.dirname, "THREATS.md"), "utf8");

interface Row {
  readonly threat: string;
  /** What stands in backticks and looks like a file. */
  readonly guards: readonly string[];
  /** What stands in backticks: topics and files. */
  readonly proofs: readonly string[];
  readonly cases: number;
  readonly mutants: number;
}

const quoted = (text: string): string[] =>
  [...text.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);

const rows = TABLE.split("\n")
  .filter((line) => /^\| (?:H\d|all)/.test(line))
  .map((line): Row => {
    const cells = line.split("|").map((cell) => cell.trim());
    const [, threat = "", , guard = "", proof = "", cases, mutants] = cells;
    const guards = quoted(guard).filter((name) => name.endsWith(".ts"));
    const proofs = quoted(proof).filter((name) => /^[\w/.-]+$/.test(name) && name !== "Connection");
    return { threat, guards, proofs, cases: Number(cases), mutants: Number(mutants) };
  });

const everyCase = readCases();
const written = everyCase.filter((each) => !isRepeat(each));
const topics = new Set(everyCase.map(({ topic }) => topic));
const isAbout = (threat: string, cites: string): boolean =>
  threat === "all" || threatsOf(cites).includes(threat);

test("there is a row for each threat of the front door, and one for all", () => {
  const threats = Array.from({ length: 31 }, (_, index) => `H${index + 1}`);
  expect(rows.map(({ threat }) => threat)).toEqual([...threats, "all"]);
});

test("test/README.md tells the numbers of cases and mutants that there are", () => {
  const readme = readFileSync(join(ROOT, "test/README.md"), "utf8");
  expect(readme).toContain(
    `${everyCase.length.toLocaleString("en")} cases in ${topics.size} topics`,
  );
  expect(readme).toContain(`${MUTANTS.length} of ${MUTANTS.length} are`);
});

test("each mutant still takes something away", async () => {
  expect(await findStale(MUTANTS)).toEqual([]);
});

describe.each(rows)("$threat", ({ threat, cases, mutants }) => {
  test("has as many cases and mutants as the table says", () => {
    const found = written.filter(({ cites }) => isAbout(threat, cites)).length;
    const own = MUTANTS.filter(({ cites }) => isAbout(threat, cites)).length;
    expect({ cases: found, mutants: own }).toEqual({ cases, mutants });
  });
});

describe.each(rows.slice(0, -1))("$threat", ({ threat, guards, proofs }) => {
  test("has guards that exist, among them those that its mutants lack", () => {
    const own = MUTANTS.filter(({ cites }) => isAbout(threat, cites));
    const lacking = own.flatMap(({ file, also }) => [
      file,
      ...(also === undefined ? [] : [also.file]),
    ]);
    const missing = guards.filter((file) => !existsSync(join(ROOT, "src", file)));
    const unnamed = lacking.filter((file) => !guards.includes(file.replace("src/", "")));
    expect(guards).not.toEqual([]);
    expect({ missing, unnamed }).toEqual({ missing: [], unnamed: [] });
  });

  test("has proofs that exist, and topics with cases that cite it", () => {
    const unknown = proofs.filter(
      (name) => !topics.has(name) && !existsSync(join(ROOT, "test", name)),
    );
    const about = new Set(
      everyCase.filter(({ cites }) => isAbout(threat, cites)).map(({ topic }) => topic),
    );
    const silent = proofs.filter((name) => topics.has(name) && !about.has(name));
    expect(proofs).not.toEqual([]);
    expect({ unknown, silent }).toEqual({ unknown: [], silent: [] });
  });
});
