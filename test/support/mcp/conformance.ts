/** The official conformance suite of MCP, in its server mode, as a process of its own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const SUITE = fileURLToPath(import.meta.resolve("@modelcontextprotocol/conformance/dist/index.js"));

/** By scenario: its checks in their order, each with how it went: `ping: SUCCESS`. */
export type ConformanceResults = Readonly<Record<string, readonly string[]>>;

/** Runs every scenario that the suite has for servers against one URL, which has to be of this machine. */
export async function runConformance(url: string): Promise<ConformanceResults> {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-conformance-"));
  try {
    const child = spawn(
      process.execPath,
      [SUITE, "server", "--url", url, "--suite", "all", "--output-dir", folder],
      { cwd: folder, stdio: "ignore" },
    );
    await once(child, "close");
    const results: [string, readonly string[]][] = [];
    for (const name of (await readdir(folder)).sort()) {
      const text = await readFile(join(folder, name, "checks.json"), "utf8");
      results.push([scenarioOf(name), checksOf(JSON.parse(text))]);
    }
    return Object.fromEntries(results);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Folders are named `server-<scenario>-<time>`. */
function scenarioOf(folder: string): string {
  return folder.replace(/^server-/, "").replace(/-\d{4}-\d\d-\d\dT.*$/, "");
}

function checksOf(checks: unknown): readonly string[] {
  if (!Array.isArray(checks)) throw new Error("the suite has written something else than checks");
  return checks.map(({ id, status, errorMessage }) => {
    return `${id}: ${status}${errorMessage === undefined ? "" : ` (${errorMessage})`}`;
  });
}
