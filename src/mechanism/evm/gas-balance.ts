/**
 * Whether our account can pay for one more transaction. Asked before anything is signed: a transaction
 * that the node refuses leaves a gap in the account's nonces, behind which all later ones wait.
 */
import { ChainError } from "../mechanism.ts";
import type { Rpc } from "../rpc.ts";
import { parseQuantity } from "./abi.ts";
import { FEE_CACHE_SECONDS } from "./fees.ts";

/** How long a balance read is used again, seconds: as long as the fees that it must pay. */
export const BALANCE_CACHE_SECONDS = FEE_CACHE_SECONDS;

export interface GasBalanceOptions {
  /** Whose balance, and on which network; both are named in messages. */
  readonly account: string;
  readonly network: string;
  /** Unix seconds. */
  readonly clock: () => number;
}

interface Reading {
  readonly wei: bigint;
  readonly readAt: number;
  /** What was promised before is not in `wei`. */
  readonly isCut: boolean;
  /** Promised to transactions since the reading, wei. */
  reserved: bigint;
}

export class GasBalance {
  readonly #account: string;
  readonly #network: string;
  readonly #clock: () => number;
  #reading: Reading | undefined;

  constructor({ account, network, clock }: GasBalanceOptions) {
    this.#account = account;
    this.#network = network;
    this.#clock = clock;
  }

  /**
   * Sets aside what a transaction costs at most, wei; returns when there is that much.
   * @throws {ChainError} `CHAIN_GAS` when there is not, or another code when the chain cannot be asked
   */
  async reserve(rpc: Rpc, cost: bigint, signal: AbortSignal): Promise<void> {
    const kept = this.#reading;
    let reading = await this.#current(rpc, signal);
    // An account that was filled up a moment ago is not turned down; what was promised might be forgotten by that.
    const isUntouched = reading === kept && reading.reserved === 0n && !reading.isCut;
    // Once in a second at most, however many payments come.
    const isOld = this.#clock() > reading.readAt;
    if (reading.wei < cost && isUntouched && isOld) reading = await this.#read(rpc, signal);
    const left = reading.wei - reading.reserved;
    if (left < cost) {
      const spare = left < 0n ? 0n : left;
      throw new ChainError(
        "CHAIN_GAS",
        `${this.#network}: ${this.#account} has ${spare} wei left for network fees, ` +
          `the next settlement may cost ${cost}`,
      );
    }
    reading.reserved += cost;
  }

  async #current(rpc: Rpc, signal: AbortSignal): Promise<Reading> {
    const now = this.#clock();
    const kept = this.#reading;
    if (kept !== undefined && isWithin(BALANCE_CACHE_SECONDS, kept, now)) return kept;
    return this.#read(rpc, signal);
  }

  async #read(rpc: Rpc, signal: AbortSignal): Promise<Reading> {
    const now = this.#clock();
    const kept = this.#reading;
    const wei = await readBalance(rpc, this.#account, signal);
    // Of several readings at once the first counts: the others know nothing of what it has promised.
    if (this.#reading !== undefined && this.#reading !== kept) return this.#reading;
    // What was promised just before may not have reached the node yet.
    const recent = kept !== undefined && isWithin(2 * BALANCE_CACHE_SECONDS, kept, now);
    const cut = recent ? kept.reserved : 0n;
    const fresh = { wei: wei - cut, readAt: now, reserved: 0n, isCut: cut > 0n };
    this.#reading = fresh;
    return fresh;
  }
}

/** Wei, transactions on their way included. @throws {ChainError} when the chain cannot be asked */
export async function readBalance(rpc: Rpc, account: string, signal: AbortSignal): Promise<bigint> {
  const wei = parseQuantity(await rpc.call("eth_getBalance", [account, "pending"], signal));
  if (wei !== undefined) return wei;
  throw new ChainError("CHAIN_ANSWER", `${rpc.host}: a balance of the wrong shape`);
}

function isWithin(seconds: number, { readAt }: Reading, now: number): boolean {
  return now >= readAt && now - readAt < seconds;
}
