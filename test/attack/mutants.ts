/**
 * Is the battery able to fail? Each mutant is the gateway without one of its guards, on a copy of the tree;
 * a case must find it, or a property of the canonical path, or where no client would see it a test. A text
 * that is not found any more is an error, so that no mutant quietly becomes the original. What the battery
 * finds on the original already catches nobody.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { keyOf } from "./attack-report.ts";
import { runBattery } from "./battery.ts";
import { MESSAGE_MUTANTS } from "./message-mutants.ts";
import type { Edit, Mutant } from "./mutant.ts";
import { OTHER_MUTANTS } from "./other-mutants.ts";
import { PATH_MUTANTS } from "./path-mutants.ts";

const MUTANTS: readonly Mutant[] = [...PATH_MUTANTS, ...MESSAGE_MUTANTS, ...OTHER_MUTANTS];

const ROOT = join(import.meta.dirname, "../..");
/** Seeds that a mutant of the canonical path is tried with, and runs of each. */
const FUZZ = ["--fuzz-here", "--seeds", "1..3", "--runs", "60000"];

type Print = (line: string) => void;

/** True when every mutant whose name or threat is `wanted` was caught. */
export async function runMutants(wanted: string, print: Print): Promise<boolean> {
  const mutants = MUTANTS.filter(({ name, cites }) => name.includes(wanted) || cites === wanted);
  const stale = await findStale(mutants);
  for (const line of stale) print(`STALE ${line}`);
  if (stale.length > 0) return false;
  const topics = new Set(mutants.flatMap((mutant) => mutant.topics ?? []));
  const { findings } = await runBattery({ select: ({ topic }) => topics.has(topic) });
  const known = [...new Set(findings.map(keyOf))];
  print(`the original: ${known.length} findings${known.length > 0 ? ", which catch nobody" : ""}`);
  let caught = 0;
  for (const mutant of mutants) {
    const name = `${mutant.cites}: ${mutant.name}`;
    try {
      const finding = await tryMutant(mutant, known);
      if (finding !== undefined) caught += 1;
      print(
        finding === undefined ? `SURVIVED ${name}` : `caught ${name}: ${finding.slice(0, 200)}`,
      );
    } catch (cause) {
      print(`DOES NOT RUN ${name}: ${String(cause)}`);
    }
  }
  const threats = new Set(mutants.map(({ cites }) => cites)).size;
  print(`${mutants.length} mutants of ${threats} threats, ${caught} caught`);
  return caught === mutants.length;
}

/** Mutants that do not apply, and why. */
async function findStale(mutants: readonly Mutant[]): Promise<readonly string[]> {
  const stale: string[] = [];
  for (const mutant of mutants) {
    for (const { file, find } of editsOf(mutant)) {
      const text = await readFile(join(ROOT, file), "utf8").catch(() => "");
      const count = text.split(find).length - 1;
      if (count !== 1) stale.push(`${mutant.name}: found ${count} times in ${file}`);
    }
  }
  return stale;
}

function editsOf(mutant: Mutant): readonly Edit[] {
  return mutant.also === undefined ? [mutant] : [mutant, mutant.also];
}

/** The first finding, or undefined where there is none. @throws where the mutant does not run. */
async function tryMutant(mutant: Mutant, known: readonly string[]): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "attack-mutant-"));
  try {
    for (const each of ["src", "package.json", "test"]) {
      const from = join(ROOT, each);
      await cp(from, join(folder, each), {
        recursive: true,
        filter: (path) => !path.includes("node_modules"),
      });
    }
    await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
    const path = join(folder, mutant.file);
    await writeFile(
      path,
      (await readFile(path, "utf8")).replace(mutant.find, () => mutant.put),
    );
    return (await byCases(folder, mutant, known)) ?? (await byOthers(folder, mutant));
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function byCases(
  folder: string,
  { topics = [] }: Mutant,
  known: readonly string[],
): Promise<string | undefined> {
  if (topics.length === 0) return undefined;
  const list = join(folder, "known.json");
  await writeFile(list, JSON.stringify(known));
  const flags = ["--first", "--no-fuzz", "--topics", topics.join(","), "--known", list];
  return firstFinding(join(folder, "test/attack/attack.ts"), flags);
}

async function byOthers(folder: string, { isFuzzed, unit }: Mutant): Promise<string | undefined> {
  if (isFuzzed === true) return firstFinding(join(folder, "test/attack/attack.ts"), FUZZ);
  if (unit === undefined) return undefined;
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  const { code } = await run([
    vitest,
    "run",
    "--config",
    join(folder, "test/vitest.config.ts"),
    unit,
  ]);
  return code === 0 ? undefined : `the tests of ${unit}`;
}

async function firstFinding(main: string, flags: readonly string[]): Promise<string | undefined> {
  const { code, said, complained } = await run([main, ...flags]);
  if (code === 0) return undefined;
  const first = said.split("\n").find((line) => line.startsWith("FOUND "));
  // A mutant that does not even run says nothing about the battery.
  if (first === undefined) throw new Error(`the mutant does not run: ${complained || said}`);
  return first.slice("FOUND ".length);
}

async function run(words: readonly string[]) {
  const child = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  child.stdout.on("data", (text: Buffer) => (said += text.toString()));
  let complained = "";
  child.stderr.on("data", (text: Buffer) => (complained += text.toString()));
  const [code] = await once(child, "close");
  return { code, said, complained };
}
