/** The package that `npm pack` makes: installed into an empty folder, with no network, it is the whole product. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import packageJson from "../../../package.json" with { type: "json" };
import { Site } from "../../support/serve.ts";
import { untilAnswer } from "../../support/until-answer.ts";

const ROOT = join(import.meta.dirname, "../../..");
const TIMEOUT_MS = 90_000;
/** What it is made of; npm's own settings are not the user's. */
const MADE_OF = [
  "src",
  "bundle",
  "package.json",
  "package-lock.json",
  "tsconfig.json",
  "README.md",
  "LICENSE",
];
const run = promisify(execFile);
/** With the Node that the project runs on before any other. */
const env = {
  ...process.env,
  PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter),
};

let folder: string;
let installed: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-package-"));
  const sources = join(folder, "sources");
  installed = join(folder, "installed");
  await mkdir(sources);
  await mkdir(installed);
  for (const name of MADE_OF) {
    await cp(join(ROOT, name), join(sources, name), { recursive: true });
  }
  await symlink(join(ROOT, "node_modules"), join(sources, "node_modules"));
  const packed = await run("npm", ["pack", "--json", "--silent", "--pack-destination", folder], {
    cwd: sources,
    env,
  });
  expect(packed.stdout).toContain(`coinslot-${packageJson.version}.tgz`);
  const file = join(folder, `coinslot-${packageJson.version}.tgz`);
  const quietly = ["--offline", "--no-audit", "--no-fund", "--loglevel=error"];
  await run("npm", ["install", ...quietly, file], { cwd: installed, env });
}, TIMEOUT_MS);

afterAll(() => rm(folder, { recursive: true, force: true }));

/** Its output, whatever it exits with. */
async function coinslot(words: readonly string[]): Promise<string> {
  const npx = run("npx", ["--offline", "--loglevel=error", "coinslot", ...words], {
    cwd: installed,
    env,
    timeout: 30_000,
  });
  return npx.then(
    ({ stdout, stderr }) => stdout + stderr,
    ({ stdout, stderr }: { readonly stdout: string; readonly stderr: string }) => stdout + stderr,
  );
}

test("holds nothing but the bundle, and what the bundle cannot hold", async () => {
  const inside = join(installed, "node_modules/coinslot");
  expect((await readdir(inside)).toSorted()).toEqual(
    ["LICENSE", "README.md", "dist", "node_modules", "package.json"].toSorted(),
  );
  expect(await readdir(join(installed, "node_modules"))).not.toContain("viem");
  expect(await readdir(join(inside, "node_modules"))).toContain("secp256k1");
});

test("says its version, and judges a file", { timeout: TIMEOUT_MS }, async () => {
  expect((await coinslot(["--version"])).trim()).toBe(packageJson.version);
  await writeFile(join(installed, "wrong.yaml"), "listen: nowhere\n");
  expect(await coinslot(["check", "wrong.yaml"])).toContain("wrong.yaml:1:9: error: ");
});

test("serves", { timeout: TIMEOUT_MS }, async () => {
  await using site = await Site.create();
  const config = `listen: 127.0.0.1:${site.port}
publicUrl: http://127.0.0.1:${site.port}
upstream: http://127.0.0.1:9
unmatched: deny
routes:
  GET /free: free
`;
  await writeFile(join(installed, "gateway.yaml"), config);
  const main = join(installed, "node_modules/.bin/coinslot");
  const serving = spawn(main, ["serve", "gateway.yaml"], { cwd: installed, env, stdio: "ignore" });
  try {
    // Its backend is not there, which the gateway says.
    const url = `http://127.0.0.1:${site.port}/free`;
    expect((await untilAnswer(serving, { url, withinMs: TIMEOUT_MS })).status).toBe(502);
  } finally {
    serving.kill("SIGTERM");
    await once(serving, "exit");
  }
  expect(serving.exitCode).toBe(0);
});

test("says in one sentence that Node is too old for it", async () => {
  const old = join(folder, "old-node.mjs");
  const pretend = `Object.defineProperty(process, "versions", { value: { node: "20.20.2" } });`;
  await writeFile(old, pretend);
  const main = join(installed, "node_modules/coinslot/dist/main.js");
  const started = run(process.execPath, ["--import", old, main, "serve", "x.yaml"], { env });
  await expect(started).rejects.toMatchObject({
    code: 1,
    stdout: "",
    stderr: "coinslot needs Node 24 or newer, and this is Node 20.20.2\n",
  });
});
