/** `coinslot try`: somebody's own backend, sold on a local chain and bought once. */
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import { dirname } from "node:path";
import { expect, test } from "vitest";
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
