/** The table of `deploy/LEDGER.md` that says what is stored of whom, to be held against the real tables of a store. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const PAPER = join(import.meta.dirname, "../../../deploy/LEDGER.md");

/** `table.column` of each that the paper tells for that store, as often as it does. */
export function columnsOfThePaper(store: "SQLite" | "PostgreSQL"): readonly string[] {
  const [, part = ""] = readFileSync(PAPER, "utf8").split("## What is stored of whom\n");
  const rows = part.split("\n").flatMap((line) => {
    const [, kept = "", columns = "", ...rest] = line.split("|").map((cell) => cell.trim());
    if (kept !== "both" && kept !== store) return [];
    // What, what for, until when, and what is behind the last bar.
    if (rest.length !== 4 || rest.slice(0, 3).includes(""))
      throw new Error(`not all told: ${line}`);
    const [table = "", ...names] = [...columns.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name);
    return names.map((name) => `${table}.${name}`);
  });
  return rows.toSorted();
}
