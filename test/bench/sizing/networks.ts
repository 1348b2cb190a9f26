/**
 * What a block of each network holds of our payments. Limits of gas are what the networks publish, and change: each with
 * where it was read. Gas and compute units of a payment are ours.
 */
import networks from "../../../src/x402/networks.json" with { type: "json" };
import { ACCOUNT_RULES as EVM_RULES } from "../../../src/mechanism/evm/observer.ts";
import { costsOf } from "../../../src/mechanism/evm/network-costs.ts";
import { ACCOUNT_RULES as SOLANA_RULES } from "../../../src/mechanism/solana/observer.ts";
import { blocksOf } from "../../../src/mechanism/evm/network-blocks.ts";
import { COLLECT_MS } from "../../../src/payments/settlement/payment-queue.ts";
import type { NetworkName } from "../../../src/x402/network.ts";

/** Of one payment of 50 in a transaction: `npm run bench:settle`, "200 payments, 64 at once, 1 s blocks". */
const GAS = 52_000;
/** Sei takes 72,000 where Ethereum takes 20,000 for the nonce that is stored (`network-costs.ts`); reckoned. */
const DEAR_GAS = GAS + 52_000;

interface Block {
  readonly gas: number;
  /** Where `networks.json` has none. */
  readonly blockMs?: number;
  readonly gasOfOne?: number;
  readonly source: string;
}

/** As published, most of them in 2026. */
const BLOCKS: Readonly<Partial<Record<NetworkName, Block>>> = {
  base: { gas: 400e6, source: "docs.base.org, Throughput and Limits" },
  "base-sepolia": { gas: 400e6, source: "taken to be as base" },
  // Target 2.1 M gas a second (build.avax.network/blog/gas-target-increase), at most twice that (ACP-176), for 1.7 s.
  avalanche: { gas: 2 * 2.1e6 * 1.7, source: "ACP-176, twice the target of 2.1 M gas/s" },
  "avalanche-fuji": { gas: 2 * 2.1e6 * 2, source: "taken to be as avalanche" },
  iotex: { gas: 30e6, source: "iotex-core, genesis from Wake on" },
  // Three quarters of two seconds' weight at 40 M gas a second; a block takes six.
  peaq: {
    gas: 60e6,
    blockMs: 6_000,
    gasOfOne: DEAR_GAS,
    source: "peaq-network-node, runtime of 2024",
  },
  polygon: { gas: 140e6, source: "reported for May 2026" },
  "polygon-amoy": { gas: 140e6, source: "taken to be as polygon" },
  sei: { gas: 10e6, gasOfOne: DEAR_GAS, source: "docs.sei.io, Divergence from Ethereum" },
  "sei-testnet": { gas: 10e6, gasOfOne: DEAR_GAS, source: "taken to be as sei" },
};

/**
 * Compute units of all transactions of a block that write to one account: MAX_WRITABLE_ACCOUNT_UNITS of
 * solana-cost-model 2.3.5 (newer validators allow twice as many). Each payment writes to its payee's token account and to
 * its fee payer.
 */
const UNITS_OF_ACCOUNT = 12_000_000;
/**
 * Of one payment: 6,500 of its transfer, 720 for each of two signatures and 300 for each of three accounts that are
 * written (`block_cost_limits.rs`); what little its data costs is left out.
 */
const UNITS_OF_PAYMENT = 6_500 + 2 * 720 + 3 * 300;
/** From request to answer, the median of `npm run bench:solana-settle`. */
const SOLANA_SLOTS = 2;

export interface Capacity {
  readonly network: string;
  readonly blockSeconds: number;
  /** Payments that one block holds, where nobody else is on the network. */
  readonly block: number;
  /** In a second: of blocks, and of one signer. */
  readonly blocks: number;
  readonly signer: number;
  /** From hand-over until a block has it and we have seen that, seconds. */
  readonly airSeconds: number;
  /** Seconds for which a transaction in a block is looked at. */
  readonly watchedSeconds: number;
  readonly source: string;
}

/** Of all networks, in the order of the file. */
export function capacities(): readonly Capacity[] {
  return networks.networks.map(({ network, blockTimeMs }) =>
    network.startsWith("solana")
      ? solana(network, blockTimeMs ?? NaN)
      : evm(network as NetworkName, blockTimeMs),
  );
}

function evm(network: NetworkName, knownMs: number | null): Capacity {
  const found = BLOCKS[network];
  if (found === undefined) throw new TypeError(`nothing is known of the blocks of ${network}`);
  const { gas, blockMs, gasOfOne = GAS, source } = found;
  const blockSeconds = (blockMs ?? knownMs ?? NaN) / 1000;
  const block = Math.floor(gas / gasOfOne);
  const airSeconds = blockSeconds + (COLLECT_MS + EVM_RULES.maxLookMs) / 1000;
  return {
    network,
    blockSeconds,
    block,
    blocks: block / blockSeconds,
    signer: (EVM_RULES.maxOpen * costsOf(network).maxTogether) / airSeconds,
    airSeconds,
    watchedSeconds: Number(blocksOf(network).finalAfter) * blockSeconds,
    source,
  };
}

function solana(network: string, slotMs: number): Capacity {
  const blockSeconds = slotMs / 1000;
  const block = Math.floor(UNITS_OF_ACCOUNT / UNITS_OF_PAYMENT);
  const airSeconds = SOLANA_SLOTS * blockSeconds;
  const blocks = block / blockSeconds;
  return {
    network,
    blockSeconds,
    block,
    blocks,
    signer: Math.min(SOLANA_RULES.maxOpen / airSeconds, blocks),
    airSeconds,
    watchedSeconds: 0,
    source: "solana-cost-model 2.3.5, one payee",
  };
}
