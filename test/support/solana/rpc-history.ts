/** RPC methods about what became of transactions. */
import { toBase58 } from "./base58.ts";
import type { Landed } from "./cluster.ts";
import { invalidParams, RpcError, UNSUPPORTED_TRANSACTION_VERSION } from "./rpc-error.ts";
import { inContext, type Call, type Method, type View } from "./rpc-method.ts";
import { signature, type Commitment, type Config } from "./rpc-params.ts";
import { signatureOf, type WireTransaction } from "./wire-transaction.ts";

/** Signatures that one call may ask for. */
const MAX_STATUSES = 256;
/** Final blocks whose statuses a node remembers without searching its ledger. */
const STATUS_CACHE_SLOTS = 150;
const MAX_SIGNATURES_FOR_ADDRESS = 1_000;
/** The least version a caller must accept to be shown a v0 or v1 transaction. */
const NEVER_ACCEPTED = -1;

export const historyMethods: Readonly<Record<string, Method>> = {
  getSignatureStatuses({ params, view }) {
    if (params.list(0).length > MAX_STATUSES) {
      throw invalidParams(`Too many inputs provided; max ${MAX_STATUSES}`);
    }
    const signatures = params.list(0).map((each) => signature(String(each)));
    const isHistorySearched = params.config(1).boolean("searchTransactionHistory");
    const statuses = signatures.map((each) => statusOf(each, view, isHistorySearched));
    return inContext(view.block("processed"), statuses);
  },
  getTransaction,
  getSignaturesForAddress,
};

function statusOf(name: string, view: View, isHistorySearched: boolean): object | null {
  const landed = view.landed(name);
  if (landed === undefined) return null;
  const { slot } = landed;
  const { err } = landed.outcome;
  const oldest = view.block("finalized").slot - STATUS_CACHE_SLOTS;
  if (slot < oldest && !isHistorySearched) return null;
  const confirmationStatus = view.commitmentOf(slot);
  const isFinal = confirmationStatus === "finalized";
  return {
    slot,
    confirmations: isFinal ? null : view.block("processed").slot - slot,
    err,
    status: err === null ? { Ok: null } : { Err: err },
    confirmationStatus,
  };
}

function getTransaction({ params, view }: Call): unknown {
  const config = params.config(1);
  const landed = view.landed(params.signature(0), atLeastConfirmed(config));
  if (landed === undefined) return null;
  const { wire, slot, unixSeconds } = landed;
  const readable = config.integer("maxSupportedTransactionVersion") ?? NEVER_ACCEPTED;
  if (wire.version !== "legacy" && wire.version > readable) {
    const words =
      `Transaction version (${wire.version}) is not supported by the requesting client. ` +
      "Please try the request again with the following configuration parameter: " +
      `"maxSupportedTransactionVersion": ${wire.version}`;
    throw new RpcError(UNSUPPORTED_TRANSACTION_VERSION, words);
  }
  return {
    slot,
    blockTime: unixSeconds,
    transaction: encodeTransaction(wire, config.string("encoding") ?? "json"),
    meta: metaOf(landed),
    ...(readable === NEVER_ACCEPTED ? {} : { version: wire.version }),
  };
}

function getSignaturesForAddress({ params, view }: Call): unknown {
  const address = params.address(0);
  const config = params.config(1);
  const { slot } = view.asked(config, atLeastConfirmed(config));
  const limit = config.integer("limit") ?? MAX_SIGNATURES_FOR_ADDRESS;
  if (limit < 1 || limit > MAX_SIGNATURES_FOR_ADDRESS) {
    throw invalidParams(`Invalid limit; max ${MAX_SIGNATURES_FOR_ADDRESS}`);
  }
  const all = view.cluster.landedFor(address, slot);
  const place = (key: string, absent: number): number => {
    const name = config.string(key);
    if (name === undefined) return absent;
    const index = all.findIndex((each) => each.signature === signature(name));
    return index === -1 ? absent : index;
  };
  const first = config.string("before") === undefined ? 0 : place("before", -1) + 1;
  const found = all.slice(first, place("until", all.length));
  return found.slice(0, limit).map((landed) => ({
    signature: landed.signature,
    slot: landed.slot,
    err: landed.outcome.err,
    memo: null,
    blockTime: landed.unixSeconds,
    confirmationStatus: view.commitmentOf(landed.slot),
  }));
}

function atLeastConfirmed(config: Config): Commitment {
  const commitment = config.commitment();
  if (commitment !== "processed") return commitment;
  throw invalidParams("Method does not support commitment below `confirmed`");
}

function metaOf({ outcome, fee, pre, post, loaded }: Landed): object {
  const { err } = outcome;
  return {
    err,
    status: err === null ? { Ok: null } : { Err: err },
    fee,
    preBalances: pre.lamports,
    postBalances: post.lamports,
    preTokenBalances: pre.tokens,
    postTokenBalances: post.tokens,
    innerInstructions: outcome.innerInstructions,
    logMessages: outcome.logs,
    rewards: [],
    loadedAddresses: loaded,
    computeUnitsConsumed: outcome.unitsConsumed,
    ...(outcome.returnData === null ? {} : { returnData: outcome.returnData }),
  };
}

function encodeTransaction(wire: WireTransaction, encoding: string): unknown {
  if (encoding === "base64") return [Buffer.from(wire.bytes).toString("base64"), "base64"];
  if (encoding === "base58") return [toBase58(wire.bytes), "base58"];
  if (encoding !== "json" && encoding !== "jsonParsed") {
    throw invalidParams(`Invalid params: unknown variant \`${encoding}\`, expected an encoding.`);
  }
  return {
    signatures: [signatureOf(wire), ...wire.signatures.slice(1).map(toBase58)],
    message: {
      header: {
        numRequiredSignatures: wire.header.signers,
        numReadonlySignedAccounts: wire.header.readonlySigners,
        numReadonlyUnsignedAccounts: wire.header.readonlyOthers,
      },
      accountKeys: wire.staticKeys,
      recentBlockhash: wire.blockhash,
      instructions: wire.instructions.map(({ programIndex, accounts, data }) => ({
        programIdIndex: programIndex,
        accounts,
        data: toBase58(data),
        stackHeight: 1,
      })),
      ...(wire.version === 0
        ? {
            addressTableLookups: wire.lookups.map(({ table, writable, readonly }) => ({
              accountKey: table,
              writableIndexes: writable,
              readonlyIndexes: readonly,
            })),
          }
        : {}),
    },
  };
}
