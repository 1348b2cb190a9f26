import { describe, expect, test } from "vitest";
import * as fc from "fast-check";
import {
  FEE_CACHE_SECONDS,
  FeeReader,
  raiseFees,
  type Fees,
} from "../../../../src/mechanism/evm/fees.ts";
import { blocksOf } from "../../../../src/mechanism/evm/network-blocks.ts";
import { BATCH_BASE_GAS, costsOf } from "../../../../src/mechanism/evm/network-costs.ts";
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
  const reading = new FeeReader({ maxFeePerGasWei, clock: () => clock.now });
  const fees = { read: () => reading.read(rpc, never), price: () => reading.price(rpc, never) };
  return { fees, calls, clock };
}

describe("fees", () => {
  test("leave room for the base fee to double", async () => {
    const { fees } = reader({ baseFeePerGas: "0x64", eth_maxPriorityFeePerGas: "0x7" });
    expect(await fees.read()).toEqual({
      kind: "eip1559",
      maxFeePerGas: 207n,
      maxPriorityFeePerGas: 7n,
    });
    expect(await fees.price()).toBe(107n);
  });

  test("stay at the cap when the room would exceed it", async () => {
    const { fees } = reader({ baseFeePerGas: "0x320", eth_maxPriorityFeePerGas: "0xc8" });
    expect(await fees.read()).toMatchObject({
      maxFeePerGas: CAP,
      maxPriorityFeePerGas: 200n,
    });
  });

  test("are refused when the present price is above the cap", async () => {
    const { fees } = reader({ baseFeePerGas: "0x320", eth_maxPriorityFeePerGas: "0xc9" });
    await expect(fees.read()).rejects.toMatchObject({
      code: "CHAIN_FEE",
      message: "node.example: the network asks 1001 wei per gas, our cap is 1000",
    });
  });

  test("take the tip out of the gas price where the node does not know tips", async () => {
    const { fees } = reader({ baseFeePerGas: "0x64", eth_gasPrice: "0x69" });
    expect(await fees.read()).toMatchObject({ maxPriorityFeePerGas: 5n });
    const cheap = reader({ baseFeePerGas: "0x64", eth_gasPrice: "0x1" });
    expect(await cheap.fees.read()).toMatchObject({ maxPriorityFeePerGas: 0n });
  });

  test("are a plain gas price on a chain without base fee", async () => {
    const { fees } = reader({ eth_gasPrice: "0x3e8" });
    expect(await fees.read()).toEqual({ kind: "legacy", gasPrice: 1_000n });
    const dear = reader({ eth_gasPrice: "0x3e9" });
    await expect(dear.fees.read()).rejects.toMatchObject({ code: "CHAIN_FEE" });
  });

  test("may be nothing at all", async () => {
    const { fees } = reader({ baseFeePerGas: "0x0", eth_maxPriorityFeePerGas: "0x0" });
    expect(await fees.read()).toMatchObject({ maxFeePerGas: 0n, maxPriorityFeePerGas: 0n });
  });

  test("are read again only after a few seconds, or when the clock was set back", async () => {
    const { fees, calls, clock } = reader({ eth_gasPrice: "0x1" });
    await fees.read();
    clock.now += FEE_CACHE_SECONDS - 1;
    await fees.read();
    expect(calls).toHaveLength(2);
    clock.now += 1;
    await fees.read();
    expect(calls).toHaveLength(4);
    clock.now -= 50;
    await fees.read();
    expect(calls).toHaveLength(6);
  });

  test("of the wrong shape are an error, not a price", async () => {
    const { fees } = reader({ eth_gasPrice: "12" });
    await expect(fees.read()).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
  });
});

const eip1559 = (maxFeePerGas: bigint, maxPriorityFeePerGas: bigint): Fees => {
  return { kind: "eip1559", maxFeePerGas, maxPriorityFeePerGas };
};
const legacy = (gasPrice: bigint): Fees => ({ kind: "legacy", gasPrice });

describe("raised fees", () => {
  test("are an eighth above the newest, rounded up", () => {
    expect(raiseFees([eip1559(80n, 8n)], eip1559(10n, 1n), CAP)).toEqual(eip1559(90n, 9n));
    expect(raiseFees([eip1559(81n, 9n)], eip1559(10n, 1n), CAP)).toEqual(eip1559(92n, 11n));
    expect(raiseFees([legacy(80n)], legacy(10n), CAP)).toEqual(legacy(90n));
  });

  test("meet the present price", () => {
    expect(raiseFees([eip1559(80n, 8n)], eip1559(500n, 20n), CAP)).toEqual(eip1559(500n, 20n));
  });

  test("grow from nothing", () => {
    expect(raiseFees([eip1559(0n, 0n)], eip1559(0n, 0n), CAP)).toEqual(eip1559(1n, 1n));
  });

  test("end at the cap", () => {
    expect(raiseFees([eip1559(880n, 8n)], eip1559(10n, 1n), CAP)).toEqual(eip1559(990n, 9n));
    expect(raiseFees([eip1559(889n, 8n)], eip1559(10n, 1n), CAP)).toBeUndefined();
    expect(raiseFees([eip1559(80n, 8n)], eip1559(CAP, 1n), CAP)).toEqual(eip1559(CAP, 9n));
  });

  test("stay of the kind that was signed first", () => {
    expect(raiseFees([legacy(80n)], eip1559(500n, 20n), CAP)).toEqual(legacy(500n));
  });

  test("replace every variant, for any fees below the cap", () => {
    const wei = fc.bigInt({ min: 0n, max: 10n ** 15n });
    const fees = fc
      .tuple(wei, wei)
      .map(([left, right]) => (left > right ? eip1559(left, right) : eip1559(right, left)));
    fc.assert(
      fc.property(
        fc.array(fees, { minLength: 1, maxLength: 4 }),
        fees,
        wei,
        (paid, present, cap) => {
          const raised = raiseFees(paid, present, cap);
          if (raised === undefined) return;
          if (raised.kind !== "eip1559") throw new Error("nothing legacy was given");
          expect(raised.maxFeePerGas <= cap).toBe(true);
          expect(raised.maxPriorityFeePerGas <= raised.maxFeePerGas).toBe(true);
          for (const old of paid) {
            if (old.kind !== "eip1559") throw new Error("nothing legacy was given");
            expect(raised.maxFeePerGas * 8n >= old.maxFeePerGas * 9n).toBe(true);
            expect(raised.maxFeePerGas > old.maxFeePerGas).toBe(true);
            expect(raised.maxPriorityFeePerGas * 8n >= old.maxPriorityFeePerGas * 9n).toBe(true);
            expect(raised.maxPriorityFeePerGas > old.maxPriorityFeePerGas).toBe(true);
          }
        },
      ),
    );
  });
});

/** The most that one transaction may ask for (EIP-7825). */
const MAX_TRANSACTION_GAS = 2n ** 24n;

test("every EVM network has its costs and its blocks, and no other", () => {
  for (const name of NETWORK_NAMES) {
    const network = networkOf(name);
    if (network.kind !== "evm") {
      expect(() => costsOf(name)).toThrow(TypeError);
      expect(() => blocksOf(name)).toThrow(TypeError);
      continue;
    }
    const { gasLimit, itemGasLimit, maxTogether } = costsOf(name);
    expect(gasLimit).toBeGreaterThan(103_300n);
    expect(BATCH_BASE_GAS + itemGasLimit * BigInt(maxTogether)).toBeLessThan(MAX_TRANSACTION_GAS);
    const { finalAfter } = blocksOf(name);
    expect(finalAfter).toBeGreaterThanOrEqual(BigInt(network.recommendedConfirmations));
  }
});
