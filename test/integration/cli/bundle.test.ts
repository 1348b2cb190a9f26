/** The bundle, as an image holds it: alone in a folder, without the packages that it was made of. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SOLANA_ENV, SolanaStage, sales } from "../../support/solana-stage.ts";
import { Site } from "../../support/serve.ts";

const ROOT = join(import.meta.dirname, "../../..");
const TIMEOUT_MS = 60_000;

const closing = new AsyncDisposableStack();
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-bundle-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  // The project's own command, but for where it writes.
  const { scripts } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
  const [, options] = /rolldown (.+?) &&/.exec(scripts.build) ?? [];
  const words = (options ?? "").replace("--dir dist", `--dir ${join(folder, "dist")}`).split(" ");
  const child = spawn(join(ROOT, "node_modules/.bin/rolldown"), words, { cwd: ROOT });
  expect(await exitOf(child)).toBe(0);
}, TIMEOUT_MS);

afterAll(() => closing.disposeAsync());

test.each([1, 2])(
  "sells on Solana with %i processes that serve, and loads no native library for it",
  async (workers) => {
    await using stage = await SolanaStage.open();
    await using ports = await Site.create();
    const url = `http://127.0.0.1:${ports.port}`;
    const config = join(folder, "gateway.yaml");
    const own = `listen: 127.0.0.1:${ports.port}\npublicUrl: ${url}\nstore: sqlite:${join(folder, `${workers}.db`)}\n`;
    await writeFile(config, `${own}workers: ${workers}\n${stage.yaml()}`);
    const main = join(folder, "dist/main.js");
    const gateway = spawn(process.execPath, [main, "serve", config], {
      cwd: folder,
      env: { PATH: process.env["PATH"] ?? "", ...SOLANA_ENV },
      stdio: ["ignore", "inherit", "pipe"],
    });
    await using _ = {
      async [Symbol.asyncDispose]() {
        gateway.kill("SIGTERM");
        expect(await exitOf(gateway)).toBe(0);
      },
    };
    await answering(url, gateway);
    const transaction = stage.pay(await stage.quote(`${url}/weather`));
    expect(await stage.present(`${url}/weather`, transaction)).toMatchObject({ status: 200 });
    expect(await stage.moved()).toEqual(sales(1n));

    const loaded = await readFile(`/proc/${gateway.pid}/maps`, "utf8");
    expect(loaded.split("\n").filter((line) => line.endsWith(".node"))).toEqual([]);
  },
  TIMEOUT_MS,
);

async function exitOf(child: ChildProcess): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return child.exitCode;
}

async function answering(url: string, child: ChildProcess): Promise<void> {
  const deadline = AbortSignal.timeout(TIMEOUT_MS);
  while (child.exitCode === null && !deadline.aborted) {
    const response = await fetch(`${url}/weather`).catch(() => undefined);
    if (response?.status === 402) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("the bundle never answered");
}
