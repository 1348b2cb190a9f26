/** The tree with one of its guards taken away, in a folder of its own, and whether its tests notice. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NO_BUNDLE } from "./bundled-gateway.ts";

const ROOT = join(import.meta.dirname, "../..");
/** What all tests need of the tree. */
const WHOLE = [
  "src",
  "package.json",
  "package-lock.json",
  "tsconfig.json",
  "test",
  "deploy",
  "bundle",
];

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

/** Copies of the tree that mutants take one after another: to make one takes longer than most of the tests. */
export class MutatedCopies {
  readonly #parts: readonly string[];
  readonly #all: string[] = [];
  readonly #free: string[] = [];

  constructor(parts: readonly string[] = WHOLE) {
    this.#parts = parts;
  }

  /** Gives `work` a copy with these edits, and undoes them. @throws where one is stale */
  async take<Outcome>(
    edits: readonly Edit[],
    work: (folder: string) => Promise<Outcome>,
  ): Promise<Outcome> {
    const folder = this.#free.pop() ?? (await this.#copy());
    const originals = new Map<string, string>();
    try {
      for (const edit of edits) {
        const stale = await staleness(edit);
        if (stale !== undefined) throw new Error(stale);
        const path = join(folder, edit.file);
        const text = await readFile(path, "utf8");
        if (!originals.has(path)) originals.set(path, text);
        await writeFile(path, text.split(edit.find).join(edit.put));
      }
      return await work(folder);
    } finally {
      for (const [path, text] of originals) await writeFile(path, text);
      this.#free.push(folder);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#all.map((folder) => rm(folder, { recursive: true })));
  }

  async #copy(): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), "mutant-"));
    this.#all.push(folder);
    for (const each of this.#parts) {
      await cp(join(ROOT, each), join(folder, each), {
        recursive: true,
        filter: (path) => !path.includes("node_modules"),
      });
    }
    await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
    return folder;
  }
}

/** Whether any of these tests of the copy fails. @throws where they do not even run */
export async function failsIn(folder: string, tests: readonly string[]): Promise<boolean> {
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  const config = join(folder, "test/vitest.config.ts");
  const words = [vitest, "run", "--bail=1", "--config", config, ...tests];
  // To make it takes longer than it saves one file of tests.
  const { code, said } = await runIn(folder, words, { [NO_BUNDLE]: "1" });
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
