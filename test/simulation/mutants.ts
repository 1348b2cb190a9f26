/**
 * Is the simulation able to fail? Each mutant is the money path with one promise broken, on a copy of the
 * sources; the simulation must catch it. A text that is not found any more is an error, so that no mutant
 * quietly becomes the original.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Mutant } from "./mutant.ts";
import { MUTANTS } from "./mutant-list.ts";
import type { Print } from "./seeds.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
/** Worlds that a mutant may survive at most, of each mode. */
const WORLDS = 400;

/** True when every mutant was caught. */
export async function runMutants(print: Print, worlds = WORLDS): Promise<boolean> {
  const waiting = [...MUTANTS];
  let survivors = 0;
  const work = async (): Promise<void> => {
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
      const caught = await tryMutant(mutant, worlds);
      if (caught === undefined) survivors += 1;
      print(caught === undefined ? `SURVIVED ${mutant.name}` : `caught ${mutant.name}: ${caught}`);
    }
  };
  await Promise.all([work(), work()]);
  print(`${MUTANTS.length} mutants, ${survivors} survived`);
  return survivors === 0;
}

/** The first broken promise, or undefined where none was noticed. Throws where it does not apply. */
export async function tryMutant(mutant: Mutant, worlds: number): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "mutant-"));
  try {
    await copySources(folder);
    for (const change of mutant.changes) {
      const path = join(folder, change.file);
      const text = await readFile(path, "utf8");
      const parts = text.split(change.find);
      if (parts.length !== 2) {
        throw new Error(`${mutant.name}: found ${parts.length - 1} times in ${change.file}`);
      }
      await writeFile(path, parts.join(change.put));
    }
    return await firstFailure(folder, worlds);
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function copySources(folder: string): Promise<void> {
  const names = ["src", "package.json", "test/simulation"];
  const support = await readdir(join(ROOT, "test/support"));
  const memory = support.filter((name) => name.startsWith("memory-"));
  for (const name of [...names, ...memory.map((each) => `test/support/${each}`)]) {
    await cp(join(ROOT, name), join(folder, name), { recursive: true });
  }
  await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
}

async function firstFailure(folder: string, worlds: number): Promise<string | undefined> {
  const main = join(folder, "test/simulation/simulate.ts");
  const flags = ["--count", String(worlds), "--first"];
  const child = spawn(process.execPath, [main, ...flags], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  child.stdout.on("data", (text: Buffer) => (said += text.toString()));
  let complained = "";
  child.stderr.on("data", (text: Buffer) => (complained += text.toString()));
  const [code] = await once(child, "close");
  if (code === 0) return undefined;
  const [first = ""] = said.split("\n");
  // A mutant that does not even run says nothing about the simulation.
  if (!first.startsWith("seed ")) throw new Error(`the mutant does not run: ${complained}`);
  return first;
}
