/** Accounts of the chain: many in few calls, and what a token account says of itself. */
import { ADDRESS_BYTES, encodeBase58 } from "../../x402/solana-address.ts";
import { ChainError } from "../mechanism.ts";
import { type Rpc } from "../rpc.ts";
import { TOKEN_2022_PROGRAM } from "./programs.ts";
import {
  readingOptions,
  readRawAccount,
  type AccountReading,
  type RawAccount,
} from "./raw-account.ts";
import { isRecord } from "../../x402/json.ts";

/** Accounts that a node answers in one call at most. */
const MAX_ACCOUNTS = 100;
/** A token account of Token; with the extensions of Token-2022 it is longer, and the next byte tells what it is. */
const TOKEN_ACCOUNT_BYTES = 165;
const TOKEN_ACCOUNT_TYPE = 2;
/** All that is read of a token account. */
export const TOKEN_ACCOUNT_HEAD_BYTES = TOKEN_ACCOUNT_BYTES + 1;
const OWNER_OFFSET = 32;
const AMOUNT_OFFSET = 64;
/** Whether there is a delegate, a little-endian u32 before its address; and the amount left to it. */
const DELEGATE_OFFSET = 72;
const DELEGATED_AMOUNT_OFFSET = 121;
const OPTION_BYTES = 4;
/** What the account is for: 1 is to hold tokens, 2 the same while frozen. */
const STATE_OFFSET = 108;
const FROZEN = 2;

/** As new as a simulation's, or as certain as a settlement. */
export type ReadCommitment = "processed" | "confirmed";

export interface ChainAccount extends RawAccount {
  readonly lamports: bigint;
}

/**
 * Those of the accounts that exist, by address; in one call for each hundred of them.
 * @throws {ChainError} when the node cannot be asked
 */
export async function readAccounts(
  rpc: Rpc,
  addresses: readonly string[],
  reading: AccountReading<ReadCommitment>,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, ChainAccount>> {
  const wanted = [...new Set(addresses)];
  const found = new Map<string, ChainAccount>();
  for (let first = 0; first < wanted.length; first += MAX_ACCOUNTS) {
    const some = wanted.slice(first, first + MAX_ACCOUNTS);
    const params = [some, readingOptions(reading)];
    const answer = await rpc.call("getMultipleAccounts", params, signal);
    const values = isRecord(answer) ? answer["value"] : undefined;
    if (!Array.isArray(values) || values.length !== some.length) {
      throw new ChainError(
        "CHAIN_ANSWER",
        `getMultipleAccounts at ${rpc.host}: not one answer for each account`,
      );
    }
    for (const [index, address] of some.entries()) {
      const account = readAccount(values[index]);
      if (account !== null) found.set(address, account);
    }
  }
  return found;
}

function readAccount(value: unknown): ChainAccount | null {
  const account = readRawAccount(value);
  if (account === null) return null;
  return { ...account, lamports: lamportsOf(isRecord(value) ? value["lamports"] : undefined) };
}

/** @throws {ChainError} when it is not known */
export async function readLamports(
  rpc: Rpc,
  address: string,
  signal: AbortSignal,
): Promise<bigint> {
  const answer = await rpc.call("getBalance", [address, { commitment: "confirmed" }], signal);
  return lamportsOf(isRecord(answer) ? answer["value"] : undefined);
}

/** A JSON number; beyond 2^53, which is nine million SOL, it is rounded. */
function lamportsOf(value: unknown): bigint {
  if (typeof value === "number" && Number.isInteger(value) && value >= 0) return BigInt(value);
  throw new ChainError("CHAIN_ANSWER", "the node answered something else than a balance");
}

/** What an account of a token program holds; both programs write it the same way. */
export interface TokenAccount {
  /** Base58, both. */
  readonly mint: string;
  readonly owner: string;
  readonly isFrozen: boolean;
  /** Atomic units. */
  readonly amount: bigint;
  /** Who else may take that much, base58; null where nobody may. */
  readonly delegate: { readonly address: string; readonly amount: bigint } | null;
}

/** Undefined for what is not a token account of that program. */
export function readTokenAccount(
  account: RawAccount | null | undefined,
  tokenProgram: string,
): TokenAccount | undefined {
  if (account?.owner !== tokenProgram) return undefined;
  const { data } = account;
  const state = data[STATE_OFFSET] ?? 0;
  if (!isTokenAccount(data, tokenProgram) || state === 0) return undefined;
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const hasDelegate = view.getUint32(DELEGATE_OFFSET, true) === 1;
  const delegate = {
    address: addressAt(data, DELEGATE_OFFSET + OPTION_BYTES),
    amount: view.getBigUint64(DELEGATED_AMOUNT_OFFSET, true),
  };
  return {
    mint: addressAt(data, 0),
    owner: addressAt(data, OWNER_OFFSET),
    isFrozen: state === FROZEN,
    amount: view.getBigUint64(AMOUNT_OFFSET, true),
    delegate: hasDelegate ? delegate : null,
  };
}

function isTokenAccount(data: Uint8Array, tokenProgram: string): boolean {
  if (data.length <= TOKEN_ACCOUNT_BYTES) return data.length === TOKEN_ACCOUNT_BYTES;
  return tokenProgram === TOKEN_2022_PROGRAM && data[TOKEN_ACCOUNT_BYTES] === TOKEN_ACCOUNT_TYPE;
}

function addressAt(data: Uint8Array, offset: number): string {
  return encodeBase58(data.subarray(offset, offset + ADDRESS_BYTES));
}
