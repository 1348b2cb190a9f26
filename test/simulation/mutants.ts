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
    await copySources(folder, mutant);
    for (const change of mutant.changes) {
      const path = join(folder, change.file);
      const text = await readFile(path, "utf8");
      const parts = text.split(change.find);
      if (parts.length !== 2) {
        throw new Error(`${mutant.name}: found ${parts.length - 1} times in ${change.file}`);
      }
      await writeFile(path, parts.join(change.put));
    }
    const { unit } = mutant;
    return await (unit === undefined ? firstFailure(folder, worlds) : failureIn(folder, unit));
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function copySources(folder: string, { unit }: Mutant): Promise<void> {
  if (unit !== undefined) return copyAll(folder);
  const names = ["src", "package.json", "test/simulation"];
  const support = await readdir(join(ROOT, "test/support"));
  const memory = support.filter((name) => name.startsWith("memory-"));
  for (const name of [...names, ...memory.map((each) => `test/support/${each}`)]) {
    await cp(join(ROOT, name), join(folder, name), { recursive: true });
  }
  await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
}

async function copyAll(folder: string): Promise<void> {
  const isWanted = (path: string): boolean => !path.includes("node_modules");
  for (const name of ["src", "package.json", "test"]) {
    await cp(join(ROOT, name), join(folder, name), { recursive: true, filter: isWanted });
  }
  await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
}

async function failureIn(folder: string, unit: string): Promise<string | undefined> {
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  const words = [vitest, "run", "--config", join(folder, "test/vitest.config.ts"), unit];
  const env = { ...process.env, NO_COLOR: "1" };
  const child = spawn(process.execPath, words, {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
    env,
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (text: Buffer) => (said += text.toString()));
  }
  const [code] = await once(child, "close");
  if (code === 0) return undefined;
  if (!/Tests .*\d+ failed/.test(said)) throw new Error(`the mutant does not run: ${said}`);
  return `the tests of ${unit}`;
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
