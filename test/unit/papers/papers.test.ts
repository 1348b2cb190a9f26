/** What the papers name is there, what they picture is what there is, and their figures have one source. */
import { execFileSync } from "node:child_process";
import { existsSync, globSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { inlineCode, papers, ROOT, type Paper } from "../../support/paper-commands.ts";
import { benchPlot, comparisonsOf } from "../../support/pictures-plot.ts";

/** Of a picture, so that a page is soon there. */
const MOST_BYTES = 150_000;
/** Since then a record tells names as they are; older ones as they were. */
const FIRST_RECORD_OF_THE_ROOMS = 62;

function read(name: string): string {
  return readFileSync(join(ROOT, name), "utf8");
}

const DECISIONS = readdirSync(join(ROOT, "src/decisions")).sort();
const all = DECISIONS.map((name): Paper => ({
  name: `src/decisions/${name}`,
  text: read(`src/decisions/${name}`),
}));
const isOlder = (name: string): boolean =>
  Number(basename(name).slice(0, 4)) < FIRST_RECORD_OF_THE_ROOMS;
// What was so before is told with the names of before.
const records = all
  .filter(({ name }) => !isOlder(name))
  .map(({ name, text }): Paper => ({ name, text: text.split("**Decision.**")[1] ?? "" }));
const olderRecords = all.filter(({ name }) => isOlder(name));

/** Folders that a path may begin in: of the tree, of its sources and of its tests. */
const TOP = ["", "src", "test", "deploy"];
const FOLDERS = new Set(
  TOP.flatMap((base) =>
    readdirSync(join(ROOT, base), { withFileTypes: true })
      .filter((each) => each.isDirectory() && each.name !== "node_modules")
      .map(({ name }) => name),
  ),
);
const FILES = execFileSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8" }).trim().split("\n");
/** Every word of the tree but for its papers. */
const WORDS = new Set(
  FILES.filter((path) => !path.endsWith(".md") && path !== "package-lock.json").flatMap(
    (path) => read(path).match(/[A-Za-z]+/g) ?? [],
  ),
);
/** Files of the tree, without their folders. */
const NAMES = new Set(FILES.map((path) => basename(path)));
/** What an operator has, or a build makes. */
const NOT_OURS = /^(?:data|dist|archive|secrets|http)\//;

/** The words of a piece of code that name a file or a folder of ours. */
function pathsIn(code: string): readonly string[] {
  return code.split(/[\s,()]+/).filter((word) => {
    if (!/^\.?[\w@*{},-][\w@*{},.-]*(?:\/[\w@*{},.-]*)*$/.test(word) || NOT_OURS.test(word))
      return false;
    const [first = ""] = word.split("/", 1);
    return (
      (word.includes("/") && FOLDERS.has(first)) || /^[\w-][\w./-]*\.(?:ts|md|sql)$/.test(word)
    );
  });
}

/** Beside the paper, from the root, in `src/`, `test/` or `deploy/`; a file without its folder: anywhere. */
function isThere({ name }: Paper, path: string): boolean {
  const bases = [dirname(name), ...TOP].map((base) => join(ROOT, base));
  if (!path.includes("/") && NAMES.has(path)) return true;
  // A record of a decision is known by its number.
  const pattern = /\/\d{4}$/.test(path) ? `${path}-*` : path;
  return bases.some((base) =>
    pattern.includes("*")
      ? globSync(pattern, { cwd: base }).length > 0
      : existsSync(join(base, path)),
  );
}

describe.each([...papers(), ...records])("$name", (paper) => {
  test("names no file and no folder that there is not", () => {
    const named = new Set(inlineCode(paper).flatMap(pathsIn));
    expect([...named].filter((path) => !isThere(paper, path))).toEqual([]);
  });

  test("refers to no decision that there is not", () => {
    const numbers = new Set(DECISIONS.map((name) => Number(name.slice(0, 4))));
    for (const [said, number] of paper.text.matchAll(/\b(?:decision )?record (\d+)\b/g)) {
      expect(numbers.has(Number(number)), said).toBe(true);
    }
  });

  test("shows no picture that there is not, each with words for those who do not see it", () => {
    const pictures = [
      ...[...paper.text.matchAll(/!\[([^\]]*)\]\(([^)]+)\)/g)].map(([, alt, file]) => ({
        alt,
        file,
      })),
      ...[...paper.text.matchAll(/<img [^>]*>/g)].map(([tag]) => ({
        alt: /\balt="([^"]*)"/.exec(tag)?.[1],
        file: /\bsrc="([^"]*)"/.exec(tag)?.[1],
      })),
    ];
    for (const { alt = "", file = "" } of pictures) {
      expect(alt.length, `${file} has no words`).toBeGreaterThan(20);
      const path = join(ROOT, dirname(paper.name), file);
      expect(existsSync(path), file).toBe(true);
      expect(statSync(path).size, file).toBeLessThan(MOST_BYTES);
    }
    if (paper.name === "README.md") expect(pictures).toHaveLength(4);
  });
});

describe("the map of the source", () => {
  const map = read("src/README.md");
  const files = globSync("**/*.ts", { cwd: join(ROOT, "src") });

  test("draws no file and no folder that there is not", () => {
    const [, drawing = ""] = /^```\n([^]*?)^```/m.exec(map) ?? [];
    const named = new Set(drawing.match(/[\w-]+(?:\/[\w-]+)*(?:\.ts\b|\/(?=[\s,):]))/g));
    expect(named.size).toBeGreaterThan(60);
    const known = (path: string): boolean =>
      files.some((file) => `/${file}`.includes(path.endsWith("/") ? `/${path}` : `/${path}`));
    expect([...named].filter((path) => !known(path))).toEqual([]);
  });
});

describe("the records of decisions", () => {
  test("are numbered, each once", () => {
    const numbers = DECISIONS.map((name) => name.slice(0, 4));
    expect(new Set(numbers).size).toBe(numbers.length);
  });

  test.each(DECISIONS)("%s has its number in its title", (name) => {
    expect(read(`src/decisions/${name}`)).toMatch(new RegExp(`^# ${Number(name.slice(0, 4))}\\. `));
  });

  // Types and files alone: what else is in code may be the system's or another program's.
  test.each(olderRecords)("$name says at its top where its names are those of before", (record) => {
    const codes = inlineCode(record);
    const types = codes.filter((code) => /^(?:[A-Z][a-z]+){1,4}$/.test(code) && !WORDS.has(code));
    // A record may leave out the room that it is about.
    const isSomewhere = (path: string): boolean =>
      FILES.some((file) => `/${file}`.includes(`/${path}`));
    const paths = codes.flatMap(pathsIn);
    const gone = paths.filter((path) => !isThere(record, path) && !isSomewhere(path));
    if (types.length + gone.length > 0) {
      expect(record.text, [...types, ...gone].join(", ")).toMatch(/^# .*\n\n> .*\brecord \d+/);
    }
  });
});

describe("the figures", () => {
  const bench = read("test/README.md");

  test("that are plotted are those of the table: npm run pictures", () => {
    expect(read("deploy/pictures/how-it-compares.svg")).toBe(benchPlot(bench));
  });

  test("that are plotted are every ratio beside somebody else", () => {
    const all = comparisonsOf(bench);
    expect(all.length).toBeGreaterThan(15);
    expect(all).toContainEqual({
      work: "a free route, GET 1 KiB",
      peer: "HAProxy 2.6",
      ratio: expect.stringMatching(/^\d\.\d$/),
    });
    expect(all.filter(({ work, peer }) => work === "" || peer === "")).toEqual([]);
  });

  test("of the README stand in a row of the table", () => {
    const rows = bench.split("\n").filter((line) => line.startsWith("|"));
    const [, section = ""] = read("README.md").split("## How it compares");
    const told = section.split("\n").filter((line) => /^\| .*\d/.test(line));
    expect(told.length).toBeGreaterThan(4);
    for (const line of told.filter((each) => !each.includes("npm run"))) {
      const [, , , beside = "", ratio = ""] = line.split("|").map((cell) => cell.trim());
      const figure = /: (.+)$/.exec(beside)?.[1] ?? "none";
      const found = rows.some((row) => row.includes(`: ${figure}`) && row.includes(` ${ratio} `));
      expect(found, `${figure} and ${ratio} stand in no row of test/README.md`).toBe(true);
    }
  });
});
