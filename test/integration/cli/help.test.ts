/** What every command says of itself. */
import { expect, test, vi } from "vitest";
import { run } from "../../../src/cli/cli.ts";

/** What is printed for these words. */
async function printed(...words: readonly string[]): Promise<string> {
  const parts: string[] = [];
  const write = vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    parts.push(String(text));
    return true;
  });
  try {
    expect(await run(words, "1.2.3")).toBe(0);
  } finally {
    write.mockRestore();
  }
  return parts.join("");
}

const COMMANDS =
  "backup books check completion doctor forecast init keygen listing mcp pause pay payments recover reload resume routes schema serve try webhooks".split(
    " ",
  );
/** Those whose output is what a program wants anyway, or is nothing. */
const WITHOUT_JSON: ReadonlySet<string> = new Set(["completion", "mcp", "serve"]);

test("the help names every command, and none that is not described here", async () => {
  const help = await printed("--help");
  const named = [...help.matchAll(/^ {2}([a-z]+)(?: |$)/gm)].map(([, name = ""]) => name);
  expect(named.filter((name) => name !== "help").toSorted()).toEqual(COMMANDS);
});

test.each(COMMANDS)("%s documents its exit codes", async (name) => {
  expect(await printed(name, "--help")).toMatch(/Exit codes:\s+0/);
});

test.each(COMMANDS.filter((name) => !WITHOUT_JSON.has(name)))(
  "%s speaks JSON where it is asked to",
  async (name) => {
    expect(await printed(name, "--help")).toContain("--json");
  },
);
