/** A gateway.yaml of `deploy/` as its machine would see it: secrets lie in a folder, and `check --strict` looks. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { loadConfig, processEnvironment, type Config } from "../../../src/config/config.ts";
import type { Finished } from "../../support/serve.ts";
import { runHere } from "../cli/run-here.ts";

export const DEPLOY = join(import.meta.dirname, "../../../deploy");
export const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
export const KEY = `0x${"5a".repeat(32)}`;

export interface Mount {
  /** Where the machine has its secrets. */
  readonly path: string;
  /** The secrets, by the names of their files. */
  readonly files: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
}

export interface Checked {
  readonly strict: Finished;
  readonly config: Config;
}

/** Paths below `mount.path`, in the file and in the environment, are looked up in a folder of ours. */
export async function checkShipped(file: string, mount: Mount): Promise<Checked> {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-deploy-"));
  const here = (text: string): string => text.replaceAll(mount.path, folder);
  try {
    for (const [name, text] of Object.entries(mount.files)) {
      await writeFile(join(folder, name), text);
    }
    const own = join(folder, "gateway.yaml");
    await writeFile(own, here(await readFile(file, "utf8")));
    const env = Object.fromEntries(
      Object.entries(mount.env).map(([name, value]) => [name, here(value)]),
    );
    const strict = await runHere(["check", "--strict", own], env);
    const loaded = await loadConfig(own, { ...processEnvironment, env });
    if (!loaded.ok) throw new Error(strict.stderr);
    return { strict, config: loaded.config };
  } finally {
    await rm(folder, { recursive: true });
  }
}

export async function readYaml(...path: readonly string[]): Promise<unknown> {
  return parse(await readFile(join(DEPLOY, ...path), "utf8"), { merge: true });
}

/** How long a gateway may take to drain, seconds: whoever stops it waits longer. */
export function drainSeconds({ shutdown }: Config): number {
  return (shutdown.delayMs + shutdown.withinMs) / 1000;
}
