/** `coinslot try`: somebody's own backend, sold on a local chain and bought once. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { runHere } from "./run-here.ts";

test(
  "sells the URL once on a real chain, and leaves nothing behind",
  { timeout: 90_000 },
  async () => {
    const asked: string[] = [];
    const backend = createServer((request, response) => {
      asked.push(String(request.url));
      response.end("fine");
    });
    const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
    const url = `http://127.0.0.1:${port}/weather?city=Oslo`;
    const options = ["--route", "GET /weather", "--price", "$0.02", "--once", "--json"];
    const { code, stdout, stderr } = await runHere(["try", url, ...options]);
    const told = JSON.parse(stdout);
    expect({ code, told }).toMatchObject({ code: 0, told: { code: 0, paidAtomic: "20000" } });
    expect(asked).toEqual(["/weather?city=Oslo"]);
    expect(stderr).toMatch(/^sold: 0x[0-9a-fA-F]{40} was paid 0\.02 USDC$/m);
    expect(told.buyAgain).toMatch(
      /^coinslot pay 'http:\/\/localhost:\d+\/weather\?city=Oslo' --key file:/,
    );
    expect(existsSync(dirname(told.config))).toBe(false);
    await expect(fetch(told.rpcUrl)).rejects.toThrow("fetch failed");
    await drain(backend, AbortSignal.timeout(1_000));
  },
);

test.each(["as it has begun", "while the backend is asked"])(
  "leaves nothing behind where Ctrl-C ends it %s",
  { timeout: 90_000 },
  async (when) => {
    const folder = await mkdtemp(join(tmpdir(), "coinslot-ended-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const asked = Promise.withResolvers<void>();
    const backend = createServer(() => asked.resolve());
    const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
    onTestFinished(() => drain(backend, AbortSignal.abort()));
    const main = process.env["COINSLOT_MAIN"] ?? join(import.meta.dirname, "../../../src/main.ts");
    const words = [main, "try", `http://127.0.0.1:${port}/weather`, "--once"];
    const env = { ...process.env, TMPDIR: folder };
    const child = spawn(process.execPath, words, { detached: true, stdio: "ignore", env });
    const ended = once(child, "close");
    const left = async () => (await readdir(folder)).filter((name) => name.startsWith("coinslot-"));
    await expect.poll(async () => (await left()).length, { timeout: 30_000 }).toBe(2);
    if (when === "while the backend is asked") await asked.promise;
    // A terminal tells all processes of its group.
    process.kill(-(child.pid ?? 0), "SIGINT");
    await ended;
    expect(child.exitCode).toBe(1);
    await expect.poll(left).toEqual([]);
  },
);

test.each([
  ["what is no URL", 2, ["localhost:3000"], "the URL of a backend looks like"],
  ["a route that is none", 1, ["http://127.0.0.1:1/", "--route", "x"], "routes"],
] as const)("refuses %s", { timeout: 60_000 }, async (_, code, words, said) => {
  const told = await runHere(["try", ...words, "--once"]);
  expect(told.stderr).toContain(said);
  expect(told.code).toBe(code);
});

test("says where its chain is to be had where there is none", async () => {
  const told = await runHere(["try", "http://127.0.0.1:1/", "--once"], { ANVIL: "/nowhere/anvil" });
  expect(told.code).toBe(1);
  expect(told.stderr).toMatch(
    /coinslot try: anvil did not start: there is no such command; .*PATH.*ANVIL/,
  );
});
