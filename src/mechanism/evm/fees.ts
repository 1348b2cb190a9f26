/** What the network asks for one gas, read from the node and kept for a few seconds. */
import { ChainError } from "../mechanism.ts";
import { RpcRefusal, type Rpc } from "../rpc.ts";
import { parseQuantity, quantityOf } from "./abi.ts";

/** How long a price read is used again, seconds: about the time of a block. */
export const FEE_CACHE_SECONDS = 3;

/** Wei per gas. */
export type Fees =
  | {
      readonly kind: "eip1559";
      readonly maxFeePerGas: bigint;
      readonly maxPriorityFeePerGas: bigint;
    }
  | { readonly kind: "legacy"; readonly gasPrice: bigint };

/** What the node said. */
interface Price {
  /** Null on a chain without EIP-1559. */
  readonly baseFee: bigint | null;
  /** The tip over the base fee, or the whole price without one. */
  readonly tip: bigint;
  readonly readAt: number;
}

/** The most that one gas may cost under these fees, wei. */
export function feeCap(fees: Fees): bigint {
  return fees.kind === "legacy" ? fees.gasPrice : fees.maxFeePerGas;
}

export interface FeesOptions {
  readonly rpc: Rpc;
  readonly maxFeePerGasWei: bigint;
  /** Unix seconds. */
  readonly clock: () => number;
}

export class FeeReader {
  readonly #rpc: Rpc;
  readonly #capWei: bigint;
  readonly #clock: () => number;
  #price: Price | undefined;

  constructor({ rpc, maxFeePerGasWei, clock }: FeesOptions) {
    this.#rpc = rpc;
    this.#capWei = maxFeePerGasWei;
    this.#clock = clock;
  }

  /**
   * Fees to sign with: room for the base fee to double (six full blocks in a row), never above the cap.
   * @throws {ChainError} `CHAIN_FEE` when even the present price is above the cap
   */
  async read(signal: AbortSignal): Promise<Fees> {
    const { baseFee, tip } = await this.#current(signal);
    const price = (baseFee ?? 0n) + tip;
    if (price > this.#capWei) {
      throw new ChainError(
        "CHAIN_FEE",
        `${this.#rpc.host}: the network asks ${price} wei per gas, our cap is ${this.#capWei}`,
      );
    }
    if (baseFee === null) return { kind: "legacy", gasPrice: tip };
    const roomy = 2n * baseFee + tip;
    const maxFeePerGas = roomy < this.#capWei ? roomy : this.#capWei;
    return { kind: "eip1559", maxFeePerGas, maxPriorityFeePerGas: tip };
  }

  /** The present price of one gas, wei: what a settlement costs, not what it may cost. */
  async price(signal: AbortSignal): Promise<bigint> {
    const { baseFee, tip } = await this.#current(signal);
    return (baseFee ?? 0n) + tip;
  }

  async #current(signal: AbortSignal): Promise<Price> {
    const now = this.#clock();
    const kept = this.#price;
    if (kept !== undefined && now - kept.readAt < FEE_CACHE_SECONDS && now >= kept.readAt) {
      return kept;
    }
    const block = await this.#rpc.call("eth_getBlockByNumber", ["latest", false], signal);
    const baseFee = quantityOf(block, "baseFeePerGas") ?? null;
    const tip = baseFee === null ? await this.#gasPrice(signal) : await this.#tip(baseFee, signal);
    this.#price = { baseFee, tip, readAt: now };
    return this.#price;
  }

  async #tip(baseFee: bigint, signal: AbortSignal): Promise<bigint> {
    try {
      const tip = await this.#rpc.call("eth_maxPriorityFeePerGas", [], signal);
      return this.#quantity(tip, "eth_maxPriorityFeePerGas");
    } catch (error) {
      // Not every node has the method; its gas price is base fee and tip together.
      if (!(error instanceof RpcRefusal)) throw error;
      const price = await this.#gasPrice(signal);
      return price > baseFee ? price - baseFee : 0n;
    }
  }

  async #gasPrice(signal: AbortSignal): Promise<bigint> {
    return this.#quantity(await this.#rpc.call("eth_gasPrice", [], signal), "eth_gasPrice");
  }

  #quantity(answer: unknown, method: string): bigint {
    const value = parseQuantity(answer);
    if (value !== undefined) return value;
    throw new ChainError("CHAIN_ANSWER", `${method} at ${this.#rpc.host}: not a quantity`);
  }
}
