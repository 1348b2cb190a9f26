/** Which answers to a simulation count as one. */
import { expect, test } from "vitest";
import { simulate } from "../../../../src/mechanism/solana/simulation.ts";
import { inContext, startScriptedCluster } from "./scripted-cluster.ts";
import { never } from "./tracking.ts";

const failed = { err: "AccountNotFound", accounts: [null] };

test.each([1e300, Number.MAX_SAFE_INTEGER, 10_000_000_001, -1, 0.5, Number.NaN])(
  "a simulation at slot %d is none: no chain comes to it",
  async (slot) => {
    await using cluster = await startScriptedCluster([() => inContext(slot, failed)]);
    const [rpc] = cluster.rpcs;
    if (rpc === undefined) throw new Error("there is one");
    const simulated = simulate(rpc, Uint8Array.of(1), "a", never);
    await expect(simulated).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
  },
);

test("a simulation tells the slot of the state that it ran on", async () => {
  await using cluster = await startScriptedCluster([() => inContext(400_000_000, failed)]);
  const [rpc] = cluster.rpcs;
  if (rpc === undefined) throw new Error("there is one");
  expect(await simulate(rpc, Uint8Array.of(1), "a", never)).toMatchObject({ slot: 400_000_000 });
});
