/** A scripted chain with one authorization and our transaction of it, and what its records may say. */
import { onTestFinished } from "vitest";
import { addressWord, uintWord } from "../../../../src/mechanism/evm/abi.ts";
import type { EvmCheckedAuthorization } from "../../../../src/mechanism/evm/authorization.ts";
import { ConfirmationReader, type LookDepth } from "../../../../src/mechanism/evm/confirmation.ts";
import {
  AUTHORIZATION_CANCELED_EVENT,
  AUTHORIZATION_USED_EVENT,
  createToken,
  TRANSFER_EVENT,
} from "../../../../src/mechanism/evm/token.ts";
import { readStanding } from "../../../../src/mechanism/evm/usage.ts";
import { openRpc } from "../../../../src/mechanism/rpc.ts";
import { networkOf } from "../../../../src/x402/network.ts";
import { startScriptedNode, type RpcReply } from "../../../support/scripted-node.ts";

export const OURS = `0x${"0a".repeat(32)}`;
export const THEIRS = `0x${"0b".repeat(32)}`;
export const OUR_ACCOUNT = `0x${"0c".repeat(20)}`;
export const OUR_NONCE = 7;
export const NOW = 1_800_000_000;
export const FINAL_AFTER = 30n;
export const MARGIN_SECONDS = 6;
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

type Answer = (method: string, params: readonly unknown[], count: number) => RpcReply;

interface Challenge {
  readonly confirmations?: number;
  /** What the clock shows, Unix seconds. */
  readonly now?: number;
  readonly authorizations?: readonly EvmCheckedAuthorization[];
  /** Hashes of the variants, oldest first. */
  readonly variants?: readonly string[];
  readonly depth?: LookDepth;
}

async function open(answer: Answer, { confirmations = 1, now = NOW }: Challenge) {
  const node = await startScriptedNode(({ method, params }) =>
    answer(method, params, node.questions.length),
  );
  const rpc = openRpc(node.url);
  onTestFinished(async () => {
    await rpc.close();
    await node.close();
  });
  const reader = new ConfirmationReader({
    confirmations,
    finalAfter: FINAL_AFTER,
    validBeforeMarginSeconds: MARGIN_SECONDS,
    clock: () => now,
  });
  return { reader, rpc, node };
}

/** One look at a scripted chain. */
export async function look(answer: Answer, asking: Challenge = {}) {
  const { reader, rpc, node } = await open(answer, asking);
  const { authorizations = [authorization], variants = [OURS] } = asking;
  const signed = { raw: "0x", account: OUR_ACCOUNT, accountNonce: OUR_NONCE };
  const submission = {
    authorizations,
    variants: variants.map((transaction) => ({ ...signed, transaction })),
  };
  const { depth = { nonce: false, head: false } } = asking;
  const found = await reader.look(rpc, submission, depth, never);
  const methods = node.questions.map(({ method }) => method);
  return { ...found, payment: found.payments[0], methods, node };
}

/** Where the chain stands with the authorization. */
export async function standing(answer: Answer) {
  const { rpc } = await open(answer, {});
  return readStanding(rpc, authorization, never);
}

/** What became of the authorization, whoever submitted it. */
export async function reconcile(
  answer: Answer,
  claimed: string | undefined,
  { after = null, ...asking }: Challenge & { readonly after?: number | null } = {},
) {
  const { reader, rpc, node } = await open(answer, asking);
  const confirmation = await reader.reconcile(rpc, authorization, { claimed, after }, never);
  return { confirmation, methods: node.questions.map(({ method }) => method), node };
}

export const used = use(authorization);
export const cancelled = { ...used, topics: usedTopics(AUTHORIZATION_CANCELED_EVENT) };
export const paid = transfer(authorization.to, authorization.value);

export function use({ from, nonce }: EvmCheckedAuthorization) {
  const topics = [AUTHORIZATION_USED_EVENT, `0x${addressWord(from)}`, nonce];
  return { address: token.address, topics, data: "0x" };
}

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

/** What every transaction took. */
export const GAS_USED = 150_000n;

export function receipt(
  status: string,
  logs: readonly object[] = [],
  transactionHash = OURS,
): RpcReply {
  const gasUsed = hex(GAS_USED);
  return { result: { transactionHash, status, blockNumber: "0x64", gasUsed, logs } };
}

/** A chain whose newest block is 100, with this receipt and this state of every authorization. */
export function chainWith(found: RpcReply, state: bigint) {
  return (method: string): RpcReply => {
    if (method === "eth_blockNumber") return { result: "0x64" };
    if (method === "eth_getBlockByNumber") return block(100, NOW);
    if (method === "eth_call") return { result: `0x${uintWord(state)}` };
    return found;
  };
}

export function block(number: number, timestamp: number): RpcReply {
  return { result: { number: hex(number), timestamp: hex(timestamp) } };
}

export function hex(value: number | bigint): string {
  return `0x${value.toString(16)}`;
}

export const failure = (detail: string, retriable: boolean) => ({
  kind: "failed",
  refusal: { code: "invalid_transaction_state", detail },
  retriable,
});
export const REVERTED = "the transaction was reverted";
export const WITHOUT_TRANSFER =
  "the transaction succeeded without the transfer that was authorized";
