/** deploy/systemd: the unit is one, closes what it can, and runs a configuration that passes. */
import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runCoinslot } from "../../support/serve.ts";
import { checkShipped, DEPLOY, drainSeconds, KEY } from "./shipped-config.ts";

const UNIT = join(DEPLOY, "systemd/coinslot.service");
const CONFIG = join(DEPLOY, "systemd/gateway.yaml");
const analyzing = spawnSync("systemd-analyze", ["--version"]).error === undefined;
/** Of 10: what systemd itself calls OK begins below 5, and a service of the network cannot have much less. */
const MOST_EXPOSED = 1.2;

function verify(file: string) {
  return spawnSync("systemd-analyze", ["verify", file], { encoding: "utf8" });
}

/** Values of a key, in their order. */
async function settings(key: string): Promise<readonly string[]> {
  const lines = (await readFile(UNIT, "utf8")).split("\n");
  return lines
    .filter((line) => line.startsWith(`${key}=`))
    .map((line) => line.slice(key.length + 1));
}

describe.skipIf(!analyzing)(
  `systemd-analyze (${analyzing ? "installed" : "apt-get install -y systemd"})`,
  () => {
    let folder: string;
    let unit: string;

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "coinslot-systemd-"));
      unit = join(folder, "coinslot.service");
      // It looks whether the program is there: the one that is.
      const text = await readFile(UNIT, "utf8");
      await writeFile(unit, text.replaceAll("/usr/bin/node", process.execPath));
    });

    afterAll(() => rm(folder, { recursive: true }));

    test("has nothing to say against the unit, and something against a mistake in it", async () => {
      expect(verify(unit)).toMatchObject({ status: 0, stderr: "" });
      const wrong = join(folder, "wrong.service");
      await writeFile(wrong, (await readFile(unit, "utf8")).replace("UMask=", "UMusk="));
      expect(verify(wrong).stderr).toContain("UMusk");
    });

    test("finds it closed", () => {
      const words = ["security", "--offline=true", "--no-pager", unit];
      const { stdout } = spawnSync("systemd-analyze", words, { encoding: "utf8" });
      const [, exposure = ""] =
        /Overall exposure level for coinslot\.service: ([\d.]+)/.exec(stdout) ?? [];
      expect(Number.parseFloat(exposure), stdout).toBeLessThanOrEqual(MOST_EXPOSED);
    });
  },
);

test("its configuration passes check --strict, as the service and as an operator see it", async () => {
  const files = { "base-sepolia-key": `${KEY}\n` };
  const credentials = "/etc/coinslot/credentials";
  const operator = await checkShipped(CONFIG, { path: credentials, files, env: {} });
  const service = await checkShipped(CONFIG, {
    path: "/run/credentials/coinslot.service",
    files,
    env: {
      CREDENTIALS_DIRECTORY: "/run/credentials/coinslot.service",
      STATE_DIRECTORY: "/var/lib/coinslot",
    },
  });
  for (const { strict, config } of [operator, service]) {
    expect(strict).toMatchObject({ code: 0, stderr: "" });
    expect(config.store).toEqual({ kind: "sqlite", path: "/var/lib/coinslot/coinslot.db" });
  }
  const [loaded] = await settings("LoadCredential");
  expect(loaded).toBe("base-sepolia-key:%E/coinslot/credentials/base-sepolia-key");
  expect(await settings("StateDirectory")).toEqual(["coinslot"]);
  const [patience = ""] = await settings("TimeoutStopSec");
  expect(Number.parseInt(patience, 10)).toBeGreaterThan(drainSeconds(service.config));
});

test("is not tried again where that is of no use, by the exit codes that serve has", async () => {
  const [codes = ""] = await settings("RestartPreventExitStatus");
  const refused = await runCoinslot(["serve", join(DEPLOY, "compose.yaml")]);
  const misused = await runCoinslot(["serve"]);
  expect(codes.split(" ").map(Number)).toEqual([misused.code, refused.code]);
  for (const command of [...(await settings("ExecStart")), ...(await settings("ExecReload"))]) {
    const [, name = ""] = /main\.js (\w+) %E\/coinslot\/gateway\.yaml$/.exec(command) ?? [];
    expect((await runCoinslot([name, "--help"])).code, command).toBe(0);
  }
});
