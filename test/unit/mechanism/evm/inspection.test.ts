/** What a call that several payments share tells for certain of each. */
import {
  decodeFunctionData,
  encodeAbiParameters,
  encodeFunctionResult,
  multicall3Abi,
  toHex,
  type Hex,
} from "viem";
import { describe, expect, test } from "vitest";
import { inspectTogether } from "../../../../src/mechanism/evm/inspection.ts";
import { IMPOSSIBLE_SIGNATURE } from "../../../../src/mechanism/evm/token.ts";
import type { Rpc } from "../../../../src/mechanism/rpc.ts";
import { authorization } from "./scripted-chain.ts";

interface Answer {
  readonly success: boolean;
  readonly returnData: Hex;
}

const word = (value: bigint): Answer => ({ success: true, returnData: toHex(value, { size: 32 }) });
const burnt: Answer = { success: false, returnData: "0x" };
const done: Answer = { success: true, returnData: "0x" };

function reverted(text: string): Answer {
  const [selector, said] = ["08c379a0", encodeAbiParameters([{ type: "string" }], [text])];
  return { success: false, returnData: `0x${selector}${said.slice(2)}` };
}

interface Told {
  readonly balance?: Answer;
  readonly used?: Answer;
  /** To a signature that no key makes; default: as where no code of the payer's runs. */
  readonly impossible?: Answer;
  readonly transfer?: Answer;
}

/** What is told of a payment beside which there is a good one. */
async function inspected(told: Told) {
  const nobodys = reverted(IMPOSSIBLE_SIGNATURE);
  const all = [{}, told].map(({ balance, used, impossible, transfer }: Told) => ({
    reads: [balance ?? word(10_000n), used ?? word(0n), impossible ?? nobodys],
    transfer: transfer ?? done,
  }));
  const rpc: Rpc = {
    host: "node",
    async call(_, [asked]) {
      const { args } = decodeFunctionData({ abi: multicall3Abi, data: Object(asked).data });
      const answers = [
        ...all.flatMap(({ reads }) => reads),
        ...all.map(({ transfer }) => transfer),
      ];
      expect(args?.[0]).toHaveLength(answers.length);
      const functionName = "aggregate3";
      return encodeFunctionResult({ abi: multicall3Abi, functionName, result: answers });
    },
    close: async () => undefined,
  };
  const payments = [authorization, { ...authorization, from: `0x${"44".repeat(20)}` }];
  const { signal } = new AbortController();
  const [good, verdict] = await inspectTogether(rpc, payments, 100_000n, signal);
  expect(good).toMatchObject({ ok: true, value: { balanceAtomic: 10_000n } });
  return verdict;
}

describe("of a payment that shares a call", () => {
  test("it is certain that it is good", async () => {
    expect(await inspected({})).toMatchObject({ ok: true, value: { mayRunCode: false } });
  });

  test.each<[string, Told, string]>([
    ["its payer has too little", { balance: word(9_999n), transfer: burnt }, "insufficient_funds"],
    ["its nonce is used", { used: word(1n), transfer: burnt }, "invalid_transaction_state"],
  ])("it is certain that %s, as was read before all transfers", async (_, told, code) => {
    expect(await inspected(told)).toMatchObject({ ok: false, error: { code } });
  });

  test.each<[string, Told]>([
    ["why its transfer fails", { transfer: reverted("FiatToken: account is blacklisted") }],
    ["what could not be read, since the gas was gone", { balance: burnt, transfer: burnt }],
    ["what code of its payer's says of the signature", { balance: word(0n), impossible: burnt }],
  ])("it is not certain %s", async (_, told) => {
    expect(await inspected(told)).toBeUndefined();
  });
});
