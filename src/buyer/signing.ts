/**
 * Signs what the terms say and nothing else: on EVM networks an EIP-3009 authorization, on Solana a transaction
 * that the seller's facilitator completes (protocol section 2.2). It goes into the envelope of the quote's version.
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
import { encodeHeaderJson, encodePaymentHeader } from "../x402/header.ts";
import { isRecord } from "../x402/json.ts";
import {
  EXACT_SCHEME,
  X402_VERSION,
  X402_VERSION_2,
  type EvmPayload,
  type SolanaPayload,
  type X402Version,
} from "../x402/x402.ts";
import type { BuyerKey } from "./buyer-key.ts";
import type { PaymentHeader } from "./exchange.ts";
import type { Quote } from "./offer.ts";
import { PAYMENT_IDENTIFIER } from "../x402/payment-identifier.ts";
import type { BuyerTerms } from "./terms.ts";

/** So long ago an authorization begins, seconds: clocks differ, and so do blocks. */
const BACKDATED_SECONDS = 600;
/** However long the seller asks for: an authorization that nobody used is good for no longer than this. */
const MAX_VALIDITY_SECONDS = 3_600;
/** Longest that the node is waited for, milliseconds. */
const RPC_TIMEOUT_MS = 15_000;
/** Bytes of the memo that tells equal payments of version 2 apart, where the seller wants none. */
const NONCE_BYTES = 16;

export interface SignOptions {
  readonly purse: BuyerKey;
  readonly terms: BuyerTerms;
  /** Whose offer these terms are of. */
  readonly quote: Quote;
  /** Solana: the node that is asked for a blockhash; undefined: a public one of the network. */
  readonly rpcUrl?: string | undefined;
}

/** A signed payment, and when it loses its worth. */
export interface SignedPayment {
  readonly payment: PaymentHeader;
  /** Unix seconds; null: when the blockhash expires, after about a minute. */
  readonly validBefore: number | null;
}

/**
 * @throws {ChainError} when the Solana node cannot be asked
 * @throws {Error} when the key is not of the terms' family, or the token is none
 */
export async function signPayment(options: SignOptions): Promise<SignedPayment> {
  const { payload, validBefore } = await signPayload(options);
  const value = envelope(options, payload);
  return { payment: { version: options.quote.version, value }, validBefore };
}

interface SignedPayload {
  readonly payload: EvmPayload | SolanaPayload;
  readonly validBefore: number | null;
}

async function signPayload({ purse, terms, quote, rpcUrl }: SignOptions): Promise<SignedPayload> {
  if (terms.kind === "evm" && purse.kind === "evm") return authorize(terms, purse);
  if (terms.kind === "solana" && purse.kind === "solana") {
    const rpc = openRpc(rpcUrl ?? terms.network.rpcUrls[0] ?? "", { timeoutMs: RPC_TIMEOUT_MS });
    try {
      return await transact(terms, quote.version, purse.keypair, rpc);
    } finally {
      await rpc.close();
    }
  }
  throw new Error(`a key of ${purse.kind} does not sign for ${terms.network.name}`);
}

async function authorize(
  { offer, network, domain }: Extract<BuyerTerms, { kind: "evm" }>,
  { account }: Extract<BuyerKey, { kind: "evm" }>,
): Promise<SignedPayload> {
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
  return { payload: { signature, authorization }, validBefore };
}

function hex(text: string): `0x${string}` {
  return `0x${text.slice(2)}`;
}

type SolanaTerms = Extract<BuyerTerms, { kind: "solana" }>;

async function transact(
  terms: SolanaTerms,
  version: X402Version,
  keypair: Keypair,
  rpc: Rpc,
): Promise<SignedPayload> {
  const { offer, token, tokenProgram, feePayer, memo, blockhash } = terms;
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
    blockhash: blockhash ?? (await readBlockhash(rpc, signal)).recentBlockhash,
    variation: randomInt(UNITS_SPREAD),
    // Version 2 has four instructions, as its own clients write them.
    memo: memo ?? (version === X402_VERSION ? null : randomBytes(NONCE_BYTES).toString("hex")),
  });
  const transaction = transactionOf(message, keypair.sign(message));
  return { payload: { transaction }, validBefore: null };
}

/** The value of the payment's header. */
function envelope({ quote, terms }: SignOptions, payload: SignedPayload["payload"]): string {
  const { version, resource, extensions } = quote;
  if (version === X402_VERSION) {
    const { name: network } = terms.network;
    return encodePaymentHeader({ x402Version: version, scheme: EXACT_SCHEME, network, payload });
  }
  return encodeHeaderJson({
    x402Version: X402_VERSION_2,
    accepted: terms.offer.entry,
    payload,
    ...(resource !== undefined && { resource }),
    ...(extensions !== undefined && { extensions: echoOf(extensions) }),
  });
}

/** What a seller said of extensions, again; with an identifier of the payment where one is required. */
function echoOf(extensions: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const identifier = extensions[PAYMENT_IDENTIFIER];
  if (!isRecord(identifier) || !isRecord(identifier["info"])) return extensions;
  const { info } = identifier;
  if (info["required"] !== true) return extensions;
  const id = `pay_${randomBytes(NONCE_BYTES).toString("hex")}`;
  return { ...extensions, [PAYMENT_IDENTIFIER]: { ...identifier, info: { ...info, id } } };
}
