/** The bundle, as an image holds it: alone in a folder, without the packages that it was made of. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { folderOf, NOTICES_FILE, readNotice } from "../../../bundle/notices.ts";
import { SOLANA_ENV, SolanaStage, sales } from "../../support/solana-stage.ts";
import { Site } from "../../support/serve.ts";
import { untilAnswer } from "../../support/until-answer.ts";

const ROOT = join(import.meta.dirname, "../../..");
const TIMEOUT_MS = 60_000;

const closing = new AsyncDisposableStack();
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-bundle-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  // The project's own command, but for where it writes, and that it says of what.
  const { scripts } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
  const [, options] = /rolldown (.+?) &&/.exec(scripts.build) ?? [];
  const words = (options ?? "").replace("--dir dist", `--dir ${join(folder, "dist")}`).split(" ");
  words.push("--sourcemap");
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
    await untilAnswer(gateway, { url: `${url}/weather`, status: 402, withinMs: TIMEOUT_MS });
    const transaction = stage.pay(await stage.quote(`${url}/weather`));
    expect(await stage.present(`${url}/weather`, transaction)).toMatchObject({ status: 200 });
    expect(await stage.moved()).toEqual(sales(1n));

    const loaded = await readFile(`/proc/${gateway.pid}/maps`, "utf8");
    expect(loaded.split("\n").filter((line) => line.endsWith(".node"))).toEqual([]);
  },
  TIMEOUT_MS,
);

test("has with it the licence of each package of which anything is in it", async () => {
  const dist = join(folder, "dist");
  const maps = (await readdir(dist)).filter((name) => name.endsWith(".js.map"));
  const folders = new Set<string>();
  for (const name of maps) {
    const { sources } = JSON.parse(await readFile(join(dist, name), "utf8"));
    for (const source of sources) {
      for (const each of folderOf(resolve(dist, source))) folders.add(each);
    }
  }
  expect(folders.size).toBeGreaterThan(50);
  const notices = await readFile(join(dist, NOTICES_FILE), "utf8");
  for (const each of [...folders, "node_modules/secp256k1", "node_modules/node-gyp-build"]) {
    const { name, version, licence, texts: wanted } = readNotice(resolve(ROOT, each));
    expect(notices).toContain(`\n${name} ${version} (${licence})\n\n${wanted[0]?.trim()}\n`);
    for (const text of wanted) expect(notices).toContain(text.trim());
  }
  expect([...folders].filter((name) => name.includes("rpc-websockets"))).toEqual([]);
});

test.each([
  ["LGPL-3.0-only", /is under LGPL-3.0-only/],
  [undefined, /is under undefined/],
  ["ISC", /has no text/],
])("a package under %s without a text ends the build", async (license, said) => {
  const own = join(folder, `package-${license}`);
  await mkdir(own);
  await writeFile(join(own, "package.json"), JSON.stringify({ name: "a", version: "1", license }));
  expect(() => readNotice(own)).toThrow(said);
});

async function exitOf(child: ChildProcess): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return child.exitCode;
}
