/**
 * Signs what the terms say and nothing else: on EVM networks an EIP-3009 authorization, on Solana a transaction
 * that the seller's facilitator completes (protocol section 2.2).
 */
import { randomBytes, randomInt } from "node:crypto";
import type { Keypair } from "../mechanism/solana/signing.ts";
import {
  readBlockhash,
  readTransferMint,
  requireOther,
  transactionOf,
  transferMessage,
  UNITS_SPREAD,
} from "../mechanism/solana/transfer-message.ts";
import { openRpc, type Rpc } from "../mechanism/rpc.ts";
import { systemTime } from "../time/time.ts";
import { EXACT_SCHEME, X402_VERSION, type PaymentPayload } from "../x402/x402.ts";
import type { BuyerKey } from "./buyer-key.ts";
import type { BuyerTerms } from "./terms.ts";

/** So long ago an authorization begins, seconds: clocks differ, and so do blocks. */
const BACKDATED_SECONDS = 600;
/** However long the seller asks for: an authorization that nobody used is good for no longer than this. */
const MAX_VALIDITY_SECONDS = 3_600;
/** Longest that the node is waited for, milliseconds. */
const RPC_TIMEOUT_MS = 15_000;

export interface SignOptions {
  readonly purse: BuyerKey;
  readonly terms: BuyerTerms;
  /** Solana: the node that is asked for a blockhash; undefined: a public one of the network. */
  readonly rpcUrl?: string | undefined;
}

/** A signed payment, and when it loses its worth. */
export interface SignedPayment {
  readonly payment: PaymentPayload;
  /** Unix seconds; null: when the blockhash expires, after about a minute. */
  readonly validBefore: number | null;
}

/**
 * @throws {ChainError} when the Solana node cannot be asked
 * @throws {Error} when the key is not of the terms' family, or the token is none
 */
export async function signPayment({ purse, terms, rpcUrl }: SignOptions): Promise<SignedPayment> {
  if (terms.kind === "evm" && purse.kind === "evm") return authorize(terms, purse);
  if (terms.kind === "solana" && purse.kind === "solana") {
    const rpc = openRpc(rpcUrl ?? terms.network.rpcUrls[0] ?? "", { timeoutMs: RPC_TIMEOUT_MS });
    try {
      return await transact(terms, purse.keypair, rpc);
    } finally {
      await rpc.close();
    }
  }
  throw new Error(`a key of ${purse.kind} does not sign for ${terms.network.name}`);
}

async function authorize(
  { offer, network, domain }: Extract<BuyerTerms, { kind: "evm" }>,
  { account }: Extract<BuyerKey, { kind: "evm" }>,
): Promise<SignedPayment> {
  const now = Math.floor(systemTime.now() / 1_000);
  const validBefore = now + Math.min(offer.maxTimeoutSeconds, MAX_VALIDITY_SECONDS);
  const message = {
    from: account.address,
    to: hex(offer.payTo),
    value: offer.amount,
    validAfter: BigInt(now - BACKDATED_SECONDS),
    validBefore: BigInt(validBefore),
    nonce: hex(`0x${randomBytes(32).toString("hex")}`),
  };
  const signature = await account.signTypedData({
    domain: {
      name: domain.name,
      version: domain.version,
      chainId: network.chainId,
      verifyingContract: hex(offer.asset),
    },
    types: {
      TransferWithAuthorization: [
        { name: "from", type: "address" },
        { name: "to", type: "address" },
        { name: "value", type: "uint256" },
        { name: "validAfter", type: "uint256" },
        { name: "validBefore", type: "uint256" },
        { name: "nonce", type: "bytes32" },
      ],
    },
    primaryType: "TransferWithAuthorization",
    message,
  });
  const authorization = {
    ...message,
    value: String(message.value),
    validAfter: String(message.validAfter),
    validBefore: String(message.validBefore),
  };
  const payment = envelope(network.name, { signature, authorization });
  return { payment, validBefore };
}

function hex(text: string): `0x${string}` {
  return `0x${text.slice(2)}`;
}

type SolanaTerms = Extract<BuyerTerms, { kind: "solana" }>;

async function transact(terms: SolanaTerms, keypair: Keypair, rpc: Rpc): Promise<SignedPayment> {
  const { offer, token, tokenProgram, feePayer, memo, network } = terms;
  const { payTo, asset, amount } = offer;
  // Before anybody is asked for anything.
  requireOther(feePayer, keypair.address);
  const signal = systemTime.timeout(RPC_TIMEOUT_MS);
  const isKnown = token !== null && tokenProgram !== null;
  const mint = isKnown
    ? { program: tokenProgram, decimals: token.decimals }
    : await readTransferMint(rpc, asset, signal);
  const message = transferMessage({
    feePayer,
    payer: keypair.address,
    payTo,
    asset,
    amount,
    mint,
    blockhash: await readBlockhash(rpc, signal),
    variation: randomInt(UNITS_SPREAD),
    memo,
  });
  const transaction = transactionOf(message, keypair.sign(message));
  return { payment: envelope(network.name, { transaction }), validBefore: null };
}

function envelope(network: string, payload: PaymentPayload["payload"]): PaymentPayload {
  return { x402Version: X402_VERSION, scheme: EXACT_SCHEME, network, payload };
}
