/** The books are read in a thread of its own, for which nobody waits who has nothing else to do. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

const MODULE = join(import.meta.dirname, "../../../src/app/ledger-accounts.ts");
const PATIENCE_MS = 10_000;

test("a process that has closed everything ends, though its books are still being read", async () => {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-books-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const endless = join(folder, "endless.mjs");
  await writeFile(endless, "setInterval(() => undefined, 1_000);");
  const main = join(folder, "main.mjs");
  const text = `
    import { accountsOf } from ${JSON.stringify(MODULE)};
    const accounts = accountsOf({ store: { kind: "sqlite", path: "none" } }, {}, ${JSON.stringify(endless)});
    void accounts({ from: "2026-08-01", to: "2026-08-30" }).catch(() => undefined);`;
  await writeFile(main, text);
  const child = spawn(process.execPath, [main], {
    stdio: "ignore",
    timeout: PATIENCE_MS,
    killSignal: "SIGKILL",
  });
  await once(child, "close");
  expect([child.exitCode, child.signalCode]).toEqual([0, null]);
});
