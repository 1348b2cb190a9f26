/** `coinslot completion`: the script for bash is run by a real bash; those for zsh and fish are made of the same. */
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NETWORK_NAMES } from "../../../src/x402/network.ts";
import { runHere } from "./run-here.ts";

const run = promisify(execFile);
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-completion-"));
  await writeFile(join(folder, "script"), (await runHere(["completion", "bash"])).stdout);
  await writeFile(join(folder, "my gateway.yaml"), "");
  await writeFile(join(folder, "other.yaml"), "");
});

afterAll(() => rm(folder, { recursive: true }));

/** What bash proposes for the last of these words. */
async function complete(...words: readonly string[]): Promise<readonly string[]> {
  const script = `source ./script
COMP_WORDS=(coinslot "$@")
COMP_CWORD=$#
\${COMPLETER:-$(complete -p coinslot | sed 's/.*-F \\([^ ]*\\).*/\\1/')}
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const args = ["--norc", "--noprofile", "-uc", script, "bash", ...words];
  const { stdout } = await run("bash", args, { cwd: folder });
  return stdout
    .split("\n")
    .filter((line) => line !== "")
    .sort();
}

test("commands are completed, and none that is hidden", async () => {
  const all = await complete("");
  expect(all).toEqual(expect.arrayContaining(["serve", "check", "pay", "init", "keygen", "help"]));
  expect(all).not.toContain("worker");
  expect(await complete("pay")).toEqual(["pay", "payments"]);
  expect(await complete("--v")).toEqual(["--version"]);
  expect(await complete("help", "pay")).toEqual(["pay", "payments"]);
});

test("options are those of the command", async () => {
  expect(await complete("pay", "--d")).toEqual(["--data", "--dry-run"]);
  expect(await complete("recover", "--t")).toEqual(["--timeout"]);
  expect(await complete("serve", "--d")).toEqual([]);
});

test("values are the choices, the networks, or files", async () => {
  expect(await complete("keygen", "")).toEqual(["evm", "solana"]);
  expect(await complete("completion", "b")).toEqual(["bash"]);
  expect(await complete("pay", "http://x", "--network", "")).toEqual(NETWORK_NAMES);
  expect(await complete("payments", "f.yaml", "--network", "solana-")).toEqual(["solana-devnet"]);
  expect(await complete("check", "my")).toEqual(["my gateway.yaml"]);
  expect(await complete("init", "--from", "o")).toEqual(["other.yaml"]);
  expect(await complete("pay", "--max", "")).toEqual([]);
});

test("what an option takes is no argument", async () => {
  // The second word would be the shell, if the value before it were one.
  expect(await complete("keygen", "--out", "evm", "s")).toEqual(["solana"]);
});

test("every visible option of every command is in each script", async () => {
  for (const shell of ["bash", "zsh", "fish"]) {
    const { stdout } = await runHere(["completion", shell]);
    for (const word of ["allow-asset", "undelivered", "public-url", "admin", "include"]) {
      expect(stdout, shell).toContain(word);
    }
  }
});
