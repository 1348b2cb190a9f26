/** RPC methods about the cluster itself: health, slots, blockhashes, fees. */
import { MAX_PROCESSING_AGE } from "./cluster.ts";
import { feeOf } from "./fees.ts";
import { API_VERSION, inContext, type Call, type Method } from "./rpc-method.ts";
import { invalidParams } from "./rpc-error.ts";
import { readMessageAlone, WireError } from "./wire-transaction.ts";

const SLOTS_PER_EPOCH = 432_000;
/** Addresses that `getRecentPrioritizationFees` takes at most. */
const MAX_FEE_ADDRESSES = 128;
/** Blocks that it answers for. */
const FEE_BLOCKS = 150;
/** Largest account, bytes. */
const MAX_DATA_BYTES = 10 * 1024 * 1024;
/** Of the features that Agave 4.0 knows; only shown. */
const FEATURE_SET = 3_640_012_085;

export const clusterMethods: Readonly<Record<string, Method>> = {
  getHealth: () => "ok",
  getVersion: () => ({ "feature-set": FEATURE_SET, "solana-core": API_VERSION }),
  getGenesisHash: ({ genesisHash }) => genesisHash,
  getSlot: ({ params, view }) => view.asked(params.config(0)).slot,
  getBlockHeight: ({ params, view }) => view.asked(params.config(0)).height,
  getEpochInfo({ params, view }) {
    const { slot, height } = view.asked(params.config(0));
    return {
      absoluteSlot: slot,
      blockHeight: height,
      epoch: Math.floor(slot / SLOTS_PER_EPOCH),
      slotIndex: slot % SLOTS_PER_EPOCH,
      slotsInEpoch: SLOTS_PER_EPOCH,
      transactionCount: null,
    };
  },
  getLatestBlockhash({ params, view }) {
    const block = view.asked(params.config(0));
    const lastValidBlockHeight = block.height + MAX_PROCESSING_AGE;
    return inContext(block, { blockhash: block.blockhash, lastValidBlockHeight });
  },
  isBlockhashValid({ params, view }) {
    const blockhash = params.address(0);
    const block = view.asked(params.config(1));
    return inContext(block, view.cluster.isUsable(blockhash, block.slot));
  },
  getMinimumBalanceForRentExemption({ params, view }) {
    const bytes = params.integer(0);
    if (bytes > MAX_DATA_BYTES) throw invalidParams("Invalid params: the account is too large.");
    return view.cluster.runtime.rentExemption(BigInt(bytes));
  },
  getFeeForMessage({ params, view }) {
    const block = view.asked(params.config(1));
    const wire = messageOf(params.string(0));
    // The fee rate comes from the blockhash: without it there is none.
    const isKnown = view.cluster.isUsable(wire.blockhash, block.slot);
    return inContext(block, isKnown ? feeOf(wire) : null);
  },
  getRecentPrioritizationFees,
};

function messageOf(base64: string): ReturnType<typeof readMessageAlone> {
  try {
    return readMessageAlone(Buffer.from(base64, "base64"));
  } catch (cause) {
    if (!(cause instanceof WireError)) throw cause;
    const type = "solana_message::versions::VersionedMessage";
    throw invalidParams(`failed to deserialize ${type}: ${cause.message}`);
  }
}

/** Nobody outbids anybody here: it is always zero. */
function getRecentPrioritizationFees({ params, view }: Call): unknown {
  if (params.optionalList(0).length > MAX_FEE_ADDRESSES) {
    throw invalidParams(`Too many inputs provided; max ${MAX_FEE_ADDRESSES}`);
  }
  const { slot } = view.block("processed");
  return Array.from({ length: FEE_BLOCKS }, (_, index) => ({
    slot: slot - FEE_BLOCKS + 1 + index,
    prioritizationFee: 0,
  }));
}
