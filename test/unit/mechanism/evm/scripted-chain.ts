/** A scripted chain with one authorization and our transaction of it, and what its records may say. */
import { onTestFinished } from "vitest";
import { addressWord, uintWord } from "../../../../src/mechanism/evm/abi.ts";
import type { EvmCheckedAuthorization } from "../../../../src/mechanism/evm/authorization.ts";
import { ConfirmationReader } from "../../../../src/mechanism/evm/confirmation.ts";
import {
  AUTHORIZATION_CANCELED_EVENT,
  AUTHORIZATION_USED_EVENT,
  createToken,
  TRANSFER_EVENT,
} from "../../../../src/mechanism/evm/token.ts";
import { openRpc } from "../../../../src/mechanism/rpc.ts";
import { networkOf } from "../../../../src/x402/network.ts";
import { startScriptedNode, type RpcReply } from "../../../support/scripted-node.ts";

export const OURS = `0x${"0a".repeat(32)}`;
export const THEIRS = `0x${"0b".repeat(32)}`;
export const NOW = 1_800_000_000;
const never = new AbortController().signal;

const asset = networkOf("base-sepolia").asset;
if (!("eip712" in asset)) throw new Error("base-sepolia is an EVM network");
export const token = createToken(asset, 84_532);
export const authorization: EvmCheckedAuthorization = {
  token,
  from: `0x${"11".repeat(20)}`,
  to: `0x${"22".repeat(20)}`,
  value: 10_000n,
  validAfter: 0n,
  validBefore: BigInt(NOW + 60),
  nonce: `0x${"33".repeat(32)}`,
  signature: "",
  words: "",
  proven: true,
};

/** Asks a scripted chain what became of our transaction; the clock shows the chain's time. */
export async function confirm(
  answer: (method: string, params: readonly unknown[], count: number) => RpcReply,
  { confirmations = 1, now = NOW, signal = never } = {},
) {
  const node = await startScriptedNode(({ method, params }) =>
    answer(method, params, node.questions.length),
  );
  const rpc = openRpc(node.url);
  onTestFinished(async () => {
    await rpc.close();
    await node.close();
  });
  const reader = new ConfirmationReader({ rpc, confirmations, clock: () => now });
  const confirmation = await reader.wait(authorization, OURS, signal);
  return { confirmation, methods: node.questions.map(({ method }) => method), node };
}

export const used = {
  address: token.address,
  topics: usedTopics(AUTHORIZATION_USED_EVENT),
  data: "0x",
};
export const cancelled = { ...used, topics: usedTopics(AUTHORIZATION_CANCELED_EVENT) };
export const paid = transfer(authorization.to, authorization.value);

export function usedTopics(event: string) {
  return [event, `0x${addressWord(authorization.from)}`, authorization.nonce];
}

export function transfer(to: string, value: bigint) {
  return {
    address: asset.address,
    topics: [TRANSFER_EVENT, `0x${addressWord(authorization.from)}`, `0x${addressWord(to)}`],
    data: `0x${uintWord(value)}`,
  };
}

export function receipt(
  status: string,
  logs: readonly object[] = [],
  transactionHash = OURS,
): RpcReply {
  return { result: { transactionHash, status, blockNumber: "0x64", logs } };
}

/** A chain whose newest block is 100, with these receipts in turn (the last one for good) and nonce state. */
export function chainWith(receipts: readonly RpcReply[], state: bigint) {
  let asked = 0;
  return (method: string): RpcReply => {
    if (method === "eth_blockNumber") return { result: "0x64" };
    if (method === "eth_call") return { result: `0x${uintWord(state)}` };
    const index = Math.min(asked++, receipts.length - 1);
    return receipts[index] ?? { result: null };
  };
}

export const failure = (detail: string) => ({
  kind: "failed",
  refusal: { code: "invalid_transaction_state", detail },
});
export const REVERTED = "the transaction was reverted";
export const WITHOUT_TRANSFER =
  "the transaction succeeded without the transfer that was authorized";
