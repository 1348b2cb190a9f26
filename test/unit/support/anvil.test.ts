import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { startAnvil } from "../../support/anvil.ts";

/** More than a node keeps in memory. */
const BLOCKS = "0x400";

test("a node leaves no states of old blocks behind", async () => {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-test-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  vi.stubEnv("TMPDIR", folder);
  onTestFinished(() => void vi.unstubAllEnvs());
  const node = await startAnvil([]);
  await node.rpc("anvil_mine", [BLOCKS]);
  const left = await readdir(folder, { recursive: true });
  expect(left.some((name) => name.includes("anvil-state"))).toBe(true);
  await node.stop();
  expect(await readdir(folder)).toEqual([]);
});
