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
  readonly maxFeePerGasWei: bigint;
  /** Unix seconds. */
  readonly clock: () => number;
}

export class FeeReader {
  /** The most that we pay for one gas, wei. */
  readonly capWei: bigint;
  readonly #clock: () => number;
  #price: Price | undefined;

  constructor({ maxFeePerGasWei, clock }: FeesOptions) {
    this.capWei = maxFeePerGasWei;
    this.#clock = clock;
  }

  /**
   * Fees to sign with: room for the base fee to double (six full blocks in a row), never above the cap.
   * @throws {ChainError} `CHAIN_FEE` when even the present price is above the cap
   */
  async read(rpc: Rpc, signal: AbortSignal): Promise<Fees> {
    const { baseFee, tip } = await this.#current(rpc, signal);
    const price = (baseFee ?? 0n) + tip;
    if (price > this.capWei) {
      throw new ChainError(
        "CHAIN_FEE",
        `${rpc.host}: the network asks ${price} wei per gas, our cap is ${this.capWei}`,
      );
    }
    if (baseFee === null) return { kind: "legacy", gasPrice: tip };
    const roomy = 2n * baseFee + tip;
    const maxFeePerGas = roomy < this.capWei ? roomy : this.capWei;
    return { kind: "eip1559", maxFeePerGas, maxPriorityFeePerGas: tip };
  }

  /** The present price of one gas, wei: what a settlement costs, not what it may cost. */
  async price(rpc: Rpc, signal: AbortSignal): Promise<bigint> {
    const { baseFee, tip } = await this.#current(rpc, signal);
    return (baseFee ?? 0n) + tip;
  }

  async #current(rpc: Rpc, signal: AbortSignal): Promise<Price> {
    const now = this.#clock();
    const kept = this.#price;
    if (kept !== undefined && now - kept.readAt < FEE_CACHE_SECONDS && now >= kept.readAt) {
      return kept;
    }
    const block = await rpc.call("eth_getBlockByNumber", ["latest", false], signal);
    const baseFee = quantityOf(block, "baseFeePerGas") ?? null;
    const tip =
      baseFee === null ? await readGasPrice(rpc, signal) : await readTip(rpc, baseFee, signal);
    this.#price = { baseFee, tip, readAt: now };
    return this.#price;
  }
}

async function readTip(rpc: Rpc, baseFee: bigint, signal: AbortSignal): Promise<bigint> {
  try {
    return await readQuantity(rpc, "eth_maxPriorityFeePerGas", signal);
  } catch (error) {
    // Not every node has the method; its gas price is base fee and tip together.
    if (!(error instanceof RpcRefusal)) throw error;
    const price = await readGasPrice(rpc, signal);
    return price > baseFee ? price - baseFee : 0n;
  }
}

function readGasPrice(rpc: Rpc, signal: AbortSignal): Promise<bigint> {
  return readQuantity(rpc, "eth_gasPrice", signal);
}

async function readQuantity(rpc: Rpc, method: string, signal: AbortSignal): Promise<bigint> {
  const value = parseQuantity(await rpc.call(method, [], signal));
  if (value !== undefined) return value;
  throw new ChainError("CHAIN_ANSWER", `${method} at ${rpc.host}: not a quantity`);
}

/** Nodes replace a transaction when both its caps grow by a tenth (geth) or an eighth (others). */
const RAISE_NUMERATOR = 9n;
const RAISE_DENOMINATOR = 8n;

/**
 * Fees that replace all of these and meet the present ones; undefined when the cap does not allow it.
 * @param paid of every variant so far
 * @param present see {@link FeeReader.read}
 */
export function raiseFees(paid: readonly Fees[], present: Fees, capWei: bigint): Fees | undefined {
  const floor = largest(paid.map((fees) => raised(feeCap(fees))));
  if (floor > capWei) return undefined;
  const roomy = largest([floor, feeCap(present)]);
  const cap = roomy < capWei ? roomy : capWei;
  if (present.kind === "legacy" || paid.some(({ kind }) => kind === "legacy")) {
    return { kind: "legacy", gasPrice: cap };
  }
  const tip = largest([tipOf(present), ...paid.map((fees) => raised(tipOf(fees)))]);
  // A tip above the whole price is no valid transaction; then the price grows with it.
  if (tip > capWei) return undefined;
  return { kind: "eip1559", maxFeePerGas: tip > cap ? tip : cap, maxPriorityFeePerGas: tip };
}

/** Rounded up, and always more than before: a tip of nothing has to grow too. */
function raised(wei: bigint): bigint {
  const product = wei * RAISE_NUMERATOR;
  return product % RAISE_DENOMINATOR === 0n && wei > 0n
    ? product / RAISE_DENOMINATOR
    : product / RAISE_DENOMINATOR + 1n;
}

function tipOf(fees: Fees): bigint {
  return fees.kind === "legacy" ? fees.gasPrice : fees.maxPriorityFeePerGas;
}

function largest(values: readonly bigint[]): bigint {
  let found = 0n;
  for (const value of values) if (value > found) found = value;
  return found;
}
