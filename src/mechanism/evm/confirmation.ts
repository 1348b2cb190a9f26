/**
 * What became of a settlement. The chain's own records decide, never the clock alone and never one
 * missing receipt: a transaction that is not in a block may still get there.
 *
 *     receipt ── success, exact logs ─────────────────────────────── confirmed (ours)
 *        │   └── reverted, or other logs
 *        │               └── nonce unused ────────────────────────── failed
 *        │               └── nonce used ── by the same transfer ──── confirmed (theirs)
 *        │                             └── otherwise ─────────────── failed
 *        └── none ── validBefore not past ────────────────────────── ask again
 *                └── past on chain ── nonce unused ───────────────── failed (expired)
 *                                 └── nonce used ── as above
 *
 * One node that is behind, or wrong, must not end a payment: a failure counts when two questions in a
 * row have found the same one.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { ChainError, type Confirmation } from "../mechanism.ts";
import { isRecord, type Rpc } from "../rpc.ts";
import { parseHexData, parseQuantity, quantityOf, readWord, toQuantity, WORD } from "./abi.ts";
import type { EvmCheckedAuthorization } from "./authorization.ts";
import {
  isUsedIn,
  paidByAnother,
  paidByOurs,
  parseLog,
  readReceipt,
  usedTopics,
} from "./receipt.ts";
import {
  AUTHORIZATION_CANCELED_EVENT,
  AUTHORIZATION_USED_EVENT,
  authorizationStateCall,
} from "./token.ts";

/** The first pause between two questions, milliseconds; each next one is half as long again. */
const FIRST_POLL_MS = 50;
/** The longest pause between two questions, milliseconds. */
const MAX_POLL_MS = 500;
/** How far the chain must be past `validBefore` before an unused authorization counts as expired, seconds. */
export const EXPIRY_FINALITY_SECONDS = 30;
/** Blocks in one log query: what the strictest public nodes still answer. */
export const LOG_WINDOW_BLOCKS = 1_000n;
/** Log queries at most, going back from where the authorization was found used. */
export const MAX_LOG_WINDOWS = 10;

/** What one question found. */
type Verdict = Exclude<Confirmation, { readonly kind: "unknown" }>;

export interface ConfirmationOptions {
  readonly rpc: Rpc;
  /** Blocks that must hold the transaction, its own included; at least 1. */
  readonly confirmations: number;
  /** Unix seconds. */
  readonly clock: () => number;
}

export class ConfirmationReader {
  readonly #rpc: Rpc;
  readonly #confirmations: bigint;
  readonly #clock: () => number;

  constructor({ rpc, confirmations, clock }: ConfirmationOptions) {
    this.#rpc = rpc;
    this.#confirmations = BigInt(confirmations);
    this.#clock = clock;
  }

  /** Asks until the answer is definite or the signal ends the wait (`unknown`). Never throws. */
  async wait(
    authorization: EvmCheckedAuthorization,
    hash: string,
    signal: AbortSignal,
  ): Promise<Confirmation> {
    let detail = "the transaction is not in a block yet";
    let suspected: string | undefined;
    let pauseMs = FIRST_POLL_MS;
    while (!signal.aborted) {
      try {
        const answer = await this.#ask(authorization, hash, signal);
        if (answer?.kind === "confirmed") return answer;
        if (answer !== undefined && answer.refusal.detail === suspected) return answer;
        suspected = answer?.refusal.detail;
        if (suspected !== undefined) detail = `read only once: ${suspected}`;
      } catch (error) {
        if (!(error instanceof ChainError)) throw error;
        suspected = undefined;
        if (!signal.aborted) detail = error.message;
      }
      // An abort ends the pause early, and then the loop.
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
      pauseMs = Math.min(pauseMs * 1.5, MAX_POLL_MS);
    }
    return { kind: "unknown", detail };
  }

  /** Undefined as long as nothing is definite. */
  async #ask(
    authorization: EvmCheckedAuthorization,
    hash: string,
    signal: AbortSignal,
  ): Promise<Verdict | undefined> {
    const receipt = await readReceipt(this.#rpc, hash, signal);
    if (receipt === null) return this.#afterExpiry(authorization, signal);
    const { blockNumber, succeeded, logs } = receipt;
    if (!(await this.#isDeep(blockNumber, signal))) return undefined;
    if (succeeded && paidByOurs(logs, authorization)) {
      return { kind: "confirmed", transaction: hash };
    }
    const head = await this.#head(signal);
    const newest = head > blockNumber ? head : blockNumber;
    if (await this.#isUsed(authorization, newest, signal)) {
      return this.#foreignUse(authorization, newest, signal);
    }
    return failed(
      succeeded
        ? "the transaction succeeded without the transfer that was authorized"
        : "the transaction was reverted",
    );
  }

  async #afterExpiry(
    authorization: EvmCheckedAuthorization,
    signal: AbortSignal,
  ): Promise<Verdict | undefined> {
    const settledBy = authorization.validBefore + BigInt(EXPIRY_FINALITY_SECONDS);
    if (BigInt(Math.floor(this.#clock())) <= settledBy) return undefined;
    const head = await this.#rpc.call("eth_getBlockByNumber", ["latest", false], signal);
    const timestamp = quantityOf(head, "timestamp");
    const number = quantityOf(head, "number");
    if (timestamp === undefined || number === undefined) throw this.#oddAnswer("a block");
    if (timestamp <= settledBy) return undefined;
    if (await this.#isUsed(authorization, number, signal)) {
      return this.#foreignUse(authorization, number, signal);
    }
    return failed("the authorization expired unused");
  }

  /** The transaction that used the nonce when it was not the one we asked about, or the cancellation. */
  async #foreignUse(
    authorization: EvmCheckedAuthorization,
    lastBlock: bigint,
    signal: AbortSignal,
  ): Promise<Verdict | undefined> {
    const events = [AUTHORIZATION_USED_EVENT, AUTHORIZATION_CANCELED_EVENT];
    const topics = [events, ...usedTopics(authorization)];
    let toBlock = lastBlock;
    for (let query = 0; query < MAX_LOG_WINDOWS && toBlock >= 0n; query += 1) {
      const first = toBlock - LOG_WINDOW_BLOCKS + 1n;
      const fromBlock = first < 0n ? 0n : first;
      const range = { fromBlock: toQuantity(fromBlock), toBlock: toQuantity(toBlock) };
      const filter = { address: authorization.token.address, topics, ...range };
      const found = await this.#rpc.call("eth_getLogs", [filter], signal);
      if (!Array.isArray(found)) throw this.#oddAnswer("a list of logs");
      if (found.length > 0) return this.#judgeUse(authorization, found[0], signal);
      toBlock = fromBlock - 1n;
    }
    throw new ChainError(
      "CHAIN_ANSWER",
      `${this.#rpc.host}: the authorization is used, but no log of the last ` +
        `${LOG_WINDOW_BLOCKS * BigInt(MAX_LOG_WINDOWS)} blocks says by which transaction`,
    );
  }

  async #judgeUse(
    authorization: EvmCheckedAuthorization,
    item: unknown,
    signal: AbortSignal,
  ): Promise<Verdict | undefined> {
    const log = parseLog(item);
    const hash = isRecord(item) ? parseHexData(item["transactionHash"]) : undefined;
    if (log === undefined || hash?.length !== WORD) throw this.#oddAnswer("a log");
    if (log.topics[0] === AUTHORIZATION_CANCELED_EVENT) {
      return failed("the payer cancelled the authorization");
    }
    const transaction = `0x${hash}`;
    const receipt = await readReceipt(this.#rpc, transaction, signal);
    // It has the log that led here, or the node contradicts itself.
    if (!receipt?.succeeded || !isUsedIn(receipt.logs, authorization)) {
      throw this.#oddAnswer("the receipt of a logged transaction");
    }
    if (!(await this.#isDeep(receipt.blockNumber, signal))) return undefined;
    if (paidByAnother(receipt.logs, authorization)) return { kind: "confirmed", transaction };
    return failed("the authorization's nonce was used for another transfer");
  }

  async #isDeep(blockNumber: bigint, signal: AbortSignal): Promise<boolean> {
    if (this.#confirmations <= 1n) return true;
    const head = await this.#head(signal);
    return head - blockNumber + 1n >= this.#confirmations;
  }

  async #head(signal: AbortSignal): Promise<bigint> {
    const head = parseQuantity(await this.#rpc.call("eth_blockNumber", [], signal));
    if (head === undefined) throw this.#oddAnswer("a block number");
    return head;
  }

  /** At that very block, so that a node that lags behind answers with an error and not with the past. */
  async #isUsed(
    { token, from, nonce }: EvmCheckedAuthorization,
    blockNumber: bigint,
    signal: AbortSignal,
  ): Promise<boolean> {
    const call = { to: token.address, data: `0x${authorizationStateCall(from, nonce)}` };
    const answer = await this.#rpc.call("eth_call", [call, toQuantity(blockNumber)], signal);
    const state = readWord(parseHexData(answer) ?? "", 0);
    if (state === undefined) throw this.#oddAnswer("authorizationState()");
    return state !== 0n;
  }

  #oddAnswer(what: string): ChainError {
    return new ChainError("CHAIN_ANSWER", `${this.#rpc.host}: ${what} of the wrong shape`);
  }
}

function failed(detail: string): Verdict {
  return { kind: "failed", refusal: { code: "invalid_transaction_state", detail } };
}
