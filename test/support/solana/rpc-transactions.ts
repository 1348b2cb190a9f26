/** RPC methods that take a transaction: simulate it, send it, or make one that gives away lamports. */
import { askedEncoding, encodeAccount } from "./account-encoding.ts";
import { fromBase58 } from "./base58.ts";
import { MAX_PROCESSING_AGE, type Block } from "./cluster.ts";
import { airdropTransaction } from "./faucet.ts";
import { feeOf } from "./fees.ts";
import { invalidParams, PREFLIGHT_FAILURE, RpcError } from "./rpc-error.ts";
import { inContext, type Call, type Method, type View } from "./rpc-method.ts";
import { address, type Config } from "./rpc-params.ts";
import type { Outcome, Simulated } from "./runtime.ts";
import { isRefusedBeforeSimulation, wordsOf, type TransactionError } from "./transaction-error.ts";
import {
  isSigned,
  MAX_PACKET_BYTES,
  MAX_V1_BYTES,
  readTransaction,
  signatureOf,
  WireError,
  withBlockhash,
  type WireTransaction,
} from "./wire-transaction.ts";

const TYPE = "solana_transaction::versioned::VersionedTransaction";

export const transactionMethods: Readonly<Record<string, Method>> = {
  sendTransaction,
  simulateTransaction,
  requestAirdrop({ params, view, submit }) {
    const to = params.address(0);
    const lamports = BigInt(params.integer(1));
    const { blockhash } = view.block("confirmed");
    const wire = airdropTransaction(view.cluster, { to, lamports, blockhash });
    submit(wire);
    return signatureOf(wire);
  },
};

function sendTransaction({ params, view, submit }: Call): string {
  const config = params.config(1);
  const wire = decodeTransaction(params.string(0), config);
  config.integer("maxRetries");
  const isPreflightSkipped = config.boolean("skipPreflight");
  const commitment = isPreflightSkipped ? "processed" : config.commitment("preflightCommitment");
  const block = view.asked(config, commitment);
  if (!isPreflightSkipped) requirePreflight(wire, view, block);
  submit(wire);
  return signatureOf(wire);
}

function requirePreflight(wire: WireTransaction, view: View, block: Block): void {
  const outcome = run(wire, view, { block, sigVerify: true });
  if (outcome.err === null) return;
  const message = `Transaction simulation failed: ${wordsOf(outcome.err)}`;
  const data = {
    ...simulationResult(wire, view, outcome),
    accounts: null,
    innerInstructions: null,
  };
  throw new RpcError(PREFLIGHT_FAILURE, message, data);
}

function simulateTransaction({ params, view }: Call): unknown {
  const config = params.config(1);
  const sent = decodeTransaction(params.string(0), config);
  const sigVerify = config.boolean("sigVerify");
  const block = view.asked(config);
  const isReplaced = config.boolean("replaceRecentBlockhash");
  if (isReplaced && sigVerify) {
    throw invalidParams("sigVerify may not be used with replaceRecentBlockhash");
  }
  const wire = isReplaced ? withBlockhash(sent, block.blockhash) : sent;
  const outcome = run(wire, view, { block, sigVerify });
  const value = {
    ...simulationResult(wire, view, outcome),
    accounts: askedAccounts(wire, config, { view, block, outcome }),
    innerInstructions: config.boolean("innerInstructions") ? outcome.innerInstructions : null,
    replacementBlockhash: isReplaced
      ? {
          blockhash: block.blockhash,
          lastValidBlockHeight: block.height + MAX_PROCESSING_AGE,
        }
      : null,
  };
  return inContext(block, value);
}

/** Throws for what a node finds wrong before it has a bank run anything. */
function run(
  wire: WireTransaction,
  view: View,
  { block, sigVerify }: { readonly block: Block; readonly sigVerify: boolean },
): Simulated {
  const outcome = view.cluster.simulate(wire, block.slot);
  if (outcome.err !== null && isRefusedBeforeSimulation(outcome.err)) {
    throw invalidParams(`invalid transaction: ${wordsOf(outcome.err)}`);
  }
  return sigVerify && !isSigned(wire) ? unsigned : outcome;
}

const unsigned: Simulated = {
  err: "SignatureFailure" satisfies TransactionError,
  hasRun: false,
  logs: [],
  unitsConsumed: 0,
  returnData: null,
  innerInstructions: [],
  after: new Map(),
};

function simulationResult(wire: WireTransaction, { cluster }: View, outcome: Outcome): object {
  const { err, logs, unitsConsumed, returnData } = outcome;
  const { loaded } = cluster.runtime.resolve(wire);
  const wasLoaded = outcome.hasRun || err === null;
  return {
    err,
    logs,
    unitsConsumed,
    loadedAccountsDataSize: wasLoaded ? cluster.runtime.loadedBytes(wire) : 0,
    returnData,
    innerInstructions: null,
    replacementBlockhash: null,
    fee: wasLoaded ? feeOf(wire) : null,
    loadedAddresses: loaded,
  };
}

function askedAccounts(
  wire: WireTransaction,
  config: Config,
  {
    view,
    block,
    outcome,
  }: { readonly view: View; readonly block: Block; readonly outcome: Simulated },
): unknown {
  const asked = config.config("accounts");
  if (asked === undefined) return null;
  const encoding = askedEncoding(asked, "base64");
  if (encoding === "binary" || encoding === "base58") {
    throw invalidParams("base58 encoding not supported");
  }
  const addresses = asked.list("addresses").map((each) => address(String(each)));
  const most = view.cluster.runtime.resolve(wire).keys.length;
  if (addresses.length > most) throw invalidParams(`Too many accounts provided; max ${most}`);
  if (outcome.err !== null) return addresses.map(() => null);
  const accountOf = (key: string) => outcome.after.get(key) ?? view.account(key, block);
  return addresses.map((key) => {
    const account = accountOf(key);
    return account === null || account.lamports === 0n
      ? null
      : encodeAccount(account, { encoding, accountOf });
  });
}

/** Throws -32602 for what is not a transaction. */
function decodeTransaction(text: string, config: Config): WireTransaction {
  const encoding = config.string("encoding") ?? "base58";
  const bytes = decodeBytes(text, encoding);
  const isV1 = bytes[0] === 0x81;
  const most = isV1 ? MAX_V1_BYTES : MAX_PACKET_BYTES;
  if (bytes.length > most) {
    const words = `decoded ${TYPE} too large: ${bytes.length} bytes (max: ${most} bytes)`;
    throw invalidParams(words);
  }
  try {
    const wire = readTransaction(bytes);
    if (wire.signatures.length > 0 && wire.staticKeys.length > 0) return wire;
  } catch (cause) {
    if (!(cause instanceof WireError)) throw cause;
    throw invalidParams(`failed to deserialize ${TYPE}: io error: ${cause.message}`);
  }
  throw invalidParams(
    "invalid transaction: Transaction failed to sanitize accounts offsets correctly",
  );
}

function decodeBytes(text: string, encoding: string): Uint8Array {
  if (encoding === "base64") {
    const bytes = Buffer.from(text, "base64");
    if (bytes.toString("base64") === text) return bytes;
    throw invalidParams("invalid base64 encoding: InvalidByte");
  }
  if (encoding !== "base58") {
    const words = `unsupported encoding: ${encoding}. Supported encodings: base58, base64`;
    throw invalidParams(words);
  }
  if (text.length > MAX_V1_BYTES * 2 || !/^[1-9A-HJ-NP-Za-km-z]*$/.test(text)) {
    throw invalidParams("invalid base58 encoding: InvalidCharacter");
  }
  return fromBase58(text);
}
