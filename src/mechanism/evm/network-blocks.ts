/** How a network's blocks behave: when they are final, and how far apart honest nodes may be. */
import type { NetworkName } from "../../x402/network.ts";

export interface NetworkBlocks {
  /**
   * Blocks, a transaction's own included, after which no reorganization is expected to undo it. Not the
   * depth at which a payment counts (`confirmations`): until here a settlement is watched, and sent again
   * where a reorganization has lost it.
   */
  readonly finalAfter: bigint;
  /** A node further behind the best one is stale: about ten seconds. */
  readonly maxLag: bigint;
}

/** Blocks every two seconds or so, each final as soon as the network shows it. */
const FINAL_AT_ONCE = { finalAfter: 1n, maxLag: 5n };
/**
 * One sequencer, whose blocks change only when it fails: after a minute its batcher has written them to
 * Ethereum. That Ethereum itself takes them back is left out; it would be 13 to 19 minutes.
 */
const SEQUENCER = { finalAfter: 30n, maxLag: 5n };
/** Milestones make blocks final within seconds; 33 is what Circle waited for before there were any. */
const MILESTONES = { finalAfter: 33n, maxLag: 5n };
/** Blocks every 400 ms, final at once. */
const FAST = { finalAfter: 1n, maxLag: 25n };

const blocks: Readonly<Partial<Record<NetworkName, NetworkBlocks>>> = {
  avalanche: FINAL_AT_ONCE,
  "avalanche-fuji": FINAL_AT_ONCE,
  base: SEQUENCER,
  "base-sepolia": SEQUENCER,
  iotex: FINAL_AT_ONCE,
  // Its documentation calls 15 to 20 seconds final, and 7 blocks 7 to 8 seconds.
  peaq: { finalAfter: 20n, maxLag: 10n },
  polygon: MILESTONES,
  "polygon-amoy": MILESTONES,
  sei: FAST,
  "sei-testnet": FAST,
};

/** Throws for a network that is not an EVM one. */
export function blocksOf(network: NetworkName): NetworkBlocks {
  const found = blocks[network];
  if (found === undefined) throw new TypeError(`${network} is not an EVM network`);
  return found;
}
