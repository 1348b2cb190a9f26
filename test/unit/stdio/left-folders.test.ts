/** What killed gateways have left, and what is not for anybody to remove. */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Commands } from "../../../src/stdio/commands.ts";
import { FOLDER_PREFIX, removeLeftFolders } from "../../../src/stdio/left-folders.ts";
import { CommandMeters } from "../../../src/telemetry/command-meter.ts";
import { MetricRegistry } from "../../../src/telemetry/metric-registry.ts";
import { systemTime } from "../../../src/time/time.ts";
import { stdioCommand } from "../../support/mcp/stdio.ts";

let parent: string;

beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), "coinslot-left-"));
});

afterEach(() => rm(parent, { recursive: true, force: true }));

const OLD = new Date(0);

async function folder(): Promise<string> {
  const path = join(parent, FOLDER_PREFIX + randomUUID());
  await mkdir(path, { mode: 0o700 });
  return path;
}

/** As a process leaves it that is killed. */
async function leaveSocket(path: string): Promise<void> {
  const script = `require("node:net").createServer().listen(${JSON.stringify(path)}, () => console.log("there"))`;
  const child = spawn(process.execPath, ["--eval", script]);
  await once(child.stdout, "data");
  child.kill("SIGKILL");
  await once(child, "exit");
}

const removed = async (own = ""): Promise<readonly string[]> =>
  removeLeftFolders(parent, own, Date.now());

test("what nobody listens at any more is removed, and what somebody does is not", async () => {
  const dead = await folder();
  await leaveSocket(join(dead, "a"));
  await leaveSocket(join(dead, "b"));
  const alive = await folder();
  await leaveSocket(join(alive, "a"));
  const server = createServer();
  await once(server.listen(join(alive, "b")), "listening");
  const empty = await folder();
  const own = await folder();
  for (const path of [dead, alive, empty, own]) await utimes(path, OLD, OLD);
  expect(new Set(await removed(own))).toEqual(new Set([dead, empty]));
  expect(new Set(await readdir(parent))).toEqual(new Set([basename(alive), basename(own)]));
  expect(await readdir(alive)).toEqual(["a", "b"]);
  server.close();
  await once(server, "close");
});

test("what was made a moment ago, is open to others, has something else in it, or is elsewhere is left", async () => {
  const fresh = await folder();
  await leaveSocket(join(fresh, "a"));
  const open = await folder();
  await chmod(open, 0o755);
  const used = await folder();
  await writeFile(join(used, "a"), "");
  const other = join(parent, "coinslot-somebody");
  await mkdir(other, { mode: 0o700 });
  const elsewhere = await mkdtemp(join(tmpdir(), "coinslot-left-"));
  const link = join(parent, FOLDER_PREFIX + randomUUID());
  await symlink(elsewhere, link);
  for (const path of [open, used, other, elsewhere]) await utimes(path, OLD, OLD);
  expect(await removed()).toEqual([]);
  expect(await readdir(parent)).toHaveLength(5);
  await rm(elsewhere, { recursive: true });
});

test("a gateway does so when it begins to listen for commands", async () => {
  vi.stubEnv("TMPDIR", parent);
  const dead = await folder();
  await leaveSocket(join(dead, "a"));
  await utimes(dead, OLD, OLD);
  const meters = new CommandMeters(new MetricRegistry());
  const commands = new Commands({ logger: pino({ level: "silent" }), time: systemTime, meters });
  const settings = { name: "tools", command: stdioCommand("sdk"), env: {}, cwd: null };
  const limits = { messageBytes: 1_024, memoryBytes: null, processes: 1, perClient: 1 };
  const lives = { idleMs: 1_000, lifeMs: 1_000, origins: "any" } as const;
  await commands.open([{ ...settings, ...limits, ...lives }]);
  expect(await readdir(parent)).toEqual([basename(commands.folder)]);
  await commands.close();
  expect(await readdir(parent)).toEqual([]);
  vi.unstubAllEnvs();
});
