/** `coinslot mcp` buys tools of somebody's MCP server that the gateway sells by their names. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startAgent, type Revision } from "../../support/agents/agent.ts";
import { richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway } from "../../support/gateway.ts";
import { McpStage, type McpStageOptions } from "../../support/mcp/stage.ts";

let chain: Chain;
let folder: string;

beforeAll(async () => {
  chain = await startChain();
  folder = await mkdtemp(join(tmpdir(), "coinslot-sold-tools-"));
});

afterAll(async () => {
  await chain.stop();
  await rm(folder, { recursive: true, force: true });
});

const SERVERS: readonly (readonly [string, McpStageOptions, Revision])[] = [
  ["sessions and streams", {}, "2025-11-25"],
  ["sessions and JSON", { json: true }, "2026-07-28"],
  ["requests alone", { serves: "requests" }, "2026-07-28"],
];

/** Where the newest purchase can be had, as its book has it; it is read past the lock of the process whose it is. */
function sessionIn(state: string): string {
  using book = new DatabaseSync(`${pathToFileURL(state)}?immutable=1`, { readOnly: true });
  return String(
    book.prepare("SELECT session FROM purchases ORDER BY id DESC LIMIT 1").get()?.["session"],
  );
}

describe.each(SERVERS)("a server of %s", (name, options, revision) => {
  const isResumable = name.includes("streams");

  test("is bought from, and again by the next process where the first one dies in a call", async () => {
    await using closing = new AsyncDisposableStack();
    const stage = closing.use(await McpStage.open(options));
    const routes = "\n  /mcp: { tools: { echo: free, quote: $0.01, hold: $0.02 } }\n";
    const gateway = closing.use(await startGateway({ chain, upstreamUrl: stage.origin, routes }));
    const buyer = await richBuyer(chain);
    const charged = async (before: bigint) => before - (await chain.balanceOf(buyer.address));
    const before = await chain.balanceOf(buyer.address);
    const state = join(folder, `${name}.db`);
    const words = ["--seller", new URL(gateway.url).host, "--state", state];
    const setup = { words, env: { COINSLOT_KEY: buyer.privateKey }, revision };
    const url = `${gateway.url}/mcp`;

    await using first = await startAgent(setup);
    const free = await first.call("buy", { url, tool: "echo", arguments: { text: "hello" } });
    expect(free).toMatchObject({ facts: { paid: null }, answer: expect.stringContaining("hello") });
    const bought = await first.call("buy", { url, tool: "quote", arguments: { ticker: "ABC" } });
    expect(bought.facts).toMatchObject({ bought: true, amount: "0.01 USDC ($0.01)" });
    expect(bought.answer).toContain("ABC: 42");
    expect(await charged(before)).toBe(10_000n);

    stage.workshop.hold();
    const lost = first.call("buy", { url, tool: "hold" }).catch(() => "lost");
    await stage.workshop.until(() => stage.workshop.count("hold") === 1);
    // A stream that can be gone on with is known to be one before everything ends.
    if (isResumable) await expect.poll(() => sessionIn(state)).toMatch(/^\S+ \S+ \S+$/);
    process.kill(first.pid, "SIGKILL");
    expect(await lost).toBe("lost");
    await using second = await startAgent(setup);
    const again = second.call("buy", { url, tool: "hold" });
    stage.workshop.release();
    const served = await again;
    expect(served.facts).toMatchObject({ bought: true });
    expect(served.answer).toContain("released");
    expect(await charged(before)).toBe(30_000n);
  });
});
