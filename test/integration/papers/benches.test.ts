/**
 * Every bench that a paper names works: the command's own script, with everything once and as small as it goes. What
 * it measures so is not looked at.
 */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test, vi } from "vitest";
import { hasChromium } from "../../browser/chromium.ts";
import { BUNDLING } from "../../support/bundled-gateway.ts";
import { ROOT } from "../../support/paper-commands.ts";

// Many processes are started, on a machine that is busy with other tests.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 60_000 });

const run = promisify(execFile);
async function bench(script: string, ...words: readonly string[]): Promise<string> {
  const args = [join(ROOT, "test/bench", script), ...words];
  const env = { ...process.env, BENCH: "short" };
  return (await run(process.execPath, args, { cwd: ROOT, env })).stdout;
}

/** What each prints when it has come to its end. */
test.each([
  ["routing.ts", [], /new URL: \d+ ns/],
  ["credits.ts", [], /a question to the ledger for each: \d/],
  ["credits-http.ts", [], /a request from a balance, a free one = 1: \d/],
  ["discovery.ts", [], /every page takes at most/],
  ["telemetry.ts", [], /metrics and log of a free request/],
  ["verify.ts", [], /CPU as a multiple of x402's, tape: \d/],
  ["settle.ts", [], /gas for one payment: \d/],
  [
    "paid.ts",
    [],
    /x402-express .*\n.*from a balance.*\n.* as a multiple, 16 at once: \d[^]*those of x402-express, 16 at once: \d/,
  ],
  ["paid.ts", ["--before", ROOT], /the version before's, 16 at once: \d/],
  ["sizing.ts", [], /what the reckoning is off by, node: \d/],
  ["solana-verify.ts", [], /CPU as a multiple of @x402\/svm.*'s, tape: \d/],
  ["solana-settle.ts", [], /payments said to be settled less those paid: 0/],
  ["griefing-evm.ts", ["1 wallet with $0.01, 40 payments, front-running"], /front-running +\d/],
  ["griefing-overdraft.ts", [], /settlements that moved nothing, for each price paid: \d/],
  ["griefing-solana.ts", ["2", "tokens"], /a low bid\n.*\n.* cents \d/],
])("%s %j", async (script, words, end) => {
  expect(await bench(script, ...words)).toMatch(end);
});

test("proxy.ts, all that is told of it", async () => {
  const parts = ["payment-required", "free-route", "paid", "events", "slow-readers"];
  const told = await bench("proxy/proxy.ts", ...parts);
  expect(told).toMatch(/402 answers, 98 routes in turn\n[^]*GET, 10 MB\n[^]*Paid, 1 KiB/);
  expect(told).toMatch(/Paid events, 1 streams[^]*2 slow buyers of 10 MB[^]*\nAims\n/);
});

test.skipIf(!hasChromium)("page.ts (in Chromium: apt-get install chromium)", async () => {
  expect(await bench("page.ts")).toMatch(/less work for the browser\n.*: yes/);
});

test("start-up.ts, of the bundle that the suite makes as the script `build` does", async () => {
  const { scripts } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
  expect(scripts["bench:start-up"]).toBe("npm run -s build && node test/bench/start-up.ts");
  const [, options = ""] = /rolldown (.+?) &&/.exec(scripts.build) ?? [];
  expect(options).toBe([...BUNDLING, "--dir", "dist"].join(" "));
  const told = await bench("start-up.ts", "--bundle", process.env["COINSLOT_MAIN"] ?? "none");
  expect(told).toMatch(/bundle's time as a multiple of the source's, serve, 100 routes: \d/);
});
