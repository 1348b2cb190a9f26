/** What one process knows of a session the other does not: goods of a paid call are not had by a free one for that. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { PURSE, present, richBuyer, sign } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway } from "../../support/gateway.ts";
import { McpStage } from "../../support/mcp/stage.ts";

let chain: Chain;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain[Symbol.asyncDispose]());

const PLAIN = {
  "Content-Type": "application/json",
  Accept: "application/json, text/event-stream",
};

function message(told: object, headers: Readonly<Record<string, string>>) {
  return { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", ...told }) };
}

test("what is paid for at one replica comes in no stream of another one", async () => {
  await using stage = await McpStage.open();
  const routes = "{ /mcp: { tools: { hold: $0.02, test_tool_with_progress: free } } }";
  await using one = await startGateway({ chain, upstreamUrl: stage.origin, routes });
  await using other = await startGateway({ chain, upstreamUrl: stage.origin, routes });
  const url = `${one.url}/mcp`;
  const clientInfo = { name: "thief", version: "1" };
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
  const begun = await fetch(url, message({ id: 1, method: "initialize", params }, PLAIN));
  await begun.text();
  const session = { ...PLAIN, "Mcp-Session-Id": begun.headers.get("mcp-session-id") ?? "" };
  await fetch(url, message({ method: "notifications/initialized" }, session));

  const call = (name: string) => {
    const asked = { name, arguments: {}, _meta: { progressToken: name } };
    return message({ id: 7, method: "tools/call", params: asked }, session);
  };
  const account = await richBuyer(chain);
  const shown = { ...session, Accept: "application/json" };
  const header = await sign(account, url, { init: { ...call("hold"), headers: shown } });
  const paid = present(url, header, call("hold"));
  await expect.poll(() => stage.workshop.count("hold")).toBe(1);

  const free = fetch(`${other.url}/mcp`, call("test_tool_with_progress"));
  await expect.poll(() => stage.workshop.count("test_tool_with_progress")).toBe(1);
  stage.workshop.release();
  expect(await (await free).text()).not.toContain("released");
  const { text, receipt } = await paid;
  expect([text.includes("released"), receipt]).toMatchObject([true, { success: true }]);
  expect(await chain.balanceOf(account.address)).toBe(PURSE - 20_000n);
});
