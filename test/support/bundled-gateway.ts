/**
 * The gateway as one bundle for the tests that start it as a process, made once for all of them: a start from the
 * sources takes twice the CPU, and there are hundreds.
 */
import { execFileSync } from "node:child_process";
import { globSync, statSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");
const FOLDER = join(ROOT, "test/node_modules/.bundle");

/** Vitest calls this before it starts a worker; what it sets is inherited. */
export default function bundledGateway(): void {
  const main = join(FOLDER, "main.js");
  const newest = Math.max(...SOURCES.map((file) => statSync(file).mtimeMs));
  const made = statSync(main, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (made <= newest) {
    const words = ["--config", "bundle/rolldown.config.ts", "--dir", FOLDER];
    execFileSync(join(ROOT, "node_modules/.bin/rolldown"), words, { cwd: ROOT, stdio: "pipe" });
  }
  process.env["COINSLOT_MAIN"] = main;
}

const SOURCES = globSync(["src/**/*", "bundle/*", "package-lock.json"], { cwd: ROOT }).map((file) =>
  join(ROOT, file),
);
