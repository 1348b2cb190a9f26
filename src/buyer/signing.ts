/**
 * Signs what the terms say and nothing else: on EVM networks an EIP-3009 authorization, on Solana a transaction
 * that the seller's facilitator completes (protocol section 2.2).
 */
import { randomBytes, randomInt } from "node:crypto";
import { PublicKey, TransactionInstruction, TransactionMessage } from "@solana/web3.js";
import { associatedAccount } from "../mechanism/solana/associated-account.ts";
import { readMint } from "../mechanism/solana/mint.ts";
import { COMPUTE_BUDGET_PROGRAM, MEMO_PROGRAM } from "../mechanism/solana/programs.ts";
import { readAccounts } from "../mechanism/solana/raw-account.ts";
import type { Keypair } from "../mechanism/solana/signing.ts";
import { isRecord, openRpc, type Rpc } from "../mechanism/rpc.ts";
import { systemTime } from "../time/time.ts";
import { ADDRESS_BYTES, decodeBase58 } from "../x402/solana-address.ts";
import { EXACT_SCHEME, X402_VERSION, type PaymentPayload } from "../x402/x402.ts";
import type { Purse } from "./purse.ts";
import type { Terms } from "./terms.ts";

/** So long ago an authorization begins, seconds: clocks differ, and so do blocks. */
const BACKDATED_SECONDS = 600;
/** However long the seller asks for: an authorization that nobody used is good for no longer than this. */
const MAX_VALIDITY_SECONDS = 3_600;
/** Compute units of a transfer and a memo, amply. */
const UNITS = 40_000;
/**
 * The limit varies by so many units: two payments of one price within one blockhash would otherwise be the same
 * transaction, and be charged once. A nonce in a memo would do it too, but first-hour facilitators allow none.
 */
const UNITS_SPREAD = 50_000;
/** Millionths of a lamport for each unit: the least, as the official clients offer. */
const UNIT_PRICE = 1n;
/** The whole of a mint with all its extensions. */
const MAX_MINT_BYTES = 4_096;
/** Longest that the node is waited for, milliseconds. */
const RPC_TIMEOUT_MS = 15_000;

export interface SignOptions {
  readonly purse: Purse;
  readonly terms: Terms;
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
  { offer, network, domain }: Extract<Terms, { kind: "evm" }>,
  { account }: Extract<Purse, { kind: "evm" }>,
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

type SolanaTerms = Extract<Terms, { kind: "solana" }>;

async function transact(terms: SolanaTerms, keypair: Keypair, rpc: Rpc): Promise<SignedPayment> {
  const { offer, feePayer, memo, network } = terms;
  // The fee payer signs for all that the transaction may cost; it is never us.
  if (feePayer === keypair.address) throw new Error("the seller names you to pay the network fee");
  const signal = systemTime.timeout(RPC_TIMEOUT_MS);
  const mint = await mintOf(terms, rpc, signal);
  const recentBlockhash = await blockhash(rpc, signal);
  const [source, destination] = [keypair.address, offer.payTo].map((owner) =>
    associatedAccount(owner, offer.asset, mint.program),
  );
  if (source === destination) throw new Error("the seller asks you to pay yourself");
  const transfer = instruction(
    mint.program,
    [12, ...littleEndian(offer.amount, 8), mint.decimals],
    [
      { address: source ?? "", isWritable: true },
      { address: offer.asset },
      { address: destination ?? "", isWritable: true },
      { address: keypair.address, isSigner: true },
    ],
  );
  const units = UNITS + randomInt(UNITS_SPREAD);
  const message = new TransactionMessage({
    payerKey: new PublicKey(feePayer),
    recentBlockhash,
    instructions: [
      instruction(COMPUTE_BUDGET_PROGRAM, [2, ...littleEndian(BigInt(units), 4)]),
      instruction(COMPUTE_BUDGET_PROGRAM, [3, ...littleEndian(UNIT_PRICE, 8)]),
      transfer,
      ...(memo === null ? [] : [instruction(MEMO_PROGRAM, Buffer.from(memo))]),
    ],
  }).compileToV0Message();
  const payment = envelope(network.name, { transaction: signed(message.serialize(), keypair) });
  return { payment, validBefore: null };
}

/** The fee payer's place stays empty; ours is the second of two. */
function signed(message: Uint8Array, keypair: Keypair): string {
  const signature = keypair.sign(message);
  const empty = new Uint8Array(signature.length);
  return Buffer.concat([Uint8Array.of(2), empty, signature, message]).toString("base64");
}

async function mintOf(
  { offer, token, tokenProgram }: SolanaTerms,
  rpc: Rpc,
  signal: AbortSignal,
): Promise<{ readonly program: string; readonly decimals: number }> {
  if (token !== null && tokenProgram !== null) {
    return { program: tokenProgram, decimals: token.decimals };
  }
  const reading = { commitment: "finalized", maxBytes: MAX_MINT_BYTES } as const;
  const [account] = await readAccounts(rpc, [offer.asset], reading, signal);
  if (account == null) throw new Error(`${rpc.host} knows no token at ${offer.asset}`);
  const mint = readMint(account);
  if (!mint.ok) throw new Error(`the token ${offer.asset}: ${mint.error}`);
  return mint.value;
}

async function blockhash(rpc: Rpc, signal: AbortSignal): Promise<string> {
  const answer = await rpc.call("getLatestBlockhash", [{ commitment: "confirmed" }], signal);
  const value = isRecord(answer) && isRecord(answer["value"]) ? answer["value"] : {};
  const text = value["blockhash"];
  if (typeof text === "string" && decodeBase58(text, ADDRESS_BYTES) !== undefined) return text;
  throw new Error(`${rpc.host} answered something else than a blockhash`);
}

interface AccountUse {
  readonly address: string;
  readonly isWritable?: boolean;
  readonly isSigner?: boolean;
}

function instruction(
  program: string,
  data: ArrayLike<number>,
  accounts: readonly AccountUse[] = [],
): TransactionInstruction {
  return new TransactionInstruction({
    programId: new PublicKey(program),
    data: Buffer.from(Uint8Array.from(data)),
    keys: accounts.map(({ address, isWritable = false, isSigner = false }) => ({
      pubkey: new PublicKey(address),
      isWritable,
      isSigner,
    })),
  });
}

function littleEndian(value: bigint, bytes: number): Uint8Array {
  const whole = Buffer.alloc(8);
  whole.writeBigUInt64LE(value);
  return whole.subarray(0, bytes);
}

function envelope(network: string, payload: PaymentPayload["payload"]): PaymentPayload {
  return { x402Version: X402_VERSION, scheme: EXACT_SCHEME, network, payload };
}
