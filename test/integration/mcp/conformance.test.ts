/** The official conformance suite through the gateway and past it: the same results, check by check. */
import { expect, test } from "vitest";
import { startChain } from "../../support/chain.ts";
import { startGateway } from "../../support/gateway.ts";
import { runConformance } from "../../support/mcp/conformance.ts";
import { McpStage } from "../../support/mcp/stage.ts";

/** Version 0.1.16 has 32 of them. */
const SCENARIOS = 32;

test("a server of sessions and streams is through the gateway what it is past it", async () => {
  await using chain = await startChain();
  await using stage = await McpStage.open();
  const routes = "{ /mcp: free }";
  await using gateway = await startGateway({ chain, upstreamUrl: stage.origin, routes });
  const past = await runConformance(`${stage.origin}/mcp`);
  expect(Object.keys(past)).toHaveLength(SCENARIOS);
  // Where nothing passes, equal results would say nothing.
  expect(
    Object.values(past)
      .flat()
      .filter((each) => each.includes("FAILURE")),
  ).toEqual([]);
  expect(await runConformance(`${gateway.url}/mcp`)).toEqual(past);
});
