/** What a token says that somebody holds, and how many may have it asked at a time. */
import type { ServerResponse } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { createEvmObserver } from "../../../../src/mechanism/evm/evm.ts";
import { networkOf } from "../../../../src/x402/network.ts";
import { freshAccount } from "../../../support/payer.ts";
import { startScriptedNode, type RpcReply } from "../../../support/scripted-node.ts";

const TOKEN = `0x${"0a".repeat(20)}`;
/** That are asked at a time, and may wait beside them. */
const [CALLS, PLACES] = [8, 64];
const never = new AbortController().signal;

async function stage(answer: () => RpcReply) {
  const network = networkOf("base-sepolia");
  if (network.kind !== "evm") throw new Error("base-sepolia is an EVM network");
  const calls: unknown[] = [];
  const node = await startScriptedNode(({ method, params }) => {
    if (method !== "eth_call") return { result: `0x${network.chainId.toString(16)}` };
    calls.push(params[0]);
    return answer();
  });
  const clock = (): number => 1_800_000_000;
  const evm = createEvmObserver({ network, assets: [], rpcUrls: [node.url], clock });
  onTestFinished(async () => {
    await node.close();
    await evm.close();
  });
  const ask = async (asker: string): Promise<bigint | string> => {
    const held = { token: TOKEN, owner: freshAccount().address };
    if (evm.holding === undefined) throw new Error("an EVM network has balances");
    return evm.holding(held, never, asker).catch((cause: unknown) => String(Object(cause).code));
  };
  return { ask, calls };
}

test("is what balanceOf says, with little gas", async () => {
  const { ask, calls } = await stage(() => ({ result: `0x${"7".padStart(64, "0")}` }));
  expect(await ask("a")).toBe(7n);
  expect(calls).toEqual([
    { to: TOKEN, data: expect.stringMatching(/^0x70a08231/), gas: "0x493e0" },
  ]);
});

test.each(["0x", "0x07", `0x${"0".repeat(128)}`])(
  "is unknown where a token says %s",
  async (result) => {
    const { ask } = await stage(() => ({ result }));
    expect(await ask("a")).toBe("CHAIN_ANSWER");
  },
);

test("is asked for few at a time, and one stranger leaves places for others", async () => {
  const open: ServerResponse[] = [];
  const { ask } = await stage(() => ({ raw: (response) => void open.push(response) }));
  const fill = (asker: string, count: number) => {
    const away: string[] = [];
    for (let index = 0; index < count; index += 1) {
      void ask(asker).then((code) => code === "CHAIN_BUSY" && away.push(asker));
    }
    return away;
  };
  const first = fill("one", PLACES);
  await expect.poll(() => open.length).toBe(CALLS);
  await expect.poll(() => first.length).toBe(PLACES / 2);
  // Of the places that are left as many again are his, and none more is asked at a time.
  const second = fill("other", PLACES / 2);
  await expect.poll(() => second.length).toBe(PLACES / 4);
  expect(open).toHaveLength(CALLS);
});
