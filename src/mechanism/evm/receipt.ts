/** A transaction's receipt, and the question whether it moved the money of an authorization. */
import { isEvmAddress } from "../../x402/address.ts";
import { ChainError } from "../mechanism.ts";
import { type Rpc } from "../rpc.ts";
import { addressWord, parseHexData, quantityOf, uintWord } from "./abi.ts";
import type { EvmCheckedAuthorization } from "./authorization.ts";
import { AUTHORIZATION_USED_EVENT, TRANSFER_EVENT } from "./token.ts";
import { isRecord } from "../../x402/json.ts";

/** Topics and data in lower case; topics with `0x`, data without. */
export interface Log {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
}

export interface TransactionReceipt {
  readonly succeeded: boolean;
  readonly blockNumber: bigint;
  /** Whose transaction it is, lower case; undefined where the node does not say. */
  readonly sender: string | undefined;
  readonly gasUsed: bigint;
  /** What one unit of gas cost, wei; undefined where the node does not say. */
  readonly gasPrice: bigint | undefined;
  /** What a rollup took beside its gas for the chain that it posts to, wei. */
  readonly postingFee: bigint;
  readonly logs: readonly Log[];
}

/**
 * Null while the transaction is in no block: that does not mean that it is lost. Another transaction's
 * receipt is an answer of the wrong shape.
 */
export async function readReceipt(
  rpc: Rpc,
  hash: string,
  signal: AbortSignal,
): Promise<TransactionReceipt | null> {
  const answer = await rpc.call("eth_getTransactionReceipt", [hash], signal);
  if (answer === null) return null;
  const blockNumber = quantityOf(answer, "blockNumber");
  const status = quantityOf(answer, "status");
  const logs = isRecord(answer) ? parseLogs(answer["logs"]) : undefined;
  if (blockNumber === undefined || status === undefined || logs === undefined) {
    // Some nodes show pending transactions without a block number.
    if (isRecord(answer) && answer["blockNumber"] === null) return null;
    throw new ChainError("CHAIN_ANSWER", `${rpc.host}: a receipt of the wrong shape`);
  }
  const named = isRecord(answer) ? parseHexData(answer["transactionHash"]) : undefined;
  if (named !== hash.slice(2).toLowerCase()) {
    throw new ChainError("CHAIN_ANSWER", `${rpc.host}: the receipt is another transaction's`);
  }
  const from = isRecord(answer) ? answer["from"] : undefined;
  const sender = typeof from === "string" && isEvmAddress(from) ? from.toLowerCase() : undefined;
  // Only counted: a node that leaves it out is believed all the same.
  const gasUsed = quantityOf(answer, "gasUsed") ?? 0n;
  const gasPrice = quantityOf(answer, "effectiveGasPrice");
  const postingFee = quantityOf(answer, "l1Fee") ?? 0n;
  const costs = { gasUsed, gasPrice, postingFee };
  return { succeeded: status === 1n, blockNumber, sender, ...costs, logs };
}

/** What the network took of its sender, wei; undefined where the node does not say. */
export function takenFor({
  gasUsed,
  gasPrice,
  postingFee,
}: TransactionReceipt): bigint | undefined {
  return gasPrice === undefined ? undefined : gasUsed * gasPrice + postingFee;
}

function parseLogs(value: unknown): readonly Log[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const logs: Log[] = [];
  for (const item of value) {
    const log = parseLog(item);
    if (log === undefined) return undefined;
    logs.push(log);
  }
  return logs;
}

export function parseLog(item: unknown): Log | undefined {
  if (!isRecord(item) || typeof item["address"] !== "string") return undefined;
  const data = parseHexData(item["data"]);
  if (data === undefined || !Array.isArray(item["topics"])) return undefined;
  const topics: string[] = [];
  for (const topic of item["topics"]) {
    if (typeof topic !== "string") return undefined;
    topics.push(topic.toLowerCase());
  }
  return { address: item["address"].toLowerCase(), topics, data };
}

/** Topics of the token's `AuthorizationUsed(authorizer, nonce)` for this authorization. */
export function usedTopics({ from, nonce }: EvmCheckedAuthorization): readonly [string, string] {
  return [`0x${addressWord(from)}`, nonce];
}

/**
 * Which authorizations a transaction of ours has paid. It makes these transfers and nothing else, so every
 * use in it is one of them, and each has its own transfer: the token's next log, where FiatToken writes it,
 * or else any that no other use has.
 */
export function paidByOurs(
  logs: readonly Log[],
  authorizations: readonly EvmCheckedAuthorization[],
): readonly boolean[] {
  const spoken = new Set<Log>();
  const take = (transfer: Log | undefined): boolean => {
    if (transfer === undefined) return false;
    spoken.add(transfer);
    return true;
  };
  const isPaid = authorizations.map((authorization) => {
    const next = logAfterUse(logs, authorization);
    const isFree = next !== undefined && !spoken.has(next) && isTransfer(next, authorization);
    return isFree && take(next);
  });
  return authorizations.map((authorization, index) => {
    if (isPaid[index] === true) return true;
    if (!isUsedIn(logs, authorization)) return false;
    const own = ownLogs(logs, authorization);
    return take(own.find((log) => !spoken.has(log) && isTransfer(log, authorization)));
  });
}

/** Whether the token said that this authorization was used, for whatever transfer. */
export function isUsedIn(logs: readonly Log[], authorization: EvmCheckedAuthorization): boolean {
  return ownLogs(logs, authorization).some((log) => isUse(log, authorization));
}

/**
 * Whether somebody else's transaction paid. It may use several authorizations of the payer, one of them
 * with our nonce and another recipient; so the transfer must be the token's next log after the use,
 * where FiatToken writes it.
 */
export function paidByAnother(
  logs: readonly Log[],
  authorization: EvmCheckedAuthorization,
): boolean {
  const next = logAfterUse(logs, authorization);
  return next !== undefined && isTransfer(next, authorization);
}

/** The token's next log after the one that says that the authorization was used. */
function logAfterUse(
  logs: readonly Log[],
  authorization: EvmCheckedAuthorization,
): Log | undefined {
  const own = ownLogs(logs, authorization);
  const use = own.findIndex((log) => isUse(log, authorization));
  return use < 0 ? undefined : own[use + 1];
}

function ownLogs(logs: readonly Log[], { token }: EvmCheckedAuthorization): readonly Log[] {
  return logs.filter(({ address }) => address === token.address);
}

function isUse(log: Log, authorization: EvmCheckedAuthorization): boolean {
  const [authorizer, nonce] = usedTopics(authorization);
  const [event, ...indexed] = log.topics;
  return event === AUTHORIZATION_USED_EVENT && indexed[0] === authorizer && indexed[1] === nonce;
}

function isTransfer(log: Log, { from, to, value }: EvmCheckedAuthorization): boolean {
  const [event, source, recipient] = log.topics;
  return (
    event === TRANSFER_EVENT &&
    source === `0x${addressWord(from)}` &&
    recipient === `0x${addressWord(to)}` &&
    log.data === uintWord(value)
  );
}
