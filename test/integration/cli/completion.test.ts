/** `coinslot completion`: each script is run by the real shell, which proposes what it should. */
import { execFile, spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NETWORK_NAMES } from "../../../src/x402/network.ts";
import { runHere } from "./run-here.ts";

const run = promisify(execFile);
let folder: string;

/** At its first prompt zsh completes the line that it is given, notes what it would offer, and ends. */
const ZSHRC = `autoload -Uz compinit
compinit -u -D
source ./script.zsh
compadd() {
  if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)* ]]; then builtin compadd "$@"; return; fi
  local -a found
  builtin compadd -A found "$@"
  print -rl -- $found >> $FOUND
  builtin compadd "$@"
}
zle-line-init() {
  BUFFER=$LINE
  CURSOR=$#BUFFER
  zle list-choices
  exit 0
}
zle -N zle-line-init
`;
/** How long a shell may take to answer, milliseconds. */
const PATIENCE_MS = 15_000;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-completion-"));
  await writeFile(join(folder, "script"), (await runHere(["completion", "bash"])).stdout);
  for (const shell of ["zsh", "fish"]) {
    const { stdout } = await runHere(["completion", shell]);
    await writeFile(join(folder, `script.${shell}`), stdout);
  }
  await mkdir(join(folder, "dotfiles"));
  await writeFile(join(folder, "dotfiles/.zshrc"), ZSHRC);
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

/** What a shell proposes for the end of a line, whatever the shell. */
const PROPOSED: readonly (readonly [line: string, words: readonly string[]])[] = [
  ["coinslot pa", ["pause", "pay", "payments"]],
  ["coinslot --v", ["--version"]],
  ["coinslot help pay", ["pay", "payments"]],
  ["coinslot pay --d", ["--data", "--dry-run"]],
  ["coinslot keygen ", ["evm", "solana"]],
  ["coinslot pay http://x --network sol", ["solana", "solana-devnet"]],
  ["coinslot payments f.yaml --network solana-", ["solana-devnet"]],
  ["coinslot check my", ["my gateway.yaml"]],
  ["coinslot init --from o", ["other.yaml"]],
  ["coinslot pay --max ", []],
  ["coinslot keygen --out evm s", ["solana"]],
];

function missing(shell: string): string | null {
  return spawnSync(shell, ["--version"]).error === undefined
    ? null
    : `not installed: apt-get install -y ${shell}`;
}

function wordsOf(text: string): readonly string[] {
  return [...new Set(text.split("\n").filter((line) => line !== ""))].sort();
}

const NO_ZSH = missing("zsh");
const NO_FISH = missing("fish");

describe.skipIf(NO_ZSH !== null)(`zsh (${NO_ZSH ?? "installed"})`, () => {
  test("reads the script without a complaint", () => {
    const { status, stderr } = spawnSync("zsh", ["-n", "script.zsh"], { cwd: folder });
    expect([status, String(stderr)]).toEqual([0, ""]);
  });

  test("completes each of these lines", async () => {
    const found = PROPOSED.map(async ([line], index) => [line, await zshProposes(line, index)]);
    expect(await Promise.all(found)).toEqual(PROPOSED);
  });
});

async function zshProposes(line: string, index: number): Promise<readonly string[]> {
  const found = join(folder, `found.${index}`);
  await writeFile(found, "");
  const own = { ZDOTDIR: join(folder, "dotfiles"), FOUND: found, LINE: line, TERM: "dumb" };
  // Its line editor wants a terminal.
  const ran = run("script", ["-qefc", "zsh -i", "/dev/null"], {
    cwd: folder,
    env: { ...process.env, ...own },
    timeout: PATIENCE_MS,
  });
  ran.child.stdin?.end();
  await ran;
  return wordsOf((await readFile(found, "utf8")).replaceAll("\\ ", " "));
}

describe.skipIf(NO_FISH !== null)(`fish (${NO_FISH ?? "installed"})`, () => {
  test("reads the script without a complaint", () => {
    const { status, stderr } = spawnSync("fish", ["--no-execute", "script.fish"], { cwd: folder });
    expect([status, String(stderr)]).toEqual([0, ""]);
  });

  test.each(PROPOSED)("completes %j", async (line, words) => {
    const script = 'source ./script.fish; complete -C "$LINE"';
    const env = { ...process.env, HOME: folder, LINE: line };
    const { stdout } = await run("fish", ["--no-config", "-c", script], { cwd: folder, env });
    // A description follows each word.
    expect(wordsOf(stdout.replaceAll(/\t.*/g, ""))).toEqual(words);
  });
});

test("every visible option of every command is in each script", async () => {
  for (const shell of ["bash", "zsh", "fish"]) {
    const { stdout } = await runHere(["completion", shell]);
    for (const word of ["allow-asset", "undelivered", "public-url", "admin", "include"]) {
      expect(stdout, shell).toContain(word);
    }
  }
});
