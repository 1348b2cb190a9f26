/** How many payments wait for a shared call, and how many calls are in flight, before a node that does not answer. */
import { setImmediate } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { openEndpoints } from "../../../../src/mechanism/evm/endpoints.ts";
import { SharedInspection } from "../../../../src/mechanism/evm/shared-inspection.ts";
import { MAX_PROVEN_WAITING } from "../../../../src/mechanism/judging-lane.ts";
import { networkOf } from "../../../../src/x402/network.ts";
import { startScriptedNode } from "../../../support/scripted-node.ts";
import { authorization } from "./scripted-chain.ts";

const TOGETHER = 32;
const CALLS = 32;
/** Longest that a payment waits for another's call. */
const WAIT_MS = 20;
/** Of them a few are left for everything else. */
const CONNECTIONS = 64;

async function stage() {
  const network = networkOf("base-sepolia");
  if (network.kind !== "evm") throw new Error("base-sepolia is an EVM network");
  let open = 0;
  const node = await startScriptedNode(({ method }) => {
    if (method === "eth_chainId") return { result: `0x${network.chainId.toString(16)}` };
    if (method !== "eth_call") return { result: "0x1" };
    open += 1;
    return { raw: () => undefined };
  });
  const clock = (): number => Math.floor(Date.now() / 1000);
  const { endpoints } = openEndpoints({ network, rpcUrls: [node.url], clock });
  onTestFinished(async () => {
    await node.close();
    await endpoints.close();
  });
  const shared = new SharedInspection(endpoints, 100_000n);
  let payers = 0;
  const inspect = (signal = new AbortController().signal): Promise<string> => {
    payers += 1;
    const from = `0x${payers.toString(16).padStart(40, "0")}`;
    return shared.inspect({ ...authorization, from }, signal).then(
      () => "judged",
      (cause: unknown) => String(Object(cause).code),
    );
  };
  return { inspect, endpoints, open: () => open };
}

test("strangers' payments leave connections to everything else", async () => {
  const { inspect, endpoints, open } = await stage();
  await endpoints.run(async () => undefined, new AbortController().signal);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  for (let count = 0; count < TOGETHER * CONNECTIONS * 2; count += 1) void inspect();
  // By now all of them have been asked about that may be.
  for (let count = 0; count < CONNECTIONS * 2; count += 1) vi.advanceTimersByTime(WAIT_MS);
  vi.useRealTimers();
  await expect.poll(open, { timeout: 10_000 }).toBe(CALLS);
  const { signal } = new AbortController();
  const block = endpoints.run((rpc) => rpc.call("eth_blockNumber", [], signal), signal);
  expect(await block).toBe("0x1");
  expect(open()).toBe(CALLS);
});

test("so many wait, and who gives up makes room", async () => {
  const { inspect } = await stage();
  const leaving = new AbortController();
  const last = inspect(leaving.signal);
  // While the first is asked about alone, the others wait.
  for (let count = 0; count < MAX_PROVEN_WAITING - 1; count += 1) void inspect();
  const left = inspect(leaving.signal);
  expect(await inspect()).toBe("CHAIN_BUSY");
  leaving.abort();
  expect(await Promise.all([last, left])).toEqual(["CHAIN_TIMEOUT", "CHAIN_TIMEOUT"]);
  const next = inspect();
  await setImmediate();
  expect(await Promise.race([next, Promise.resolve("waits")])).toBe("waits");
});
