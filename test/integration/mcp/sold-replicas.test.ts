/** What one process knows of a session the other does not: goods of a paid call are not had by a free one for that. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { PURSE, richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway } from "../../support/gateway.ts";
import { McpStage } from "../../support/mcp/stage.ts";
import { beginSession, callOf, payFor } from "../../support/mcp/thief.ts";

let chain: Chain;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain[Symbol.asyncDispose]());

test("what is paid for at one replica comes in no stream of another one", async () => {
  await using stage = await McpStage.open();
  const routes = "{ /mcp: { tools: { hold: $0.02, test_tool_with_progress: free } } }";
  await using one = await startGateway({ chain, upstreamUrl: stage.origin, routes });
  await using other = await startGateway({ chain, upstreamUrl: stage.origin, routes });
  const url = `${one.url}/mcp`;
  const session = await beginSession(url);
  const call = (name: string) => callOf(session, name);
  const account = await richBuyer(chain);
  const paid = payFor(url, call("hold"), account);
  await expect.poll(() => stage.workshop.count("hold")).toBe(1);

  const free = fetch(`${other.url}/mcp`, call("test_tool_with_progress"));
  await expect.poll(() => stage.workshop.count("test_tool_with_progress")).toBe(1);
  stage.workshop.release();
  expect(await (await free).text()).not.toContain("released");
  const { text, receipt } = await paid;
  expect([text.includes("released"), receipt]).toMatchObject([true, { success: true }]);
  expect(await chain.balanceOf(account.address)).toBe(PURSE - 20_000n);
});
