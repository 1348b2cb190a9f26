/**
 * What the Dockerfile puts into an image, as far as it can be had without one: the bundle alone in a folder that nobody
 * may write to, run by a user who may do nothing, with each part that is loaded only when it is asked for.
 */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  chmod,
  glob,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freePort } from "../../support/free-port.ts";
import { FIRST } from "../../support/listener-tls.ts";
import { freshAccount } from "../../support/payer.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import type { Finished } from "../../support/serve.ts";
import { untilAnswer } from "../../support/until-answer.ts";
import { startCollector } from "../telemetry/collector.ts";
import { startBackend, type Noted } from "../telemetry/stage.ts";

// Processes are started and ended, and a bundle is built.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const ROOT = join(import.meta.dirname, "../../..");
const PATIENCE_MS = 30_000;
/** Nobody, who may do nothing. */
const NOBODY = [
  "--reuid=65534",
  "--regid=65534",
  "--clear-groups",
  "--no-new-privs",
  "--inh-caps=-all",
  "--bounding-set=-all",
];
const CANNOT_BECOME =
  spawnSync("setpriv", [...NOBODY, process.execPath, "--version"]).status === 0
    ? null
    : "needs root and setpriv: apt-get install -y util-linux";

let folder: string;
let app: string;

/** As the script `build` of package.json, but for where it writes. */
async function build(target: string): Promise<void> {
  const { scripts } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
  const [, options = ""] = /rolldown (.+?) &&/.exec(scripts.build) ?? [];
  const words = options.replace("--dir dist", `--dir ${target}`).split(" ");
  const bundler = join(ROOT, "node_modules/.bin/rolldown");
  expect(spawnSync(bundler, words, { cwd: ROOT }).status).toBe(0);
  const addon = String(scripts["build:addon"]).replaceAll("dist/", `${target}/`);
  expect(spawnSync("sh", ["-c", addon], { cwd: ROOT }).status).toBe(0);
}

async function closeToWriting(path: string): Promise<void> {
  for await (const name of glob("**/*", { cwd: path })) {
    const each = join(path, name);
    await chmod(each, (await stat(each)).isDirectory() ? 0o555 : 0o444);
  }
  await chmod(path, 0o555);
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-image-"));
  await chmod(folder, 0o755);
  app = join(folder, "app");
  await build(app);
  await closeToWriting(app);
});

afterAll(async () => {
  for await (const name of glob("app/**/", { cwd: folder })) await chmod(join(folder, name), 0o755);
  await rm(folder, { recursive: true, force: true });
});

type Variables = Readonly<Record<string, string>>;

function launch(words: readonly string[], env: Variables, cwd = app): ChildProcess {
  const args = [...NOBODY, process.execPath, join(app, "main.js"), ...words];
  const stdio: ["ignore", "pipe", "pipe"] = ["ignore", "pipe", "pipe"];
  return spawn("setpriv", args, { cwd, env: { PATH: process.env["PATH"] ?? "", ...env }, stdio });
}

function collect(child: ChildProcess): { stdout: string; stderr: string } {
  const said = { stdout: "", stderr: "" };
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (said.stdout += text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (said.stderr += text));
  return said;
}

async function run(words: readonly string[], env: Variables = {}, cwd = app): Promise<Finished> {
  const child = launch(words, env, cwd);
  const said = collect(child);
  await once(child, "close");
  return { code: child.exitCode, ...said };
}

describe("the Dockerfile", () => {
  test("copies what there is, runs as nobody in particular, and does what the build script does", async () => {
    const text = await readFile(join(ROOT, "Dockerfile"), "utf8");
    const copied = [...text.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, names = ""]) =>
      names.split(" "),
    );
    const kept = (await readFile(join(ROOT, ".dockerignore"), "utf8")).split("\n").slice(1, -1);
    for (const name of copied) await stat(join(ROOT, name));
    expect(kept.map((line) => line.replace("!", "")).toSorted()).toEqual(copied.toSorted());
    expect(text).toContain("RUN npm run build\n");
    expect(text).toMatch(/^USER [1-9]\d*:[1-9]\d*$/m);
    expect(text).toMatch(/^STOPSIGNAL SIGTERM$/m);
    expect(text).toMatch(/^ENTRYPOINT \["node", "--max-semi-space-size=8", "\/app\/main\.js"\]$/m);
    const { devDependencies } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
    expect(text).toContain(`ARG NODE=node:${devDependencies.node}-`);
  });
});

describe.skipIf(CANNOT_BECOME !== null)(`in its folder (${CANNOT_BECOME ?? "as nobody"})`, () => {
  let chain: Chain;
  let postgres: PostgresServer;
  let backend: Noted;
  const signer = freshAccount();

  beforeAll(async () => {
    [chain, postgres, backend] = await Promise.all([startChain(), startPostgres(), startBackend()]);
    await chain.fund(signer.address, 0n, 10n ** 18n);
  });

  afterAll(async () => {
    await Promise.all([chain.stop(), postgres.stop(), backend[Symbol.asyncDispose]()]);
  });

  test("it sells with PostgreSQL, TLS, two workers and traces, and writes nothing", async () => {
    const collector = await startCollector();
    await using _ = collector;
    const [port, adminPort] = [await freePort(), await freePort()];
    const etc = join(folder, "etc");
    await mkdir(etc);
    await writeFile(join(etc, "tls.crt"), FIRST.cert);
    await writeFile(join(etc, "tls.key"), FIRST.key);
    await writeFile(join(etc, "signer"), signer.privateKey);
    const url = `https://localhost:${port}`;
    await writeFile(
      join(etc, "gateway.yaml"),
      `listen: [{ address: "127.0.0.1:${port}", tls: { cert: tls.crt, key: tls.key } }]
publicUrl: ${url}
admin: 127.0.0.1:${adminPort}
upstream: ${backend.url}
payTo: "${freshAccount().address}"
accept: [base-sepolia]
facilitator:
  embedded:
    networks: { base-sepolia: { rpc: ["${chain.rpcUrl}"], signers: [file:./signer] } }
store: ${await postgres.database()}
workers: 2
shutdown: 5s
unmatched: deny
logging: { level: info, format: pretty }
routes: { GET /weather: { price: $0.01, description: Weather } }
`,
    );
    const file = join(etc, "gateway.yaml");
    const before = await readdir(folder, { recursive: true });
    const gateway = launch(["serve", file], { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    const said = collect(gateway);
    try {
      const ready = {
        url: `http://127.0.0.1:${adminPort}/readyz`,
        status: 200,
        withinMs: PATIENCE_MS,
      };
      await untilAnswer(gateway, ready, () => said.stderr);
      const doctor = await run(["doctor", file], { NODE_EXTRA_CA_CERTS: join(etc, "tls.crt") });
      expect(doctor.stdout + doctor.stderr).toContain(signer.address);
      expect(doctor.stdout + doctor.stderr).not.toMatch(/cannot find|ERR_MODULE/i);

      const { privateKey } = await richBuyer(chain);
      const bought = await run(["pay", `${url}/weather`, "--yes"], {
        COINSLOT_KEY: privateKey,
        NODE_EXTRA_CA_CERTS: join(etc, "tls.crt"),
      });
      expect(bought).toMatchObject({ code: 0, stdout: "fine" });
      expect(bought.stderr).toMatch(/^paid 0\.01 USDC/m);
      expect(bought.stderr).not.toContain("Warning");
    } finally {
      gateway.kill("SIGTERM");
      if (gateway.exitCode === null) await once(gateway, "close");
    }
    expect([gateway.exitCode, said.stderr]).toEqual([0, expect.not.stringContaining("rror:")]);
    expect(collector.spans.map(({ name }) => name)).toEqual(
      expect.arrayContaining([expect.stringContaining("GET")]),
    );
    expect(await readdir(folder, { recursive: true })).toEqual(before);
  });

  test("init, keygen, check, schema and routes work, and write where they are told to", async () => {
    const home = await mkdtemp(join(folder, "home-"));
    await chmod(home, 0o777);
    const payee = freshAccount().address;
    const words = ["init", "--upstream", backend.url, "--pay-to", payee, "--network", "base"];
    expect(await run(words, {}, home)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("base"),
    });
    expect((await readdir(home)).toSorted()).toEqual([
      "coinslot-evm.key",
      "gateway.schema.json",
      "gateway.yaml",
    ]);
    for (const rest of [["check"], ["routes"]]) {
      expect(await run([...rest, "gateway.yaml"], {}, home)).toMatchObject({ code: 0 });
    }
    expect((await run(["keygen", "solana", "--print"])).stdout).toMatch(/\S/);
    expect((await run(["keygen", "solana"])).stderr).toContain("could not be written");
  });
});
