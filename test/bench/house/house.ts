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

const rows: string[][] = [];
for (const root of roots) {
  const structure = structureOf(root);
  const way = await wayOf(root);
  rows.push([
    String(structure.files),
    String(structure.codeLines),
    share(structure.sharedNames),
    share(structure.loneHelpers),
    String(structure.ledgerMethods),
    String(structure.spellings.length),
    String(structure.weakMaps),
    String(structure.cycles.length),
    String(way.functions),
    String(way.files),
    String(way.calls),
    String(way.recoveries),
  ]);
}
const NAMES = [
  "files in src",
  "lines of code in src",
  "names of types in two files or more",
  "private functions with one caller",
  "methods of the ledger",
  "files that say what a transition is",
  "weak maps by what was asked or paid",
  "cycles of imports, types included",
  "functions that a paid GET calls",
  "files that these are in",
  "calls of them",
  "recoveries of its signature",
];
say("The house" + (rows.length === 2 ? ", before and after" : ""));
const table = NAMES.map((name, index) => [name, ...rows.map((row) => row[index] ?? "")]);
for (const line of columns(table)) say(`  ${line}`);
