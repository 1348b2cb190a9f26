/** The tree with one of its guards taken away, in a folder of its own, and whether its tests notice. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");
/** What all tests need of the tree. */
const WHOLE = ["src", "package.json", "package-lock.json", "test", "deploy", "bundle"];

export interface Edit {
  /** Below the root of the tree. */
  readonly file: string;
  /** Must be there once. */
  readonly find: string;
  readonly put: string;
}

/** Why an edit cannot be made, or undefined: a text that is gone would leave the original. */
export async function staleness({ file, find }: Edit): Promise<string | undefined> {
  const text = await readFile(join(ROOT, file), "utf8").catch(() => "");
  const count = text.split(find).length - 1;
  return count === 1 ? undefined : `found ${count} times in ${file}`;
}

/** Gives `work` a copy of these parts of the tree with these edits, and removes it. @throws where one is stale */
export async function inMutatedCopy<Outcome>(
  edits: readonly Edit[],
  work: (folder: string) => Promise<Outcome>,
  parts: readonly string[] = WHOLE,
): Promise<Outcome> {
  const folder = await mkdtemp(join(tmpdir(), "mutant-"));
  try {
    for (const each of parts) {
      await cp(join(ROOT, each), join(folder, each), {
        recursive: true,
        filter: (path) => !path.includes("node_modules"),
      });
    }
    await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
    for (const edit of edits) {
      const stale = await staleness(edit);
      if (stale !== undefined) throw new Error(stale);
      const path = join(folder, edit.file);
      const text = await readFile(path, "utf8");
      await writeFile(path, text.split(edit.find).join(edit.put));
    }
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/**
 * Whether any of these tests of the copy fails. @throws where they do not even run
 * @param env besides that of this process
 */
export async function failsIn(
  folder: string,
  tests: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<boolean> {
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  const config = join(folder, "test/vitest.config.ts");
  const { code, said } = await runIn(folder, [vitest, "run", "--config", config, ...tests], env);
  if (code !== 0 && !/Tests .*\d+ failed/.test(said)) throw new Error(said);
  return code !== 0;
}

export interface Ran {
  readonly code: unknown;
  /** On both of its outputs, as it came. */
  readonly said: string;
}

/** Runs a program of node's in that folder to its end. */
export async function runIn(
  folder: string,
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  const child = spawn(process.execPath, words, {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NO_COLOR: "1", ...env },
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (text: Buffer) => (said += text.toString()));
  }
  const [code] = await once(child, "close");
  return { code, said };
}
