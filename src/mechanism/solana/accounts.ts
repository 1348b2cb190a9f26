/** Accounts of the chain: many in few calls, and what a token account says of itself. */
import { ADDRESS_BYTES, encodeBase58 } from "../../x402/solana-address.ts";
import { ChainError } from "../mechanism.ts";
import { isRecord, type Rpc } from "../rpc.ts";
import { readRawAccount, type RawAccount } from "./raw-account.ts";

/** Accounts that a node answers in one call at most. */
const MAX_ACCOUNTS = 100;
/** A token account of Token; with the extensions of Token-2022 it is longer. */
const TOKEN_ACCOUNT_BYTES = 165;
const OWNER_OFFSET = 32;
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
  commitment: ReadCommitment,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, ChainAccount>> {
  const wanted = [...new Set(addresses)];
  const found = new Map<string, ChainAccount>();
  for (let first = 0; first < wanted.length; first += MAX_ACCOUNTS) {
    const some = wanted.slice(first, first + MAX_ACCOUNTS);
    const options = { commitment, encoding: "base64" };
    const answer = await rpc.call("getMultipleAccounts", [some, options], signal);
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
}

/** Undefined for what is not a token account of that program. */
export function readTokenAccount(
  account: RawAccount | null | undefined,
  tokenProgram: string,
): TokenAccount | undefined {
  if (account?.owner !== tokenProgram) return undefined;
  const { data } = account;
  const state = data[STATE_OFFSET] ?? 0;
  if (data.length < TOKEN_ACCOUNT_BYTES || state === 0) return undefined;
  return {
    mint: encodeBase58(data.subarray(0, ADDRESS_BYTES)),
    owner: encodeBase58(data.subarray(OWNER_OFFSET, OWNER_OFFSET + ADDRESS_BYTES)),
    isFrozen: state === FROZEN,
  };
}
