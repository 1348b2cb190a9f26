/** What `doctor` says of programs that a gateway would start. */
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { commandChecks } from "../../../../src/diagnosis/doctor/command-checks.ts";
import { selling } from "../selling.ts";

const LIMITS = {
  processes: 1,
  perClient: 1,
  idleMs: 1_000,
  lifeMs: 1_000,
  messageBytes: 1_024,
  memoryBytes: null,
};

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-command-"));
  await mkdir(join(folder, "bin"));
  await writeFile(join(folder, "bin", "server"), "#!/bin/sh\n");
  await writeFile(join(folder, "bin", "plain"), "#!/bin/sh\n");
  await chmod(join(folder, "bin", "server"), 0o755);
});

afterEach(() => rm(folder, { recursive: true, force: true }));

async function found(run: readonly string[], cwd: string | null = null, temporary = folder) {
  const upstreams = selling({ routes: ["/mcp: free"] }).upstreams.map((upstream) => ({
    ...upstream,
    command: { run, cwd, env: [], ...LIMITS },
  }));
  const around = { path: `/nowhere:${join(folder, "bin")}`, folder: temporary };
  const checks = commandChecks({ upstreams }, around);
  const { signal } = new AbortController();
  const findings = await Promise.all(checks.map((check) => check.run(signal)));
  return findings.flat().map(({ status, message }) => `${status} ${message}`);
}

test("a program is looked for where it would be, and by whom it may be started", async () => {
  const at = (name: string): string => join(folder, "bin", name);
  expect(await found(["server"])).toEqual([`ok ${at("server")} can be started`]);
  expect(await found([at("server")])).toEqual([`ok ${at("server")} can be started`]);
  expect(await found(["./bin/server"], folder)).toEqual([`ok ${at("server")} can be started`]);
  for (const each of ["plain", at("plain")])
    expect(await found([each])).toEqual([`fail ${at("plain")} is there, and may not be started`]);
  expect(await found(["none"])).toEqual(["fail there is no program none in PATH"]);
  expect(await found(["./none"], folder)).toEqual([
    `fail there is no program ${join(folder, "none")}`,
  ]);
  // A folder is no program.
  expect(await found(["bin"], folder)).toEqual(["fail there is no program bin in PATH"]);
});

test("so are its folder, and the one where its socket will be", async () => {
  const gone = join(folder, "gone");
  expect(await found(["server"], gone)).toEqual([`fail its folder ${gone} is not there`]);
  expect(await found(["server"], null, gone)).toEqual([
    `fail the temporary folder ${gone} cannot be written`,
    `ok ${join(folder, "bin", "server")} can be started`,
  ]);
});
