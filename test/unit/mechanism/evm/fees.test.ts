import { describe, expect, test } from "vitest";
import { FEE_CACHE_SECONDS, FeeReader } from "../../../../src/mechanism/evm/fees.ts";
import { costsOf } from "../../../../src/mechanism/evm/network-costs.ts";
import { RpcRefusal, type Rpc } from "../../../../src/mechanism/rpc.ts";
import { NETWORK_NAMES, networkOf } from "../../../../src/x402/network.ts";

const never = new AbortController().signal;
const CAP = 1_000n;

interface Answers {
  readonly baseFeePerGas?: string;
  readonly eth_maxPriorityFeePerGas?: string;
  readonly eth_gasPrice?: string;
}

/** A reader over a chain with these prices; methods without an answer do not exist there. */
function reader(answers: Answers, maxFeePerGasWei = CAP) {
  const calls: string[] = [];
  const clock = { now: 100 };
  const rpc: Rpc = {
    host: "node.example",
    async call(method) {
      calls.push(method);
      if (method === "eth_getBlockByNumber") return { number: "0x1", ...answers };
      const answer =
        method === "eth_gasPrice" ? answers.eth_gasPrice : answers.eth_maxPriorityFeePerGas;
      if (answer !== undefined) return answer;
      throw new RpcRefusal(method, { code: -32_601, message: "no such method", data: null });
    },
    async close() {},
  };
  const fees = new FeeReader({ rpc, maxFeePerGasWei, clock: () => clock.now });
  return { fees, calls, clock };
}

describe("fees", () => {
  test("leave room for the base fee to double", async () => {
    const { fees } = reader({ baseFeePerGas: "0x64", eth_maxPriorityFeePerGas: "0x7" });
    expect(await fees.read(never)).toEqual({
      kind: "eip1559",
      maxFeePerGas: 207n,
      maxPriorityFeePerGas: 7n,
    });
    expect(await fees.price(never)).toBe(107n);
  });

  test("stay at the cap when the room would exceed it", async () => {
    const { fees } = reader({ baseFeePerGas: "0x320", eth_maxPriorityFeePerGas: "0xc8" });
    expect(await fees.read(never)).toMatchObject({
      maxFeePerGas: CAP,
      maxPriorityFeePerGas: 200n,
    });
  });

  test("are refused when the present price is above the cap", async () => {
    const { fees } = reader({ baseFeePerGas: "0x320", eth_maxPriorityFeePerGas: "0xc9" });
    await expect(fees.read(never)).rejects.toMatchObject({
      code: "CHAIN_FEE",
      message: "node.example: the network asks 1001 wei per gas, our cap is 1000",
    });
  });

  test("take the tip out of the gas price where the node does not know tips", async () => {
    const { fees } = reader({ baseFeePerGas: "0x64", eth_gasPrice: "0x69" });
    expect(await fees.read(never)).toMatchObject({ maxPriorityFeePerGas: 5n });
    const cheap = reader({ baseFeePerGas: "0x64", eth_gasPrice: "0x1" });
    expect(await cheap.fees.read(never)).toMatchObject({ maxPriorityFeePerGas: 0n });
  });

  test("are a plain gas price on a chain without base fee", async () => {
    const { fees } = reader({ eth_gasPrice: "0x3e8" });
    expect(await fees.read(never)).toEqual({ kind: "legacy", gasPrice: 1_000n });
    const dear = reader({ eth_gasPrice: "0x3e9" });
    await expect(dear.fees.read(never)).rejects.toMatchObject({ code: "CHAIN_FEE" });
  });

  test("may be nothing at all", async () => {
    const { fees } = reader({ baseFeePerGas: "0x0", eth_maxPriorityFeePerGas: "0x0" });
    expect(await fees.read(never)).toMatchObject({ maxFeePerGas: 0n, maxPriorityFeePerGas: 0n });
  });

  test("are read again only after a few seconds, or when the clock was set back", async () => {
    const { fees, calls, clock } = reader({ eth_gasPrice: "0x1" });
    await fees.read(never);
    clock.now += FEE_CACHE_SECONDS - 1;
    await fees.read(never);
    expect(calls).toHaveLength(2);
    clock.now += 1;
    await fees.read(never);
    expect(calls).toHaveLength(4);
    clock.now -= 50;
    await fees.read(never);
    expect(calls).toHaveLength(6);
  });

  test("of the wrong shape are an error, not a price", async () => {
    const { fees } = reader({ eth_gasPrice: "12" });
    await expect(fees.read(never)).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
  });
});

test("every EVM network has its costs, and no other", () => {
  for (const name of NETWORK_NAMES) {
    if (networkOf(name).kind === "evm") expect(costsOf(name).gasLimit).toBeGreaterThan(103_300n);
    else expect(() => costsOf(name)).toThrow(TypeError);
  }
});
