import type { ServerResponse } from "node:http";
import { decodeFunctionData, encodeFunctionResult, multicall3Abi, toHex } from "viem";
import { expect, onTestFinished, test } from "vitest";
import { createEvmMechanism } from "../../../../src/mechanism/evm/evm.ts";
import { RENEWAL, type Asker } from "../../../../src/mechanism/mechanism.ts";
import { MAX_UNPROVEN_CALLS } from "../../../../src/mechanism/judging-lane.ts";
import { networkOf } from "../../../../src/x402/network.ts";
import { freshAccount, requirementsFor, signPayment } from "../../../support/payer.ts";
import { startScriptedNode } from "../../../support/scripted-node.ts";

const payee = freshAccount();
const requirements = requirementsFor("base-sepolia", { payTo: payee.address });
const never = new AbortController().signal;

/** A mechanism before a node that keeps every `eth_call` open until the test ends it. */
async function stage() {
  const network = networkOf("base-sepolia");
  if (network.kind !== "evm") throw new Error("base-sepolia is an EVM network");
  const open: ServerResponse[] = [];
  const node = await startScriptedNode(({ method }) =>
    method === "eth_call"
      ? { raw: (response) => void open.push(response) }
      : { result: `0x${network.chainId.toString(16)}` },
  );
  const health: (boolean | undefined)[] = [];
  const evm = createEvmMechanism({
    network,
    assets: [network.asset],
    rpcUrls: [node.url],
    keys: [freshAccount().privateKey],
    clock: () => Math.floor(Date.now() / 1000),
    allowPayTo: [payee.address],
    onHealth: (_host, isHealthy) => health.push(isHealthy),
  });
  onTestFinished(async () => {
    await node.close();
    await evm.close();
  });
  const inspect = async (asker?: Asker): Promise<string> => {
    const overrides = { from: freshAccount().address };
    const account = freshAccount().account;
    const paymentPayload = await signPayment({ account, requirements, overrides });
    const request = { paymentPayload, paymentRequirements: requirements };
    const checked = evm.check(request, Math.floor(Date.now() / 1000));
    if (!checked.ok) return checked.error.code;
    const inspected = evm.inspect(checked.value, never, asker);
    return inspected.then(
      ({ ok }) => (ok ? "valid" : "refused"),
      (cause: unknown) => String(Object(cause).code),
    );
  };
  return { open, health, inspect };
}

const junk = (index: number): Asker => ({ kind: "client", name: `client ${index}` });

test("what was found good before is judged again, whoever fills the lane", async () => {
  const { open, inspect } = await stage();
  for (let index = 0; index < 200; index += 1) void inspect(junk(index));
  await expect.poll(() => open.length).toBe(MAX_UNPROVEN_CALLS);
  expect(await inspect(junk(200))).toBe("CHAIN_BUSY");
  expect(await inspect()).toBe("CHAIN_BUSY");
  void inspect(RENEWAL);
  await expect.poll(() => open.length).toBe(MAX_UNPROVEN_CALLS + 1);
});

test("a node that fails them is no worse for anybody else", async () => {
  const { open, health, inspect } = await stage();
  const renewed = inspect(RENEWAL);
  await expect.poll(() => open.length).toBe(1);
  expect(health).toEqual([true]);
  const judged = inspect(junk(1));
  await expect.poll(() => open.length).toBe(2);
  open[1]?.writeHead(503).end();
  expect(await judged).toBe("CHAIN_ANSWER");
  expect(health).toEqual([true]);
  open[0]?.writeHead(503).end();
  expect(await renewed).toBe("CHAIN_ANSWER");
  expect(health).toEqual([true, false]);
});

test("those whose transfers fail in a shared call ask alone, a few at a time", async () => {
  const alone: ServerResponse[] = [];
  let shared = 0;
  const network = networkOf("base-sepolia");
  if (network.kind !== "evm") throw new Error("base-sepolia is an EVM network");
  const node = await startScriptedNode(({ method, params }) => {
    if (method !== "eth_call") return { result: `0x${network.chainId.toString(16)}` };
    const data = Object(params[0]).data;
    const { args } = decodeFunctionData({ abi: multicall3Abi, data });
    const calls = [args?.[0] ?? []].flat();
    if (calls.length === 4) return { raw: (response) => void alone.push(response) };
    shared += 1;
    const payments = calls.length / 4;
    const read = { success: true, returnData: toHex(10n ** 9n, { size: 32 }) };
    const unused = { success: true, returnData: toHex(0n, { size: 32 }) };
    const failed = { success: false, returnData: "0x" as const };
    const reads = Array.from({ length: payments }, () => [read, unused, failed]).flat();
    const answers = [...reads, ...Array.from({ length: payments }, () => failed)];
    const functionName = "aggregate3";
    return { result: encodeFunctionResult({ abi: multicall3Abi, functionName, result: answers }) };
  });
  const { privateKey, address } = freshAccount();
  const evm = createEvmMechanism({
    network,
    assets: [network.asset],
    rpcUrls: [node.url],
    keys: [privateKey],
    clock: () => Math.floor(Date.now() / 1000),
    allowPayTo: [payee.address],
  });
  onTestFinished(async () => {
    await node.close();
    await evm.close();
  });
  const { account } = freshAccount();
  const paymentPayload = await signPayment({ account, requirements });
  const request = { paymentPayload, paymentRequirements: requirements };
  const checked = evm.check(request, Math.floor(Date.now() / 1000));
  if (!checked.ok) throw new Error(checked.error.detail);
  const { authorization } = checked.value;
  for (let index = 0; index < 100; index += 1) {
    const from = freshAccount().address.toLowerCase();
    const each = { ...checked.value, authorization: { ...authorization, from } };
    void evm.inspect(each, never, junk(index)).catch(() => undefined);
  }
  // The first was asked about at once, and the others together.
  await expect.poll(() => shared).toBeGreaterThanOrEqual(4);
  await expect.poll(() => alone.length).toBe(1 + 16);
  await evm.balance(address, never);
  expect(alone.length).toBe(1 + 16);
});
