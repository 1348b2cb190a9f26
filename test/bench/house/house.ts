/**
 * What the house looks like, beside another checkout of it: `npm run bench:house -- --before FOLDER`. The structure is
 * counted from the sources; the way of a paid GET is what V8 has seen called while one was served.
 */
import { parseArgs } from "node:util";
import { resolve } from "node:path";
import { columns, ROOT, say } from "../report.ts";
import { structureOf, type Share } from "./structure.ts";
import { wayOf } from "./way.ts";

const { values } = parseArgs({ options: { before: { type: "string" } } });
const roots = [...(values.before === undefined ? [] : [resolve(values.before)]), ROOT];

const share = ({ count, of }: Share): string => `${((100 * count) / of).toFixed(1)} % (${count})`;

const measured = await Promise.all(
  roots.map(async (root) => ({ structure: structureOf(root), way: await wayOf(root) })),
);
type Measured = (typeof measured)[number];

const FIGURES: readonly (readonly [string, (house: Measured) => number | string])[] = [
  ["files in src", ({ structure }) => structure.files],
  ["lines of code in src", ({ structure }) => structure.codeLines],
  ["names of types in two files or more", ({ structure }) => share(structure.sharedNames)],
  ["private functions with one caller", ({ structure }) => share(structure.loneHelpers)],
  ["methods of the ledger", ({ structure }) => structure.ledgerMethods],
  ["files that say what a transition is", ({ structure }) => structure.spellings.length],
  ["weak maps by what was asked or paid", ({ structure }) => structure.weakMaps],
  ["cycles of imports, types included", ({ structure }) => structure.cycles.length],
  ["functions that a paid GET calls", ({ way }) => way.functions],
  ["files that these are in", ({ way }) => way.files],
  ["calls of them", ({ way }) => way.calls],
  ["recoveries of its signature", ({ way }) => way.recoveries],
];
say("The house" + (measured.length === 2 ? ", before and after" : ""));
const table = FIGURES.map(([name, of]) => [name, ...measured.map((house) => String(of(house)))]);
for (const line of columns(table)) say(`  ${line}`);
