/**
 * Writes the message of a payment: one transfer of a token between associated accounts, with the fee payer of
 * the seller's facilitator. It is what `rules.ts` accepts, and nothing else.
 */
import { PublicKey, TransactionInstruction, TransactionMessage } from "@solana/web3.js";
import { ADDRESS_BYTES, decodeBase58 } from "../../x402/solana-address.ts";
import type { BlockhashHint } from "../../x402/version-2.ts";
import { ChainError } from "../mechanism.ts";
import { type Rpc } from "../rpc.ts";
import { associatedAccount } from "./associated-account.ts";
import { readMint } from "./mint.ts";
import { COMPUTE_BUDGET_PROGRAM, MEMO_PROGRAM } from "./programs.ts";
import { readAccounts } from "./raw-account.ts";
import { isRecord } from "../../x402/json.ts";

/** Compute units of a transfer and a memo, amply. */
const UNITS = 40_000;
/**
 * The limit varies by so many units: two payments of one price within one blockhash would otherwise be the same
 * transaction, and be charged once. A nonce in a memo would do it too, but first-hour facilitators allow none.
 */
export const UNITS_SPREAD = 50_000;
/** Millionths of a lamport for each unit: the least, as the official clients offer. */
const UNIT_PRICE = 1n;
/** The whole of a mint with all its extensions. */
const MAX_MINT_BYTES = 4_096;
/** The fee payer's, which stays empty until it settles, and the payer's. */
const SIGNATURES = 2;
const SIGNATURE_BYTES = 64;

/** What a transfer has to say of a token. */
export interface TransferMint {
  /** The token program that owns the mint, base58. */
  readonly program: string;
  readonly decimals: number;
}

/** Addresses in base58. */
export interface TransferMessage {
  readonly feePayer: string;
  readonly payer: string;
  readonly payTo: string;
  readonly asset: string;
  /** Atomic units, below 2^64. */
  readonly amount: bigint;
  readonly mint: TransferMint;
  readonly blockhash: string;
  /** From 0 and below {@link UNITS_SPREAD}: what tells equal payments apart. */
  readonly variation: number;
  /** What the seller wants to find in the transaction; null: nothing. */
  readonly memo: string | null;
}

/** The bytes that both sign. @throws {Error} a sentence, where no such payment can be made */
export function transferMessage(transfer: TransferMessage): Uint8Array {
  const { feePayer, payer, payTo, asset, amount, mint, blockhash, variation, memo } = transfer;
  requireOther(feePayer, payer);
  const [source, destination] = [payer, payTo].map((owner) =>
    associatedAccount(owner, asset, mint.program),
  );
  if (source === destination) throw new Error("the seller asks you to pay yourself");
  const data = [12, ...littleEndian(amount, 8), mint.decimals];
  const message = new TransactionMessage({
    payerKey: new PublicKey(feePayer),
    recentBlockhash: blockhash,
    instructions: [
      instruction(COMPUTE_BUDGET_PROGRAM, [2, ...littleEndian(BigInt(UNITS + variation), 4)]),
      instruction(COMPUTE_BUDGET_PROGRAM, [3, ...littleEndian(UNIT_PRICE, 8)]),
      instruction(mint.program, data, [
        { address: source ?? "", isWritable: true },
        { address: asset },
        { address: destination ?? "", isWritable: true },
        { address: payer, isSigner: true },
      ]),
      ...(memo === null ? [] : [instruction(MEMO_PROGRAM, Buffer.from(memo))]),
    ],
  });
  return message.compileToV0Message().serialize();
}

/** The fee payer signs for all that the transaction may cost; it is never the payer. @throws {Error} a sentence */
export function requireOther(feePayer: string, payer: string): void {
  if (feePayer === payer) throw new Error("the seller names you to pay the network fee");
}

/** A transaction, base64. `signature`: the payer's; the default is an empty one, for a wallet to fill in. */
export function transactionOf(
  message: Uint8Array,
  signature: Uint8Array = new Uint8Array(SIGNATURE_BYTES),
): string {
  const empty = new Uint8Array(SIGNATURE_BYTES);
  const parts = [Uint8Array.of(SIGNATURES), empty, signature, message];
  return Buffer.concat(parts).toString("base64");
}

/** The transaction that {@link transactionOf} has made for a wallet to sign, signed by it. */
export function signedByPayer(
  transaction: string,
  sign: (message: Uint8Array) => Uint8Array,
): string {
  const message = Buffer.from(transaction, "base64").subarray(1 + SIGNATURES * SIGNATURE_BYTES);
  return transactionOf(message, sign(message));
}

/** @throws {ChainError} when the chain cannot be asked, or has no such token */
export async function readTransferMint(
  rpc: Rpc,
  asset: string,
  signal: AbortSignal,
): Promise<TransferMint> {
  const reading = { commitment: "finalized", maxBytes: MAX_MINT_BYTES } as const;
  const [account] = await readAccounts(rpc, [asset], reading, signal);
  if (account == null)
    throw new ChainError("CHAIN_ANSWER", `${rpc.host} knows no token at ${asset}`);
  const mint = readMint(account);
  if (!mint.ok) throw new ChainError("CHAIN_ANSWER", `the token ${asset}: ${mint.error}`);
  return mint.value;
}

/** A blockhash that counts for about a minute from now. @throws {ChainError} when the chain cannot be asked */
export async function readBlockhash(rpc: Rpc, signal: AbortSignal): Promise<BlockhashHint> {
  const answer = await rpc.call("getLatestBlockhash", [{ commitment: "confirmed" }], signal);
  const value = isRecord(answer) && isRecord(answer["value"]) ? answer["value"] : {};
  const { blockhash, lastValidBlockHeight: height } = value;
  if (typeof blockhash === "string" && decodeBase58(blockhash, ADDRESS_BYTES) !== undefined) {
    const last = Number.isSafeInteger(height) ? { lastValidBlockHeight: String(height) } : {};
    return { recentBlockhash: blockhash, ...last };
  }
  const said = `${rpc.host} answered something else than a blockhash`;
  throw new ChainError("CHAIN_ANSWER", said);
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
