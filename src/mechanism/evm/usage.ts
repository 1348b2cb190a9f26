/**
 * What the chain knows of authorizations whatever the transaction: whether they are used, and by which one.
 */
import { ChainError, type Standing } from "../mechanism.ts";
import { RpcRefusal, type Rpc } from "../rpc.ts";
import {
  decodeAggregate3,
  encodeAggregate3,
  parseHexData,
  parseQuantity,
  quantityOf,
  readWord,
  toQuantity,
  WORD,
} from "./abi.ts";
import type { EvmCheckedAuthorization } from "./authorization.ts";
import { EXECUTION_FAILED, MULTICALL3_ADDRESS, NONCE_USED } from "./inspection.ts";
import { isUsedIn, parseLog, readReceipt, usedTopics, type TransactionReceipt } from "./receipt.ts";
import {
  AUTHORIZATION_CANCELED_EVENT,
  AUTHORIZATION_USED_EVENT,
  authorizationStateCall,
} from "./token.ts";
import { isRecord } from "../../x402/json.ts";

/** Blocks in one log query: what the strictest public nodes still answer. */
export const LOG_WINDOW_BLOCKS = 1_000n;
/** Log queries at most, going back from where the authorization was found used. */
export const MAX_LOG_WINDOWS = 10;
/** The use of an authorization that expired so long ago is first looked for where it expired, seconds. */
const OLD_SECONDS = 600n;
/** Reads of block times at most when an old block is looked for: a halving each. */
const MAX_BLOCK_READS = 40;

export interface Block {
  readonly number: bigint;
  /** Unix seconds. */
  readonly timestamp: bigint;
}

/** The transaction that used an authorization, or the payer's cancellation. */
export type Use =
  | { readonly transaction: string; readonly receipt: TransactionReceipt }
  | "cancelled";

/** @throws {ChainError} when the chain cannot be asked, as all functions here */
export async function readHead(rpc: Rpc, signal: AbortSignal): Promise<bigint> {
  const head = parseQuantity(await rpc.call("eth_blockNumber", [], signal));
  if (head === undefined) throw oddAnswer(rpc, "a block number");
  return head;
}

export async function readBlock(
  rpc: Rpc,
  block: bigint | "latest",
  signal: AbortSignal,
): Promise<Block> {
  const which = block === "latest" ? block : toQuantity(block);
  const answer = await rpc.call("eth_getBlockByNumber", [which, false], signal);
  const timestamp = quantityOf(answer, "timestamp");
  const number = quantityOf(answer, "number");
  if (timestamp === undefined || number === undefined) throw oddAnswer(rpc, "a block");
  return { number, timestamp };
}

/**
 * Whether each authorization is used (or cancelled), in one call. At that very block, so that a node that
 * lags behind answers with an error and not with the past.
 */
export async function areUsed(
  rpc: Rpc,
  authorizations: readonly EvmCheckedAuthorization[],
  blockNumber: bigint,
  signal: AbortSignal,
): Promise<readonly boolean[]> {
  const calls = authorizations.map(({ token, from, nonce }) => {
    return { target: token.address, callData: authorizationStateCall(from, nonce) };
  });
  const [only, ...others] = calls;
  if (only === undefined) return [];
  const call =
    others.length === 0
      ? { to: only.target, data: `0x${only.callData}` }
      : { to: MULTICALL3_ADDRESS, data: `0x${encodeAggregate3(calls)}` };
  const answer = parseHexData(await rpc.call("eth_call", [call, toQuantity(blockNumber)], signal));
  const words = others.length === 0 ? [answer] : wordsOf(answer);
  if (words?.length !== calls.length) throw oddAnswer(rpc, "authorizationState()");
  return words.map((word) => {
    const state = word?.length === WORD ? readWord(word, 0) : undefined;
    if (state === undefined) throw oddAnswer(rpc, "authorizationState()");
    return state !== 0n;
  });
}

/**
 * See `Observer.standing`. Both are asked at once, and nodes behind a balancer may answer from different
 * blocks; nothing rests on their being one. Whatever is in a block up to the head was there before, and a
 * state from an earlier block than the head only lets through what no later look counts. Multicall3 could tell
 * both of one block, but what a contract takes for its block's number is the next one's on some networks.
 */
export async function readStanding(
  rpc: Rpc,
  authorization: EvmCheckedAuthorization,
  signal: AbortSignal,
): Promise<Standing | null> {
  const [head, isUsed] = await Promise.all([
    readHead(rpc, signal),
    isUsedNow(rpc, authorization, signal),
  ]);
  if (isUsed === undefined) return null;
  if (head > BigInt(Number.MAX_SAFE_INTEGER)) throw oddAnswer(rpc, "a block number");
  return { head: Number(head), used: isUsed ? NONCE_USED : null };
}

/**
 * Undefined of a contract that has no word for it: that is no such token, which is for its facilitator to judge.
 * A node that does not answer, as one that refuses a busy client, is something else.
 */
async function isUsedNow(
  rpc: Rpc,
  { token, from, nonce }: EvmCheckedAuthorization,
  signal: AbortSignal,
): Promise<boolean | undefined> {
  const call = { to: token.address, data: `0x${authorizationStateCall(from, nonce)}` };
  try {
    const state = parseHexData(await rpc.call("eth_call", [call, "latest"], signal));
    if (state === undefined) throw oddAnswer(rpc, "authorizationState()");
    return state.length === WORD ? readWord(state, 0) !== 0n : undefined;
  } catch (error) {
    if (!(error instanceof RpcRefusal) || !EXECUTION_FAILED.test(error.rpcMessage)) throw error;
    return undefined;
  }
}

function wordsOf(answer: string | undefined): readonly (string | undefined)[] | undefined {
  return decodeAggregate3(answer ?? "")?.map((result) =>
    result.success ? result.returnData : undefined,
  );
}

/** Who used an authorization that is used at that block. */
export async function findUse(
  rpc: Rpc,
  authorization: EvmCheckedAuthorization,
  usedAt: Block,
  signal: AbortSignal,
): Promise<Use> {
  const starts = [usedAt.number];
  if (usedAt.timestamp > authorization.validBefore + OLD_SECONDS) {
    // A transfer is in no block past validBefore; only a cancellation may be.
    starts.unshift(await firstBlockPast(rpc, authorization.validBefore, usedAt.number, signal));
  }
  for (const start of starts) {
    const item = await findLog(rpc, authorization, start, signal);
    if (item !== undefined) {
      const log = parseLog(item);
      const hash = isRecord(item) ? parseHexData(item["transactionHash"]) : undefined;
      if (log === undefined || hash?.length !== WORD) throw oddAnswer(rpc, "a log");
      if (log.topics[0] === AUTHORIZATION_CANCELED_EVENT) return "cancelled";
      const transaction = `0x${hash}`;
      const receipt = await readReceipt(rpc, transaction, signal);
      // It has the log that led here, or the node contradicts itself.
      if (!receipt?.succeeded || !isUsedIn(receipt.logs, authorization)) {
        throw oddAnswer(rpc, "the receipt of a logged transaction");
      }
      return { transaction, receipt };
    }
  }
  throw new ChainError(
    "CHAIN_ANSWER",
    `${rpc.host}: the authorization is used, but no log of ` +
      `${LOG_WINDOW_BLOCKS * BigInt(MAX_LOG_WINDOWS)} blocks says by which transaction`,
  );
}

/** The log of its use or cancellation, from that block back; undefined where the search ends without. */
async function findLog(
  rpc: Rpc,
  authorization: EvmCheckedAuthorization,
  lastBlock: bigint,
  signal: AbortSignal,
): Promise<unknown> {
  const events = [AUTHORIZATION_USED_EVENT, AUTHORIZATION_CANCELED_EVENT];
  const topics = [events, ...usedTopics(authorization)];
  let toBlock = lastBlock;
  for (let query = 0; query < MAX_LOG_WINDOWS && toBlock >= 0n; query += 1) {
    const first = toBlock - LOG_WINDOW_BLOCKS + 1n;
    const fromBlock = first < 0n ? 0n : first;
    const range = { fromBlock: toQuantity(fromBlock), toBlock: toQuantity(toBlock) };
    const filter = { address: authorization.token.address, topics, ...range };
    const found = await rpc.call("eth_getLogs", [filter], signal);
    if (!Array.isArray(found)) throw oddAnswer(rpc, "a list of logs");
    if (found.length > 0) return found[0];
    toBlock = fromBlock - 1n;
  }
  return undefined;
}

/** By halving; `last` is known to be past the time. */
async function firstBlockPast(
  rpc: Rpc,
  time: bigint,
  last: bigint,
  signal: AbortSignal,
): Promise<bigint> {
  let [before, after] = [0n, last];
  for (let read = 0; read < MAX_BLOCK_READS && after - before > 1n; read += 1) {
    const middle = (before + after) / 2n;
    const { timestamp } = await readBlock(rpc, middle, signal);
    if (timestamp <= time) before = middle;
    else after = middle;
  }
  return after;
}

function oddAnswer(rpc: Rpc, what: string): ChainError {
  return new ChainError("CHAIN_ANSWER", `${rpc.host}: ${what} of the wrong shape`);
}
