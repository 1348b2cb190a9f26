/** Runs a command line in this process, which costs a hundredth of a process of its own. */
import { vi } from "vitest";
import { run } from "../../../src/cli/cli.ts";
import type { Finished } from "../../support/serve.ts";

export async function runHere(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Finished> {
  for (const [name, value] of Object.entries({ NO_COLOR: "1", ...env })) vi.stubEnv(name, value);
  const [stdout, stderr] = [collect(process.stdout), collect(process.stderr)];
  try {
    const code = await run(words, "test");
    return { code, stdout: stdout.text(), stderr: stderr.text() };
  } finally {
    stdout.restore();
    stderr.restore();
    vi.unstubAllEnvs();
  }
}

function collect(stream: NodeJS.WriteStream) {
  const parts: string[] = [];
  const spy = vi.spyOn(stream, "write").mockImplementation((part) => {
    parts.push(String(part));
    return true;
  });
  return { text: () => parts.join(""), restore: () => spy.mockRestore() };
}
