/** The short form of `npm run prove:agents`: agents whose processes die, before three sellers. */
import { expect, test } from "vitest";
import { runCrowd } from "../../agents/crowd.ts";
import { AGENT_MUTANTS } from "../../agents/mutants.ts";
import { staleness } from "../../support/mutated-copy.ts";

test("no budget is exceeded, each call is charged once, and none is lost, while processes are killed", async () => {
  const size = { agents: 3, calls: 6, affordable: 4, atOnce: 3 };
  const few = { ...size, killsInHundred: 50, sellerKills: 3, seed: 7 };
  const { kills, sellerKills, charged, ...told } = await runCrowd(few);
  expect(told).toEqual({ answered: 12, refused: 6, lost: [], violations: [] });
  expect(charged).toBe(120_000n);
  expect(kills).toBeGreaterThan(2);
  expect(sellerKills).toBeGreaterThan(1);
});

test.each(AGENT_MUTANTS)("the guard that a mutant takes away is there: $name", async (mutant) => {
  expect(await staleness(mutant)).toBeUndefined();
});
