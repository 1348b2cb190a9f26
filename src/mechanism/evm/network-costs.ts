/**
 * What a settlement may cost on each network. Gas limits are fixed, not the node's estimate: an
 * estimate is a guess about another block, and a transfer that is 200 gas short burns the whole fee.
 * Unused gas costs nothing; the limit bounds what a payer's own contract code can make us burn.
 */
import type { NetworkName } from "../../x402/network.ts";

export interface NetworkCosts {
  /** Gas limit of a transfer with a signature of an EOA. */
  readonly gasLimit: bigint;
  /**
   * Gas limit of a transfer that runs the payer's own contract code (ERC-1271): at most what three usual
   * ones take, whatever that code does.
   */
  readonly walletGasLimit: bigint;
  /** Of the gas limit of several transfers in one transaction, the share of each. */
  readonly itemGasLimit: bigint;
  /** Payments in one transaction at most. */
  readonly maxTogether: number;
  /** What a lone transfer takes when its recipient never held the token. */
  readonly usualGas: bigint;
  /** The most that we pay for one gas, wei, unless configured. */
  readonly maxFeePerGasWei: bigint;
}

const GWEI = 1_000_000_000n;

/** Gas of a transaction with several transfers beside its items, at most: 21,000 and Multicall3's own. */
export const BATCH_BASE_GAS = 60_000n;

/**
 * FiatTokenV2_2 takes 103,300 gas when the recipient never held the token and 86,200 otherwise, and the
 * simulation, which runs under the same limit, 18,000 more. The rest is room for delegated EOAs
 * (EIP-7702), whose code the token asks, and for other tokens. One of 50 in a transaction takes 73,000 or
 * 51,200 (of 5: 79,800 or 58,900), and ten more would save each of them less than 0.5 %; 50 at their limit
 * stay below 2^24 gas, the most that a transaction may ask for (EIP-7825).
 */
const USUAL = {
  gasLimit: 200_000n,
  walletGasLimit: 300_000n,
  itemGasLimit: 120_000n,
  maxTogether: 50,
  usualGas: 103_300n,
};
/** Where a new storage slot costs more than Ethereum's 20,000 gas: 72,000 on Sei, and a payment makes two. */
const DEAR_STORAGE = {
  gasLimit: 400_000n,
  walletGasLimit: 600_000n,
  itemGasLimit: 240_000n,
  // Its blocks hold 10,000,000 gas or little more.
  maxTogether: 20,
  usualGas: 207_300n,
};

/** Fee caps are some ten times the usual price: they stop a runaway, not a busy hour. */
const costs: Readonly<Partial<Record<NetworkName, NetworkCosts>>> = {
  avalanche: { ...USUAL, maxFeePerGasWei: 200n * GWEI },
  "avalanche-fuji": { ...USUAL, maxFeePerGasWei: 200n * GWEI },
  base: { ...USUAL, maxFeePerGasWei: 5n * GWEI },
  "base-sepolia": { ...USUAL, maxFeePerGasWei: 50n * GWEI },
  iotex: { ...USUAL, maxFeePerGasWei: 5_000n * GWEI },
  peaq: { ...DEAR_STORAGE, maxFeePerGasWei: 5_000n * GWEI },
  polygon: { ...USUAL, maxFeePerGasWei: 1_000n * GWEI },
  "polygon-amoy": { ...USUAL, maxFeePerGasWei: 1_000n * GWEI },
  sei: { ...DEAR_STORAGE, maxFeePerGasWei: 500n * GWEI },
  "sei-testnet": { ...DEAR_STORAGE, maxFeePerGasWei: 500n * GWEI },
};

/** Throws for a network that is not an EVM one. */
export function costsOf(network: NetworkName): NetworkCosts {
  const found = costs[network];
  if (found === undefined) throw new TypeError(`${network} is not an EVM network`);
  return found;
}
