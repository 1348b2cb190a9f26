/** What every RPC method is given, and how it frames its answer. */
import type { Block, Cluster, Landed } from "./cluster.ts";
import type { Commitment, Config, Params } from "./rpc-params.ts";
import { MIN_CONTEXT_SLOT_NOT_REACHED, RpcError } from "./rpc-error.ts";
import type { StoredAccount } from "./runtime.ts";

/** The version of Agave whose answers these are. */
export const API_VERSION = "4.0.0";

export interface Call {
  readonly params: Params;
  readonly view: View;
  readonly genesisHash: string;
  /** Takes a transaction for the next slot, or loses it where a fault says so. */
  readonly submit: Cluster["submit"];
}

/** Throws `RpcError`. */
export type Method = (call: Call) => unknown;

/** The cluster as one node sees it: one that lags stands so many slots behind the newest block. */
export class View {
  readonly cluster: Cluster;
  readonly #lagSlots: number;

  constructor(cluster: Cluster, lagSlots = 0) {
    this.cluster = cluster;
    this.#lagSlots = lagSlots;
  }

  /** The newest block of that commitment. */
  block(commitment: Commitment): Block {
    const tip = this.cluster.tip.slot - this.#lagSlots;
    const { confirmedAfterSlots, finalizedAfterSlots } = this.cluster;
    if (commitment === "processed") return this.cluster.blockAt(tip);
    const after = commitment === "confirmed" ? confirmedAfterSlots : finalizedAfterSlots;
    return this.cluster.blockAt(tip - after);
  }

  /** The block that a call's options ask for. */
  asked(config: Config, commitment = config.commitment()): Block {
    const block = this.block(commitment);
    const least = config.integer("minContextSlot");
    if (least === undefined || least <= block.slot) return block;
    const message = "Minimum context slot has not been reached";
    throw new RpcError(MIN_CONTEXT_SLOT_NOT_REACHED, message, { contextSlot: block.slot });
  }

  commitmentOf(slot: number): Commitment {
    if (slot <= this.block("finalized").slot) return "finalized";
    return slot <= this.block("confirmed").slot ? "confirmed" : "processed";
  }

  landed(signature: string, commitment: Commitment = "processed"): Landed | undefined {
    return this.cluster.landed(signature, this.block(commitment).slot);
  }

  account(address: string, { slot }: Block): StoredAccount | null {
    return this.cluster.account(address, slot);
  }
}

export interface InContext<Value> {
  readonly context: { readonly apiVersion: string; readonly slot: number };
  readonly value: Value;
}

export function inContext<Value>({ slot }: Block, value: Value): InContext<Value> {
  return { context: { apiVersion: API_VERSION, slot }, value };
}
