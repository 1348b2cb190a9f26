/**
 * What nodes tell of past transactions: which ones an account took part in (`getSignaturesForAddress`), and
 * what they were (`getTransaction`).
 */
import { encodeBase58 } from "../../x402/solana-address.ts";
import {
  messageHash,
  readSolanaTransaction,
  type TransactionVersion,
} from "../../x402/solana-transaction.ts";
import { ChainError } from "../mechanism.ts";
import { RpcRefusal, type Rpc } from "../rpc.ts";
import { isSlot } from "./statuses.ts";
import { isRecord } from "../../x402/json.ts";

/** Transactions of an account that are listed in one call. */
export const PAGE = 200;
/** The transaction is of a version that was not asked for (Agave, `rpc_custom_error.rs`). */
const OTHER_VERSION = -32_015;

/** A transaction in a list. */
export interface Listed {
  readonly signature: string;
  readonly slot: number;
  /** Unix seconds, as the cluster has estimated them; undefined where the node does not say. */
  readonly blockTime: number | undefined;
  /** Was in a block and changed nothing. */
  readonly isFailed: boolean;
}

export interface ListQuestion {
  readonly account: string;
  /** Older than this one; undefined for the newest. */
  readonly before: string | undefined;
  /** A node that has not come to that slot refuses. */
  readonly minContextSlot: number;
}

/** A page of confirmed transactions, newest first. @throws {ChainError} when the node cannot be asked */
export async function listTransactions(
  rpc: Rpc,
  { account, before, minContextSlot }: ListQuestion,
  signal: AbortSignal,
): Promise<readonly Listed[]> {
  const options = { limit: PAGE, commitment: "confirmed", minContextSlot };
  const params = [account, before === undefined ? options : { ...options, before }];
  const answer = await rpc.call("getSignaturesForAddress", params, signal);
  if (!Array.isArray(answer) || answer.length > PAGE) {
    throw malformed("getSignaturesForAddress", rpc);
  }
  return answer.map((each: unknown) => {
    if (!isRecord(each)) throw malformed("getSignaturesForAddress", rpc);
    const { signature, slot, blockTime, err } = each;
    if (typeof signature !== "string" || !isSlot(slot)) {
      throw malformed("getSignaturesForAddress", rpc);
    }
    const seconds = typeof blockTime === "number" ? blockTime : undefined;
    return { signature, slot, blockTime: seconds, isFailed: (err ?? null) !== null };
  });
}

/** A transaction on the chain, confirmed at least. */
export interface Fetched {
  readonly transaction: string;
  readonly slot: number;
  readonly messageHash: string;
  /** Base58: who pays its network fee. */
  readonly feePayer: string;
  readonly err: unknown;
}

/**
 * Fetches a transaction that is confirmed at least: `missing` where the node does not have it, undefined for
 * one that cannot be read, or is of a version newer than asked for, and newer than version 0.
 * @throws {ChainError} when the node cannot be asked
 */
export async function fetchTransaction(
  rpc: Rpc,
  name: string,
  version: TransactionVersion,
  signal: AbortSignal,
): Promise<Fetched | "missing" | undefined> {
  try {
    const answer = await getTransaction(rpc, name, version, signal);
    return answer === null ? "missing" : readFetched(answer, rpc);
  } catch (error) {
    if (isOtherVersion(error)) return undefined;
    throw error;
  }
}

function isOtherVersion(error: unknown): boolean {
  return error instanceof RpcRefusal && error.rpcCode === OTHER_VERSION;
}

/**
 * What a transaction of ours cost its fee payer, lamports; undefined where the node does not have it.
 * @throws {ChainError} when the node cannot be asked
 */
export async function fetchFee(
  rpc: Rpc,
  name: string,
  signal: AbortSignal,
): Promise<bigint | undefined> {
  // A node may refuse a version that it does not know.
  const answer = await getTransaction(rpc, name, 0, signal).catch((error: unknown) => {
    if (!isOtherVersion(error)) throw error;
    return getTransaction(rpc, name, 1, signal);
  });
  if (answer === null) return undefined;
  const { meta } = isRecord(answer) ? answer : {};
  const fee = isRecord(meta) ? meta["fee"] : undefined;
  if (typeof fee !== "number" || !Number.isSafeInteger(fee)) throw malformed("getTransaction", rpc);
  return BigInt(fee);
}

function getTransaction(
  rpc: Rpc,
  name: string,
  version: TransactionVersion,
  signal: AbortSignal,
): Promise<unknown> {
  const options = {
    encoding: "base64",
    commitment: "confirmed",
    maxSupportedTransactionVersion: newestVersion(version),
  };
  return rpc.call("getTransaction", [name, options], signal);
}

/** The newest version that is asked for: a node may refuse one that it does not know. */
export function newestVersion(version: TransactionVersion): 0 | 1 {
  return version === 1 ? 1 : 0;
}

function readFetched(answer: unknown, rpc: Rpc): Fetched | undefined {
  const { transaction, meta, slot } = isRecord(answer) ? answer : {};
  const [text, encoding]: unknown[] = Array.isArray(transaction) ? transaction : [];
  if (typeof text !== "string" || encoding !== "base64" || !isRecord(meta) || !("err" in meta)) {
    throw malformed("getTransaction", rpc);
  }
  if (!isSlot(slot)) throw malformed("getTransaction", rpc);
  const read = readSolanaTransaction(text);
  const first = read.ok ? read.value.signatures[0] : undefined;
  if (!read.ok || first === undefined) return undefined;
  const { err } = meta;
  const { feePayer } = read.value;
  const found = { slot, messageHash: messageHash(read.value), feePayer, err };
  return { transaction: encodeBase58(first), ...found };
}

function malformed(method: string, rpc: Rpc): ChainError {
  return new ChainError("CHAIN_ANSWER", `${method} at ${rpc.host}: an answer of the wrong shape`);
}
