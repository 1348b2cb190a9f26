/** Who may import what: the table of `src/README.md`, kept. */
import { readdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { join, posix } from "node:path";
import { describe, expect, it } from "vitest";

const SRC = join(import.meta.dirname, "../../src");

/** What one room may import: rooms and files of `src/`, and packages. */
interface Room {
  /** `all`: whatever is not excepted. */
  readonly isAll: boolean;
  readonly paths: readonly string[];
  readonly packages: readonly string[];
}

/** By the name in the table's first column, without its slash. */
function readTable(): ReadonlyMap<string, Room> {
  const paper = readFileSync(join(SRC, "README.md"), "utf8");
  const rows = paper.split("\n").filter((line) => line.startsWith("| `"));
  const rooms = rows.flatMap((row) => {
    const [, names = "", imports = "", packages = ""] = row.split("|").map((cell) => cell.trim());
    const isAll = imports.startsWith("all but ");
    const list = isAll ? imports.slice("all but ".length) : imports;
    const room = { isAll, paths: wordsOf(list), packages: wordsOf(packages) };
    return wordsOf(names).map((name) => [name, room] as const);
  });
  return new Map(rooms);
}

function wordsOf(cell: string): readonly string[] {
  const words = cell.split(",").map((word) => word.replaceAll(/[`()]/g, "").trim());
  return words
    .filter((word) => word !== "" && word !== "nothing")
    .map((word) => word.replace(/\/$/, ""));
}

/** A statement at the beginning of a line, or a call. */
const IMPORT = /^(?:import|export)\s(?:[^;"'`(=]*\sfrom\s)?"([^"\n]+)";|\bimport\("([^"\n]+)"\)/gm;

/** Each arrow out of a file that the table does not have. */
function forbidden(file: string, text: string, table: ReadonlyMap<string, Room>): string[] {
  const room = roomOf(file);
  const allowed = table.get(room);
  if (allowed === undefined) return [`${file} is in a room that is not in the table`];
  // What a page shows as a program imports nothing here.
  const code = text.replaceAll(/= `[^`]*`/g, "");
  return [...code.matchAll(IMPORT)].flatMap(([, first, second]) => {
    const wanted = first ?? second ?? "";
    if (!wanted.startsWith(".")) return isPackage(wanted, allowed) ? [] : [`${file}: ${wanted}`];
    const target = posix.join(posix.dirname(file), wanted);
    if (target.startsWith("..") || roomOf(target) === room) return [];
    const isNamed = allowed.paths.some((each) => target === each || target.startsWith(`${each}/`));
    return isNamed === allowed.isAll ? [`${file}: ${target}`] : [];
  });
}

function roomOf(file: string): string {
  return file.split("/")[0] ?? file;
}

function isPackage(wanted: string, { isAll, packages }: Room): boolean {
  if (isAll || wanted.startsWith("node:") || builtinModules.includes(wanted)) return true;
  return packages.some((each) => {
    return (
      wanted === each || wanted.startsWith(each.endsWith("*") ? each.slice(0, -1) : `${each}/`)
    );
  });
}

describe("the import table", () => {
  const table = readTable();

  it("has every arrow between two rooms, and every package", () => {
    const files = readdirSync(SRC, { recursive: true, encoding: "utf8" });
    const sources = files.filter((name) => name.endsWith(".ts"));
    expect(sources.length).toBeGreaterThan(400);
    const arrows = sources.flatMap((name) => {
      return forbidden(name, readFileSync(join(SRC, name), "utf8"), table);
    });
    expect(arrows).toEqual([]);
  });

  it.each([
    ["x402/a.ts", "../ledger/ledger.ts"],
    ["telemetry/a.ts", "../gateway/gateway.ts"],
    ["mechanism/evm/a.ts", "../../ledger/ledger.ts"],
    ["ledger/sqlite/a.ts", "../../mechanism/mechanism.ts"],
    ["payments/sale/a.ts", "../../gateway/gateway.ts"],
    ["payments/settlement/a.ts", "../../mechanism/evm/evm.ts"],
    ["facilitator/a.ts", "../mechanism/evm/evm.ts"],
    ["facilitator/a.ts", "../gateway/gateway.ts"],
    ["facilitator/a.ts", "viem"],
    ["gateway/a.ts", "../payments/settlement/embedded.ts"],
    ["gateway/a.ts", "../ledger/sqlite/sqlite.ts"],
    ["gateway/a.ts", "../config/config.ts"],
    ["gateway/a.ts", "../web/theme.ts"],
    ["workers/a.ts", "../payments/sale/paywall.ts"],
    ["admin/a.ts", "../gateway/gateway.ts"],
    ["config/routes/a.ts", "../../gateway/gateway.ts"],
    ["config/a.ts", "viem/utils"],
    ["cli/pay/a.ts", "../../ledger/ledger.ts"],
    ["buyer/a.ts", "../config/config.ts"],
    ["web/browser/a.ts", "../../gateway/gateway.ts"],
    ["app/a.ts", "../cli/cli.ts"],
    ["app/a.ts", "../diagnosis/explanation.ts"],
    ["app.ts", "./cli/cli.ts"],
    ["elsewhere/a.ts", "../x402/x402.ts"],
  ])("refuses an arrow from %s to %s", (file, wanted) => {
    expect(forbidden(file, `import { a } from "${wanted}";`, table)).toHaveLength(1);
    expect(forbidden(file, `const a = await import("${wanted}");`, table)).toHaveLength(1);
  });
});
