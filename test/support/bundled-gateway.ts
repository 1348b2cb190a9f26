/**
 * The gateway as one bundle for the tests that start it as a process, made once for all of them: a start from the
 * sources takes twice the CPU, and there are hundreds.
 */
import { execFileSync } from "node:child_process";
import { existsSync, globSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");
const FOLDER = join(ROOT, "test/node_modules/.bundles");
/** Bundles of other sources that nobody uses any more, milliseconds. */
const OLD_MS = 3_600_000;

/** What the bundler is told, as in the script `build`. */
export const BUNDLING = ["--config", "bundle/rolldown.config.ts"];

/** Set to anything: what starts the gateway as a process starts the sources. */
export const NO_BUNDLE = "COINSLOT_NO_BUNDLE";

/** Vitest calls this before it starts a worker; what it sets is inherited. */
export default function bundledGateway(): void {
  if (process.env[NO_BUNDLE] !== undefined) return;
  const found = globSync(["src/**/*", "bundle/*", "package-lock.json"], { cwd: ROOT });
  const newestMs = Math.max(...found.map((file) => statSync(join(ROOT, file)).mtimeMs));
  // Another run may be using that of other sources, or be making the same one.
  const folder = join(FOLDER, `${found.length}-${newestMs}`);
  if (!existsSync(folder)) {
    for (const name of existsSync(FOLDER) ? readdirSync(FOLDER) : []) {
      const old = join(FOLDER, name);
      if (statSync(old).mtimeMs < Date.now() - OLD_MS) rmSync(old, { recursive: true });
    }
    const made = `${folder}-${process.pid}`;
    const words = [...BUNDLING, "--dir", made];
    execFileSync(join(ROOT, "node_modules/.bin/rolldown"), words, { cwd: ROOT, stdio: "pipe" });
    if (existsSync(folder)) rmSync(made, { recursive: true });
    else renameSync(made, folder);
  }
  process.env["COINSLOT_MAIN"] = join(folder, "main.js");
}
